"""`preview`: the next slots, and what each gate would say of them. What it says comes true."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import every_store
import pytest

import postgres_fixtures
from matins.api.results import Forecast, Run, Slot
from matins.engine.forecast import ForecastStart, count_runs, forecast
from matins.engine.planning import Timetable
from matins.engine.policies import NO_POLICIES
from matins.engine.schedules import parse_schedule
from matins.errors import InvalidInput
from matins.model.access import Principal
from matins.testing import Sandbox, instant, iso

url = postgres_fixtures.url
bench, in_memory, rows = every_store.bench, every_store.in_memory, every_store.rows


def verdicts(seen: Forecast) -> list[tuple[str, str]]:
    return [(slot.local[5:16], slot.verdict) for slot in seen.slots]


# -- what is foreseen comes true

MILLISECOND = timedelta(milliseconds=1)
INTO_THE_NIGHT = {"when": "0 * * * *", "provider": "openai", "quiet_hours": "night"}
WORLD: dict[str, dict[str, Any]] = {
    "plain": {"when": "0 */2 * * *"},
    "skips at night": {"when": "0 * * * *", "quiet_hours": "night"},
    "waits at night": {"when": "0 * * * *", "quiet_hours": "defer"},
    "waits at night, queues": {"when": "0 * * * *", "quiet_hours": "defer", "overlap": "queue"},
    "waits at night, beside": {"when": "30 * * * *", "quiet_hours": "defer", "overlap": "allow"},
    "waits at night, replaces": {"when": "0 */3 * * *", "quiet_hours": "defer", "overlap": "cancel_other"},
    "throttled": {"when": "*/20 * * * *", "provider": "anthropic"},
    "throttled, queues": {"when": "*/20 * * * *", "provider": "anthropic", "overlap": "queue", "queue_limit": 3},
    "throttled, beside": {"when": "*/20 * * * *", "provider": "anthropic", "overlap": "allow"},
    "throttled into the night": INTO_THE_NIGHT,
    "throttled into the night, queues": {**INTO_THE_NIGHT, "overlap": "queue", "queue_limit": 3},
    "throttled into the night, beside": {**INTO_THE_NIGHT, "overlap": "allow"},
    "throttled into the night, three times": {**INTO_THE_NIGHT, "max_executions": 3},
    "throttled, then waits at night": {"when": "0 * * * *", "provider": "openai", "quiet_hours": "defer"},
    "ends": {"when": "0 */6 * * *", "ends_at": "2026-03-28T13:00"},
    "ends at night": {"when": "0 * * * *", "ends_at": "2026-03-28T01:30", "quiet_hours": "defer"},
    "three times": {"when": "0 * * * *", "max_executions": 3},
    "three times, not at night": {"when": "0 */4 * * *", "max_executions": 3, "quiet_hours": "night"},
    "a spread": {"when": "0 * * * *", "jitter": 10, "quiet_hours": "night"},
    "once": {"when": "2026-03-27T23:00:00Z", "quiet_hours": "night"},
    "once, by day": {"when": "2026-03-28T12:00:00Z"},
    "after completion": {"when": "50m", "quiet_hours": "defer"},
    "after completion, skips": {"when": "50m", "quiet_hours": "night"},
    "from the start": {"when": "50m", "anchor": "start", "quiet_hours": "defer"},
    "on a grid": {"when": "50m", "anchor": "grid", "provider": "openai"},
    "the clocks change": {"when": "30 1,2 * * *", "timezone": "Europe/London"},
    "the clocks change, both": {"when": "30 1 * * *", "timezone": "Europe/London", "dst_gap": "skip"},
}


def came_to(run: Run | None, slot: Slot) -> str:
    """What became of a slot, in the words of a preview."""
    if run is None:
        return "nothing"
    if run.state == "succeeded":
        return "runs" if run.started_at == slot.due_at else "later"
    return "coalesced" if run.reason == "coalesced" else run.state


@pytest.mark.parametrize("settings", WORLD.values(), ids=WORLD)
def test_what_is_foreseen_comes_true(in_memory: Sandbox, settings: dict[str, Any]) -> None:
    """B3: slot by slot, under every gate that can be foreseen"""
    bench = in_memory
    bench.quiet_hours.set("night", windows=["22:00-07:00"], timezone="UTC")
    bench.quiet_hours.set("defer", windows=["22:00-07:00"], timezone="UTC", mode="defer")
    bench.throttles.set("anthropic", resets_at=datetime(2026, 3, 27, 10, 0, tzinfo=UTC))
    bench.throttles.set("openai", resets_at=datetime(2026, 3, 27, 23, 15, tzinfo=UTC))
    bench.add("s", job="work", **settings)
    forecast = bench.preview("s", count=60)
    assert forecast.slots
    last = min(forecast.slots[-1].at, datetime(2026, 3, 30, 12, tzinfo=UTC))
    bench.run_until(max(slot.until or slot.due_at for slot in forecast.slots if slot.at <= last) + MILLISECOND)
    found = {run.slot: run for run in bench.runs.list(schedule="s", limit=500)}
    for slot in (slot for slot in forecast.slots if slot.at <= last):
        allowed = {"deferred": ("later",), "queued": ("later", "runs")}.get(slot.verdict, (slot.verdict,))
        assert came_to(found.get(slot.at), slot) in allowed, (iso(slot.at), slot.sentence, found.get(slot.at))
        if slot.verdict == "deferred":
            assert found[slot.at].started_at == slot.until, iso(slot.at)
    assert {slot for slot in found if slot is not None and slot <= last} == {
        s.at for s in forecast.slots if s.at <= last
    }
    if forecast.then is not None:
        assert bench.get("s").next_run_at is None


# -- what a forecast tells


def test_slots_are_told_with_zone_and_clock_change(bench: Sandbox) -> None:
    """B3: local and UTC, and what the clocks did"""
    bench.add("s", when="30 1 * * *", timezone="Europe/London", job="work")
    forecast = bench.preview("s", count=3)
    assert [(slot.local, slot.utc, slot.dst) for slot in forecast.slots] == [
        ("2026-03-28T01:30:00+00:00", "2026-03-28T01:30:00Z", None),
        ("2026-03-29T02:00:00+01:00", "2026-03-29T01:00:00Z", "moved"),
        ("2026-03-30T01:30:00+01:00", "2026-03-30T00:30:00Z", None),
    ]
    assert (forecast.trigger_text, forecast.timezone, forecast.then) == ("every day at 01:30", "Europe/London", None)


def test_each_gate_that_can_be_foreseen_has_its_say(bench: Sandbox) -> None:
    """B3 S3: a weekend off"""
    bench.quiet_hours.set("weekend", windows=["sat,sun 00:00-24:00"], timezone="UTC", mode="defer")
    bench.add("s", when="0 12 * * *", job="work", quiet_hours="weekend", ends_at="2026-03-31T00:00", max_executions=9)
    forecast = bench.preview("s", count=10)
    assert verdicts(forecast) == [
        ("03-27T12:00", "runs"),
        ("03-28T12:00", "deferred"),
        ("03-29T12:00", "coalesced"),
        ("03-30T12:00", "runs"),
        ("03-31T12:00", "skipped"),
    ]
    deferred = forecast.slots[1]
    assert deferred.sentence == 'Will wait: quiet hours "weekend" will be active until 2026-03-30 00:00 UTC.'
    assert deferred.until == datetime(2026, 3, 30, tzinfo=UTC)
    assert [(says.gate, says.passes) for says in deferred.gates] == [
        ("ended", True), ("backing_off", True), ("calendar", True), ("ping", True), ("quiet_hours", False),
        ("overlap", True), ("throttle", True),
    ]  # fmt: skip
    assert deferred.gates[0].sentence == "The schedule ends on 2026-03-31 00:00 UTC; 1 of 9 runs used."
    assert forecast.slots[-1].sentence == "Will be skipped: the end date 2026-03-31 00:00 UTC will be past."
    assert forecast.then == "Then the schedule ends."


def test_the_last_of_a_number(bench: Sandbox) -> None:
    """B3 V5: what was used up counts"""
    bench.add("s", when="0 * * * *", job="work", max_executions=3)
    bench.run_until("2026-03-27T09:30:00Z")
    forecast = bench.preview("s")
    assert verdicts(forecast) == [("03-27T10:00", "runs"), ("03-27T11:00", "runs")]
    assert forecast.then == "Then the schedule has run 3 times, the maximum."
    bench.run_until("2026-03-27T12:00:00Z")
    over = bench.preview("s")
    assert (over.slots, over.then) == ([], "Completed: there is no slot left.")


def test_a_run_that_waits_already_is_seen(bench: Sandbox) -> None:
    """B3 S3: what comes due meanwhile is one with it"""
    bench.quiet_hours.set("night", windows=["22:00-07:00"], timezone="UTC", mode="defer")
    bench.add("s", when="0 */3 * * *", job="work", quiet_hours="night")
    bench.run_until("2026-03-28T01:00:00Z")
    run = bench.runs.list(schedule="s")[0]
    slots = bench.preview("s", count=3).slots
    assert [slot.verdict for slot in slots] == ["coalesced", "coalesced", "runs"]
    assert slots[0].sentence == (
        'Will be skipped: quiet hours "night" will be active until 07:00 UTC; '
        f"run {run.id} of this schedule will still be waiting and covers this slot."
    )


def test_jitter_is_told(bench: Sandbox) -> None:
    """B3 B8"""
    bench.add("s", when="0 * * * *", job="work", jitter=10)
    slot = bench.preview("s", count=1).slots[0]
    assert timedelta(0) < slot.due_at - slot.at < timedelta(minutes=6)
    assert slot.sentence.startswith("Runs at 2026-03-27 09:0")


def test_an_interval_that_counts_from_completion_is_told_so(bench: Sandbox) -> None:
    """B3"""
    bench.add("s", when="30m", job="work")
    first, second = bench.preview("s", count=2).slots
    assert first.sentence == "Runs."
    assert second.sentence == "Runs at the earliest: the interval starts at the end of the previous run."


def test_a_pause_is_seen(bench: Sandbox) -> None:
    """B3 C10: until it is resumed nothing comes; a pause with an end is over by itself"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.pause("s", note="holidays")
    forecast = bench.preview("s", count=2)
    assert verdicts(forecast) == [("03-27T09:00", "paused"), ("03-28T09:00", "paused")]
    assert (forecast.standing, forecast.quote) == ("Paused by owner since 2026-03-27 08:00 UTC.", "holidays")
    bench.pause("s", until=datetime(2026, 3, 29, tzinfo=UTC))
    assert verdicts(bench.preview("s", count=1)) == [("03-29T09:00", "runs")]


