"""Syris' own sentences (seeds/syris)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from matins.errors import TriggerError
from matins.runtime.limits import Free
from matins.seeds.syris import schedule_trigger
from matins.store.sqlite.transaction import SQL
from matins.testing import Bench, ManualClock, iso

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)


def test_s1_cron() -> None:
    """S1"""
    trigger = schedule_trigger("cron", "0 9 * * 1-5")
    assert trigger.next_after(NOW) == datetime(2026, 3, 30, 9, tzinfo=UTC)


def test_s1_interval_is_seconds_from_the_last_run_and_first_at_once() -> None:
    """S1"""
    trigger = schedule_trigger("interval", "30", now=NOW)
    now_ms = round(NOW.timestamp() * 1000)
    assert trigger.first_ms(now_ms) == now_ms
    assert trigger.next_after(NOW) == NOW + timedelta(seconds=30)


def test_s1_one_shot() -> None:
    """S1"""
    trigger = schedule_trigger("one_shot", "2026-03-28T09:00:00Z")
    due = datetime(2026, 3, 28, 9, tzinfo=UTC)
    assert trigger.next_after(NOW) == due
    assert trigger.next_after(due) is None


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("cron", "every day at 9am"), ("interval", "30s"), ("interval", "0"), ("one_shot", "0 9 * * *"), ("rrule", "x")],
)
def test_s1_bad_specs(kind: str, spec: str) -> None:
    """S1"""
    with pytest.raises(TriggerError):
        schedule_trigger(kind, spec)


def test_s6_time_zone_of_its_own_and_utc_by_default() -> None:
    """S6"""
    assert schedule_trigger("cron", "0 9 * * *").timezone == "UTC"
    tokyo = schedule_trigger("cron", "0 9 * * *", timezone="Asia/Tokyo")
    assert tokyo.next_after(NOW) == datetime(2026, 3, 28, 0, tzinfo=UTC)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(f"sqlite:///{tmp_path}/syris.db", clock=ManualClock(NOW))
    made.job("emit")(lambda run: None)
    yield made
    made.close()


def down(bench: Bench, hours: float) -> Bench:
    """Nobody is there for a while; then the process starts again."""
    path = bench._store.path  # type: ignore[attr-defined]
    bench.clock.advance(round(hours * 3_600_000))
    again = Bench(f"sqlite:///{path}", clock=bench.clock)
    again.job("emit")(lambda run: None)
    again.settle()
    return again


def test_s4_skip(bench: Bench) -> None:
    """S4: "Advance to the next future slot. Emit one AuditEvent("schedule.missed") per skipped slot." """
    bench.add("s", when=schedule_trigger("cron", "0 * * * *"), do="emit", catch_up="skip")
    again = down(bench, 5.75)
    with again._store.reading() as transaction:
        missed = [event for event in transaction.events_after(0, 1_000) if event.type == "schedule.missed"]
    assert len(missed) == 5
    again.assert_not_ran("s")
    assert iso(again.get("s").next_slot) == "2026-03-27T18:00:00Z"
    again.close()


def test_s4_run_once(bench: Bench) -> None:
    """S4: "Fire once for the entire missed window. Note the slot count in audit." """
    bench.add("s", when=schedule_trigger("cron", "0 * * * *"), do="emit", catch_up="run_once")
    again = down(bench, 5.75)
    assert [run.covered for run in again.assert_ran("s", times=1)] == [5]
    with again._store.reading() as transaction:
        (started,) = [event for event in transaction.events_after(0, 1_000) if event.type == "run.started"]
    assert '"slots":5' in str(started.data)
    again.close()


def test_s4_run_all_capped(bench: Bench) -> None:
    """S4: "Fire up to N times for the missed window; skip the remainder. N is configurable." """
    bench.add("s", when=schedule_trigger("cron", "0 * * * *"), do="emit", catch_up="run_all_capped", cap=3)
    again = down(bench, 5.75)
    assert [str(iso(run.slot))[11:13] for run in again.assert_ran("s", times=3)] == ["15", "16", "17"]
    third = down(again, 0.1)
    third.assert_ran("s", times=3)
    again.close()
    third.close()


@pytest.mark.parametrize("hours", [0.25, 1.0, 30.0, 800.0])
def test_s8_catch_up_at_startup_and_whenever_it_diverges(bench: Bench, hours: float) -> None:
    """S8: "evaluated on startup (crash recovery) and whenever last_run_at diverges from expected" """
    bench.add("start", when=schedule_trigger("cron", "*/10 * * * *"), do="emit", catch_up="run_once")
    bench.add("going", when=schedule_trigger("cron", "*/10 * * * *"), do="emit", catch_up="run_once")
    bench.clock.advance(round(hours * 3_600_000))
    bench.settle()
    again = down(bench, hours)
    for name in ("start", "going"):
        runs = again.assert_ran(name)
        assert len(runs) == 2
        assert sum(run.covered for run in runs) == int(2 * hours * 6)
    again.close()


def test_s2_the_run_and_the_cursor_commit_together(bench: Bench) -> None:
    """S2: "Commit atomically." """
    bench.add("s", when=schedule_trigger("cron", "0 * * * *"), do="emit")
    bench.clock.advance(3_600_000)
    now = bench.clock.now_ms()

    def plan_and_die() -> None:
        with bench._store.transaction(now) as transaction:
            planned = bench.engine.planner.plan(transaction, now, bench.engine.worker, Free(10), 10)
            assert len(planned.start) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        plan_and_die()
    assert bench.runs("s") == []
    assert bench.get("s").next_slot == now
    bench.settle()
    bench.assert_ran("s", times=1)


def test_s7_the_due_scan_uses_a_partial_index(bench: Bench) -> None:
    """S7"""
    bench.add_many([{"name": f"s{n}", "when": "0 * * * *", "do": "emit"} for n in range(50)])
    connection = bench._store._connection  # type: ignore[attr-defined]
    for name in ("due_oldest", "due_newest", "next_due"):
        plan = connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", () if name == "next_due" else (0, 10)).fetchall()
        assert "USING INDEX due_next" in str(plan) or "USING COVERING INDEX due_next" in str(plan), plan
        assert "TEMP B-TREE" not in str(plan)


def test_s7_nothing_is_held_in_memory_only(bench: Bench) -> None:
    """S7: a process that starts from the file goes on where the other was"""
    bench.add("s", when=schedule_trigger("interval", "300"), do="emit")
    bench.add("r", when=schedule_trigger("cron", "0 * * * *"), do="nobody", retries=5, retry="10m")
    bench.run_until(NOW + timedelta(hours=1, minutes=1))
    again = Bench(f"sqlite:///{bench._store.path}", clock=bench.clock)  # type: ignore[attr-defined]
    assert [again.get(name) for name in "sr"] == [bench.get(name) for name in "sr"]
    assert again.runs("r") == bench.runs("r")
    assert again.runs("r")[0].state.word == "ready"
    again.close()
