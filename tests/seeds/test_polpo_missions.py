"""Polpo's missions and schedules, sentence by sentence (seeds/polpo)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from polpo_bench import TASKS, Polpo

from matins import InvalidInput
from matins.errors import Conflict, CronParseError, NotFound
from matins.seeds.polpo import (
    Task,
    abort_mission,
    create_mission,
    create_schedule,
    delete_schedule,
    list_schedules,
    mission_status,
    update_schedule,
)
from matins.testing import ManualClock, iso

NIGHTLY: list[Task] = [
    {
        "title": "Run full test suite",
        "description": "Run all integration and unit tests. Report any failures.",
        "assignTo": "test-agent",
    },
    {
        "title": "Generate coverage report",
        "description": "Generate a coverage report and save to coverage-report.md.",
        "assignTo": "report-agent",
        "dependsOn": ["Run full test suite"],
    },
]


# -- examples


def test_p6_nightly_integration_tests(polpo: Polpo) -> None:
    """P1 P2 P6: "create_schedule(missionId, "0 2 * * *", recurring=true)" with the seed's tasks"""
    create_mission(polpo, "nightly", NIGHTLY)
    create_schedule(polpo, "nightly", "0 2 * * *", recurring=True)
    polpo.run_until("2026-06-30T12:00:00Z")
    once = [
        ("test-agent", "Run all integration and unit tests. Report any failures."),
        ("report-agent", "Generate a coverage report and save to coverage-report.md."),
    ]
    assert polpo.asked == [*once, *once]
    assert polpo.days_of("nightly") == ["2026-06-29", "2026-06-30"]
    assert mission_status(polpo, "nightly") == "recurring"


def test_p6_scheduled_one_time_deploy() -> None:
    """P1 P2 P6: "create_schedule(missionId, "2026-03-15T14:00:00Z")"; a task without a description is its title"""
    polpo = Polpo(clock=ManualClock("2026-03-10T00:00:00Z"))
    create_mission(polpo, "deploy", TASKS)
    create_schedule(polpo, "deploy", "2026-03-15T14:00:00Z")
    polpo.run_until("2026-03-20T00:00:00Z")
    assert polpo.asked == [("build-agent", "Build release artifacts"), ("devops-agent", "Deploy to production")]
    (run,) = polpo.assert_ran("deploy", times=1)
    assert iso(run.slot) == "2026-03-15T14:00:00Z"
    assert mission_status(polpo, "deploy") == "completed"
    polpo.close()


# -- life cycle


def test_p2_a_recurring_mission(polpo: Polpo) -> None:
    """P2: "draft → recurring → active → recurring (always returns for next tick)" """
    seen: list[str] = []
    polpo.meanwhile = lambda: seen.append(mission_status(polpo, "nightly"))
    create_mission(polpo, "nightly", TASKS)
    assert mission_status(polpo, "nightly") == "draft"
    create_schedule(polpo, "nightly", "0 2 * * *", recurring=True)
    assert mission_status(polpo, "nightly") == "recurring"
    polpo.run_until("2026-06-29T02:00:00Z")
    assert (seen, mission_status(polpo, "nightly")) == (["active", "active"], "recurring")


def test_p2_a_recurring_mission_returns_after_failures_too(polpo: Polpo) -> None:
    """P2 P6: "A recurring mission never reaches completed or failed status … The individual task statuses reflect
    success/failure of each run." """
    polpo.failing.add("build-agent")
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    for day in (29, 30):
        polpo.run_until(f"2026-06-{day}T03:00:00Z")
        assert mission_status(polpo, "nightly") == "recurring"
        assert polpo.tasks_of("nightly") == {"Build release artifacts": "failed", "Deploy to production": "skipped"}
    polpo.failing.clear()
    polpo.run_until("2026-07-01T03:00:00Z")
    assert polpo.tasks_of("nightly") == {"Build release artifacts": "succeeded", "Deploy to production": "succeeded"}
    assert [run.state for run in polpo.all_runs("nightly")] == ["succeeded", "failed", "failed"]


