"""Polpo's own sentences (seeds/polpo)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from matins import CronParseError, InvalidInput, JobContext, parse_trigger
from matins.seeds.polpo import expired_payload, load_hooks, mission_status
from matins.testing import ManualClock, Sandbox, iso

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "says", "first"),
    [
        ("0 2 * * *", "every day at 02:00", (1, 2, 0)),
        ("*/15 * * * *", "every 15 minutes on the clock", (1, 0, 15)),
        ("0 9 * * 1-5", "every weekday at 09:00", (2, 9, 0)),
        ("0 0 1 * *", "on the 1st of every month at 00:00", (32, 0, 0)),
        ("30 8,12,18 * * *", "every day at 08:30, 12:30 and 18:30", (1, 8, 30)),
        ("0 22 * * 0", "every Sunday at 22:00", (1, 22, 0)),
        ("0 6 * * 1", "every Monday at 06:00", (2, 6, 0)),
    ],
)
def test_p3_common_patterns(expression: str, says: str, first: tuple[int, int, int]) -> None:
    """P3"""
    trigger = parse_trigger(expression, strict=True)
    day, hour, minute = first
    expected = datetime(2026, 3, day, hour, minute, tzinfo=UTC) if day < 32 else datetime(2026, 4, 1, tzinfo=UTC)
    assert trigger.describe() == says
    assert trigger.next_after(START) == expected


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("30", [30]),
        ("0-5", [0, 1, 2, 3, 4, 5]),
        ("*/15", [0, 15, 30, 45]),
        ("1,3,5", [1, 3, 5]),
        ("0-30/10", [0, 10, 20, 30]),
    ],
)
def test_p3_syntax_table(field: str, minutes: list[int]) -> None:
    """P3"""
    trigger = parse_trigger(f"{field} * * * *", strict=True)
    hour = [t.minute for t in trigger.between(START, START.replace(hour=1))]
    assert hour == minutes


def test_p3_sunday_is_0_and_7() -> None:
    """P3"""
    zero, seven = parse_trigger("0 22 * * 0", strict=True), parse_trigger("0 22 * * 7", strict=True)
    assert zero.next_after(START) == seven.next_after(START)


@pytest.mark.parametrize(
    ("expression", "token"),
    [
        ("@daily", "@daily"),
        ("0 9 * * MON", "MON"),
        ("0 0 L * *", "L"),
        ("0 0 15W * *", "15W"),
        ("0 0 * * 5#2", "5#2"),
        ("0 0 ? * *", "?"),
        ("0 0 9 * * *", "6"),
    ],
)
def test_p3_strict_refuses_what_polpo_does_not_have_by_name(expression: str, token: str) -> None:
    """P3"""
    parse_trigger(expression)
    with pytest.raises(CronParseError) as caught:
        parse_trigger(expression, strict=True)
    assert token in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("expression", ["*/0 * * * *", "99 * * * *", "5-1 * * * *", "0 0 30 2 *"])
def test_p3_the_seeds_parser_defects_are_errors_here(expression: str) -> None:
    """P3"""
    with pytest.raises(CronParseError) as caught:
        parse_trigger(expression, strict=True)
    assert caught.value.field
    assert caught.value.allowed


def test_p3_february_29_is_found_across_2100() -> None:
    """P3"""
    trigger = parse_trigger("0 0 29 2 *")
    assert trigger.next_after(datetime(2096, 3, 1, tzinfo=UTC)) == datetime(2104, 2, 29, tzinfo=UTC)


def test_p8_on_startup_every_stored_schedule_is_registered(tmp_path: Path) -> None:
    """P8: "on startup, Polpo scans all missions with a schedule field … and registers them" """
    clock = ManualClock("2026-03-27T08:00:00Z")
    before = Sandbox(f"sqlite:///{tmp_path}/polpo.db", clock=clock)
    before.job("mission")(lambda run: None)
    before.add_many([{"name": f"sched-{n}", "when": "0 9 * * *", "job": "mission"} for n in range(20)])
    before.pause("sched-7")
    before.close()
    bench = Sandbox(f"sqlite:///{tmp_path}/polpo.db", clock=clock)
    bench.job("mission")(lambda run: None)
    bench.run_until("2026-03-27T09:00:00Z")
    for n in range(20):
        bench.assert_ran(f"sched-{n}", times=0 if n == 7 else 1)
    bench.close()


def test_p8_double_execution_of_active_missions_is_prevented() -> None:
    """P8: "Missions in active … status are skipped. This prevents double execution of active missions." """
    bench = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
    active: list[int] = []

    @bench.job("mission")
    def mission(run: JobContext) -> None:
        active.append(run.id)
        assert len(active) == 1, "a second run of an active one"
        bench.clock.advance(3_600_000)
        bench.engine.turn()
        assert bench.run("sched-1").reason == "already_running"
        active.remove(run.id)

    bench.add("sched-1", when="0 * * * *", job="mission")
    bench.run_until("2026-03-27T09:00:00Z")
    states = [(run.state, run.reason) for run in reversed(bench.runs.list(schedule="sched-1"))]
    assert states[:3] == [("succeeded", None), ("skipped", "already_running"), ("skipped", "already_running")]
    bench.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(f"sqlite:///{tmp_path}/polpo.db", clock=ManualClock("2026-06-29T00:00:00Z"))
    made.job("mission")(lambda run: None)
    yield made
    made.close()


@pytest.fixture
def expired(bench: Sandbox) -> list[dict]:
    """The payloads of schedule:expired, as they come."""
    told: list[dict] = []
    bench.subscribe(lambda event: told.append(expired_payload(event)), types="schedule:expired")
    return told


def days_on_which(bench: Sandbox, name: str) -> list[str]:
    return [str(iso(run.slot))[:10] for run in bench.assert_ran(name)]


def tell(bench: Sandbox) -> None:
    bench.outbox.run_once(bench.clock.now_ms())


def test_p5_runs_every_day_until_the_end_date(bench: Sandbox, expired: list[dict]) -> None:
    """P5: "This runs every day at 02:00 until June 30, 2026. After that date, the mission is marked as completed
    automatically." """
    bench.add("sched-nightly", when="0 2 * * *", job="mission", ends_at="2026-06-30T23:59:00Z")
    bench.run_until("2026-07-01T01:59:00Z")
    assert mission_status(bench, "nightly") == "recurring", "checked at trigger time"
    bench.run_until("2026-07-04T00:00:00Z")
    assert days_on_which(bench, "sched-nightly") == ["2026-06-29", "2026-06-30"]
    assert mission_status(bench, "nightly") == "completed"
    assert bench.get("sched-nightly").next_run_at is None, "Disables the schedule entry"
    tell(bench)
    assert expired == [{"scheduleId": "sched-nightly", "missionId": "nightly", "endDate": "2026-06-30T23:59:00Z"}], (
        "Emits a schedule:expired event"
    )


