"""Slots that nobody was there for, and that quiet hours would have skipped anyway: nobody makes up for them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from zoneinfo import available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trigger_calls import counted

from matins.engine.catch_up import MAX_RANGES, MAX_RECORDS, CatchUpPlan, SlotGroup, SlotRange, plan_catch_up
from matins.engine.gates import Facts
from matins.engine.planning import Plan, Timetable
from matins.engine.policies import Policies
from matins.engine.quiet_hours import QuietHours, last_change_at, parse_windows, quiet_until
from matins.engine.schedules import parse_schedule
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import Trigger
from matins.model.run import RunState
from matins.testing import instant

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NINE = instant("2026-03-27T09:00:00Z")
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", *sorted(available_timezones()))
RUNS = ("skip", "run_once", "run_all_capped")


def quiet(*windows: str, timezone: str = "UTC", mode: Any = "skip") -> QuietHours:
    return QuietHours("naps", parse_windows(list(windows)), timezone, mode)


def clock(text: str, day: int = 27) -> int:
    return instant(f"2026-03-{day}T{text}:00Z")


def one(*texts: str) -> list[SlotRange]:
    return [SlotRange(clock(text), clock(text), 1) for text in texts]


def decided(catch_up: str, now: str, *windows: str, when: str = "0 * * * *", **words: Any) -> CatchUpPlan:
    """What is decided of the slots from nine o'clock on."""
    definition, trigger = parse_schedule(when, {"job": "job", "catch_up": catch_up, **words}, NINE)
    return plan_catch_up(definition, trigger, NINE, clock(now), 0, quiet(*windows))


# -- since when


@settings(max_examples=200)
@given(
    windows=st.lists(
        st.sampled_from(["22:00-07:00", "02:00-03:00", "01:30-02:30", "sat,sun 00:00-24:00", "mon 12:00-12:01"]),
        min_size=1,
        max_size=3,
    ),
    zone=st.sampled_from(ZONES),
    at=st.integers(instant("2025-12-28T00:00:00Z"), instant("2027-01-03T00:00:00Z")),
)
def test_unchanged_since(windows: list[str], zone: str, at: int) -> None:
    """S3: on every wall clock, also over its changes"""
    policy = quiet(*windows, timezone=zone)
    is_quiet = quiet_until(policy, at) is not None
    since = last_change_at(policy, at)
    assert since <= at
    assert all((quiet_until(policy, moment) is not None) is is_quiet for moment in range(since, at, MINUTE))
    assert (quiet_until(policy, since - 1) is not None) is not is_quiet


@pytest.mark.parametrize(
    ("at", "since"),
    [
        ("2026-03-29T04:59:59Z", "2026-03-28T21:00:00Z"),  # the night in which an hour is missing
        ("2026-03-29T01:10:00Z", "2026-03-28T21:00:00Z"),
        ("2026-10-25T05:30:00Z", "2026-10-24T20:00:00Z"),
        ("2026-03-29T05:00:00Z", "2026-03-29T05:00:00Z"),
    ],
)
def test_the_night_when_the_clocks_change(at: str, since: str) -> None:
    """S3"""
    assert last_change_at(quiet("22:00-07:00", timezone="Europe/Berlin"), instant(at)) == instant(since)


def test_a_change_of_the_clocks_begins_and_ends_quiet_hours() -> None:
    """S3: from 01:59 to 03:00 on the wall; what ends at 02:30 ends with the jump"""
    inside = quiet("01:30-02:30", timezone="Europe/Berlin")
    jump = instant("2026-03-29T01:00:00Z")
    assert quiet_until(inside, jump - 1) == jump
    assert last_change_at(inside, jump + HOUR) == jump
    after = quiet("02:30-04:00", timezone="Europe/Berlin")
    assert last_change_at(after, jump + 10 * MINUTE) == jump


# -- which slots


