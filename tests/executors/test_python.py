"""Python functions as jobs: real threads, a clock that the test moves."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from matins.engine.schedules import encode, parse_schedule
from matins.executors import python
from matins.executors.job_context import JobContext
from matins.executors.python import PythonExecutor
from matins.executors.registry import JobRegistry
from matins.model.run import Outcome, RunState
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.run_context import ContextLoader
from matins.store import open_store
from matins.testing import ManualClock, Sandbox, instant

SLOT = instant("2026-03-27T09:00:00Z")
PATIENCE = 90


class AfterFailure(ContextLoader):
    """The run before each of these failed."""

    def previous_state(self, attempt: Attempt) -> RunState:
        return RunState.FAILED


class Hall:
    """An executor, and the means to wait for what it says."""

    def __init__(self, threads: int, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.clock = ManualClock(SLOT)
        self.jobs = JobRegistry()
        self.store = open_store("sqlite://", self.clock)
        self.said = threading.Semaphore(0)
        self.executor = PythonExecutor(
            self.jobs,
            self.clock,
            self.said.release,
            AfterFailure(self.store, Catalog(), self.clock, 15_000, 60_000),
            threads=threads,
            loop=loop,
        )
        self.executor.start()

    def submit(
        self, do: str, *run_ids: int, slots: int = 1, starts_at: int = SLOT + 1_500, **words: Any
    ) -> list[Attempt]:
        text = encode(parse_schedule("0 9 * * *", {"job": do, "timezone": "Europe/London", **words}, SLOT)[0])
        known = CompiledSchedule(7, 1, "morning", "scout", text, "f00d")
        works = [
            Attempt(run_id, 1, 1, SLOT, slots, SLOT - 86_400_000 if slots > 1 else None, starts_at, known)
            for run_id in run_ids
        ]
        self.executor.submit(works)
        return works

    def wait(self, ends: int = 1) -> list[AttemptEnd]:
        for _ in range(ends):
            assert self.said.acquire(timeout=PATIENCE)
        return self.executor.drain()


@pytest.fixture
def hall() -> Iterator[Hall]:
    made = Hall(2)
    yield made
    made.executor.stop()


def test_a_sync_job(hall: Hall) -> None:
    """H2"""
    hall.jobs["work"] = lambda run: {"of": run.id}
    hall.submit("work", 5)
    ((work, outcome),) = hall.wait()
    assert (work.run_id, outcome) == (5, Outcome(True, {"of": 5}))
    assert hall.executor.running() == 0


async def asynchronous(run: JobContext) -> int:
    await asyncio.sleep(0)
    return run.id


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released each time that the executor looks whether an attempt may begin."""
    looked, wait_s = threading.Semaphore(0), PythonExecutor._wait_s

    def looking(executor: PythonExecutor, attempt: Attempt) -> float:
        looked.release()
        return wait_s(executor, attempt)

    monkeypatch.setattr(PythonExecutor, "_wait_s", looking)
    return looked


def seen_twice(looks: threading.Semaphore) -> None:
    for _ in range(2):
        assert looks.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("job", [lambda run: run.id, asynchronous])
def test_an_attempt_that_was_planned_ahead_begins_at_its_instant(looks: threading.Semaphore, job: Any) -> None:
    """E1 H2: and one that was set free meanwhile never does"""
    hall = Hall(1)
    hall.jobs["work"] = job
    hall.submit("work", 5, starts_at=SLOT + 10)
    seen_twice(looks)
    assert not hall.executor._started
    hall.clock.advance(10)
    assert [end.attempt.run_id for end in hall.wait()] == [5]
    (withdrawn,) = hall.submit("work", 6, starts_at=SLOT + 20)
    seen_twice(looks)
    seen_twice(looks)
    assert hall.executor.withdraw(everything=True) == [withdrawn]
    hall.clock.advance(10)
    hall.submit("work", 7, starts_at=SLOT + 20)
    assert [end.attempt.run_id for end in hall.wait()] == [7]
    hall.executor.stop()


def test_a_clock_that_was_set_back_keeps_no_attempt_waiting(hall: Hall) -> None:
    """C16: it was planned ahead by a moment, which has passed"""
    hall.jobs["work"] = lambda run: run.id
    hall.submit("work", 5, starts_at=SLOT + 3_600_000)
    assert [end.attempt.run_id for end in hall.wait()] == [5]


