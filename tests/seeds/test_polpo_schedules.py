"""Polpo's schedules: changed, removed, ended, triggered and told, sentence by sentence (seeds/polpo)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from polpo_bench import TASKS, Polpo

from matins import InvalidInput
from matins.seeds.polpo import (
    abort_mission,
    create_mission,
    create_schedule,
    delete_schedule,
    list_schedules,
    mission_status,
    update_schedule,
)

# -- update, delete, abort


def test_p4_disabling_and_enabling(polpo: Polpo, tmp_path: Path) -> None:
    """P4: "Disable … keeps the schedule configuration but stops execution. Re-enable … resumes execution"; disabling
    survives a restart"""
    before = polpo.mission("nightly", "0 2 * * *", recurring=True)
    entry = update_schedule(polpo, "nightly", enabled=False)
    assert entry == before | {"enabled": False, "nextRunAt": None}
    assert mission_status(polpo, "nightly") == "paused"
    again = Polpo(f"sqlite:///{tmp_path}/polpo.db", clock=polpo.clock)
    again.run_until("2026-06-30T12:00:00Z")
    assert (mission_status(again, "nightly"), again.asked) == ("paused", [])
    assert update_schedule(again, "nightly", enabled=True) == before | {"nextRunAt": "2026-07-01T02:00:00Z"}
    again.run_until("2026-07-01T12:00:00Z")
    assert again.days_of("nightly") == ["2026-07-01"]
    again.close()


def test_p4_deleting(polpo: Polpo) -> None:
    """P4: "permanently removes the schedule and resets the mission to draft" """
    polpo.mission("nightly", "0 2 * * *", recurring=True, endDate="2026-07-30T00:00:00Z")
    polpo.run_until("2026-06-29T12:00:00Z")
    assert delete_schedule(polpo, "nightly") == {"removed": True, "missionId": "nightly", "status": "draft"}
    assert (list_schedules(polpo), polpo.missions.get("nightly").ends_at) == ([], None)
    polpo.run_until("2026-07-03T12:00:00Z")
    polpo.assert_ran("nightly", times=1)


@pytest.mark.parametrize("remove", [delete_schedule, abort_mission])
def test_p4_removing_what_is_disabled(polpo: Polpo, remove: Any) -> None:
    """P4: the mission is a draft, and can be started"""
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    update_schedule(polpo, "nightly", enabled=False)
    remove(polpo, "nightly")
    assert mission_status(polpo, "nightly") == "draft"
    polpo.run("nightly")
    polpo.settle()
    assert mission_status(polpo, "nightly") == "completed"


def test_p4_aborting(polpo: Polpo) -> None:
    """P4: "aborting a scheduled mission automatically removes its schedule" """
    polpo.failing.add("build-agent")
    polpo.mission("deploy", "2026-06-29T14:00:00Z")
    polpo.run_until("2026-06-29T14:00:05Z")
    assert mission_status(polpo, "deploy") == "scheduled"
    assert abort_mission(polpo, "deploy").status == "cancelled"
    assert list_schedules(polpo) == []
    polpo.run_until("2026-07-03T12:00:00Z")
    assert len(polpo.asked) == 1
    create_schedule(polpo, "deploy", "0 2 * * *", recurring=True)
    assert mission_status(polpo, "deploy") == "recurring"
    assert abort_mission(polpo, "deploy").status == "draft", "nothing ran"


def test_p4_aborting_what_runs(polpo: Polpo) -> None:
    """P4: the task that runs ends, and no other starts"""
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    polpo.meanwhile = lambda: abort_mission(polpo, "nightly")
    polpo.run_until("2026-07-03T12:00:00Z")
    assert len(polpo.asked) == 1
    assert (mission_status(polpo, "nightly"), list_schedules(polpo)) == ("cancelled", [])


def test_p4_switching_the_mode(polpo: Polpo) -> None:
    """P4: "changes between one-shot and recurring" """
    polpo.mission("nightly", "0 2 * * *")
    assert update_schedule(polpo, "nightly", recurring=True)["recurring"]
    assert mission_status(polpo, "nightly") == "recurring"
    polpo.failing.add("build-agent")
    polpo.run_until("2026-06-30T12:00:00Z")
    assert len(polpo.asked) == 2, "no retries, no pause"
    polpo.failing.clear()
    assert not update_schedule(polpo, "nightly", recurring=False)["recurring"]
    assert mission_status(polpo, "nightly") == "scheduled"
    polpo.run_until("2026-07-05T12:00:00Z")
    polpo.assert_ran("nightly", times=1)
    update_schedule(polpo, "nightly", expression="2026-07-09T00:00:00Z")
    with pytest.raises(InvalidInput, match="takes a cron expression"):
        update_schedule(polpo, "nightly", recurring=True)
    assert update_schedule(polpo, "nightly", expression="0 3 * * *", recurring=True)["recurring"]


def test_p4_changing_the_expression(polpo: Polpo) -> None:
    """P4"""
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    entry = update_schedule(polpo, "nightly", expression="30 4 * * *")
    assert (entry["expression"], entry["nextRunAt"]) == ("30 4 * * *", "2026-06-29T04:30:00Z")
    with pytest.raises(InvalidInput, match="takes a cron expression"):
        update_schedule(polpo, "nightly", expression="2026-07-09T00:00:00Z")


# -- end date


def test_p5_runs_every_day_until_the_end_date(polpo: Polpo) -> None:
    """P5 P9: "This runs every day at 02:00 until June 30, 2026. After that date, the mission is marked as completed
    automatically." """
    polpo.mission("nightly", "0 2 * * *", recurring=True, endDate="2026-06-30T23:59:00Z")
    polpo.run_until("2026-07-01T01:59:00Z")
    assert mission_status(polpo, "nightly") == "recurring", "checked at trigger time"
    polpo.hear()
    polpo.run_until("2026-07-04T00:00:00Z")
    assert polpo.days_of("nightly") == ["2026-06-29", "2026-06-30"]
    assert mission_status(polpo, "nightly") == "completed"
    (entry,) = list_schedules(polpo)
    assert (entry["enabled"], entry["nextRunAt"]) == (False, None), "Disables the schedule entry"
    payload = {"scheduleId": "sched-nightly", "missionId": "nightly", "endDate": "2026-06-30T23:59:00Z"}
    assert polpo.hear() == [("schedule:expired", payload)]