def test_skip_tells_what_was_quiet_from_what_was_missed() -> None:
    """S3 S4 B1"""
    found = decided("skip", "13:40", "10:30-12:30")
    assert found.missed == one("09:00", "10:00", "13:00")
    assert found.skipped == tuple(SlotGroup(slot, clock("12:30")) for slot in one("11:00", "12:00"))
    assert (found.late, found.on_time, found.next_slot) == ([], None, clock("14:00"))


def test_run_once_makes_up_for_a_window_of_which_a_part_was_not_quiet() -> None:
    """S4: as ever, it stands for all of it"""
    found = decided("run_once", "12:40", "10:30-12:30")
    assert found == CatchUpPlan([], [SlotRange(clock("12:00"), NINE, 4)], None, clock("13:00"), 0)
    with_the_present = decided("run_once", "13:10", "10:30-12:30")
    assert with_the_present == CatchUpPlan([], [SlotRange(clock("13:00"), NINE, 5)], None, clock("14:00"), 0)


def test_run_once_makes_up_for_nothing_where_all_was_quiet() -> None:
    """S3 S4: what is due now runs for itself alone"""
    found = decided("run_once", "12:40", "08:30-12:30")
    assert [part.slot_range for part in found.skipped] == one("09:00", "10:00", "11:00", "12:00")
    assert (found.missed, found.late, found.on_time) == ([], [], None)
    assert decided("run_once", "13:10", "08:30-12:30") == found._replace(
        on_time=clock("13:00"), next_slot=clock("14:00")
    )


def test_the_cap_is_for_slots_that_were_not_quiet() -> None:
    """S3 S4"""
    found = decided("run_all_capped", "13:40", "10:30-12:30", catch_up_limit=2)
    assert found.late == one("10:00", "13:00")
    assert found.missed == one("09:00")
    assert [part.slot_range for part in found.skipped] == one("11:00", "12:00")
    assert found.window_used == 2


@pytest.mark.parametrize("catch_up", RUNS)
@pytest.mark.parametrize("anchor", ["start", "completion"])
def test_an_elapsed_interval_that_came_due_in_quiet_hours(catch_up: str, anchor: str) -> None:
    """H3 S3: its one slot is skipped, and it goes on from now"""
    found = decided(catch_up, "13:00", "08:30-12:30", when="1h", anchor=anchor)
    assert found == CatchUpPlan([], [], None, clock("14:00"), 0, (SlotGroup(*one("09:00"), clock("12:30")),))
    awake = decided(catch_up, "13:00", "10:30-12:30", when="1h", anchor=anchor)
    assert awake == plan_catch_up(
        *parse_schedule("1h", {"job": "job", "catch_up": catch_up, "anchor": anchor}, NINE), NINE, clock("13:00")
    )


