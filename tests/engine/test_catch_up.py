"""Catch-up as a pure function: which slots run, which are missed, where the cursor goes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trigger_calls import counted

from matins.engine.catch_up import MAX_RECORDS, CatchUpPlan, SlotRange, grace_of, plan_catch_up
from matins.engine.schedules import parse_schedule
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import Trigger
from matins.model.schedule import ScheduleDefinition
from matins.testing import instant

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NINE = instant("2026-03-27T09:00:00Z")


def defined(when: str = "* * * * *", **words: Any) -> tuple[ScheduleDefinition, Trigger]:
    return parse_schedule(when, {"job": "job", **words}, NINE)


def decided(late: int, when: str = "* * * * *", used: int = 0, **words: Any) -> CatchUpPlan:
    """What is decided when the slot of nine o'clock is looked at this late."""
    definition, trigger = defined(when, **words)
    return plan_catch_up(definition, trigger, NINE, NINE + late, used)


def slots(first: int, last: int, step: int = MINUTE) -> list[SlotRange]:
    return [SlotRange(slot, slot, 1) for slot in range(NINE + first, NINE + last + 1, step)]


def test_on_time() -> None:
    """B1 S4"""
    assert decided(0) == CatchUpPlan([], [], NINE, NINE + MINUTE, 0)


@pytest.mark.parametrize("policy", ["skip", "run_once", "run_all_capped"])
def test_a_slot_within_its_grace_is_on_time_under_every_policy(policy: str) -> None:
    """S4"""
    assert decided(30 * SECOND, catch_up=policy) == CatchUpPlan([], [], NINE, NINE + MINUTE, 0)


def test_skip_leaves_one_record_a_slot_and_runs_what_is_due_now() -> None:
    """S4: one `schedule.missed` per slot"""
    assert decided(5 * MINUTE, catch_up="skip") == CatchUpPlan(
        slots(0, 4 * MINUTE), [], NINE + 5 * MINUTE, NINE + 6 * MINUTE, 0
    )


def test_skip_beyond_the_last_slots_grace_runs_nothing() -> None:
    """S4"""
    assert decided(5 * MINUTE + 31 * SECOND) == CatchUpPlan(slots(0, 5 * MINUTE), [], None, NINE + 6 * MINUTE, 0)


def test_run_once_is_one_run_for_the_window_and_the_slot_that_is_due_now() -> None:
    """S4: the slot count is in the record"""
    on_time = decided(5 * MINUTE, catch_up="run_once")
    assert on_time == CatchUpPlan([], [SlotRange(NINE + 5 * MINUTE, NINE, 6)], None, NINE + 6 * MINUTE, 0)
    between = decided(5 * MINUTE + 31 * SECOND, catch_up="run_once")
    assert between == CatchUpPlan([], [SlotRange(NINE + 5 * MINUTE, NINE, 6)], None, NINE + 6 * MINUTE, 0)


def test_run_all_capped_runs_the_newest_of_the_window_oldest_first() -> None:
    """S4: N per missed window"""
    found = decided(5 * MINUTE + 31 * SECOND, catch_up="run_all_capped", catch_up_limit=3)
    assert found.missed == slots(0, 2 * MINUTE)
    assert found.late == slots(3 * MINUTE, 5 * MINUTE)
    assert (found.on_time, found.next_slot, found.window_used) == (None, NINE + 6 * MINUTE, 3)


def test_the_cap_is_for_what_was_missed_and_not_for_what_is_due_now() -> None:
    """S4"""
    found = decided(5 * MINUTE, catch_up="run_all_capped", catch_up_limit=2)
    assert found.late == slots(3 * MINUTE, 4 * MINUTE)
    assert (found.on_time, found.window_used) == (NINE + 5 * MINUTE, 0)


@pytest.mark.parametrize(("used", "granted"), [(0, 3), (1, 2), (3, 0), (7, 0)])
def test_what_a_window_has_used_counts_until_a_slot_is_on_time(used: int, granted: int) -> None:
    """S4: not per tick"""
    found = decided(5 * MINUTE + 31 * SECOND, used=used, catch_up="run_all_capped", catch_up_limit=3)
    assert len(found.late) == granted
    assert found.window_used == max(used, 3)


@pytest.mark.parametrize(
    ("when", "grace"),
    [
        ("* * * * *", 30 * SECOND),
        ("0 * * * *", 30 * MINUTE),
        ("0 9 * * *", 2 * HOUR),
        ("10m", 5 * MINUTE),
        ("30d", 2 * HOUR),
        ("2026-03-27T09:00:00Z", DAY_MS),
    ],
)
def test_grace_by_default_is_half_a_period_two_hours_at_most_and_a_day_for_one_shots(when: str, grace: int) -> None:
    """S4"""
    assert decided(grace, when).on_time == NINE
    assert decided(grace + 1, when).on_time is None
    assert decided(grace + 1, when).missed[0] == SlotRange(NINE, NINE, 1)


