"""Slots that are planned a moment before their instants: what can start does so on time, and nothing starts early."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from test_short_roads import START, definitions

from matins.engine.planning import Timetable
from matins.model.run import DONE
from matins.runtime.attempt import MAX_LEAD_MS, Attempt, AttemptEnd, Mark
from matins.testing import InlineExecutor, ManualClock, Sandbox, instant, iso

SLOT = instant("2026-03-27T08:05:00Z")
EVERY_5 = "*/5 * * * *"
Lines = Callable[..., list[str]]


@pytest.fixture
def ahead(theatre: Any) -> Any:
    """An engine that plans ahead, on which runs take time."""
    theatre.engine.lead_ms = MAX_LEAD_MS
    return theatre


def come(bench: Sandbox, before_ms: int = 10) -> int:
    """One turn, that long before the slot of 08:05. Returns the milliseconds until the next."""
    bench.clock.advance_to(SLOT - before_ms)
    return bench.engine.turn()


def test_a_run_is_claimed_before_its_slot_and_starts_at_it(ahead: Any) -> None:
    """E1: its records are durable when the slot comes"""
    ahead.add("s", when=EVERY_5, job="work")
    assert ahead.engine.turn() == 1_000
    assert come(ahead, 500) == 500 - MAX_LEAD_MS
    come(ahead)
    (attempt,) = ahead.stage.on.values()
    assert (attempt.slot, attempt.started_at) == (SLOT, SLOT)
    (run,) = ahead.runs.list(schedule="s")
    assert run.started_at == run.slot
    ahead.clock.advance_to(SLOT)
    ahead.end("s")
    assert [one.state for one in ahead.runs.list(schedule="s")] == ["succeeded"]
    assert ahead.audit.verify().problems == []


def test_a_run_that_ends_just_before_the_next_slot_is_not_in_its_way(ahead: Any, lines: Lines) -> None:
    """C9: whether it overlaps is decided at the slot, not before"""
    ahead.add("s", when=EVERY_5, job="work")
    ahead.run("s")
    ahead.engine.turn()
    assert come(ahead) == 10
    assert len(ahead.runs.list(schedule="s")) == 1
    ahead.end("s")
    ahead.clock.advance_to(SLOT)
    ahead.engine.turn()
    assert lines(ahead, "s") == ["manual succeeded", "08:05 running"]


def test_a_run_that_does_not_end_is_in_the_way_at_the_slot(ahead: Any, lines: Lines) -> None:
    """C9"""
    ahead.add("s", when=EVERY_5, job="work")
    ahead.run("s")
    ahead.engine.turn()
    come(ahead)
    ahead.clock.advance_to(SLOT)
    ahead.engine.turn()
    assert lines(ahead, "s") == ["manual running", "08:05 skipped already_running"]


@pytest.mark.parametrize(
    ("windows", "before", "at_slot"), [("08:05-09:00", [], "skipped"), ("08:00-08:05", ["running"], "running")]
)
def test_quiet_hours_are_those_of_the_slot(ahead: Any, windows: str, before: list[str], at_slot: str) -> None:
    """B5: not those of the moment at which it is planned"""
    ahead.quiet_hours.set("quiet", windows=windows, mode="skip")
    ahead.add("s", when=EVERY_5, job="work", quiet_hours="quiet")
    come(ahead)
    assert [run.state for run in ahead.runs.list(schedule="s")] == before
    ahead.clock.advance_to(SLOT)
    ahead.engine.turn()
    assert [run.state for run in ahead.runs.list(schedule="s")] == [at_slot]


def test_an_agent_and_a_message_wait_as_ready_runs(ahead: Any) -> None:
    """S5: only jobs are claimed ahead, since only their threads wait"""
    ahead.add("message", when=EVERY_5, job="message", payload={"text": "hello"})
    ahead.agents.set("x", runner="demo")
    ahead.add("agent", when=EVERY_5, agent="x", prompt="hello")
    assert come(ahead) == 10
    assert {run.state for run in ahead.runs.list()} == {"ready"}
    assert ahead.engine.turn() == 10
    ahead.clock.advance_to(SLOT)
    ahead.settle()
    (message,) = ahead.runs.list(schedule="message")
    assert (message.state, message.started_at) == ("succeeded", message.slot)
    assert ahead.stage.names() == ["agent"]


def test_permits_are_taken_ahead_too(ahead: Any) -> None:
    """H10: who gets none waits for it"""
    ahead.limits.set("global", size=1)
    ahead.add_many([{"name": name, "when": EVERY_5, "job": "work"} for name in "ab"])
    come(ahead)
    (first,) = ahead.stage.on.values()
    assert first.started_at == SLOT
    ahead.clock.advance_to(SLOT)
    ahead.settle()
    assert len(ahead.stage.on) == 1
    ahead.end(first.compiled.name)
    assert ahead.stage.names() == sorted({"a", "b"} - {first.compiled.name})


def test_money_is_reserved_ahead_too(ahead: Any) -> None:
    """B6"""
    ahead.budgets.set("all", max_cost="$5", period="day")
    ahead.add_many([{"name": name, "when": EVERY_5, "job": "work", "max_cost": "$3"} for name in "ab"])
    come(ahead)
    (first,) = ahead.stage.on.values()
    assert first.started_at == SLOT
    ahead.clock.advance_to(SLOT)
    ahead.settle()
    other = ({"a", "b"} - {first.compiled.name}).pop()
    assert [(run.state, run.reason) for run in ahead.runs.list(schedule=other)] == [("over_budget", "over_budget")]


def test_who_must_be_asked_is_asked_at_the_slot(ahead: Any) -> None:
    """B4 C10: a check, a person"""
    ahead.add("checked", when=EVERY_5, job="work", pre_check="true")
    ahead.add("approved", when=EVERY_5, job="work", approval="owner_approve")
    come(ahead)
    assert {run.state for run in ahead.runs.list()} == {"ready"}
    assert not ahead.approvals.list()
    ahead.clock.advance_to(SLOT)
    ahead.settle()
    assert ahead.stage.names() == ["checked"]
    assert [approval.schedule for approval in ahead.approvals.list()] == ["approved"]


def test_a_retry_that_is_due_with_a_slot_starts_at_its_instant(ahead: Any) -> None:
    """B7"""
    ahead.add("failing", when="0 * * * *", job="work", retries=1, retry_delay="5m")
    ahead.run("failing")
    ahead.engine.turn()
    ahead.end("failing", error="no luck")
    (run,) = ahead.runs.list(schedule="failing")
    assert run.not_before is not None
    ahead.add("other", when=str(iso(run.not_before)), job="work")
    ahead.clock.advance_to(instant(run.not_before) - 10)
    ahead.engine.turn()
    assert ahead.stage.names() == ["failing", "other"]
    assert {attempt.started_at for attempt in ahead.stage.on.values()} == {instant(run.not_before)}


def test_jitter_counts(ahead: Any) -> None:
    """H3: a jittered slot starts at its own instant, though the slot itself has passed"""
    ahead.add("s", when=EVERY_5, job="work", jitter=10)
    with ahead._store.reading() as transaction:
        at = transaction.next_due()
    assert at is not None
    assert at > SLOT
    ahead.clock.advance_to(at - 10)
    ahead.engine.turn()
    (attempt,) = ahead.stage.on.values()
    assert (attempt.slot, attempt.started_at) == (SLOT, at)


@pytest.mark.parametrize("road", ["plan", "next_if_on_time", "due_at"])
def test_a_schedule_that_raises_is_left_for_its_slot(ahead: Any, road: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H2"""
    ahead.add("s", when=EVERY_5, job="work", max_executions=5 if road == "plan" else None)
    ahead.engine.turn()

    def explode(*arguments: Any) -> None:
        raise ZeroDivisionError("no luck")

    with monkeypatch.context() as patched:
        patched.setattr(Timetable, road, explode)
        come(ahead)
    assert ahead.get("s").state == "active"
    ahead.clock.advance_to(SLOT)
    ahead.engine.turn()
    assert ahead.stage.names() == ["s"]


