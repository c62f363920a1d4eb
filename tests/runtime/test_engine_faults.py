"""What goes wrong, and that the rest goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from matins.engine.planning import Rule
from matins.errors import Conflict, StoreUnavailable
from matins.executors.python import JobRun
from matins.model.run import RunState
from matins.testing import Bench, ManualClock

AT = "2026-03-27T08:05:00Z"
Lines = Callable[..., list[str]]


def execute(bench: Bench, statement: str) -> None:
    """As somebody with a database tool would."""
    with bench._store.transaction(0) as transaction:
        transaction._connection.execute(statement)
    bench._catalog._known.clear()


# -- schedules that cannot be read


GARBAGE = [
    "",
    "{",
    "null",
    "[]",
    "{}",
    '{"trigger": {}}',
    '{"trigger": {"kind": "cron", "expression": "99 * * * *"}, "do": "work"}',
    '{"trigger": {"kind": "once", "at": "never"}, "do": "work"}',
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_definition_that_cannot_be_read_parks_its_schedule_and_no_other(
    bench: Bench, lines: Lines, garbage: str
) -> None:
    """H2: the loop survives any error in one schedule"""
    bench.add_many([{"name": name, "when": "*/5 * * * *", "do": "work"} for name in ("a", "bad", "z")])
    execute(bench, f"UPDATE revisions SET definition = '{garbage}' WHERE schedule_id = 2")
    bench.run_until("2026-03-27T08:10:00Z")
    for name in ("a", "z"):
        assert lines(bench, name) == ["08:05 succeeded", "08:10 succeeded"]
    shown = bench.get("bad")
    assert (shown.state, shown.due_at) == ("broken", None)
    assert shown.note
    assert [schedule.state for schedule in bench.list()] == ["active", "broken", "active"]
    assert bench.runs("bad") == []


def test_a_definition_that_is_gone(bench: Bench, lines: Lines) -> None:
    """H2"""
    bench.add_many([{"name": name, "when": "*/5 * * * *", "do": "work"} for name in ("bad", "z")])
    execute(bench, "DELETE FROM revisions WHERE schedule_id = 1")
    bench.run_until(AT)
    assert lines(bench, "z") == ["08:05 succeeded"]


def test_a_broken_schedule_is_mended_by_saying_it_anew(bench: Bench, lines: Lines) -> None:
    """H2: and its cursor was not lost"""
    bench.add("bad", when="*/5 * * * *", do="work")
    execute(bench, "UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    bench.run_until(AT)
    with pytest.raises(Conflict, match="cannot be read") as caught:
        bench.edit("bad", payload=1)
    assert caught.value.hint
    with pytest.raises(Conflict, match="cannot be used"):
        bench.resume("bad")
    bench.edit("bad", when="*/5 * * * *", do="work")
    bench.run_until("2026-03-27T08:10:00Z")
    assert bench.runs("bad") == [], "not before it is resumed"
    assert bench.resume("bad").state == "active"
    bench.run_until("2026-03-27T08:15:00Z")
    assert lines(bench, "bad") == ["08:15 succeeded"]


def test_it_can_be_mended_before_the_engine_has_noticed(bench: Bench, lines: Lines) -> None:
    """H2"""
    bench.add("bad", when="*/5 * * * *", do="work")
    execute(bench, "UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    assert bench.edit("bad", when="*/5 * * * *", do="work").state == "broken"
    assert bench.resume("bad").state == "active"
    bench.run_until(AT)
    assert lines(bench, "bad") == ["08:05 succeeded"]


def test_a_broken_schedule_can_be_removed(bench: Bench) -> None:
    """H2"""
    bench.add("bad", when="*/5 * * * *", do="work")
    execute(bench, "UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    assert bench.remove("bad") is True
    assert bench.list() == []


def test_runs_of_a_broken_schedule_wait_and_do_not_spin(bench: Bench, lines: Lines) -> None:
    """H2: a turn that finds nothing to do sleeps"""
    bench.add("bad", when="*/5 * * * *", do="fail", retries=1, retry="1m")
    bench.add("good", when="*/5 * * * *", do="work")
    bench.run_until(AT)
    execute(bench, "UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    bench.clock.advance(70_000)
    delays = [bench.engine.run_once() for _ in range(3)]
    assert delays[-1] == bench.settings.check_interval_ms
    assert lines(bench, "bad") == ["08:05 parked paused"]
    bench.edit("bad", when="*/5 * * * *", do="work")
    bench.run_until("2026-03-27T08:10:00Z")
    assert lines(bench, "good") == ["08:05 succeeded", "08:10 succeeded"]


def test_a_rule_that_raises_parks_its_schedule(bench: Bench, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """H2"""
    bench.add_many([{"name": name, "when": "*/5 * * * *", "do": "work"} for name in ("bad", "z")])
    original = Rule.plan

    def wrong(self: Rule, schedule_id: int, *rest: Any) -> Any:
        if schedule_id == 1:
            raise ZeroDivisionError("no such thing")
        return original(self, schedule_id, *rest)

    monkeypatch.setattr(Rule, "plan", wrong)
    bench.run_until(AT)
    assert lines(bench, "z") == ["08:05 succeeded"]
    assert bench.get("bad").note == "ZeroDivisionError: no such thing"


# -- jobs that do anything


class Loud(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), Loud(), GeneratorExit()])
def test_a_job_may_raise_anything(bench: Bench, lines: Lines, error: BaseException) -> None:
    """H2"""

    @bench.job("raise")
    def raise_it(run: JobRun) -> None:
        raise error

    bench.add("bad", when="*/5 * * * *", do="raise")
    bench.add("good", when="*/5 * * * *", do="work")
    bench.run_until("2026-03-27T08:10:00Z")
    assert lines(bench, "bad") == ["08:05 failed failed", "08:10 failed failed"]
    assert lines(bench, "good") == ["08:05 succeeded", "08:10 succeeded"]
    assert type(error).__name__ in bench.runs("bad")[0].outcome["error"]


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def endless() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    "value",
    [
        1 << 70,
        {(1, 2): 3},
        "\ud800",
        b"\xff",
        object(),
        endless(),
        Unspeakable(),
        float("nan"),
        {1: 2},
        [Unspeakable()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_job_may_return_anything(bench: Bench, lines: Lines, value: object) -> None:
    """H2: what JSON cannot hold does not stop the others"""

    @bench.job("return")
    def return_it(run: JobRun) -> object:
        return value

    bench.add("odd", when="*/5 * * * *", do="return")
    bench.add("good", when="*/5 * * * *", do="work")
    bench.run_until("2026-03-27T08:10:00Z")
    for name in ("odd", "good"):
        assert lines(bench, name) == ["08:05 succeeded", "08:10 succeeded"]


@pytest.mark.parametrize("words", ["\udcff", "x" * 100_000, "\x00"])
def test_an_error_may_say_anything(bench: Bench, words: str) -> None:
    """H2"""

    @bench.job("raise")
    def raise_it(run: JobRun) -> None:
        raise ValueError(words)

    bench.add("odd", when="*/5 * * * *", do="raise")
    bench.run_until(AT)
    (run,) = bench.runs("odd")
    assert run.state is RunState.FAILED
    assert len(run.outcome["error"]) < 20_000


def test_an_unknown_job_fails_and_says_which(bench: Bench) -> None:
    """H2"""
    bench.add("s", when="*/5 * * * *", do="nobody")
    bench.run_until(AT)
    (run,) = bench.runs("s")
    assert run.state is RunState.FAILED
    assert run.outcome == {"error": 'no job is registered as "nobody" in this process'}


# -- a store that does not answer


@contextmanager
def full(bench: Bench) -> Iterator[None]:
    """A disk without room: the database may not grow by a page."""
    connection = bench._store._connection  # type: ignore[attr-defined]
    pages = connection.pragma("page_count")
    connection.pragma("max_page_count", pages)
    try:
        yield
    finally:
        connection.pragma("max_page_count", 1 << 30)


def test_a_full_disk_keeps_ends_in_memory_and_goes_on_afterwards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """H2 B1: nothing is lost, nothing is started twice"""
    bench = Bench(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock("2026-03-27T08:00:00Z"))
    begun: list[int] = []

    @bench.job("big")
    def big(run: JobRun) -> str:
        begun.append(run.id)
        return "x" * 20_000

    bench.add_many([{"name": f"s{n}", "when": "*/5 * * * *", "do": "big"} for n in range(3)])
    bench.clock.advance_to(AT)
    bench.engine.turn()
    assert len(begun) == 3, "they have run; how they ended is not written yet"
    with full(bench), caplog.at_level(logging.WARNING, "matins"):
        delays = [bench.engine.run_once() for _ in range(6)]
        assert delays == [50, 200, 1_000, 5_000, 5_000, 5_000]
        assert bench.engine.unfinished() == 3
        assert {run.state for n in range(3) for run in bench.runs(f"s{n}")} == {RunState.STARTING}
        bench.clock.advance_to("2026-03-27T08:10:00Z")
        bench.engine.run_once()
        assert len(begun) == 3, "and nothing new is started"
    assert "There is no room left" in caplog.text
    bench.settle()
    for n in range(3):
        assert len(bench.assert_ran(f"s{n}", times=2)[0].outcome["result"]) == 20_000
    assert len(begun) == 6
    assert bench.verify_audit() == []
    bench.close()


def test_a_use_case_on_a_full_disk_says_so_and_writes_nothing(tmp_path: Path) -> None:
    """H2"""
    bench = Bench(f"sqlite:///{tmp_path}/matins.db")
    with full(bench), pytest.raises(StoreUnavailable, match="There is no room left") as caught:
        bench.add_many([{"name": f"s{n}", "when": "5m", "do": "work", "payload": "x" * 9_000} for n in range(50)])
    assert caught.value.hint
    assert caught.value.retryable
    assert bench.list() == []
    bench.close()


def test_a_turn_that_fails_is_tried_again_with_fewer_schedules(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2"""
    bench.add("s", when="*/5 * * * *", do="work")
    bench.clock.advance_to(AT)
    limits: list[int] = []
    plan = bench.engine.planner.plan

    def failing(transaction: Any, now: int, worker: int, free: Any, limit: int) -> Any:
        limits.append(limit)
        if len(limits) < 4:
            raise RuntimeError("an error that nobody thought of")
        return plan(transaction, now, worker, free, limit)

    monkeypatch.setattr(bench.engine.planner, "plan", failing)
    assert [bench.engine.run_once() for _ in range(3)] == [50, 200, 1_000]
    assert "an error that nobody thought of" in caplog.text
    bench.settle()
    bench.assert_ran("s", times=1)
    assert limits[:4] == sorted(limits[:4], reverse=True)
    assert limits[3] < limits[0]
    assert bench.engine.run_once() == bench.settings.check_interval_ms