def test_grace_can_be_said() -> None:
    """C12: more than a minute overdue is missed"""
    assert decided(MINUTE, "2026-03-27T09:00:00Z", grace="1m").on_time == NINE
    assert decided(MINUTE + 1, "2026-03-27T09:00:00Z", grace="1m").missed == [SlotRange(NINE, NINE, 1)]


def test_what_jitter_adds_is_not_late() -> None:
    """B8"""
    definition, _ = defined("0 * * * *", grace="1s", jitter=10)
    assert grace_of(definition, NINE, NINE + HOUR) == SECOND + 6 * MINUTE


@pytest.mark.parametrize("late", [10 * MINUTE, 20 * MINUTE, 70 * HOUR])
def test_an_elapsed_interval_misses_one_slot_and_goes_on_from_now(late: int) -> None:
    """H3"""
    found = decided(late, "10m")
    assert found == CatchUpPlan([SlotRange(NINE, NINE, 1)], [], None, NINE + late + 10 * MINUTE, 0)
    once = decided(late, "10m", catch_up="run_once")
    assert once.late == [SlotRange(NINE, NINE, 1)]


def test_the_last_slot_of_all_leaves_no_cursor() -> None:
    """S4"""
    assert decided(0, "2026-03-27T09:00:00Z").next_slot is None
    assert decided(2 * DAY_MS, "2026-03-27T09:00:00Z", catch_up="run_once").late == [SlotRange(NINE, NINE, 1)]


@pytest.mark.parametrize(
    ("policy", "runs", "missed", "most_calls"),
    [("skip", 0, 1, 10), ("run_once", 1, 0, 10), ("run_all_capped", 10, 1, 25)],
)
def test_a_month_down_is_arithmetic_and_one_range(policy: str, runs: int, missed: int, most_calls: int) -> None:
    """S4 B1 S8"""
    definition, trigger = defined(catch_up=policy)
    calls = counted(trigger)
    found = plan_catch_up(definition, trigger, NINE, NINE + 30 * DAY_MS + 31 * SECOND)
    assert (len(found.late), len(found.missed)) == (runs, missed)
    assert sum(covered.slots for covered in found.missed + found.late) == 43_201
    assert calls.total() <= most_calls
    assert found.next_slot == NINE + 30 * DAY_MS + MINUTE


@pytest.mark.parametrize(("slots", "records"), [(MAX_RECORDS, MAX_RECORDS), (MAX_RECORDS + 1, 1)])
def test_above_a_thousand_missed_slots_there_is_one_record(slots: int, records: int) -> None:
    """B1"""
    found = decided((slots - 1) * MINUTE + 31 * SECOND)
    assert len(found.missed) == records
    assert sum(covered.slots for covered in found.missed) == slots
    assert found.missed[0].first == NINE
    assert found.missed[-1].slot == NINE + (slots - 1) * MINUTE


WHENS = ["* * * * *", "*/7 * * * *", "0 9 * * *", "0,1,30 8-10 * * *", "RRULE:FREQ=HOURLY;COUNT=9", "every 45 minutes"]


@given(
    when=st.sampled_from(WHENS),
    policy=st.sampled_from(["skip", "run_once", "run_all_capped"]),
    cap=st.integers(1, 20),
    used=st.integers(0, 25),
    late=st.integers(0, 3 * DAY_MS),
    grace=st.sampled_from([None, "1s", "10m", "1d"]),
)
def test_every_slot_has_exactly_one_record(
    when: str, policy: str, cap: int, used: int, late: int, grace: str | None
) -> None:
    """B1: records and ranges never intersect, and none is made up"""
    anchor = {"anchor": "grid"} if when.startswith("every") else {}
    definition, trigger = defined(when, catch_up=policy, catch_up_limit=cap, grace=grace, **anchor)
    cursor = trigger.next_ms(NINE - 1)
    assert cursor is not None
    now = cursor + late
    found = plan_catch_up(definition, trigger, cursor, now, used)
    due = list(walk(trigger, cursor, now))
    on_time = [] if found.on_time is None else [SlotRange(found.on_time, found.on_time, 1)]
    records = [*found.missed, *found.late, *on_time]
    assert [slot for record in records for slot in walk(trigger, record.first, record.slot)] == due
    assert [record.slots for record in records] == [len(list(walk(trigger, r.first, r.slot))) for r in records]
    assert all(one.slot < other.first for one, other in pairwise(records))
    assert found.next_slot == trigger.next_ms(now)
    if policy == "run_all_capped":
        assert len(found.late) <= max(0, cap - used)
    else:
        assert len(found.late) <= (policy == "run_once")


def walk(trigger: Trigger, first: int, last: int) -> list[int]:
    found, slot = [], first
    while slot is not None and slot <= last:
        found.append(slot)
        slot = trigger.next_ms(slot)
    return found
