"""Syris' own sentences (seeds/syris)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from matins.engine.events import canonical
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput, TriggerError
from matins.executors.job_context import JobContext
from matins.runtime.capacity import Capacity
from matins.seeds.syris import ScheduleRow, create_schedule, schedule_row, schedule_trigger
from matins.store.sqlite.transaction import SQL
from matins.testing import ManualClock, Sandbox, iso

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
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(f"sqlite:///{tmp_path}/syris.db", clock=ManualClock(NOW))
    made.job("emit")(lambda run: None)
    yield made
    made.close()


def down(bench: Sandbox, hours: float) -> Sandbox:
    """Nobody is there for a while; then the process starts again."""
    path = bench._store.path  # type: ignore[attr-defined]
    bench.clock.advance(round(hours * 3_600_000))
    again = Sandbox(f"sqlite:///{path}", clock=bench.clock)
    again.job("emit")(lambda run: None)
    again.settle()
    return again


def test_s4_skip(bench: Sandbox) -> None:
    """S4: "Advance to the next future slot. Emit one AuditEvent("schedule.missed") per skipped slot." """
    bench.add("s", when=schedule_trigger("cron", "0 * * * *"), job="emit", catch_up="skip")
    again = down(bench, 5.75)
    with again._store.reading() as transaction:
        missed = [event for event in transaction.events_after(0, 1_000) if event.type == "schedule.missed"]
    assert len(missed) == 5
    again.assert_not_ran("s")
    assert iso(again.get("s").next_run_at) == "2026-03-27T18:00:00Z"
    again.close()


def test_s4_run_once(bench: Sandbox) -> None:
    """S4: "Fire once for the entire missed window. Note the slot count in audit." """
    bench.add("s", when=schedule_trigger("cron", "0 * * * *"), job="emit", catch_up="run_once")
    again = down(bench, 5.75)
    assert [run.slots for run in again.assert_ran("s", times=1)] == [5]
    with again._store.reading() as transaction:
        (started,) = [event for event in transaction.events_after(0, 1_000) if event.type == "run.started"]
    assert '"slots":5' in str(started.data)
    again.close()


def test_s4_run_all_capped(bench: Sandbox) -> None:
    """S4: "Fire up to N times for the missed window; skip the remainder. N is configurable." """
    bench.add("s", when=schedule_trigger("cron", "0 * * * *"), job="emit", catch_up="run_all_capped", catch_up_limit=3)
    again = down(bench, 5.75)
    assert [str(iso(run.slot))[11:13] for run in again.assert_ran("s", times=3)] == ["15", "16", "17"]
    third = down(again, 0.1)
    third.assert_ran("s", times=3)
    again.close()
    third.close()


@pytest.mark.parametrize("hours", [0.25, 1.0, 30.0, 800.0])
def test_s8_catch_up_at_startup_and_whenever_it_diverges(bench: Sandbox, hours: float) -> None:
    """S8: "evaluated on startup (crash recovery) and whenever last_run_at diverges from expected" """
    bench.add("start", when=schedule_trigger("cron", "*/10 * * * *"), job="emit", catch_up="run_once")
    bench.add("going", when=schedule_trigger("cron", "*/10 * * * *"), job="emit", catch_up="run_once")
    bench.clock.advance(round(hours * 3_600_000))
    bench.settle()
    again = down(bench, hours)
    for name in ("start", "going"):
        runs = again.assert_ran(name)
        assert len(runs) == 2
        assert sum(run.slots for run in runs) == int(2 * hours * 6)
    again.close()


def test_s2_the_run_and_the_cursor_commit_together(bench: Sandbox) -> None:
    """S2: "Commit atomically." """
    bench.add("s", when=schedule_trigger("cron", "0 * * * *"), job="emit")
    bench.clock.advance(3_600_000)
    now = bench.clock.now_ms()

    def plan_and_die() -> None:
        with bench._store.transaction(now) as transaction:
            planned = bench.engine.planner.plan(transaction, now, bench.engine.worker, Capacity(10), 10)
            assert planned.taken == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        plan_and_die()
    assert bench.runs.list(schedule="s") == []
    assert bench.get("s").next_run_at == to_datetime(now)
    bench.settle()
    bench.assert_ran("s", times=1)


def test_s7_the_due_scan_uses_a_partial_index(bench: Sandbox) -> None:
    """S7"""
    bench.add_many([{"name": f"s{n}", "when": "0 * * * *", "job": "emit"} for n in range(50)])
    connection = bench._store._connection  # type: ignore[attr-defined]
    for name in ("due_oldest", "due_newest", "next_due"):
        plan = connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", () if name == "next_due" else (0, 10)).fetchall()
        assert "USING INDEX due_next" in str(plan) or "USING COVERING INDEX due_next" in str(plan), plan
        assert "TEMP B-TREE" not in str(plan)


def test_s7_nothing_is_held_in_memory_only(bench: Sandbox) -> None:
    """S7: a process that starts from the file goes on where the other was"""
    bench.add("s", when=schedule_trigger("interval", "300"), job="emit")

    @bench.job("fail")
    def fail(run: JobContext) -> None:
        raise ValueError("no luck")

    bench.add("r", when=schedule_trigger("cron", "0 * * * *"), job="fail", retries=5, retry_delay="10m")
    bench.run_until(NOW + timedelta(hours=1, minutes=1))
    again = Sandbox(f"sqlite:///{bench._store.path}", clock=bench.clock)  # type: ignore[attr-defined]
    assert [again.get(name) for name in "sr"] == [bench.get(name) for name in "sr"]
    assert again.runs.list(schedule="r") == bench.runs.list(schedule="r")
    assert again.runs.list(schedule="r")[0].state == "ready"
    again.close()


def audited(bench: Sandbox, name: str) -> list[str]:
    """What the events of this name say."""
    with bench._store.reading() as transaction:
        events = [event for event in transaction.events_after(0, 1_000) if event.type in canonical(name)]
    return [str(event.data) for event in events]


def test_s3_quiet_hours(bench: Sandbox) -> None:
    """S3: "Check quiet hours policy — if suppressed: emit AuditEvent("schedule.skipped"), advance next_run_at" """
    bench.quiet_hours.set("nights", windows="14:30-16:30")
    create_schedule(bench, "digest", "cron", "0 * * * *", job="emit", quiet_hours_policy_id="nights")
    bench.run_until(NOW + timedelta(hours=3, minutes=5))
    assert iso(bench.get("digest").next_run_at) == "2026-03-27T16:00:00Z"
    assert len(audited(bench, "schedule.skipped")) == 1
    bench.run_until(NOW + timedelta(hours=6))
    assert [str(iso(run.slot))[11:13] for run in bench.assert_ran("digest")] == ["13", "14", "17", "18"]
    skipped = [run for run in bench.runs.list(schedule="digest") if run.state == "skipped"]
    assert [(str(iso(run.slot))[11:13], run.reason) for run in skipped] == [
        ("16", "quiet_hours"),
        ("15", "quiet_hours"),
    ]
    told = audited(bench, "schedule.skipped")
    assert len(told) == 2
    assert all('"policy":"nights"' in data for data in told)


def test_s3_the_record_the_audit_and_the_cursor_commit_together(bench: Sandbox) -> None:
    """S3: "Commit atomically." """
    bench.quiet_hours.set("nights", windows="12:30-16:30")
    create_schedule(bench, "digest", "cron", "0 * * * *", job="emit", quiet_hours_policy_id="nights")
    bench.clock.advance(3_600_000)
    now = bench.clock.now_ms()

    def plan_and_die() -> None:
        with bench._store.transaction(now) as transaction:
            bench.engine.planner.plan(transaction, now, bench.engine.worker, Capacity(10), 10)
            assert transaction.events[-1].type in canonical("schedule.skipped")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        plan_and_die()
    assert (bench.runs.list(schedule="digest"), audited(bench, "schedule.skipped")) == ([], [])
    assert bench.get("digest").next_run_at == to_datetime(now)


def test_s3_every_type_and_its_own_time_zone(bench: Sandbox) -> None:
    """S3: an interval moves on by itself; the policy's clock is the policy's own"""
    bench.quiet_hours.set("berlin", windows="13:15-13:45", timezone="Europe/Berlin")  # 12:15 to 12:45 UTC
    create_schedule(bench, "poll", "interval", "600", job="emit", quiet_hours_policy_id="berlin")
    bench.run_until(NOW + timedelta(minutes=55))
    assert [str(iso(run.slot))[14:16] for run in bench.assert_ran("poll")] == ["00", "10", "50"]


def test_s3_a_one_shot_has_no_other_slot(bench: Sandbox) -> None:
    """S3: it runs at the window's end, and disables itself after"""
    bench.quiet_hours.set("nights", windows="14:30-16:30")
    create_schedule(bench, "remind", "one_shot", "2026-03-27T15:00:00Z", job="emit", quiet_hours_policy_id="nights")
    bench.run_until(NOW + timedelta(hours=4))
    bench.assert_not_ran("remind")
    bench.run_until(NOW + timedelta(hours=12))
    (run,) = bench.assert_ran("remind", times=1)
    assert iso(run.started_at) == "2026-03-27T16:30:00Z"
    assert bench.get("remind").state == "completed"


