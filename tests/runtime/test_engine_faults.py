"""What goes wrong, and that the rest goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from matins.engine.planning import Timetable
from matins.errors import Conflict, StoreUnavailable
from matins.executors.job_context import JobContext
from matins.testing import ManualClock, Sandbox, instant, iso

AT = "2026-03-27T08:05:00Z"
Lines = Callable[..., list[str]]


def execute(bench: Sandbox, statement: str) -> None:
    """As somebody with a database tool would."""
    with bench._store.transaction(0) as transaction:
        transaction._connection.execute(statement)
    bench._catalog._cache.clear()


# -- schedules that cannot be read


GARBAGE = [
    "",
    "{",
    "null",
    "[]",
    "{}",
    '{"trigger": {}}',
    '{"trigger": {"kind": "cron", "expression": "99 * * * *"}, "job": "work"}',
    '{"trigger": {"kind": "once", "at": "never"}, "job": "work"}',
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_definition_that_cannot_be_read_parks_its_schedule_and_no_other(
    bench: Sandbox, lines: Lines, garbage: str
) -> None:
    """H2: the loop survives any error in one schedule"""
    bench.add_many([{"name": name, "when": "*/5 * * * *", "job": "work"} for name in ("a", "bad", "z")])
    execute(bench, f"UPDATE revisions SET definition = '{garbage}' WHERE schedule_id = 2")
    bench.run_until("2026-03-27T08:10:00Z")
    for name in ("a", "z"):
        assert lines(bench, name) == ["08:05 succeeded", "08:10 succeeded"]
    shown = bench.get("bad")
    assert (shown.state, shown.due_at) == ("broken", None)
    assert shown.note
    assert [schedule.state for schedule in bench.list()] == ["active", "broken", "active"]
    assert bench.runs.list(schedule="bad") == []


def test_a_definition_that_is_gone(bench: Sandbox, lines: Lines) -> None:
    """H2"""
    bench.add_many([{"name": name, "when": "*/5 * * * *", "job": "work"} for name in ("bad", "z")])
    execute(bench, "DELETE FROM revisions WHERE schedule_id = 1")
    bench.run_until(AT)
    assert lines(bench, "z") == ["08:05 succeeded"]


def test_a_broken_schedule_is_mended_by_saying_it_anew(bench: Sandbox, lines: Lines) -> None:
    """H2: and its cursor was not lost"""
    bench.add("bad", when="*/5 * * * *", job="work")
    execute(bench, "UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    bench.run_until(AT)
    with pytest.raises(Conflict, match="cannot be read") as caught:
        bench.edit("bad", payload=1)
    assert caught.value.hint
    with pytest.raises(Conflict, match="cannot be read"):
        bench.resume("bad")
    bench.edit("bad", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:10:00Z")
    assert bench.runs.list(schedule="bad") == [], "not before it is resumed"
    assert bench.resume("bad").state == "active"
    bench.run_until("2026-03-27T08:15:00Z")
    assert lines(bench, "bad") == ["08:15 succeeded"]


def test_it_can_be_mended_before_the_engine_has_noticed(bench: Sandbox, lines: Lines) -> None:
    """H2"""
    bench.add("bad", when="*/5 * * * *", job="work")
    execute(bench, "UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    assert bench.edit("bad", when="*/5 * * * *", job="work").state == "broken"
    assert bench.resume("bad").state == "active"
    bench.run_until(AT)
    assert lines(bench, "bad") == ["08:05 succeeded"]


def test_a_broken_schedule_can_be_removed(bench: Sandbox) -> None:
    """H2"""
    bench.add("bad", when="*/5 * * * *", job="work")
    execute(bench, "UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    assert bench.delete("bad") is True
    assert bench.list() == []


def test_runs_of_a_broken_schedule_wait_and_do_not_spin(bench: Sandbox, lines: Lines) -> None:
    """H2: a turn that finds nothing to do sleeps"""
    bench.add("bad", when="*/5 * * * *", job="fail", retries=1, retry_delay="1m")
    bench.add("good", when="*/5 * * * *", job="work")
    bench.run_until(AT)
    execute(bench, "UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    bench.clock.advance(70_000)
    delays = [bench.engine.run_once() for _ in range(3)]
    assert delays[-1] == bench.settings.check_interval_ms
    assert lines(bench, "bad") == ["08:05 waiting paused"]
    bench.edit("bad", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:10:00Z")
    assert lines(bench, "good") == ["08:05 succeeded", "08:10 succeeded"]


@pytest.mark.parametrize("road", ["plan", "next_if_on_time"])
def test_a_rule_that_raises_parks_its_schedule(
    bench: Sandbox, lines: Lines, monkeypatch: pytest.MonkeyPatch, road: str
) -> None:
    """H2: on the long road of the planner, and on the short one"""
    for name in ("bad", "z"):
        bench.job(name)(lambda run: None)
    limit = {"max_executions": 9} if road == "plan" else {}
    bench.add_many([{"name": name, "when": "*/5 * * * *", "job": name, **limit} for name in ("bad", "z")])
    original = getattr(Timetable, road)

    def wrong(self: Timetable, *rest: Any) -> Any:
        if self.definition.job == "bad":
            raise ZeroDivisionError("no such thing")
        return original(self, *rest)

    monkeypatch.setattr(Timetable, road, wrong)
    bench.run_until(AT)
    assert lines(bench, "z") == ["08:05 succeeded"]
    assert bench.get("bad").note == "ZeroDivisionError: no such thing"


# -- jobs that do anything


class Loud(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), Loud(), GeneratorExit()])
def test_a_job_may_raise_anything(bench: Sandbox, lines: Lines, error: BaseException) -> None:
    """H2"""

    @bench.job("raise")
    def raise_it(run: JobContext) -> None:
        raise error

    bench.add("bad", when="*/5 * * * *", job="raise")
    bench.add("good", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:10:00Z")
    assert lines(bench, "bad") == ["08:05 failed failed", "08:10 failed failed"]
    assert lines(bench, "good") == ["08:05 succeeded", "08:10 succeeded"]
    assert type(error).__name__ in bench.runs.list(schedule="bad")[0].outcome["error"]


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
def test_a_job_may_return_anything(bench: Sandbox, lines: Lines, value: object) -> None:
    """H2: what JSON cannot hold does not stop the others"""

    @bench.job("return")
    def return_it(run: JobContext) -> object:
        return value

    bench.add("odd", when="*/5 * * * *", job="return")
    bench.add("good", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:10:00Z")
    for name in ("odd", "good"):
        assert lines(bench, name) == ["08:05 succeeded", "08:10 succeeded"]


@pytest.mark.parametrize("words", ["\udcff", "x" * 100_000, "\x00"])
def test_an_error_may_say_anything(bench: Sandbox, words: str) -> None:
    """H2"""

    @bench.job("raise")
    def raise_it(run: JobContext) -> None:
        raise ValueError(words)

    bench.add("odd", when="*/5 * * * *", job="raise")
    bench.run_until(AT)
    (run,) = bench.runs.list(schedule="odd")
    assert run.state == "failed"
    assert len(run.outcome["error"]) < 20_000


# -- a store that does not answer


@contextmanager
def full(bench: Sandbox) -> Iterator[None]:
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
    bench = Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock("2026-03-27T08:00:00Z"))
    begun: list[int] = []

    @bench.job("big")
    def big(run: JobContext) -> str:
        begun.append(run.id)
        return "x" * 20_000

    bench.add_many([{"name": f"s{n}", "when": "*/5 * * * *", "job": "big"} for n in range(3)])
    bench.clock.advance_to(AT)
    bench.engine.turn()
    assert len(begun) == 3, "they have run; how they ended is not written yet"
    with full(bench), caplog.at_level(logging.WARNING, "matins"):
        delays = [bench.engine.run_once() for _ in range(6)]
        assert delays == [50, 200, 1_000, 5_000, 5_000, 5_000]
        assert bench.engine.unfinished() == 3
        assert {run.state for n in range(3) for run in bench.runs.list(schedule=f"s{n}")} == {"running"}
        bench.clock.advance_to("2026-03-27T08:10:00Z")
        bench.engine.run_once()
        assert len(begun) == 3, "and nothing new is started"
    assert "There is no disk space left" in caplog.text
    bench.settle()
    for n in range(3):
        assert len(bench.assert_ran(f"s{n}", times=2)[0].outcome["result"]) == 20_000
    assert len(begun) == 6
    assert bench.audit.verify().problems == []
    bench.close()


def test_a_use_case_on_a_full_disk_says_so_and_writes_nothing(tmp_path: Path) -> None:
    """H2"""
    bench = Sandbox(f"sqlite:///{tmp_path}/matins.db")
    bench.job("work")(lambda run: None)
    with full(bench), pytest.raises(StoreUnavailable, match="There is no disk space left") as caught:
        bench.add_many([{"name": f"s{n}", "when": "5m", "job": "work", "payload": "x" * 9_000} for n in range(50)])
    assert caught.value.hint
    assert caught.value.retryable
    assert bench.list() == []
    bench.close()


def test_a_turn_that_fails_is_tried_again_with_fewer_schedules(
    bench: Sandbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2"""
    bench.add("s", when="*/5 * * * *", job="work")
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