@pytest.mark.parametrize("catch_up", RUNS)
def test_a_year_down_is_a_leap_a_night_and_not_a_walk(catch_up: str) -> None:
    """B1 S4: the newest nights and days have a range each, and one is for all before"""
    definition, trigger = parse_schedule(
        "* * * * *", {"job": "job", "catch_up": catch_up, "timezone": "Europe/Berlin"}, NINE
    )
    calls = counted(trigger)
    now = NINE + 365 * DAY_MS + 31 * SECOND
    nights = quiet("22:00-07:00", timezone="Europe/Berlin")
    found = plan_catch_up(definition, trigger, NINE, now, 0, nights)
    assert calls.total() <= 5 * MAX_RANGES
    parts = [part.slot_range for part in found.skipped]
    records = sorted([*found.missed, *found.late, *parts], key=lambda record: record.first)
    assert len(records) <= MAX_RANGES + 1 + len(found.late)
    assert sum(record.slots for record in records) == 365 * 1_440 + 1
    assert all(trigger.next_ms(before.slot) == after.first for before, after in pairwise(records))
    assert len(parts) == (0 if catch_up == "run_once" else MAX_RANGES // 2)
    assert all(quiet_until(nights, part.first) and quiet_until(nights, part.slot) for part in parts)
    assert {part.slots for part in parts} <= {540, 480, 600}


def test_ranges_and_runs_do_not_intersect() -> None:
    """B1 S4: days that are made up for as a whole, one of which only its end is, and nights between them"""
    definition, trigger = parse_schedule(
        "0 * * * *", {"job": "job", "catch_up": "run_all_capped", "catch_up_limit": 40}, NINE
    )
    found = plan_catch_up(definition, trigger, NINE, NINE + 60 * DAY_MS + 31 * MINUTE, 0, quiet("22:00-07:00"))
    records = [*found.missed, *found.late, *(part.slot_range for part in found.skipped)]
    records.sort(key=lambda record: record.first)
    assert [len(found.late), len(found.missed), len(found.skipped)] == [40, 58, 60]
    assert all(trigger.next_ms(before.slot) == after.first for before, after in pairwise(records))
    assert all(record.slots == trigger.count(record.first, record.slot + 1) for record in records)
    assert sum(record.slots for record in records) == 60 * 24 + 1


@pytest.mark.parametrize("catch_up", RUNS)
def test_beyond_the_newest_ranges_nobody_looks_for_a_slot_to_make_up_for(catch_up: str) -> None:
    """B1 S4: hundreds of short naps, and each slot of the hour in one"""
    definition, trigger = parse_schedule("0,1 * * * *", {"job": "job", "catch_up": catch_up}, NINE)
    naps = quiet(*(f"{hour:02}:00-{hour:02}:15" for hour in range(24)))
    found = plan_catch_up(definition, trigger, NINE, NINE + 30 * DAY_MS + 30 * MINUTE, 0, naps)
    assert (found.late, len(found.skipped)) == ([], MAX_RANGES)
    slots = 2 * (30 * 24 + 1)
    assert found.missed == [SlotRange(found.skipped[0].slot_range.first - HOUR + MINUTE, NINE, slots - 2 * MAX_RANGES)]


@settings(max_examples=300)
@given(
    when=st.sampled_from(["*/7 * * * *", "0 * * * *", "0 23 * * *", "0,1,30 8-10 * * *", "every 45 minutes"]),
    windows=st.lists(
        st.sampled_from(["22:00-07:00", "09:00-09:30", "fri 10:00-10:01", "sat,sun 00:00-24:00"]), min_size=1
    ),
    catch_up=st.sampled_from(RUNS),
    cap=st.integers(1, 20),
    used=st.integers(0, 25),
    late=st.integers(0, 4 * DAY_MS),
)
def test_every_slot_has_exactly_one_record(
    when: str, windows: list[str], catch_up: str, cap: int, used: int, late: int
) -> None:
    """B1 S3 S4: what was quiet is told so and runs never; the newest of the others run"""
    anchor = {"anchor": "grid"} if when.startswith("every") else {}
    definition, trigger = parse_schedule(
        when, {"job": "job", "catch_up": catch_up, "catch_up_limit": cap, **anchor}, NINE
    )
    policy = quiet(*windows, timezone="Europe/Berlin")
    cursor = trigger.next_ms(NINE - 1)
    assert cursor is not None
    found = plan_catch_up(definition, trigger, cursor, cursor + late, used, policy)
    due = walk(trigger, cursor, cursor + late)
    awake = [slot for slot in due if slot != found.on_time and quiet_until(policy, slot) is None]
    if found.late and catch_up == "run_once":
        (run,) = found.late
        assert (run.first, run.slot, run.slots) == (due[0], due[-1], len(due))
        assert any(quiet_until(policy, slot) is None for slot in due)
        assert not found.missed
        assert not found.skipped
        return
    runs = [covered.slot for covered in found.late]
    missed = [covered.slot for covered in found.missed]
    skipped = [part.slot_range.slot for part in found.skipped]
    assert len(due) <= MAX_RECORDS
    assert skipped == [slot for slot in due if slot != found.on_time and slot not in awake]
    assert missed + runs == awake
    assert len(runs) == (min(max(0, cap - used), len(awake)) if catch_up == "run_all_capped" else 0)
    assert catch_up != "run_once" or not awake
    assert all(part.until == quiet_until(policy, part.slot_range.slot) for part in found.skipped)


def walk(trigger: Trigger, first: int, last: int) -> list[int]:
    found: list[int] = []
    slot: int | None = first
    while slot is not None and slot <= last:
        found.append(slot)
        slot = trigger.next_ms(slot)
    return found


# -- what is planned


def planned(now: str, *windows: str, mode: str = "skip", when: str = "0 * * * *", **words: Any) -> Plan:
    rule = Timetable(*parse_schedule(when, {"job": "job", "quiet_hours": "naps", **words}, NINE))
    policies = Policies(quiet_hours={"naps": quiet(*windows, mode=mode)})
    return rule.plan(1, NINE, 0, 0, Facts(policies=policies), clock(now))


def states(plan: Plan) -> list[tuple[int | None, RunState, str | None]]:
    return [(birth.slot, birth.state, birth.reason) for birth in plan.runs]


def test_records_come_in_the_order_of_their_slots() -> None:
    """B1 S3: with the same evidence as if somebody had been there"""
    plan = planned("13:10", "09:30-10:30", catch_up="run_all_capped", catch_up_limit=1)
    assert states(plan) == [
        (clock("09:00"), RunState.MISSED, "missed"),
        (clock("10:00"), RunState.SKIPPED, "quiet_hours"),
        (clock("11:00"), RunState.MISSED, "missed"),
        (clock("12:00"), RunState.READY, None),
        (clock("13:00"), RunState.QUEUED, "waiting_for"),
    ]
    assert plan.runs[1].evidence == {"policy": "naps", "until": clock("10:30")}
    assert plan.executions == 2


@pytest.mark.parametrize("words", [{}, {"max_executions": 9}])
def test_a_slot_that_was_due_in_quiet_hours_is_skipped_however_late_somebody_looks(words: dict[str, Any]) -> None:
    """S3: within its grace too, the quick way and the long way"""
    plan = planned("09:20", "08:30-09:10", **words)
    assert states(plan) == [(NINE, RunState.SKIPPED, "quiet_hours")]
    assert plan.runs[0].evidence == {"policy": "naps", "until": clock("09:10")}
    assert states(planned("09:20", "08:30-09:00", **words)) == [(NINE, RunState.READY, None)]


def test_jitter_leads_out_of_quiet_hours_and_into_them() -> None:
    """S3 B8: a slot is due when its jitter is over"""
    words: dict[str, Any] = {"when": "0 9,15 * * *", "jitter": 10}
    due = Timetable(*parse_schedule("0 9,15 * * *", {"job": "job", "jitter": 10}, NINE)).due_at(1, NINE)
    assert due is not None
    assert clock("09:02") < due < clock("09:36")
    minute = f"09:{(due - NINE) // MINUTE:02}"
    assert states(planned("09:55", f"08:30-{minute}", **words)) == [(NINE, RunState.READY, None)]
    assert states(planned("09:55", f"{minute}-09:50", **words)) == [(NINE, RunState.SKIPPED, "quiet_hours")]
    ahead_of_it = planned("09:01", f"{minute}-09:50", **words)
    assert states(ahead_of_it) == [(NINE, RunState.READY, None)]


@pytest.mark.parametrize(("mode", "when"), [("defer", "0 * * * *"), ("skip", "2026-03-27T09:00:00Z")])
def test_what_would_have_been_put_off_is_made_up_for(mode: str, when: str) -> None:
    """S3 S4: hours that defer, and one-shots"""
    plan = planned("12:40", "08:30-12:30", mode=mode, when=when, catch_up="run_once", grace="1m")
    (birth,) = plan.runs
    assert (birth.state, birth.slots) == (RunState.READY, 1 if when.endswith("Z") else 4)