def test_what_a_job_is_told(hall: Hall) -> None:
    """S4 V7"""
    result: list[JobContext] = []
    hall.jobs["work"] = result.append
    hall.submit("work", 5, payload={"a": 1}, slots=2)
    hall.wait()
    (run,) = result
    assert (run.id, run.schedule, run.agent, run.attempt) == (5, "morning", "scout", 1)
    assert run.key == f"f00d-{SLOT - 86_400_000}", "the first slot, which a run keeps"
    assert (run.payload, run.lateness, run.slots, run.previous_state) == ({"a": 1}, 1.5, 2, "failed")
    assert str(run.slot) == "2026-03-27 09:00:00+00:00"
    assert str(run.first_slot) == "2026-03-26 09:00:00+00:00"
    assert repr(run) == "<JobContext 5 of 'morning', slot 2026-03-27 09:00:00+00:00, attempt 1>"


class Later:
    async def __call__(self, run: JobContext) -> int:
        return await asynchronous(run)


@pytest.mark.parametrize("job", [asynchronous, Later(), lambda run: asynchronous(run)])
def test_an_async_job_however_it_is_written(hall: Hall, job: Any) -> None:
    """H2"""
    hall.jobs["work"] = job
    hall.submit("work", 5)
    ((_, outcome),) = hall.wait()
    assert outcome == Outcome(True, 5)


def test_async_jobs_wait_side_by_side(hall: Hall) -> None:
    """H2: far more of them than threads"""
    waiting: list[asyncio.Event] = []
    all_there = threading.Event()

    async def wait(run: JobContext) -> None:
        waiting.append(asyncio.Event())
        if len(waiting) == 100:
            all_there.set()
            for event in waiting:
                event.set()
        await waiting[-1].wait()

    hall.jobs["work"] = wait
    hall.submit("work", *range(100))
    assert all_there.wait(PATIENCE)
    assert len(hall.wait(100)) == 100


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_job_that_raises_leaves_its_thread_alive(hall: Hall, kind: str, error: type[BaseException]) -> None:
    """H2"""

    def fail(run: JobContext) -> None:
        raise error("no luck")

    async def fail_later(run: JobContext) -> None:
        raise error("no luck")

    hall.jobs["fail"] = fail if kind == "sync" else fail_later
    hall.jobs["work"] = lambda run: None
    hall.submit("fail", *range(10))
    outcomes = [outcome for _, outcome in hall.wait(10)]
    assert not any(outcome.succeeded for outcome in outcomes)
    assert "no luck" in str(outcomes[0].error)
    assert error.__name__ in str(outcomes[0].error)
    hall.submit("work", 11)
    assert hall.wait()[0].outcome.succeeded


def test_an_unknown_job(hall: Hall) -> None:
    """H2"""
    hall.submit("nobody", 1)
    ((_, outcome),) = hall.wait()
    assert outcome.error == 'the job "nobody" is not registered in this process'