def test_p5_an_end_date_in_the_past_is_checked_at_trigger_time(bench: Sandbox, expired: list[dict]) -> None:
    """P5: "The end date is checked at trigger time, not at registration time." """
    bench.add("sched-late", when="0 2 * * *", job="mission", ends_at="2026-01-01T00:00:00Z")
    bench.run_until("2026-06-29T01:59:00Z")
    tell(bench)
    assert (mission_status(bench, "late"), expired) == ("recurring", [])
    bench.run_until("2026-06-29T02:00:00Z")
    tell(bench)
    assert (mission_status(bench, "late"), len(expired)) == ("completed", 1)
    bench.assert_not_ran("sched-late")


@pytest.mark.parametrize(("end", "ran"), [("13:59:59", 0), ("14:00:00", 1), ("15:00:00", 1)])
def test_p5_one_shots_too(bench: Sandbox, expired: list[dict], end: str, ran: int) -> None:
    """P5: "One-shot scheduled mission with end date: End date is checked before execution" """
    bench.add("sched-deploy", when="2026-06-29T14:00:00Z", job="mission", ends_at=f"2026-06-29T{end}Z")
    assert mission_status(bench, "deploy") == "scheduled"
    bench.run_until("2026-06-30T00:00:00Z")
    bench.assert_ran("sched-deploy", times=ran)
    assert mission_status(bench, "deploy") == "completed"
    tell(bench)
    assert len(expired) == 1 - ran


def test_p5_removing_an_end_date(bench: Sandbox, expired: list[dict]) -> None:
    """P5: "End date removed (null): Schedule runs indefinitely" """
    bench.add("sched-nightly", when="0 2 * * *", job="mission", ends_at="2026-06-30T23:59:00Z")
    bench.run_until("2026-06-29T12:00:00Z")
    bench.edit("sched-nightly", ends_at=None)
    bench.run_until("2026-07-09T00:00:00Z")
    bench.assert_ran("sched-nightly", times=10)
    tell(bench)
    assert (mission_status(bench, "nightly"), expired) == ("recurring", [])


def test_p5_the_end_date_is_persisted_across_restarts(bench: Sandbox) -> None:
    """P5: "The endDate is stored on the Mission object and persisted across restarts." """
    bench.add("sched-nightly", when="0 2 * * *", job="mission", ends_at="2026-06-30T23:59:00Z")
    again = Sandbox(f"sqlite:///{bench._store.path}", clock=bench.clock)
    again.job("mission")(lambda run: None)
    again.run_until("2026-07-04T00:00:00Z")
    again.assert_ran("sched-nightly", times=2)
    assert mission_status(again, "nightly") == "completed"
    again.close()


