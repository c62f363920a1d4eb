"""What is recorded for one schedule whose time has come."""

from __future__ import annotations

from typing import Any

import pytest

from matins.engine.gates import Facts
from matins.engine.planning import Plan, PlannedRun, Timetable
from matins.engine.schedules import parse_schedule
from matins.model.run import RunState
from matins.testing import instant

MINUTE, HOUR = 60_000, 3_600_000
NINE = instant("2026-03-27T09:00:00Z")
READY, QUEUED, SKIPPED, MISSED = RunState.READY, RunState.QUEUED, RunState.SKIPPED, RunState.MISSED


def rule(when: str = "*/5 * * * *", **words: Any) -> Timetable:
    return Timetable(*parse_schedule(when, {"job": "job", **words}, NINE))


def planned(
    rule: Timetable, late: int = 0, *, used: int = 0, executions: int = 0, live: Any = (), full: bool = False
) -> Plan:
    return rule.plan(1, NINE, used, executions, Facts(live, full), NINE + late)


def test_on_time() -> None:
    """B1"""
    following = NINE + 5 * MINUTE
    assert planned(rule()) == Plan([PlannedRun(NINE, None, 1, READY)], following, following, 0, 1)


def test_the_quick_way_and_the_long_way_agree() -> None:
    """B1: `max_executions` takes the long way"""
    assert planned(rule(max_executions=1_000)) == planned(rule())
    assert planned(rule(max_executions=1_000), live=[(7, RunState.RUNNING)]) == planned(
        rule(), live=[(7, RunState.RUNNING)]
    )
    for late in (1, 2 * MINUTE, 3 * MINUTE, 5 * MINUTE, HOUR):
        assert planned(rule(max_executions=1_000), late) == planned(rule(), late), late


def test_a_skipped_slot_is_a_record_and_the_cursor_moves() -> None:
    """B1 C9"""
    plan = planned(rule(), live=[(7, RunState.RUNNING)])
    assert plan.runs == [PlannedRun(NINE, None, 1, SKIPPED, "already_running", {"run": "7", "state": "running"})]
    assert (plan.next_slot, plan.executions) == (NINE + 5 * MINUTE, 0)


def test_missed_slots_come_before_the_run() -> None:
    """S4"""
    plan = planned(rule(), 10 * MINUTE)
    assert [(birth.slot, birth.state) for birth in plan.runs] == [
        (NINE, MISSED),
        (NINE + 5 * MINUTE, MISSED),
        (NINE + 10 * MINUTE, READY),
    ]


def test_run_once_says_what_it_covers() -> None:
    """S4"""
    plan = planned(rule(catch_up="run_once"), HOUR)
    assert plan.runs == [PlannedRun(NINE + HOUR, NINE, 13, READY)]


def test_run_all_capped_queues_behind_its_first() -> None:
    """S4"""
    plan = planned(rule(catch_up="run_all_capped", catch_up_limit=2), 20 * MINUTE)
    assert [(birth.slot, birth.state) for birth in plan.runs] == [
        (NINE, MISSED),
        (NINE + 5 * MINUTE, MISSED),
        (NINE + 10 * MINUTE, READY),
        (NINE + 15 * MINUTE, QUEUED),
        (NINE + 20 * MINUTE, QUEUED),
    ]
    allowed = planned(rule(catch_up="run_all_capped", catch_up_limit=2, overlap="allow"), 20 * MINUTE)
    assert [birth.state for birth in allowed.runs[2:]] == [READY] * 3


def test_max_executions_counts_what_runs_and_then_there_is_no_next() -> None:
    """V5"""
    last = planned(rule(max_executions=3), executions=2)
    assert (last.executions, last.next_slot, last.due_at) == (3, None, None)
    skipped = planned(rule(max_executions=3), executions=2, live=[(7, RunState.RUNNING)])
    assert (skipped.executions, skipped.next_slot) == (2, NINE + 5 * MINUTE)


def test_max_executions_ends_a_catch_up_too() -> None:
    """V5 S4"""
    plan = planned(rule(max_executions=1, catch_up="run_all_capped"), 10 * MINUTE)
    assert [birth.state for birth in plan.runs] == [READY, SKIPPED, SKIPPED]
    assert plan.runs[1].reason == "max_executions"
    assert plan.next_slot is None


def test_cancel_other_leaves_nothing_of_the_same_step_to_cancel() -> None:
    """B8"""
    plan = planned(rule(overlap="cancel_other"), live=[(7, RunState.RUNNING)])
    assert plan.cancel == (7,)
    assert [birth.state for birth in plan.runs] == [QUEUED]


def test_at_capacity_skip() -> None:
    """H10"""
    assert planned(rule(at_capacity="skip"), full=True).runs[0].reason == "at_capacity"
    assert planned(rule(), full=True).runs[0].state is READY


def test_an_interval_waits_for_its_completion() -> None:
    """H3"""
    plan = planned(rule("5m"))
    assert (plan.runs[0].state, plan.next_slot, plan.due_at) == (READY, NINE + 5 * MINUTE, None)


@pytest.mark.parametrize("anchor", ["start", "grid"])
def test_other_anchors_do_not_wait(anchor: str) -> None:
    """H3"""
    assert planned(rule("5m", anchor=anchor)).due_at == NINE + 5 * MINUTE


def test_an_interval_that_was_skipped_or_missed_does_not_wait() -> None:
    """H3: there is no completion to wait for"""
    assert planned(rule("5m"), live=[(7, RunState.RUNNING)]).due_at == NINE + 5 * MINUTE
    assert planned(rule("5m"), HOUR).due_at == NINE + HOUR + 5 * MINUTE


@pytest.mark.parametrize(
    ("slot", "ended", "following"), [(NINE, NINE + 1, 1), (NINE, NINE - 1_000, 0), (None, NINE, 0)]
)
def test_the_next_slot_counts_from_the_end_and_is_after_the_slot(slot: int | None, ended: int, following: int) -> None:
    """H3"""
    assert rule("5m").after_completion(1, slot, ended) == (NINE + following + 5 * MINUTE,) * 2


def test_jitter_moves_the_due_time_and_not_the_slot() -> None:
    """B8 H3"""
    jittered = rule("0 * * * *", jitter=10)
    plan = planned(jittered)
    assert plan.next_slot == NINE + HOUR
    assert plan.due_at == jittered.due_at(1, NINE + HOUR)
    delays = {(jittered.due_at(schedule, NINE) or 0) - NINE for schedule in range(200)}
    assert 0 <= min(delays) < max(delays) <= 6 * MINUTE
    assert len(delays) > 150