def test_what_the_executor_said_once_survives_a_failed_turn(theatre: Bench) -> None:
    """B1: a run that was withdrawn or is overdue is told of only once"""
    theatre.add("a", when="*/5 * * * *", do="work")
    theatre.add("b", when="*/5 * * * *", do="work")
    theatre.run_until(AT)
    first, second = theatre.stage.on.values()
    late, back = [[first]], [[second]]
    theatre.stage.overdue = lambda: late.pop() if late else []  # type: ignore[method-assign]
    theatre.stage.withdraw = lambda **_: back.pop() if back else []  # type: ignore[method-assign]
    with full(theatre):
        theatre._store._connection.execute("PRAGMA query_only = ON")  # type: ignore[attr-defined]
        theatre.engine.run_once()
        theatre._store._connection.execute("PRAGMA query_only = OFF")  # type: ignore[attr-defined]
    theatre.engine.accepting = False
    theatre.engine.run_once()
    assert [theatre.runs(name)[0].state.word for name in ("a", "b")] == ["held", "ready"]
    assert theatre.engine.unfinished() == 0


def test_a_row_that_cannot_be_written_parks_its_schedule_and_no_other(
    bench: Bench, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    """H2 B1: a slot that has a record already cannot have another; the rest of the batch must not wait for ever"""
    bench.add_many([{"name": name, "when": "*/5 * * * *", "do": "work"} for name in ("a", "bad", "z")])
    slot = bench.get("bad").next_slot
    execute(
        bench,
        "INSERT INTO runs (id, schedule_id, rev, slot, state, exclusive, epoch, attempt, planned_at, covered)"
        f" VALUES (999999, 2, 1, {slot}, 10, 1, 1, 1, 0, 1)",
    )
    bench.clock.advance_to(AT)
    with caplog.at_level(logging.CRITICAL, logger="matins"):
        for _ in range(40):
            bench.engine.run_once()
    for name in ("a", "z"):
        assert lines(bench, name) == ["08:05 succeeded"]
    assert bench.get("bad").state == "broken"
    assert "UNIQUE" in (bench.get("bad").note or "")
