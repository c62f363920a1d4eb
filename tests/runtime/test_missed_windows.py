"""Slots that nobody was there for, on the production engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from matins.engine.when.triggers import to_ms
from matins.executors.job_context import JobContext
from matins.testing import Sandbox, instant, iso

MINUTE, DAY = 60_000, 86_400_000
Lines = Callable[..., list[str]]


def test_skip_writes_one_record_a_slot_and_runs_what_is_due_now(bench: Sandbox, lines: Lines) -> None:
    """S4 B1"""
    bench.add("s", when="*/10 * * * *", job="work")
    bench.clock.advance(30 * MINUTE)
    bench.settle()
    assert lines(bench, "s") == ["08:10 missed missed", "08:20 missed missed", "08:30 succeeded"]


def test_run_once(bench: Sandbox) -> None:
    """S4"""
    bench.add("s", when="*/10 * * * *", job="work", catch_up="run_once")
    bench.clock.advance(57 * MINUTE)
    bench.settle()
    (run,) = bench.assert_ran("s", times=1)
    assert (iso(run.slot), run.slots, iso(run.first_slot)) == (
        "2026-03-27T08:50:00Z",
        5,
        "2026-03-27T08:10:00Z",
    )


def test_run_all_capped_runs_the_newest_oldest_first_and_one_at_a_time(theatre: Sandbox, lines: Lines) -> None:
    """S4"""
    theatre.add("s", when="*/10 * * * *", job="work", catch_up="run_all_capped", catch_up_limit=2)
    theatre.clock.advance(57 * MINUTE)
    theatre.settle()
    assert lines(theatre, "s")[-2:] == ["08:40 running", "08:50 queued waiting_for"]
    theatre.end("s")
    assert lines(theatre, "s") == [
        *("08:10 missed missed", "08:20 missed missed", "08:30 missed missed"),
        *("08:40 succeeded", "08:50 running"),
    ]


def test_the_cap_is_per_window_and_not_per_tick_or_start(reopen: Callable[..., Sandbox], lines: Lines) -> None:
    """S4 S8: a process that keeps dying does not run N more each time"""
    theatre = reopen()
    theatre.add(
        "s",
        when="*/10 * * * *",
        job="work",
        catch_up="run_all_capped",
        catch_up_limit=2,
        overlap="allow",
        on_unknown="hold",
    )
    ran = []
    for _ in range(4):
        theatre.clock.advance(57 * MINUTE if not ran else 60 * MINUTE)
        theatre.settle()
        ran.append(len(theatre.stage.on))
        theatre = reopen()
    assert ran == [2, 0, 0, 0]
    theatre.clock.advance_to("2026-03-27T12:30:00Z")
    theatre.settle()
    assert [iso(work.slot) for work in theatre.stage.on.values()] == ["2026-03-27T12:30:00Z"], "on time: a new window"
    theatre.clock.advance(57 * MINUTE)
    theatre.settle()
    assert len(theatre.stage.on) == 1 + 2


@pytest.mark.parametrize(
    ("policy", "ran", "states"),
    [("skip", 0, {"missed"}), ("run_once", 1, {"succeeded"}), ("run_all_capped", 10, {"missed", "succeeded"})],
)
def test_a_month_down_for_a_one_minute_cron(bench: Sandbox, policy: str, ran: int, states: set[str]) -> None:
    """S4 B1: one range record and a bounded number of runs"""
    bench.add("s", when="* * * * *", job="work", catch_up=policy)
    bench.clock.advance(30 * DAY + 45_000)
    bench.settle()
    bench.assert_ran("s", times=ran)
    runs = bench.all_runs("s")
    assert len(runs) <= 11
    assert sum(run.slots for run in runs) == 43_200
    assert {run.state for run in runs} == states
    assert iso(bench.get("s").next_run_at) == "2026-04-26T08:01:00Z"


def test_a_one_shot_that_is_a_day_late_is_missed_and_kept(bench: Sandbox, lines: Lines) -> None:
    """C12 S4"""
    bench.add("late", when="2026-03-27T09:00:00Z", job="work")
    bench.add("strict", when="2026-03-27T09:00:00Z", job="work", grace="1m")
    bench.add("too late", when="2026-03-26T23:00:00-12:00", job="work", grace="1m")
    bench.clock.advance_to("2026-03-28T08:59:00Z")
    bench.settle()
    assert lines(bench, "late") == ["09:00 succeeded"]
    assert lines(bench, "strict") == ["09:00 missed missed"]
    assert bench.get("strict").state == "completed"


def test_the_run_is_told_what_it_makes_up_for(bench: Sandbox) -> None:
    """S4: nominal slot, late by, slots covered, previous outcome"""
    told: list[tuple[object, ...]] = []

    @bench.job("tell")
    def tell(run: JobContext) -> None:
        told.append(
            (iso_of(run.slot), run.lateness, run.slots, iso_of(run.first_slot), run.previous_state, run.attempt)
        )

    bench.add("s", when="*/10 * * * *", job="tell", catch_up="run_once", timezone="Asia/Tokyo")
    bench.run_until("2026-03-27T08:10:00Z")
    bench.clock.advance(33 * MINUTE)
    bench.settle()
    assert told == [
        ("2026-03-27T17:10:00+09:00", 0.0, 1, None, None, 1),
        ("2026-03-27T17:40:00+09:00", 180.0, 3, "2026-03-27T17:20:00+09:00", "succeeded", 1),
    ]


def iso_of(moment: object) -> str | None:
    return None if moment is None else moment.isoformat()  # type: ignore[attr-defined]


def test_the_run_before_is_the_last_one_that_ran(bench: Sandbox) -> None:
    """S4"""
    told: list[str | None] = []

    @bench.job("once fails")
    def once_fails(run: JobContext) -> None:
        told.append(run.previous_state)
        if len(told) == 1:
            raise ValueError

    bench.add("s", when="*/10 * * * *", job="once fails")
    bench.run_until("2026-03-27T08:10:00Z")
    bench.clock.advance(40 * MINUTE)
    bench.settle()
    assert told == [None, "failed"], "missed slots in between are no outcome"


def test_a_window_behind_a_live_run_waits_for_it_and_then_runs(theatre: Sandbox, lines: Lines) -> None:
    """S4 C9: with overlap skip and catch-up run_once nothing stays queued for ever"""
    theatre.add("s", when="*/10 * * * *", job="work", catch_up="run_once")
    theatre.run_until("2026-03-27T08:10:00Z")
    theatre.clock.advance(47 * MINUTE)
    theatre.settle()
    assert lines(theatre, "s") == ["08:10 running", "08:50 queued waiting_for"]
    theatre.end("s")
    assert lines(theatre, "s") == ["08:10 succeeded", "08:50 running"]
    theatre.end("s")
    theatre.run_until("2026-03-27T09:00:00Z")
    assert lines(theatre, "s")[-1] == "09:00 running"


def test_everything_due_is_recorded_for_many_schedules(bench: Sandbox) -> None:
    """P8 S7 S8: what is stored is armed at start-up, without a walk through memory"""
    bench.add_many([{"name": f"s{n}", "when": "*/10 * * * *", "job": "work"} for n in range(700)])
    bench.clock.advance(10 * MINUTE)
    bench.settle()
    assert all(bench.runs.list(schedule=f"s{n}")[0].state == "succeeded" for n in range(700))
    with bench._store.reading() as transaction:
        assert transaction.next_due() == instant("2026-03-27T08:20:00Z")


def test_slots_are_unique_and_ranges_hold_no_other_record(bench: Sandbox) -> None:
    """B1"""
    bench.add("s", when="*/10 * * * *", job="work", catch_up="run_all_capped", catch_up_limit=3)
    for advance in (10, 95, 7, 13, 20_000, 5, 10, 31):
        bench.clock.advance(advance * MINUTE)
        bench.settle()
    covered: list[int] = []
    trigger = bench._catalog._cache[1, 1, 0].timetable.trigger
    for run in bench.all_runs("s"):
        assert run.slot is not None
        slot: int | None = to_ms(run.first_slot or run.slot)
        while slot is not None and slot <= to_ms(run.slot):
            covered.append(slot)
            slot = trigger.next_ms(slot)
    assert len(covered) == len(set(covered))
    first = trigger.next_ms(instant("2026-03-27T08:00:00Z"))
    assert first is not None
    assert sorted(covered) == list(range(first, bench.clock.now_ms() + 1, 10 * MINUTE))
