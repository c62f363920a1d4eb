"""`preview`: the next slots, and what each gate would say of them. What it says comes true."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import every_store
import pytest

from matins.errors import InvalidInput
from matins.model.principal import Principal
from matins.model.run import Run, RunState
from matins.service.forecasts import Forecast, Slot
from matins.testing import Bench, instant, iso

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, in_memory, rows = every_store.bench, every_store.in_memory, every_store.rows


def verdicts(forecast: Forecast) -> list[tuple[str, str]]:
    return [(slot.local[5:16], slot.verdict) for slot in forecast.slots]


# -- what is foreseen comes true

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
    "throttled into the night": {"when": "0 * * * *", "provider": "openai", "quiet_hours": "night"},
    "throttled, then waits at night": {"when": "0 * * * *", "provider": "openai", "quiet_hours": "defer"},
    "ends": {"when": "0 */6 * * *", "ends": "2026-03-28T13:00"},
    "ends at night": {"when": "0 * * * *", "ends": "2026-03-28T01:30", "quiet_hours": "defer"},
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
    if run.state is RunState.SUCCEEDED:
        return "runs" if run.started_at == slot.due_at else "later"
    return "coalesced" if run.reason == "coalesced" else run.state.word


@pytest.mark.parametrize("words", WORLD.values(), ids=WORLD)
def test_what_is_foreseen_comes_true(in_memory: Bench, words: dict[str, Any]) -> None:
    """B3: slot by slot, under every gate that can be foreseen"""
    bench = in_memory
    bench.set_quiet_hours("night", windows=["22:00-07:00"], timezone="UTC")
    bench.set_quiet_hours("defer", windows=["22:00-07:00"], timezone="UTC", mode="defer")
    bench.throttle("anthropic", datetime(2026, 3, 27, 10, 0, tzinfo=UTC))
    bench.throttle("openai", datetime(2026, 3, 27, 23, 15, tzinfo=UTC))
    bench.add("s", do="work", **words)
    forecast = bench.preview("s", count=60)
    assert forecast.slots
    last = min(forecast.slots[-1].at, instant("2026-03-30T12:00:00Z"))
    bench.run_until(max(slot.until or slot.due_at for slot in forecast.slots if slot.at <= last) + 1)
    found = {run.slot: run for run in bench.runs("s", limit=500)}
    for slot in (slot for slot in forecast.slots if slot.at <= last):
        allowed = {"deferred": ("later",), "queued": ("later", "runs")}.get(slot.verdict, (slot.verdict,))
        assert came_to(found.get(slot.at), slot) in allowed, (iso(slot.at), slot.sentence, found.get(slot.at))
        if slot.verdict == "deferred":
            assert found[slot.at].started_at == slot.until, iso(slot.at)
    assert {slot for slot in found if slot is not None and slot <= last} == {
        s.at for s in forecast.slots if s.at <= last
    }
    if forecast.then is not None:
        assert bench.get("s").next_slot is None


# -- what a forecast tells


def test_slots_are_told_with_zone_and_clock_change(bench: Bench) -> None:
    """B3: local and UTC, and what the clocks did"""
    bench.add("s", when="30 1 * * *", timezone="Europe/London", do="work")
    forecast = bench.preview("s", count=3)
    assert [(slot.local, slot.utc, slot.dst) for slot in forecast.slots] == [
        ("2026-03-28T01:30:00+00:00", "2026-03-28T01:30:00Z", None),
        ("2026-03-29T02:00:00+01:00", "2026-03-29T01:00:00Z", "moved"),
        ("2026-03-30T01:30:00+01:00", "2026-03-30T00:30:00Z", None),
    ]
    assert (forecast.description, forecast.timezone, forecast.then) == ("every day at 01:30", "Europe/London", None)


def test_each_gate_that_can_be_foreseen_has_its_say(bench: Bench) -> None:
    """B3 S3: a weekend off"""
    bench.set_quiet_hours("weekend", windows=["sat,sun 00:00-24:00"], timezone="UTC", mode="defer")
    bench.add("s", when="0 12 * * *", do="work", quiet_hours="weekend", ends="2026-03-31T00:00", max_executions=9)
    forecast = bench.preview("s", count=10)
    assert verdicts(forecast) == [
        ("03-27T12:00", "runs"),
        ("03-28T12:00", "deferred"),
        ("03-29T12:00", "coalesced"),
        ("03-30T12:00", "runs"),
        ("03-31T12:00", "skipped"),
    ]
    deferred = forecast.slots[1]
    assert deferred.sentence == 'Quiet hours "weekend" will be on until 2026-03-30 00:00; it will wait until then.'
    assert deferred.until == instant("2026-03-30T00:00:00Z")
    assert [(says.gate, says.passes) for says in deferred.says] == [
        ("ended", True), ("quiet_hours", False), ("overlap", True), ("throttle", True),
    ]  # fmt: skip
    assert deferred.says[0].sentence == "It ends on 2026-03-31 00:00; 1 of 9 runs are used up."
    assert forecast.slots[-1].sentence == "Its end, 2026-03-31 00:00, will be past; it will be skipped."
    assert forecast.then == "Then it has come to its end."


def test_the_last_of_a_number(bench: Bench) -> None:
    """B3 V5: what was used up counts"""
    bench.add("s", when="0 * * * *", do="work", max_executions=3)
    bench.run_until("2026-03-27T09:30:00Z")
    forecast = bench.preview("s")
    assert verdicts(forecast) == [("03-27T10:00", "runs"), ("03-27T11:00", "runs")]
    assert forecast.then == "Then it has run 3 times, as often as it may."
    bench.run_until("2026-03-27T12:00:00Z")
    over = bench.preview("s")
    assert (over.slots, over.then) == ((), "It is completed: there is no slot left.")


def test_a_run_that_waits_already_is_seen(bench: Bench) -> None:
    """B3 S3: what comes due meanwhile is one with it"""
    bench.set_quiet_hours("night", windows=["22:00-07:00"], timezone="UTC", mode="defer")
    bench.add("s", when="0 */3 * * *", do="work", quiet_hours="night")
    bench.run_until("2026-03-28T01:00:00Z")
    run = bench.runs("s")[0]
    slots = bench.preview("s", count=3).slots
    assert [slot.verdict for slot in slots] == ["coalesced", "coalesced", "runs"]
    assert slots[0].sentence == (
        f'Run {run.id} of this schedule will still be waiting for quiet hours "night" until 07:00, for this one too.'
    )


def test_jitter_is_told(bench: Bench) -> None:
    """B3 B8"""
    bench.add("s", when="0 * * * *", do="work", jitter=10)
    slot = bench.preview("s", count=1).slots[0]
    assert 0 < slot.due_at - slot.at < 360_000
    assert slot.sentence.startswith("It runs at 2026-03-27 09:0")


def test_an_interval_that_counts_from_completion_is_told_so(bench: Bench) -> None:
    """B3"""
    bench.add("s", when="30m", do="work")
    first, second = bench.preview("s", count=2).slots
    assert first.sentence == "It runs."
    assert second.sentence == "It runs, at the earliest: it counts from the end of the run before."


def test_a_pause_is_seen(bench: Bench) -> None:
    """B3 C10: until it is resumed nothing comes; a pause with an end is over by itself"""
    bench.add("s", when="0 9 * * *", do="work")
    bench.pause("s", note="holidays")
    forecast = bench.preview("s", count=2)
    assert verdicts(forecast) == [("03-27T09:00", "paused"), ("03-28T09:00", "paused")]
    assert forecast.standing == "It is paused by owner since 2026-03-27 08:00: holidays."
    bench.pause("s", until=datetime(2026, 3, 29, tzinfo=UTC))
    assert verdicts(bench.preview("s", count=1)) == [("03-29T09:00", "runs")]


def test_a_proposal_is_seen(bench: Bench) -> None:
    """B3 B7"""
    bench.acting_as(Principal("agent", "scout")).add("s", when="every day at 9am", do="work")
    forecast = bench.preview("scout/s", count=1)
    assert verdicts(forecast) == [("03-27T09:00", "pending")]
    assert forecast.slots[0].sentence == "scout proposed it, and it waits for approval."


def test_what_is_overdue_is_counted(bench: Bench) -> None:
    """B3: and what is within its grace comes first"""
    bench.add("s", when="0 * * * *", do="work")
    bench.clock.advance_to("2026-03-27T11:10:00Z")
    forecast = bench.preview("s", count=2)
    assert forecast.overdue == 2
    assert verdicts(forecast) == [("03-27T11:00", "runs"), ("03-27T12:00", "runs")]


def test_an_interval_that_is_overdue_counts_from_now(bench: Bench) -> None:
    """B3: what it missed meanwhile is not a row of slots"""
    bench.add("s", when="5m", anchor="start", grace="1h", do="work")
    bench.clock.advance_to("2026-03-27T08:32:00Z")
    assert verdicts(bench.preview("s", count=2)) == [("03-27T08:05", "runs"), ("03-27T08:37", "runs")]
    bench.settle()
    assert bench.get("s").next_slot == instant("2026-03-27T08:37:00Z")


@pytest.mark.parametrize(
    ("words", "per_day"),
    [
        ({"when": "0 * * * *"}, 24.0),
        ({"when": "0 * * * *", "quiet_hours": "night"}, 15.0),
        ({"when": "* * * * *", "quiet_hours": "night"}, 900.0),
        ({"when": "0 9 * * 1"}, 1 / 7),
        ({"when": "0 9 * * *", "max_executions": 2}, 1.92),
        ({"when": "in 2 hours"}, 1.0),
    ],
)
def test_runs_a_day(in_memory: Bench, words: dict[str, Any], per_day: float) -> None:
    """B3: after quiet hours and limits"""
    bench = in_memory
    bench.set_quiet_hours("night", windows=["22:00-07:00"], timezone="UTC")
    bench.add("s", do="work", **words)
    assert bench.preview("s").runs_per_day == pytest.approx(per_day, abs=0.01)


def test_what_a_day_will_cost(bench: Bench) -> None:
    """B3 B5: by what past runs cost; unknown while nothing is known, at most the cap where there is one"""
    bench.add("s", when="0 * * * *", do="pay")
    bench.add("capped", when="0 */12 * * *", do="pay", max_cost="$2")
    before = bench.preview("s")
    assert (before.cost_per_day, before.tokens_per_day) == ("unknown", None)
    assert bench.preview("capped").cost_per_day == "at most $4.00"
    bench.run_until("2026-03-27T10:30:00Z")
    after = bench.preview("s")
    assert (after.cost_per_day, after.tokens_per_day) == ("$2.40", 12_000)


@pytest.mark.parametrize("count", [0, -1, 1001, True, "5"])
def test_a_bad_count_is_refused(in_memory: Bench, count: Any) -> None:
    """B3"""
    in_memory.add("s", when="0 * * * *", do="work")
    with pytest.raises(InvalidInput) as caught:
        in_memory.preview("s", count=count)
    assert caught.value.field == "count"


def test_looking_ahead_writes_nothing(bench: Bench, rows: Callable[[], list[Any]]) -> None:
    """B3"""
    bench.add("s", when="0 * * * *", do="work", jitter=5)
    bench.run_until("2026-03-27T09:30:00Z")
    before = rows()
    bench.preview("s", count=100)
    assert rows() == before