class Gate:
    """A job that stands until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()
        self.saw_cancel = False

    def __call__(self, run: JobContext) -> None:
        self.begun.release()
        assert self.open.wait(PATIENCE)
        self.saw_cancel = run.cancelled


def test_a_sync_job_past_its_limit_is_told_of_once_and_seen_until_it_ends(hall: Hall) -> None:
    """H2: no thread can be ended from outside"""
    gate = hall.jobs["gate"] = Gate()
    (work,) = hall.submit("gate", 1, timeout="1m")
    assert gate.begun.acquire(timeout=PATIENCE)
    hall.clock.advance(60_000)
    assert hall.executor.overdue() == []
    hall.clock.advance(1)
    assert hall.executor.overdue() == [work]
    assert hall.executor.overdue() == []
    assert hall.executor.running() == 1
    gate.open.set()
    ((_, outcome),) = hall.wait()
    assert outcome == Outcome(False, error="the job ended after its timeout", timed_out=True)
    assert hall.executor.running() == 0


def test_the_limit_is_time_that_passed_and_not_the_wall_clock(hall: Hall) -> None:
    """H2"""
    gate = hall.jobs["gate"] = Gate()
    hall.submit("gate", 1, timeout="1m")
    assert gate.begun.acquire(timeout=PATIENCE)
    hall.clock.step(3_600_000)
    assert hall.executor.overdue() == []
    gate.open.set()
    assert hall.wait()[0].outcome.succeeded


def test_an_async_job_past_its_limit_is_ended(hall: Hall) -> None:
    """H2"""
    begun = threading.Event()

    async def stand(run: JobContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    hall.jobs["stand"] = stand
    hall.submit("stand", 1, timeout="1m")
    assert begun.wait(PATIENCE)
    hall.clock.advance(60_001)
    assert hall.executor.overdue() == [], "it is ended, and need not be held"
    ((_, outcome),) = hall.wait()
    assert (outcome.succeeded, outcome.timed_out) == (False, True)


def test_an_async_job_whose_loop_was_closed_ends_once() -> None:
    """B19: its coroutine is thrown away, which is neither an error of the job nor a second end"""
    loop = asyncio.new_event_loop()
    hall = Hall(1, loop)

    async def wait(run: JobContext) -> None:
        loop.call_soon(loop.stop)
        await asyncio.Event().wait()

    hall.jobs["wait"] = wait
    hall.submit("wait", 1)
    loop.run_forever()
    loop.close()
    ended = hall.executor.drain()
    gc.collect()
    ended += hall.executor.drain()
    hall.executor.stop()
    assert [outcome.error for _, outcome in ended] == ["the event loop of the program has ended"]


def test_cancel_ends_an_async_job(hall: Hall) -> None:
    """B8"""
    begun = threading.Event()

    async def stand(run: JobContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    hall.jobs["stand"] = stand
    hall.submit("stand", 1)
    assert begun.wait(PATIENCE)
    hall.executor.cancel({1})
    ((_, outcome),) = hall.wait()
    assert (outcome.succeeded, outcome.cancelled) == (False, True)


def test_cancel_is_seen_by_a_sync_job_that_asks(hall: Hall) -> None:
    """B8: one that returns is cancelled too: it was asked to end early"""
    gate = hall.jobs["gate"] = Gate()
    hall.submit("gate", 1)
    assert gate.begun.acquire(timeout=PATIENCE)
    hall.executor.cancel({1})
    gate.open.set()
    ((_, outcome),) = hall.wait()
    assert gate.saw_cancel
    assert (outcome.succeeded, outcome.cancelled) == (False, True)
    assert not hall.executor.is_cancelled(1), "forgotten when it is over"


def test_a_cancelled_sync_job_that_raises_is_cancelled(hall: Hall) -> None:
    """B8"""
    begun, go = threading.Event(), threading.Event()

    def leave(run: JobContext) -> None:
        begun.set()
        assert go.wait(PATIENCE)
        raise InterruptedError

    hall.jobs["leave"] = leave
    hall.submit("leave", 1)
    assert begun.wait(PATIENCE)
    hall.executor.cancel({1})
    go.set()
    ((_, outcome),) = hall.wait()
    assert outcome.cancelled


def test_what_waits_too_long_for_a_thread_is_given_back_and_does_not_begin(hall: Hall) -> None:
    """H2 B1: somebody else may have it; it never runs here as well"""
    gate = hall.jobs["gate"] = Gate()
    began: list[int] = []
    hall.jobs["work"] = lambda run: began.append(run.id)
    hall.submit("gate", 1, 2)
    for _ in range(2):
        assert gate.begun.acquire(timeout=PATIENCE)
    waiting = hall.submit("work", 3, 4)
    assert hall.executor.withdraw() == []
    hall.clock.advance(1_001)
    assert hall.executor.withdraw() == waiting
    assert hall.executor.withdraw() == []
    assert hall.executor.running() == 2
    gate.open.set()
    hall.submit("work", 5)
    assert {ended.attempt.run_id for ended in hall.wait(3)} == {1, 2, 5}
    assert began == [5]


def test_what_has_ended_is_not_given_back(hall: Hall) -> None:
    """B9 S2: the job waited long for a thread, and ended after the turn had asked for ends"""
    hall.jobs["work"] = lambda run: None
    hall.submit("work", 1)
    assert hall.said.acquire(timeout=PATIENCE)
    hall.clock.advance(1_001)
    assert hall.executor.withdraw() == []
    assert hall.executor.withdraw(everything=True) == []
    assert [ended.attempt.run_id for ended in hall.executor.drain()] == [1]
    assert hall.executor.withdraw(everything=True) == []
    assert hall.executor.overdue() == []


def test_on_the_way_out_all_that_waits_is_given_back(hall: Hall) -> None:
    """B1"""
    gate = hall.jobs["gate"] = Gate()
    hall.submit("gate", 1, 2)
    for _ in range(2):
        assert gate.begun.acquire(timeout=PATIENCE)
    waiting = hall.submit("gate", 3)
    assert hall.executor.withdraw(everything=True) == waiting
    gate.open.set()
    hall.wait(2)


def test_room_grows_while_jobs_are_short_and_shrinks_to_the_threads_when_they_are_long(hall: Hall) -> None:
    """H2"""
    hall.jobs["work"] = lambda run: None
    first = hall.executor.capacity()
    assert first == 8
    for batch in range(20):
        hall.submit("work", *range(batch * 8, batch * 8 + 8))
        hall.wait(8)
    assert hall.executor.capacity() > first
    gate = hall.jobs["gate"] = Gate()
    hall.submit("gate", *range(500, 504))
    for _ in range(2):
        assert gate.begun.acquire(timeout=PATIENCE)
    hall.clock.advance(1_001)
    assert len(hall.executor.withdraw()) == 2
    assert hall.executor.capacity() == 0
    gate.open.set()
    hall.wait(2)


def test_stop_ends_the_threads() -> None:
    """H2"""
    hall = Hall(3)
    hall.jobs["work"] = asynchronous
    hall.submit("work", 1)
    hall.wait()
    mine = [*hall.executor._pool]
    hall.executor.stop()
    for thread in mine:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_an_attempt_that_never_ended_and_its_successor_are_two() -> None:
    """B9: a held run is tried again while the thread of its first attempt still lives"""
    clock = ManualClock()
    gates = {1: threading.Event(), 2: threading.Event()}
    begun = {1: threading.Event(), 2: threading.Event()}

    def stuck(run: JobContext) -> int:
        begun[run.attempt].set()
        gates[run.attempt].wait(PATIENCE)
        return run.attempt

    ended = threading.Semaphore(0)
    loader = ContextLoader(open_store("sqlite://", clock), Catalog(), clock, 15_000, 60_000)
    executor = PythonExecutor(JobRegistry({"work": stuck}), clock, ended.release, loader, threads=2)
    known = CompiledSchedule(1, 1, "s", "", encode(parse_schedule("5m", {"job": "work"}, 0)[0]))
    first, second = (Attempt(7, epoch, epoch, None, 1, None, 0, known) for epoch in (1, 2))
    executor.start()
    executor.submit([first])
    assert begun[1].wait(PATIENCE)
    executor.submit([second])
    assert begun[2].wait(PATIENCE)
    assert executor.running() == 2
    gates[1].set()
    assert ended.acquire(timeout=PATIENCE)
    assert [item.attempt.epoch for item in executor.drain()] == [1]
    assert executor.running() == 1, "the second attempt is still taken"
    gates[2].set()
    assert ended.acquire(timeout=PATIENCE)
    assert [item.attempt.epoch for item in executor.drain()] == [2]
    executor.stop()


def test_a_job_writes_only_the_events_of_jobs() -> None:
    """B16: it cannot say that a run succeeded, or that a token was made"""
    with closing(Sandbox()) as sandbox:
        sandbox.job("forge")(lambda run: run.emit("run.succeeded", {}))
        sandbox.add("s", when="0 0 * * *", job="forge")
        sandbox.run_until("2026-01-02T00:00:00Z")
        (run,) = sandbox.all_runs("s")
        assert run.state == "failed"
        assert "cannot write the event" in str(run.outcome)
        assert [event.type for event in sandbox.events.list() if event.type == "run.succeeded"] == []


def _deep(left: int) -> None:
    if left:
        _deep(left - 1)
    raise ValueError("at the bottom")


def _one() -> None:
    raise ValueError("one\nof two lines")


def _two() -> None:
    _one()


def _again() -> None:
    try:
        _one()
    except ValueError:
        raise KeyError("again") from None


def _while_handling() -> None:
    try:
        _one()
    except ValueError:
        _two()


def _because() -> None:
    try:
        _one()
    except ValueError as error:
        raise OSError("because of it") from error


def _noted() -> None:
    error = ValueError("one")
    error.add_note("a note")
    raise error


def _group() -> None:
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])


def _misspelt() -> None:
    _deeep(1)  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("fail", "alone"),
    [
        (_one, True),
        (_two, True),
        (_again, True),
        (lambda: None + 1, True),  # type: ignore[operator]
        (lambda: {}["key"], True),
        (lambda: sys.exit(3), True),
        (lambda: _deep(2), False),
        (lambda: _deep(60), False),
        (_while_handling, False),
        (_because, False),
        (_noted, False),
        (_group, False),
        (_misspelt, False),
    ],
)
def test_a_traceback_from_remembered_lines_is_the_same(fail: Callable[[], object], alone: bool) -> None:
    """The first time, when its lines are looked for, and again, when they are remembered"""
    for _ in range(2):
        with pytest.raises(BaseException) as raised:  # noqa: PT011
            fail()
        shown = python.plain_traceback(raised.value)
        assert bool(shown) == alone
        if alone:
            assert shown == "".join(python.full_traceback(raised.value).format())


def test_remembered_lines_of_tracebacks_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that makes functions all the time does not keep them by failing."""
    monkeypatch.setattr(python, "_FRAMES", {})
    monkeypatch.setattr(python, "_MAX_REMEMBERED", 5)
    for nth in range(20):
        made: dict[str, Any] = {}
        exec(f"def fail():\n    raise ValueError({nth})", made)
        with pytest.raises(ValueError, match=str(nth)) as raised:
            made["fail"]()
        assert f"ValueError: {nth}\n" in python.plain_traceback(raised.value)
        assert len(python._FRAMES) <= 5