def test_a_proposal_is_seen(bench: Sandbox) -> None:
    """B3 B7"""
    bench.acting_as(Principal("agent", "scout")).add("s", when="every day at 9am", job="work")
    forecast = bench.preview("scout/s", count=1)
    assert verdicts(forecast) == [("03-27T09:00", "pending")]
    assert forecast.slots[0].sentence == "Pending: scout proposed the schedule, and it needs approval."


def test_what_is_overdue_is_counted(bench: Sandbox) -> None:
    """B3: and what is within its grace comes first"""
    bench.add("s", when="0 * * * *", job="work")
    bench.clock.advance_to("2026-03-27T11:10:00Z")
    forecast = bench.preview("s", count=2)
    assert forecast.overdue == 2
    assert verdicts(forecast) == [("03-27T11:00", "runs"), ("03-27T12:00", "runs")]


def test_an_interval_that_is_overdue_counts_from_now(bench: Sandbox) -> None:
    """B3: what it missed meanwhile is not a row of slots"""
    bench.add("s", when="5m", anchor="start", grace="1h", job="work")
    bench.clock.advance_to("2026-03-27T08:32:00Z")
    assert verdicts(bench.preview("s", count=2)) == [("03-27T08:05", "runs"), ("03-27T08:37", "runs")]
    bench.settle()
    assert bench.get("s").next_run_at == datetime(2026, 3, 27, 8, 37, tzinfo=UTC)