def test_what_the_executor_said_once_survives_a_failed_turn(theatre: Sandbox) -> None:
    """B1: a run that was withdrawn or is overdue is told of only once"""
    theatre.add("a", when="*/5 * * * *", job="work")
    theatre.add("b", when="*/5 * * * *", job="work")
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
    assert [theatre.runs.list(schedule=name)[0].state for name in ("a", "b")] == ["held", "ready"]
    assert theatre.engine.unfinished() == 0


def test_a_row_that_cannot_be_written_parks_its_schedule_and_no_other(
    bench: Sandbox, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    """H2 B1: a slot that has a record already cannot have another; the rest of the batch must not wait for ever"""
    bench.add_many([{"name": name, "when": "*/5 * * * *", "job": "work"} for name in ("a", "bad", "z")])
    assert iso(bench.get("bad").next_run_at) == AT
    execute(
        bench,
        "INSERT INTO runs (id, schedule_id, rev, slot, state, exclusive, epoch, attempt, planned_at, slots)"
        f" VALUES (999999, 2, 1, {instant(AT)}, 10, 1, 1, 1, 0, 1)",
    )
    bench.clock.advance_to(AT)
    with caplog.at_level(logging.CRITICAL, logger="matins"):
        for _ in range(40):
            bench.engine.run_once()
    for name in ("a", "z"):
        assert lines(bench, name) == ["08:05 succeeded"]
    assert bench.get("bad").state == "broken"
    assert "UNIQUE" in (bench.get("bad").note or "")
