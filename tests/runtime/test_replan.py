"""The wall clock steps while schedules wait and runs are on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from matins.errors import StoreUnavailable
from matins.testing import Sandbox, iso

MINUTE, HOUR, YEAR = 60_000, 3_600_000, 365 * 86_400_000
Lines = Callable[..., list[str]]


def next_slot(bench: Sandbox, name: str = "s") -> str | None:
    return iso(bench.get(name).next_run_at)


def test_back_slots_that_have_run_do_not_run_again(bench: Sandbox, lines: Lines) -> None:
    """H2 B1"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:15:00Z")
    bench.clock.step(-12 * MINUTE)
    bench.run_until("2026-03-27T08:20:00Z")
    assert lines(bench, "s") == ["08:05 succeeded", "08:10 succeeded", "08:15 succeeded", "08:20 succeeded"]


def test_back_the_cursor_comes_along(bench: Sandbox) -> None:
    """H2: a year back, and the schedule does not sleep for a year"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.clock.step(-YEAR)
    bench.settle()
    assert next_slot(bench) == "2025-03-27T09:00:00Z"
    bench.run_until("2025-03-27T09:00:00Z")
    bench.assert_ran("s", times=1)


def test_back_intervals_that_wait_come_along(bench: Sandbox) -> None:
    """H2 H3"""
    bench.add("s", when="10m", job="work")
    bench.clock.step(-YEAR)
    bench.settle()
    assert next_slot(bench) == "2025-03-27T08:10:00Z"


def test_back_paused_schedules_stay_paused(bench: Sandbox) -> None:
    """H2"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.pause("s")
    bench.clock.step(-YEAR)
    bench.settle()
    assert bench.get("s").due_at is None
    bench.run_until("2025-03-29T09:00:00Z")
    bench.assert_not_ran("s")


@pytest.mark.parametrize("words", [{"when": "*/5 * * * *"}, {"when": "5m", "first": "immediately", "anchor": "grid"}])
def test_back_an_edit_does_not_run_a_slot_again(bench: Sandbox, lines: Lines, words: dict[str, str]) -> None:
    """H2 B1"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:15:00Z")
    bench.clock.step(-12 * MINUTE)
    bench.settle()
    bench.edit("s", **words)
    bench.run_until("2026-03-27T08:20:00Z")
    slots = [line.split()[0] for line in lines(bench, "s")]
    assert slots[:3] == ["08:05", "08:10", "08:15"]
    assert len(slots) == len(set(slots)) >= 4


def test_back_a_resume_does_not_run_a_slot_again(bench: Sandbox, lines: Lines) -> None:
    """H2 B1"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:15:00Z")
    bench.clock.step(-12 * MINUTE)
    bench.settle()
    bench.pause("s")
    bench.resume("s")
    assert next_slot(bench) == "2026-03-27T08:20:00Z"


def test_forward_less_than_an_hour_is_believed_at_once(bench: Sandbox, lines: Lines) -> None:
    """H2"""
    bench.add("s", when="0 * * * *", job="work")
    bench.clock.step(HOUR)
    bench.settle()
    assert lines(bench, "s") == ["09:00 succeeded"]


def test_forward_a_year_is_looked_at_twice(bench: Sandbox) -> None:
    """H2"""
    bench.add("s", when="0 * * * *", job="work")
    bench.clock.step(YEAR)
    assert bench.engine.turn() == 250
    assert bench.runs.list(schedule="s") == []
    bench.settle()
    newest, missed = bench.runs.list(schedule="s")
    assert (newest.state, missed.state) == ("succeeded", "missed")
    assert newest.slots + missed.slots == 365 * 24


def test_forward_and_back_before_the_second_look_leaves_nothing(bench: Sandbox) -> None:
    """H2"""
    bench.add("s", when="0 * * * *", job="work")
    bench.clock.step(YEAR)
    bench.engine.turn()
    bench.clock.step(-YEAR)
    bench.settle()
    assert bench.runs.list(schedule="s") == []
    assert next_slot(bench) == "2026-03-27T09:00:00Z"