def test_p5_an_end_date_in_the_past_is_checked_at_trigger_time(polpo: Polpo) -> None:
    """P5: "The end date is checked at trigger time, not at registration time." """
    polpo.mission("late", "0 2 * * *", recurring=True, endDate="2026-01-01T00:00:00Z")
    polpo.run_until("2026-06-29T01:59:00Z")
    assert (mission_status(polpo, "late"), [name for name, _ in polpo.hear()]) == ("recurring", ["schedule:created"])
    polpo.run_until("2026-06-29T02:00:00Z")
    assert (mission_status(polpo, "late"), [name for name, _ in polpo.hear()]) == ("completed", ["schedule:expired"])
    polpo.assert_not_ran("late")


@pytest.mark.parametrize(("end", "ran"), [("13:59:59", 0), ("14:00:00", 1), ("15:00:00", 1)])
@pytest.mark.parametrize("expression", ["2026-06-29T14:00:00Z", "0 14 * * *"])
def test_p5_one_shots_too(polpo: Polpo, expression: str, end: str, ran: int) -> None:
    """P5: "One-shot scheduled mission with end date: End date is checked before execution" """
    polpo.mission("deploy", expression, endDate=f"2026-06-29T{end}Z")
    assert mission_status(polpo, "deploy") == "scheduled"
    polpo.run_until("2026-06-30T00:00:00Z")
    polpo.assert_ran("deploy", times=ran)
    assert mission_status(polpo, "deploy") == "completed"
    assert [name for name, _ in polpo.hear()].count("schedule:expired") == 1 - ran