@pytest.mark.parametrize("expression", ["2026-06-29T14:00:00Z", "0 14 * * *"])
def test_p2_a_one_shot(polpo: Polpo, expression: str) -> None:
    """P1 P2: "draft → scheduled → active → completed"; by cron or ISO timestamp; "schedule disabled" """
    seen: list[str] = []
    polpo.meanwhile = lambda: seen.append(mission_status(polpo, "deploy"))
    entry = polpo.mission("deploy", expression)
    assert (mission_status(polpo, "deploy"), entry["nextRunAt"]) == ("scheduled", "2026-06-29T14:00:00Z")
    polpo.run_until("2026-07-03T00:00:00Z")
    polpo.assert_ran("deploy", times=1)
    assert (seen, mission_status(polpo, "deploy")) == (["active", "active"], "completed")
    (entry,) = list_schedules(polpo)
    assert (entry["enabled"], entry["nextRunAt"], entry["lastRunAt"]) == (False, None, "2026-06-29T14:00:00Z")


@pytest.mark.parametrize("expression", ["2026-06-29T14:00:00Z", "0 14 * * *"])
def test_p2_a_one_shot_that_fails_is_retried(polpo: Polpo, expression: str) -> None:
    """P2: "On failure, the status returns to scheduled for retry"; only what failed runs again"""
    polpo.failing.add("devops-agent")
    polpo.mission("deploy", expression)
    polpo.run_until("2026-06-29T14:00:05Z")
    assert mission_status(polpo, "deploy") == "scheduled"
    (entry,) = list_schedules(polpo)
    assert entry["enabled"]
    assert str(entry["nextRunAt"]) > "2026-06-29T14:00:05Z"
    polpo.failing.clear()
    polpo.run_until("2026-06-29T15:00:00Z")
    assert mission_status(polpo, "deploy") == "completed"
    assert [agent for agent, _ in polpo.asked] == ["build-agent", "devops-agent", "devops-agent"]


def test_p2_after_three_retries_it_is_paused_and_told(polpo: Polpo) -> None:
    """P2: back-off and a cap; enabling it retries what failed"""
    polpo.failing.add("build-agent")
    polpo.mission("deploy", "2026-06-29T14:00:00Z")
    polpo.run_until("2026-06-30T14:00:00Z")
    assert len(polpo.asked) == 4
    assert mission_status(polpo, "deploy") == "paused"
    paused = polpo.missions.get("deploy")
    assert (paused.note, list_schedules(polpo)[0]["enabled"]) == ("the last run failed", False)
    assert len(polpo.events.list(types="schedule.auto_paused", schedule="deploy")) == 1
    polpo.failing.clear()
    update_schedule(polpo, "deploy", enabled=True)
    assert mission_status(polpo, "deploy") == "scheduled"
    polpo.settle()
    assert mission_status(polpo, "deploy") == "completed"