def test_p5_a_mission_that_runs_is_active(bench: Sandbox) -> None:
    """P5 P8: also its last run before the end, and while later slots are skipped because it still runs"""
    seen: list[str] = []

    @bench.job("long")
    def long(run: JobContext) -> None:
        seen.append(mission_status(bench, "nightly"))
        for _ in range(2):
            bench.clock.advance(86_400_000)
            bench.engine.turn()
            bench.engine.turn()  # so great a leap must still be there at a second look
        assert bench.runs.list(schedule="sched-nightly")[0].state == "skipped"
        seen.append(mission_status(bench, "nightly"))

    bench.add("sched-nightly", when="0 2 * * *", job="long", ends_at="2026-06-30T23:59:00Z")
    bench.run_until("2026-06-29T02:00:00Z")
    assert seen == ["active", "active"]
    bench.settle()
    assert mission_status(bench, "nightly") == "completed"


SEED_HOOKS = {"hooks": {"before:schedule:trigger": {"command": "test -f open"}}}


def test_p7_cancelling_a_scheduled_run(bench: Sandbox, tmp_path: Path) -> None:
    """P7: "If the hook cancels, the schedule remains active — it will try again at the next cron occurrence. The run is
    skipped, not deleted." """
    load_hooks(bench, SEED_HOOKS)
    bench.add("sched-nightly", when="0 2 * * *", job="mission")
    bench.run_until("2026-06-29T12:00:00Z")
    (skipped,) = bench.runs.list(schedule="sched-nightly")
    assert (skipped.state, skipped.reason) == ("skipped", "hook")
    assert mission_status(bench, "nightly") == "recurring"
    assert iso(bench.get("sched-nightly").next_run_at) == "2026-06-30T02:00:00Z"
    (tmp_path / "open").touch()
    bench.run_until("2026-06-30T12:00:00Z")
    assert days_on_which(bench, "sched-nightly") == ["2026-06-30"]


def test_p7_a_one_shot_that_is_cancelled_stays_scheduled(bench: Sandbox, tmp_path: Path) -> None:
    """P7: it has no next occurrence, so it is tried again"""
    load_hooks(bench, SEED_HOOKS)
    bench.add("sched-deploy", when="2026-06-29T14:00:00Z", job="mission")
    bench.run_until("2026-06-29T15:00:00Z")
    bench.assert_not_ran("sched-deploy")
    assert mission_status(bench, "deploy") == "scheduled"
    (tmp_path / "open").touch()
    bench.run_until("2026-06-29T16:00:00Z")
    bench.assert_ran("sched-deploy", times=1)
    assert mission_status(bench, "deploy") == "completed"


def test_p7_the_hook_fires_before_each_scheduled_execution(bench: Sandbox, tmp_path: Path) -> None:
    """P7: "The before:schedule:trigger hook fires before each scheduled execution." """
    load_hooks(bench, {"hooks": {"before:schedule:trigger": {"command": 'echo "$MATINS_SCHEDULE" >> asked'}}})
    for mission in ("audit", "backup"):
        bench.add(f"sched-{mission}", when="0 2 * * *", job="mission")
    bench.run_until("2026-06-30T12:00:00Z")
    assert sorted((tmp_path / "asked").read_text().split()) == ["sched-audit"] * 2 + ["sched-backup"] * 2


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "hooks"),
        ({"hooks": "test -f x"}, "hooks"),
        ({"hooks": SEED_HOOKS["hooks"] | {"before:task:start": {"command": "true"}}}, "hooks"),
        ({"hooks": {"before:schedule:trigger": "false"}}, "hooks.before:schedule:trigger"),
        ({"hooks": {"before:schedule:trigger": {}}}, "hooks.before:schedule:trigger"),
        ({"hooks": {"before:schedule:trigger": {"command": "false", "shell": True}}}, "hooks.before:schedule:trigger"),
        ({"hooks": {"before:schedule:trigger": {"command": "no-such-program"}}}, "command"),
    ],
)
def test_p7_a_hook_that_cannot_be_used_is_refused(bench: Sandbox, data: dict, field: str) -> None:
    """P7"""
    with pytest.raises(InvalidInput) as caught:
        load_hooks(bench, data)
    assert caught.value.field == field
    assert caught.value.hint
    bench.add("sched-nightly", when="0 2 * * *", job="mission")
    bench.run_until("2026-06-30T00:00:00Z")
    bench.assert_ran("sched-nightly", times=1)