def test_p5_removing_an_end_date(polpo: Polpo) -> None:
    """P4 P5: "update_schedule(missionId, endDate=null)": "Schedule runs indefinitely" """
    polpo.mission("nightly", "0 2 * * *", recurring=True, endDate="2026-06-30T23:59:00Z")
    polpo.run_until("2026-06-29T12:00:00Z")
    update_schedule(polpo, "nightly", endDate=None)
    polpo.run_until("2026-07-09T00:00:00Z")
    polpo.assert_ran("nightly", times=10)
    assert mission_status(polpo, "nightly") == "recurring"


def test_p5_a_later_end_date_revives_what_expired(polpo: Polpo) -> None:
    """P4 P5"""
    polpo.mission("nightly", "0 2 * * *", recurring=True, endDate="2026-06-29T12:00:00Z")
    polpo.run_until("2026-07-01T12:00:00Z")
    assert mission_status(polpo, "nightly") == "completed"
    update_schedule(polpo, "nightly", endDate="2026-07-02T12:00:00Z")
    assert mission_status(polpo, "nightly") == "recurring"
    polpo.run_until("2026-07-09T00:00:00Z")
    assert polpo.days_of("nightly") == ["2026-06-29", "2026-07-02"]


def test_p5_the_end_date_is_persisted_across_restarts(polpo: Polpo, tmp_path: Path) -> None:
    """P5: "The endDate is stored on the Mission object and persisted across restarts." """
    polpo.mission("nightly", "0 2 * * *", recurring=True, endDate="2026-06-30T23:59:00Z")
    again = Polpo(f"sqlite:///{tmp_path}/polpo.db", clock=polpo.clock)
    again.run_until("2026-07-04T00:00:00Z")
    again.assert_ran("nightly", times=2)
    assert mission_status(again, "nightly") == "completed"
    again.close()


# -- internals


def test_p8_on_startup_every_stored_schedule_is_registered(polpo: Polpo, tmp_path: Path) -> None:
    """P8: "on startup, Polpo scans all missions with a schedule field in scheduled or recurring status and registers
    them" """
    for n in range(4):
        polpo.mission(f"m{n}", "0 9 * * *", recurring=n > 0)
    update_schedule(polpo, "m2", enabled=False)
    delete_schedule(polpo, "m3")
    again = Polpo(f"sqlite:///{tmp_path}/polpo.db", clock=polpo.clock)
    again.run_until("2026-06-30T10:00:00Z")
    assert [len(again.all_runs(f"m{n}")) for n in range(4)] == [1, 2, 0, 0]
    again.close()


def test_p8_double_execution_of_active_missions_is_prevented(polpo: Polpo) -> None:
    """P8: "Missions in active … status are skipped. This prevents double execution of active missions." """
    statuses: list[str] = []

    def next_slot() -> None:
        polpo.clock.advance(3_600_000)
        polpo.engine.turn()
        statuses.append(mission_status(polpo, "hourly"))

    polpo.meanwhile = next_slot
    polpo.mission("hourly", "0 * * * *", recurring=True, tasks=TASKS[:1])
    polpo.run_until("2026-06-29T01:00:00Z")
    states = [(run.state, run.reason) for run in reversed(polpo.all_runs("hourly"))]
    assert states[:2] == [("succeeded", None), ("skipped", "already_running")]
    assert statuses[0] == "active"
    (entry,) = list_schedules(polpo)
    assert str(entry["lastRunAt"]) >= "2026-06-29T01:00:00Z"