def test_p2_the_delay_between_retries_doubles(polpo: Polpo) -> None:
    """P2: back-off"""
    at: list[int] = []
    polpo.failing.add("build-agent")
    polpo.meanwhile = lambda: at.append(polpo.clock.now_ms() // 1000)
    polpo.mission("deploy", "2026-06-29T14:00:00Z")
    polpo.run_until("2026-06-30T14:00:00Z")
    first, second, third = (later - earlier for earlier, later in pairwise(at))
    assert first < second < third < 2 * 40 + 1


def test_p2_a_mission_that_a_person_starts(polpo: Polpo) -> None:
    """P2: a draft is run by hand; failed, completed and cancelled are its ends"""
    create_mission(polpo, "deploy", TASKS)
    for failing, status in (({"build-agent"}, "failed"), (set[str](), "completed")):
        polpo.failing = failing
        polpo.run("deploy")
        polpo.settle()
        assert mission_status(polpo, "deploy") == status
    create_schedule(polpo, "deploy", "0 2 * * *", recurring=True)
    assert delete_schedule(polpo, "deploy").status == "draft"


# -- create


def test_p10_creating_again_replaces(polpo: Polpo) -> None:
    """P10: one schedule for each mission"""
    polpo.mission("nightly", "0 2 * * *", recurring=True, endDate="2026-07-30T00:00:00Z")
    update_schedule(polpo, "nightly", enabled=False)
    polpo.clock.advance(60_000)
    entry = create_schedule(polpo, "nightly", "2026-06-29T14:00:00Z")
    assert list_schedules(polpo) == [entry]
    assert entry == {
        "id": "sched-nightly",
        "missionId": "nightly",
        "expression": "2026-06-29T14:00:00Z",
        "recurring": False,
        "enabled": True,
        "lastRunAt": None,
        "nextRunAt": "2026-06-29T14:00:00Z",
        "createdAt": "2026-06-29T00:01:00Z",
    }
    assert polpo.missions.get("nightly").ends_at is None
    assert mission_status(polpo, "nightly") == "scheduled"


def test_p1_a_one_shot_by_cron_again_and_again(polpo: Polpo) -> None:
    """P1: each time the next match, once"""
    polpo.mission("deploy", "0 2 * * *")
    for day in (29, 30):
        polpo.run_until(f"2026-06-{day}T12:00:00Z")
        assert mission_status(polpo, "deploy") == "completed"
        create_schedule(polpo, "deploy", "0 2 * * *")
    polpo.run_until("2026-07-09T12:00:00Z")
    assert polpo.days_of("deploy") == ["2026-06-29", "2026-06-30", "2026-07-01"]


@pytest.mark.parametrize(
    ("expression", "recurring", "error"),
    [
        ("2026-07-15T14:00:00Z", True, InvalidInput),
        ("@daily", True, CronParseError),
        ("@daily", False, CronParseError),
        ("every day at 9am", True, CronParseError),
        ("every day at 9am", False, CronParseError),
        ("in 5m", False, CronParseError),
        ("0 0 2 * * *", True, CronParseError),
        ("0 0 L * *", False, CronParseError),
        ("2026-01-01T00:00:00Z", False, InvalidInput),
        ("2026-13-01T00:00:00Z", False, InvalidInput),
    ],
)
def test_p1_what_is_refused_changes_nothing(polpo: Polpo, expression: str, recurring: bool, error: Any) -> None:
    """P1 P3: recurring takes cron only; "Shorthand aliases … are not supported. Seconds, L, W, and # modifiers are also
    not supported." """
    before = polpo.mission("nightly", "0 2 * * *", recurring=True)
    with pytest.raises(error) as caught:
        create_schedule(polpo, "nightly", expression, recurring=recurring)
    assert caught.value.hint or caught.value.allowed
    assert list_schedules(polpo) == [before]


def test_p1_there_must_be_such_a_mission(polpo: Polpo) -> None:
    """P1 P4"""
    polpo.add("plain", when="0 2 * * *", job="scheduled-task", agent="test-agent", prompt="Hello")
    for call in (lambda name: create_schedule(polpo, name, "0 2 * * *"), lambda name: delete_schedule(polpo, name)):
        for name in ("nothing", "plain"):
            with pytest.raises(NotFound):
                call(name)
    create_mission(polpo, "draft", TASKS)
    for call in (lambda name: update_schedule(polpo, name, enabled=False), lambda name: delete_schedule(polpo, name)):
        with pytest.raises(Conflict, match="has no schedule"):
            call("draft")


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([{"title": "A"}, {"title": "A"}], 'Two steps have the title "A".'),
        ([{"title": "A", "dependsOn": ["B"]}], 'Step "A" waits for "B", but there is no such step.'),
        ([{"title": "A", "dependsOn": ["B"]}, {"title": "B", "dependsOn": ["A"]}], "Steps wait for each other"),
        ([{"description": "Do it"}], "title"),
        ([], "steps"),
    ],
)
def test_p6_wrong_tasks_are_refused(polpo: Polpo, tasks: list[Task], message: str) -> None:
    """P6"""
    with pytest.raises(InvalidInput, match=message):
        create_mission(polpo, "m", tasks)
    assert polpo.missions.list() == []


def test_p6_each_run_has_fresh_tasks(polpo: Polpo) -> None:
    """P6"""
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    polpo.run_until("2026-06-30T12:00:00Z")
    rows = [step.run_id for run in polpo.all_runs("nightly") for step in polpo.runs.get(run.id).steps]
    assert len(set(rows)) == 4


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
    assert delete_schedule(polpo, "nightly").status == "draft"
    assert (list_schedules(polpo), polpo.missions.get("nightly").ends_at) == ([], None)
    polpo.run_until("2026-07-03T12:00:00Z")
    polpo.assert_ran("nightly", times=1)


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
        polpo.run_until("2026-06-29T02:00:01Z" if status == "cancelled" else "2026-06-29T03:00:00Z")
        if status == "failed":
            polpo.resume("m")
        elif status == "cancelled":
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