def test_s3_a_policy_that_is_not_there_is_refused(bench: Sandbox) -> None:
    """S3"""
    with pytest.raises(InvalidInput, match="nights"):
        create_schedule(bench, "digest", "cron", "0 * * * *", job="emit", quiet_hours_policy_id="nights")
    assert bench.list() == []


def test_s4_the_catch_up_policy_is_a_column_too(bench: Sandbox) -> None:
    """S4 S6: "default skip", "IANA timezone; default UTC" """
    made = create_schedule(bench, "a", "cron", "0 9 * * *", job="emit", payload={"text": "hello"})
    assert (made.settings.get("catch_up", "skip"), made.timezone) == ("skip", "UTC")
    assert (made.settings["payload"], made.settings.get("quiet_hours")) == ({"text": "hello"}, None)
    other = create_schedule(
        bench, "b", "cron", "0 9 * * *", job="emit", timezone="Asia/Tokyo", catch_up_policy="run_once"
    )
    assert (other.settings["catch_up"], other.timezone) == ("run_once", "Asia/Tokyo")


def test_s9_the_thirteen_columns(bench: Sandbox) -> None:
    """S9: the schedules table, with its defaults"""
    columns = (
        "schedule_id", "name", "enabled", "type", "spec", "next_run_at", "last_run_at", "timezone",
        "quiet_hours_policy_id", "catch_up_policy", "payload", "created_at", "updated_at",
    )  # fmt: skip
    assert ScheduleRow._fields == columns
    made = create_schedule(bench, "poll", "interval", "30", job="emit", payload={"text": "hello"})
    row = schedule_row(made)
    assert (row.type, row.spec, row.enabled, row.timezone) == ("interval", "30", True, "UTC")
    assert (row.quiet_hours_policy_id, row.catch_up_policy, row.payload) == (None, "skip", {"text": "hello"})
    assert (row.last_run_at, row.next_run_at) == (None, NOW)
    assert (row.created_at, row.updated_at) == (NOW, NOW)
    assert schedule_row(create_schedule(bench, "c", "cron", "0 9 * * 1-5", job="emit")).spec == "0 9 * * 1-5"
    once = create_schedule(bench, "o", "one_shot", "2026-03-28T09:00:00Z", job="emit")
    assert schedule_row(once)[3:5] == ("one_shot", "2026-03-28T09:00:00Z")
    bench.run_until(datetime(2026, 3, 28, 9, 1, tzinfo=UTC))
    assert schedule_row(bench.get("o")).enabled is False, "disables itself after"


def test_s5_a_fire_emits_a_message_event(bench: Sandbox) -> None:
    """S5: "Emit MessageEvent with source.channel = "scheduler" and source.connector_id = schedule_id." """
    made = create_schedule(bench, "greet", "cron", "0 13 * * *", payload={"text": "good afternoon"})
    bench.run_until(NOW + timedelta(hours=1))
    (said,) = audited(bench, "message.emitted")
    assert '"channel":"scheduler"' in said
    assert f'"connector_id":"{made.id}"' in said
    assert "good afternoon" in said
    bench.assert_ran("greet", times=1)
    assert schedule_row(bench.get("greet")).last_run_at == NOW + timedelta(hours=1), "Update last_run_at"
    assert schedule_row(bench.get("greet")).next_run_at == NOW + timedelta(hours=25), "compute new next_run_at"