@pytest.mark.parametrize(
    ("settings", "per_day"),
    [
        ({"when": "0 * * * *"}, 24.0),
        ({"when": "0 * * * *", "quiet_hours": "night"}, 15.0),
        ({"when": "* * * * *", "quiet_hours": "night"}, 900.0),
        ({"when": "0 9 * * 1"}, 1 / 7),
        ({"when": "0 9 * * *", "max_executions": 2}, 1.92),
        ({"when": "in 2 hours"}, 1.0),
        ({"when": "every 1s"}, 86_400.0),
        ({"when": "every 1s", "anchor": "grid", "timezone": "UTC"}, 86_400.0),
        ({"when": "every 1s", "jitter": 10}, 86_400.0),
        ({"when": "every 1s", "quiet_hours": "night"}, 86_400.0),  # until the night, which is far
        ({"when": "0 9 1-3 4 *", "ends_at": "2026-04-02T12:00:00Z"}, 2 / 7.04),  # to the slot that its end stops
        ({"when": "0 9 28,30 3 *"}, 2 / 28),
        ({"when": "FREQ=DAILY;COUNT=3"}, 1.0),
    ],
)
def test_runs_a_day(in_memory: Sandbox, settings: dict[str, Any], per_day: float) -> None:
    """B3: after quiet hours and limits"""
    bench = in_memory
    bench.quiet_hours.set("night", windows=["22:00-07:00"], timezone="UTC")
    bench.add("s", job="work", **settings)
    assert bench.preview("s").runs_per_day == pytest.approx(per_day, abs=0.01)