def test_a_broken_schedule_does_not_stop_the_replan(bench: Sandbox) -> None:
    """H2"""
    bench.add("bad", when="0 9 * * *", job="work")
    bench.add("s", when="0 9 * * *", job="work")
    with bench._store.transaction(0) as transaction:
        transaction._connection.execute("UPDATE revisions SET definition = '{' WHERE schedule_id = 1")
    bench._catalog._cache.clear()
    bench.clock.step(-YEAR)
    bench.settle()
    assert next_slot(bench) == "2025-03-27T09:00:00Z"


def test_a_step_leaves_an_event(bench: Sandbox) -> None:
    """H2"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.clock.step(-YEAR)
    bench.settle()
    with bench._store.reading() as transaction:
        assert "schedule.replanned" in {event.type for event in transaction.events_after(0, 100)}
    assert bench.audit.verify().problems == []


def test_back_what_waits_to_be_tried_again_does_not_wait_for_the_old_time(bench: Sandbox, lines: Lines) -> None:
    """H2 B8: a year back, and the retry does not wait for a year"""
    bench.add("s", when="5 8 * * *", job="fail", retries=1)
    bench.run_until("2026-03-27T08:05:00Z")
    bench.clock.step(-YEAR)
    bench.run_until("2025-03-27T08:06:00Z")
    assert lines(bench, "s") == ["08:05 failed failed"]


def test_back_what_waits_for_a_place_comes_with_its_slot(theatre: Sandbox) -> None:
    """H2 V3: it had not started, and its slot is to come again"""
    theatre.limits.set("global", size=1)
    theatre.add_many([{"name": name, "when": "5 8 * * *", "job": "work"} for name in ("a", "b")])
    theatre.run_until("2026-03-27T08:05:00Z")
    theatre.clock.step(-YEAR)
    theatre.settle()
    first = theatre.stage.names()[0]
    theatre.end(first)
    assert theatre.stage.names() == []
    theatre.run_until("2025-03-28T08:05:00Z")
    theatre.end(theatre.stage.names()[0])
    assert len(theatre.stage.names()) == 1


DAY = 24 * HOUR


@pytest.mark.parametrize("catch_up", ["skip", "run_once", "run_all_capped"])
def test_a_day_ahead_for_two_seconds_silences_nothing(bench: Sandbox, lines: Lines, catch_up: str) -> None:
    """H2 B1: what never started is withdrawn; what is due is due. A slot that has started does not start again."""
    bench.add("s", when="0 * * * *", job="work", catch_up=catch_up, catch_up_limit=2)
    bench.clock.step(DAY)
    bench.run_until(bench.clock.now_ms() + 2_000)
    early = {run.slot for run in bench.assert_ran("s")} if catch_up != "skip" else set()
    bench.clock.step(-DAY)
    bench.settle()
    first = "10:00" if catch_up == "run_once" else "09:00"  # the run of all slots has started for the first of them
    assert next_slot(bench) == f"2026-03-27T{first}:00Z"
    bench.run_until("2026-03-28T12:00:00Z")
    runs = bench.all_runs("s")
    assert all(run.state == "succeeded" and run.slots == 1 for run in runs), lines(bench, "s")
    assert len(runs) == len({run.slot for run in runs}) == 28
    assert early < {run.slot for run in runs}
    withdrawn = bench.events.list(types=["run.withdrawn"], limit=1000)
    assert all(event.data["state"] in ("missed", "skipped") for event in withdrawn)
    assert bool(withdrawn) == (catch_up != "run_once")


@pytest.mark.parametrize("back", [12 * HOUR, DAY])
def test_a_key_stands_for_one_run_whatever_the_clock_does(bench: Sandbox, back: int) -> None:
    """H2 S2: the run of the leap loses the slots that are to come; the runs of those have keys of their own"""
    keys: list[tuple[str, str]] = []
    bench.job("keyed")(lambda run: keys.append((run.id, run.key)))
    bench.add("s", when="0 * * * *", job="keyed", catch_up="run_once")
    bench.run_until("2026-03-27T09:00:00Z")
    bench.clock.step(DAY)
    bench.run_until(bench.clock.now_ms() + 2_000)
    bench.clock.step(-back)
    bench.run_until("2026-03-28T12:00:00Z")
    assert len(keys) == len({run for run, _ in keys}) == len({key for _, key in keys}) > 15


def test_what_waits_and_one_shots_come_back(bench: Sandbox, lines: Lines) -> None:
    """H2 B1: a one-shot that was missed in the leap fires at its time; so does one that waited for a person."""
    bench.add("once", when="2026-03-27 12:00", job="work")
    bench.add("asked", when="0 12 * * *", job="work", approval="owner_approve", catch_up="run_once")
    bench.add("last", when="0 12 * * *", job="work", ends_at="2026-03-27T18:00:00Z")
    bench.clock.step(DAY)
    bench.run_until(bench.clock.now_ms() + 2_000)
    bench.clock.step(-DAY)
    bench.run_until("2026-03-27T12:00:00Z")
    assert lines(bench, "once") == ["12:00 succeeded"]
    assert lines(bench, "last") == ["12:00 succeeded"]
    assert [line.split()[:2] for line in lines(bench, "asked")] == [["12:00", "waiting"]]
    assert len(bench.approvals.list()) == 1
    assert bench.audit.verify().problems == []


def test_an_interval_from_completion_goes_on(bench: Sandbox) -> None:
    """H2 H3"""
    bench.add("s", when="10m", job="work")
    bench.clock.step(DAY)
    bench.run_until(bench.clock.now_ms() + 2_000)
    bench.clock.step(-DAY)
    bench.run_until("2026-03-27T09:00:00Z")
    assert len(bench.all_runs("s")) >= 5


def test_an_interval_whose_run_ends_after_the_leap_goes_on(theatre: Sandbox) -> None:
    """H2 H3: its slot was tomorrow; the next one is not the day after."""
    theatre.add("s", when="10m", job="work", catch_up="run_once")
    theatre.clock.step(DAY)
    theatre.run_until(theatre.clock.now_ms() + 2_000)
    assert theatre.stage.names() == ["s"]
    theatre.clock.step(-DAY)
    theatre.settle()
    theatre.end("s")
    assert next_slot(theatre) == "2026-03-27T08:10:02Z"


def test_a_replan_that_was_cut_short_is_taken_up_by_the_next_engine(bench: Sandbox, lines: Lines) -> None:
    """H2 B1 S7: killed in the middle of it, with more events behind it than anybody looks through"""
    bench.add("s", when="0 * * * *", job="work")
    bench.run_until("2026-03-27T09:00:00Z")
    with bench.store.transaction(bench.clock.now_ms()) as transaction:
        transaction.set_replanning(True)
        transaction.replace_cursor(int(bench.get("s").id), *[bench.clock.now_ms() + DAY] * 2, 1)
    bench.engine.open(bench.executor, {"name": "next"})
    bench.run_until("2026-03-27T10:00:00Z")
    assert lines(bench, "s") == ["09:00 succeeded", "10:00 succeeded"]
    with bench.store.reading() as transaction:
        assert not transaction.is_replanning()


def test_a_step_back_while_the_store_is_away_is_not_forgotten(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """H2 B1: the clock is compared once, and the turn that noticed the step failed"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.settle()
    bench.clock.advance(1_000)
    bench.clock.step(-YEAR)
    with monkeypatch.context() as away:
        away.setattr(bench.store, "reading", _unavailable)
        turns = bench.engine.turns
        bench.engine.run_once()
        assert bench.engine.turns == turns
    bench.settle()
    assert next_slot(bench) == "2025-03-27T09:00:00Z"


def _unavailable() -> None:
    raise StoreUnavailable("the server restarts")