@pytest.mark.parametrize("status", ["active", "paused", "draft", "completed", "failed", "cancelled"])
def test_p8_only_scheduled_and_recurring_missions_are_triggered(polpo: Polpo, status: str) -> None:
    """P8: "Missions in active, paused, draft, completed, failed, or cancelled status are skipped." """
    polpo.mission("m", "0 2 * * *", recurring=status in ("active", "paused", "draft"))
    if status == "paused":
        update_schedule(polpo, "m", enabled=False)
    elif status == "draft":
        delete_schedule(polpo, "m")
    elif status in ("completed", "failed", "cancelled"):
        polpo.failing = set() if status == "completed" else {"build-agent"}
        if status == "failed":
            polpo.edit("m", pause_after_failures=None)
        polpo.run_until("2026-06-29T02:00:01Z" if status == "cancelled" else "2026-06-29T03:00:00Z")
        if status == "cancelled":
            abort_mission(polpo, "m")
    else:
        polpo.edit("m", approval="owner_approve")
        polpo.run_until("2026-06-29T03:00:00Z")
    assert mission_status(polpo, "m") == status
    asked = list(polpo.asked)
    polpo.run_until("2026-07-03T00:00:00Z")
    assert polpo.asked == asked


# -- events


def test_p9_the_three_events_and_their_payloads(polpo: Polpo) -> None:
    """P9: the seed's table of events; once per mission run, however many tasks it has"""
    ids = {"scheduleId": "sched-nightly", "missionId": "nightly"}
    create_mission(polpo, "nightly", TASKS)
    assert polpo.hear() == [], "a draft has no schedule"
    create_schedule(polpo, "nightly", "0 2 * * *", recurring=True)
    assert polpo.hear() == [("schedule:created", {**ids, "nextRunAt": "2026-06-29T02:00:00Z"})]
    polpo.meanwhile = lambda: heard.extend(polpo.hear())
    heard: list[tuple[str, dict[str, Any]]] = []
    polpo.run_until("2026-06-29T12:00:00Z")
    assert heard == [("schedule:triggered", {**ids, "expression": "0 2 * * *"})], "completed: when it has finished"
    assert polpo.hear() == [("schedule:completed", ids)]
    polpo.pause("nightly")
    delete_schedule(polpo, "nightly")
    assert polpo.hear() == []


def test_p9_a_mission_that_failed_has_finished_too(polpo: Polpo) -> None:
    """P9 P2: once, after its retries"""
    polpo.failing.add("build-agent")
    polpo.mission("deploy", "2026-06-29T14:00:00Z")
    polpo.run_until("2026-06-29T14:00:05Z")
    assert [name for name, _ in polpo.hear()] == ["schedule:created", "schedule:triggered"]
    polpo.run_until("2026-06-29T15:00:00Z")
    assert [name for name, _ in polpo.hear()] == ["schedule:completed"]


def test_p9_what_a_hook_cancels_is_not_triggered(polpo: Polpo) -> None:
    """P7 P9"""
    polpo.hooks.set("before:schedule:trigger", command="false")
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    polpo.run_until("2026-06-30T12:00:00Z")
    assert [name for name, _ in polpo.hear()] == ["schedule:created"]


def test_p9_webhooks_ask_for_them_by_the_seeds_names(polpo: Polpo) -> None:
    """P9"""
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    types = [event.type for event in polpo.events.list(types="schedule:created")]
    assert types == ["schedule.created", "schedule.timed"]


def test_p7_a_one_shot_by_cron_that_is_cancelled_tries_the_next_occurrence(polpo: Polpo, tmp_path: Path) -> None:
    """P7: "it will try again at the next cron occurrence. The run is skipped, not deleted." """
    polpo.hooks.set("before:schedule:trigger", command="test -f open")
    polpo.mission("deploy", "0 2 * * *")
    polpo.run_until("2026-06-29T12:00:00Z")
    assert (mission_status(polpo, "deploy"), polpo.all_runs("deploy")[0].state) == ("scheduled", "skipped")
    (tmp_path / "open").touch()
    polpo.run_until("2026-07-03T12:00:00Z")
    assert (mission_status(polpo, "deploy"), polpo.days_of("deploy")) == ("completed", ["2026-06-30"])
