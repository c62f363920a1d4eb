"""The engine in its threads, on the system's clock. Every wait is for a signal that a job gives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from matins import Matins, RunState, SchedulerShutdownError
from matins.executors.python import JobRun
from matins.model.run import Run
from matins.runtime.engine import Engine
from matins.runtime.work import Work

PATIENCE = 30
HOUR_MS = 3_600_000


class Signal:
    """A job that says how often it has begun, and stands until it is let go."""

    def __init__(self, *, stands: bool = False) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.runs: list[JobRun] = []
        if not stands:
            self.go.set()

    def __call__(self, run: JobRun) -> str:
        self.runs.append(run)
        self.begun.release()
        assert self.go.wait(PATIENCE)
        return "done"

    def wait(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.begun.acquire(timeout=PATIENCE), "it did not begin"


@pytest.fixture(params=["memory", "file"])
def matins(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Matins]:
    made = Matins("sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/matins.db", threads=4)
    yield made
    made.close()


def ended(matins: Matins, name: str) -> Run:
    """The newest run of a schedule, when the engine has nothing left to write."""
    matins.stop()
    return matins.runs(name)[0]


def test_fires_on_its_own(matins: Matins) -> None:
    """H2 P8"""
    job = matins.jobs["job"] = Signal()
    matins.add("s", when="1s", do="job", first="immediately")
    with matins:
        job.wait(2)
    runs = [run for run in matins.runs("s") if run.state is RunState.SUCCEEDED]
    assert runs[0].outcome == {"result": "done"}
    assert all(run.started_at is not None and run.slot is not None and run.started_at >= run.slot for run in runs)


def test_what_is_added_or_asked_for_wakes_it_at_once(tmp_path: Path) -> None:
    """H2: sleep is interruptible; here it would last an hour"""
    matins = Matins(check_interval_ms=HOUR_MS, beat_ms=HOUR_MS)
    job = matins.jobs["job"] = Signal()
    with matins:
        matins.add("s", when="0 0 1 1 *", do="job")
        matins.run("s")
        job.wait()
        matins.add("now", when="1d", do="job", first="immediately")
        job.wait()
        matins.pause("now")
        matins.resume("now")
    matins.close()
    assert [run.schedule for run in job.runs] == ["s", "now"]


def test_a_long_job_never_delays_another_schedule(matins: Matins) -> None:
    """H2"""
    long, short = Signal(stands=True), Signal()
    matins.jobs.update(long=long, short=short)
    matins.add_many([{"name": f"long {n}", "when": "1d", "do": "long", "first": "immediately"} for n in range(3)])
    with matins:
        long.wait(3)
        matins.add("short", when="1s", do="short", first="immediately", anchor="grid")
        short.wait(3)
        assert [matins.runs(f"long {n}")[0].state for n in range(3)] == [RunState.STARTING] * 3
        long.go.set()
    assert [matins.runs(f"long {n}")[0].state for n in range(3)] == [RunState.SUCCEEDED] * 3


def test_async_jobs_do_not_need_threads(matins: Matins) -> None:
    """H2"""
    both = threading.Barrier(2, timeout=PATIENCE)
    waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @matins.job("stand")
    async def stand(run: JobRun) -> None:
        waiting.append((asyncio.get_running_loop(), asyncio.Event()))
        if len(waiting) == 50:
            await asyncio.to_thread(both.wait)
        await waiting[int(run.schedule)][1].wait()

    matins.add_many([{"name": str(n), "when": "1d", "do": "stand", "first": "immediately"} for n in range(50)])
    with matins:
        both.wait()
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)
    assert all(matins.runs(str(n))[0].state is RunState.SUCCEEDED for n in range(50))


def test_cancel_reaches_an_async_job_at_once(tmp_path: Path) -> None:
    """B8: without waiting for the next beat"""
    matins = Matins(beat_ms=HOUR_MS)
    begun, left = threading.Event(), threading.Event()

    @matins.job("stand")
    async def stand(run: JobRun) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    matins.add("s", when="0 0 1 1 *", do="stand", retries=5)
    with matins:
        run = matins.run("s")
        assert begun.wait(PATIENCE)
        assert matins.cancel(run.id).state is RunState.STARTING
        assert left.wait(PATIENCE)
    assert matins.runs("s")[0].state is RunState.CANCELLED
    matins.close()


def test_cancel_is_seen_by_a_sync_job_that_looks(matins: Matins) -> None:
    """B8"""
    begun, asked = threading.Event(), threading.Event()

    @matins.job("look")
    def look(run: JobRun) -> None:
        begun.set()
        assert asked.wait(PATIENCE)
        if run.cancelled:
            raise InterruptedError("asked to leave")

    matins.add("s", when="0 0 1 1 *", do="look")
    with matins:
        assert matins._loop is not None
        executor = matins._loop.engine.executor
        cancel = executor.cancel
        executor.cancel = lambda run_ids: (cancel(run_ids), asked.set())[0]  # type: ignore[method-assign]
        run = matins.run("s")
        assert begun.wait(PATIENCE)
        matins.cancel(run.id)
        assert asked.wait(PATIENCE)
    shown = matins.runs("s")[0]
    assert (shown.state, shown.reason) == (RunState.CANCELLED, "cancelled")


def each_turn(matins: Matins) -> Iterator[Engine]:
    """The running engine, after each of its turns."""
    assert matins._loop is not None
    engine, turned = matins._loop.engine, threading.Semaphore(0)
    turn = engine.turn

    def signalling() -> int:
        try:
            return turn()
        finally:
            turned.release()

    engine.turn = signalling  # type: ignore[method-assign]
    while turned.acquire(timeout=PATIENCE):
        yield engine
    raise AssertionError("the engine stands still")


def test_a_job_past_its_limit_is_held_and_seen_and_then_ends(matins: Matins) -> None:
    """H2: with its place, until its thread is through; whatever `on_unknown` says"""
    job = matins.jobs["job"] = Signal(stands=True)
    other = matins.jobs["other"] = Signal()
    matins.add("s", when="0 0 1 1 *", do="job", timeout="1s", on_unknown="retry", retries=3)
    matins.add("other", when="0 0 1 1 *", do="other")
    with matins:
        matins.run("s")
        job.wait()
        held = next(run for _ in each_turn(matins) if (run := matins.runs("s")[0]).state is RunState.HELD)
        assert (held.reason, held.ended_at) == ("timed_out", None)
        assert matins.run("s").reason == "already_running"
        matins.run("other")
        other.wait()
        job.go.set()
    _, run = matins.runs("s")
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "timed_out", 1)


# -- start and stop


def test_starting_twice_is_a_no_op(matins: Matins) -> None:
    """H2"""
    with matins:
        threads = {thread.ident for thread in threading.enumerate()}
        assert matins.start() is matins
        assert {thread.ident for thread in threading.enumerate()} == threads


def test_stop_waits_for_what_runs_and_starts_nothing_new(matins: Matins) -> None:
    """H2"""
    job = matins.jobs["job"] = Signal(stands=True)
    matins.add("s", when="0 0 1 1 *", do="job", overlap="queue")
    matins.start()
    matins.run("s")
    matins.run("s")
    job.wait()
    stopping = threading.Thread(target=matins.stop)
    stopping.start()
    assert next(engine for engine in each_turn(matins) if not engine.accepting)
    assert stopping.is_alive()
    job.go.set()
    stopping.join(PATIENCE)
    assert [run.state.word for run in matins.runs("s")] == ["ready", "succeeded"]
    assert len(job.runs) == 1


def test_a_stop_that_takes_too_long_raises_with_the_count(matins: Matins) -> None:
    """H2"""
    job = matins.jobs["job"] = Signal(stands=True)
    matins.add("s", when="0 0 1 1 *", do="job", overlap="allow")
    matins.start()
    matins.run("s")
    matins.run("s")
    job.wait(2)
    with pytest.raises(SchedulerShutdownError) as caught:
        matins.stop(wait=True, timeout=0.05)
    assert str(caught.value) == "Scheduler shutdown timed out after 50ms with 2 job(s) still running"
    assert (caught.value.timed_out, caught.value.running_job_count) == (True, 2)
    job.go.set()


def test_a_stop_that_does_not_wait_leaves_at_once(matins: Matins) -> None:
    """H2"""
    job = matins.jobs["job"] = Signal(stands=True)
    matins.add("s", when="0 0 1 1 *", do="job")
    matins.start()
    matins.run("s")
    job.wait()
    matins.stop(wait=False)
    assert matins.runs("s")[0].state is RunState.STARTING
    job.go.set()


def test_stopping_what_does_not_run_is_a_no_op(matins: Matins) -> None:
    """H2"""
    matins.stop()
    with matins:
        pass
    matins.stop()


def test_it_can_be_started_again(matins: Matins) -> None:
    """H2 P8"""
    job = matins.jobs["job"] = Signal()
    matins.add("s", when="0 0 1 1 *", do="job")
    for _ in range(3):
        with matins:
            matins.run("s")
            job.wait()
    assert [run.state for run in matins.runs("s")] == [RunState.SUCCEEDED] * 3


def test_no_thread_is_left_behind(matins: Matins) -> None:
    """H2"""
    before = set(threading.enumerate())

    @matins.job("later")
    async def later(run: JobRun) -> None:
        await asyncio.sleep(0)

    job = matins.jobs["job"] = Signal()
    matins.add_many([{"name": do, "when": "0 0 1 1 *", "do": do} for do in ("job", "later")])
    with matins:
        matins.run("job")
        matins.run("later")
        job.wait()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread.name


# -- limits, with real threads


@pytest.mark.parametrize(("scope", "size"), [("agent:x", 2), ("global", 3)])
def test_a_limit_is_never_exceeded_and_nobody_starves(matins: Matins, scope: str, size: int) -> None:
    """H10 V3: and it really takes effect above 1, or they would wait for one another for ever"""
    lock, together = threading.Lock(), threading.Barrier(size, timeout=PATIENCE)
    now, most, count = 0, 0, 0
    all_done = threading.Event()

    @matins.job("count")
    def count_them(run: JobRun) -> None:
        nonlocal now, most, count
        with lock:
            now += 1
            most = max(most, now)
        together.wait()
        with lock:
            now -= 1
            count += 1
            if count == 60:
                all_done.set()

    matins.limit(scope, size)
    matins.add_many([{"name": f"s{n}", "agent": "x", "when": "0 0 1 1 *", "do": "count"} for n in range(60)])
    with matins:
        for n in range(60):
            matins.run(f"s{n}")
        assert all_done.wait(PATIENCE)
    assert most == size
    assert all(matins.runs(f"s{n}")[0].state is RunState.SUCCEEDED for n in range(60))


def test_with_nothing_free_the_loop_sleeps(matins: Matins) -> None:
    """H10: waiting for a permit costs nothing"""
    job = matins.jobs["job"] = Signal(stands=True)
    matins.limit("global", 1)
    matins.add("s", when="0 0 1 1 *", do="job", overlap="allow")
    with matins:
        matins.run("s")
        matins.run("s")
        job.wait()
        quiet = [engine.turn() for engine, _ in zip(each_turn(matins), range(2), strict=False)]
        assert min(quiet) > 0
        job.go.set()
        job.wait()


# -- two of them


def test_a_second_engine_on_the_same_file_is_refused(tmp_path: Path) -> None:
    """S2"""
    url = f"sqlite:///{tmp_path}/matins.db"
    one, other = Matins(url), Matins(url)
    with one:
        with pytest.raises(Exception, match="Another engine runs on this store") as caught:
            other.start()
        assert (caught.type.__name__, bool(caught.value.hint)) == ("StoreBusy", True)
    with other:
        pass
    one.close()
    other.close()


def test_what_another_says_goes_through_the_engine_and_wakes_it(tmp_path: Path) -> None:
    """H2 S2"""
    url = f"sqlite:///{tmp_path}/matins.db"
    engine, client = Matins(url, check_interval_ms=HOUR_MS), Matins(url)
    job = engine.jobs["job"] = Signal()
    with engine:
        client.add("s", when="0 0 1 1 *", do="job")
        assert client.run("s", key="once").id == client.run("s", key="once").id
        job.wait()
        with pytest.raises(Exception, match="There is a schedule") as caught:
            client.add("s", when="0 0 1 1 *", do="job")
        assert caught.type.__name__ == "Conflict"
    assert len(job.runs) == 1
    engine.close()
    client.close()


def test_a_crashed_engines_runs_are_taken_up_by_the_next(tmp_path: Path) -> None:
    """H8: no schedule stuck in running after a crash"""
    url = f"sqlite:///{tmp_path}/matins.db"
    first = Matins(url)
    stuck = first.jobs["job"] = Signal(stands=True)
    first.add("s", when="0 0 1 1 *", do="job")
    first.start()
    first.run("s")
    stuck.wait()
    first.stop(wait=False)
    second = Matins(url)
    job = second.jobs["job"] = Signal()
    with second:
        job.wait()
    run = ended(second, "s")
    assert (run.state, run.attempt, run.epoch) == (RunState.SUCCEEDED, 2, 2)
    stuck.go.set()
    first.close()
    second.close()


def test_stopping_while_a_claimed_run_is_being_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """H11: it is waited for, and no shutdown error is raised for a run that nobody had begun"""
    handing_over, go_on = threading.Event(), threading.Event()
    hand_over = Engine._hand_over

    def slowly(engine: Engine, start: list[Work], since: int) -> None:
        if start:
            handing_over.set()
            go_on.wait(30)
        hand_over(engine, start, since)

    monkeypatch.setattr(Engine, "_hand_over", slowly)
    m = Matins("sqlite://")
    m.job("work")(lambda run: None)
    m.add("a", when="0 0 1 1 *", do="work")
    m.start()
    m.run("a")
    assert handing_over.wait(30)
    threading.Timer(0.2, go_on.set).start()
    m.stop(timeout=30)
    assert m.runs("a")[0].state is RunState.SUCCEEDED