def test_a_pause_withdraws_what_is_not_claimed(ahead: Any) -> None:
    """P8: a ready run waits"""
    ahead.add("s", when=EVERY_5, job="work", pre_check="true")
    come(ahead)
    ahead.pause("s")
    ahead.clock.advance_to(SLOT)
    ahead.settle()
    assert not ahead.stage.on


class Waiting(InlineExecutor):
    """Ends each attempt at the instant at which it starts."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.waiting: list[Attempt] = []

    def submit(self, batch: list[Attempt]) -> None:
        self.waiting += batch

    def drain(self) -> list[AttemptEnd]:
        now = self.now_ms()
        come = [attempt for attempt in self.waiting if attempt.started_at <= now]
        self.waiting = [attempt for attempt in self.waiting if attempt.started_at > now]
        return [AttemptEnd(attempt, DONE) for attempt in come]

    def running(self) -> int:
        return sum(attempt.started_at <= self.now_ms() for attempt in self.waiting)

    def marks(self) -> set[Mark]:
        return {attempt.mark for attempt in self.waiting}


def records(seed: int, lead_ms: int) -> tuple[list[tuple[Any, ...]], int]:
    """The runs of two hours, without their numbers, and how many were created before their instants."""
    bench = Sandbox(clock=ManualClock(START))
    bench.executor = bench.engine.executor = Waiting(bench.jobs, bench.clock, lambda: None, bench._loader, threads=1)
    bench.engine.lead_ms = lead_ms
    early: list[int] = []
    insert = bench.engine.planner._insert

    def counted(transaction: Any, plans: list[Any], now: int, *others: Any) -> list[Attempt]:
        early.extend(plan.at for plan in plans if plan.at > now)
        return insert(transaction, plans, now, *others)

    bench.engine.planner._insert = counted  # type: ignore[method-assign]
    for job in ("work", "result", "fail", "sometimes"):
        bench.job(job)(lambda run: None)
    bench.add_many(definitions(Random(seed)))
    end = bench.clock.now_ms() + 7_200_000
    while bench.clock.now_ms() < end:
        bench.settle()
        wait = bench._until_next() or 0
        for left in (MAX_LEAD_MS, 0):  # with and without a lead, turns at the same instants
            bench.clock.advance(max(0 if left else 1, min(wait, end - bench.clock.now_ms()) - left))
            bench.settle()
            wait = left
    with bench._store.reading() as transaction:
        rows = transaction._connection.execute(  # type: ignore[attr-defined]
            "SELECT schedule_id, slot, slots, state, reason, attempt, planned_at, started_at, ended_at, not_before"
            " FROM runs ORDER BY schedule_id, slot"
        ).fetchall()
    assert bench.audit.verify().problems == []
    bench.close()
    return rows, len(early)


@pytest.mark.parametrize("seed", range(4))
def test_the_records_are_those_of_an_engine_that_does_not_plan_ahead(seed: int) -> None:
    """E1"""
    rows, early = records(seed, MAX_LEAD_MS)
    assert early > 50
    assert rows == records(seed, 0)[0]