@pytest.mark.parametrize("overdue", [0, 1, 3_600_000, 90_000_000])
@pytest.mark.parametrize(
    ("when", "settings"),
    [("*/7 * * * *", {}), ("every 10m", {}), ("every 10m", {"anchor": "start"}), ("every 10m", {"anchor": "grid"}),
     ("0 9 * * 1", {"jitter": 10}), ("every weekday at 9am", {})],
)  # fmt: skip
def test_runs_are_counted_as_the_walk_finds_them(when: str, settings: dict[str, Any], overdue: int) -> None:
    """B3: also where the next slot is overdue"""
    now = instant("2026-03-27T08:00:00Z")
    definition, trigger = parse_schedule(when, {"job": "work", "timezone": "UTC", **settings}, now)
    timetable, slot = Timetable(definition, trigger), trigger.first_ms(now)
    assert slot is not None
    start = ForecastStart(1, "", slot, 0, NO_POLICIES, slot + overdue)
    for end in (start.now + 1, start.now + 3_600_000, start.now + 12 * 86_400_000):
        walk = takewhile(lambda seen, end=end: seen.slot < end, forecast(timetable, start))  # type: ignore[misc]
        assert count_runs(timetable, start, end) == sum(seen.runs for seen in walk)


def test_what_a_day_will_cost(bench: Sandbox) -> None:
    """B3 B5: by what past runs cost; unknown while nothing is known, at most the cap where there is one"""
    bench.add("s", when="0 * * * *", job="pay")
    bench.add("capped", when="0 */12 * * *", job="pay", max_cost="$2")
    before = bench.preview("s")
    assert (before.cost_per_day, before.tokens_per_day) == ("unknown", None)
    assert bench.preview("capped").cost_per_day == "at most $4.00"
    bench.run_until("2026-03-27T10:30:00Z")
    after = bench.preview("s")
    assert (after.cost_per_day, after.tokens_per_day) == ("$2.40", 12_000)


def test_b5_slots_are_over_budget_until_the_period_ends(bench: Sandbox) -> None:
    """B3 B5 B13: as `why` says; and so it comes"""
    bench.job("buy")(lambda run: run.spend("$0.60"))
    bench.budgets.set("daily", period="day", max_cost="$1", timezone="UTC")
    bench.add("s", when="0 */6 * * *", job="buy", max_cost="$0.60")
    assert [slot.verdict for slot in bench.preview("s", count=3).slots] == ["runs"] * 3
    bench.run_until("2026-03-27T13:00:00Z")
    seen = bench.preview("s", count=3)
    assert verdicts(seen) == [("03-27T18:00", "over_budget"), ("03-28T00:00", "runs"), ("03-28T06:00", "runs")]
    assert seen.slots[0].sentence == (
        'Will be over budget: budget "daily" will have $0.40 left of $1.00; this run will need $0.60. '
        "It resets on 2026-03-28 00:00 UTC."
    )
    assert [gate.passes for gate in seen.slots[0].gates if gate.gate == "budget"] == [False]
    assert seen.runs_per_day == 4  # a whole day is not told by what is left of this one
    told = bench.why("s", at="2026-03-27T18:00:00Z")
    assert told.summary == seen.slots[0].sentence
    bench.run_until("2026-03-28T00:30:00Z")
    ends = {run.slot: run.state for run in bench.runs.list(schedule="s") if run.slot}
    assert [ends[slot.at] for slot in seen.slots[:2]] == ["over_budget", "succeeded"]


def test_b5_a_one_shot_waits_for_the_next_period(bench: Sandbox) -> None:
    """B3 B5: where that begins within its grace"""
    bench.job("buy")(lambda run: run.spend("$0.60"))
    bench.budgets.set("daily", period="day", max_cost="$1", timezone="UTC")
    bench.add("s", when="0 9 * * *", job="buy", max_cost="$0.60")
    bench.run_until("2026-03-27T10:00:00Z")
    bench.add("late", when="2026-03-27T23:50:00Z", job="buy", max_cost="$0.60", grace="1h")
    (slot,) = bench.preview("late").slots
    assert (slot.verdict, iso(slot.until)) == ("deferred", "2026-03-28T00:00:00Z")


@pytest.mark.parametrize("count", [0, -1, 1001, True, "5"])
def test_a_bad_count_is_refused(in_memory: Sandbox, count: Any) -> None:
    """B3"""
    in_memory.add("s", when="0 * * * *", job="work")
    with pytest.raises(InvalidInput) as caught:
        in_memory.preview("s", count=count)
    assert caught.value.field == "count"


def test_looking_ahead_writes_nothing(bench: Sandbox, rows: Callable[[], list[Any]]) -> None:
    """B3"""
    bench.add("s", when="0 * * * *", job="work", jitter=5)
    bench.run_until("2026-03-27T09:30:00Z")
    before = rows()
    bench.preview("s", count=100)
    assert rows() == before
