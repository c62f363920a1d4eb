"""Polpo's missions: examples, life cycle and tasks, sentence by sentence (seeds/polpo)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from polpo_bench import TASKS, Polpo

from matins import InvalidInput
from matins.errors import Conflict, CronParseError, NotFound
from matins.seeds.polpo import (
    Task,
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


@pytest.mark.parametrize("expression", ["2026-06-29T14:00:00Z", "0 14 * * *"])
def test_p2_a_run_that_never_started_says_nothing_of_the_mission(polpo: Polpo, expression: str) -> None:
    """P2: "One-shot … on success, the status becomes completed", also with a second run that never began"""
    skipped: list[str] = []
    polpo.mission("deploy", expression)
    polpo.meanwhile = lambda: skipped.append(str(polpo.run("deploy").reason))
    polpo.run_until("2026-06-29T15:00:00Z")
    assert skipped == ["already_running", "already_running"]
    assert mission_status(polpo, "deploy") == "completed"
    assert list_schedules(polpo)[0]["lastRunAt"] == "2026-06-29T14:00:00Z"
    polpo.runs.cancel(polpo.run("deploy").id)
    assert mission_status(polpo, "deploy") == "completed"


def test_p2_a_slot_that_found_the_mission_running_says_nothing_of_it(polpo: Polpo) -> None:
    """P2: a person was faster, and it went well"""
    polpo.mission("deploy", "2026-06-29T14:00:00Z")
    polpo.run_until("2026-06-29T13:59:30Z")
    polpo.meanwhile = lambda: polpo.clock.advance(60_000)
    polpo.run("deploy")
    polpo.settle()
    assert {run.state for run in polpo.all_runs("deploy")} == {"succeeded", "skipped"}
    assert mission_status(polpo, "deploy") == "completed"


def test_p2_a_slot_that_was_missed_decides_although_it_never_started(polpo: Polpo) -> None:
    """P2: a one-shot that ran once and is scheduled again is not completed by its former run"""
    polpo.mission("deploy", "2026-06-29T14:00:00Z")
    polpo.run_until("2026-06-29T15:00:00Z")
    assert mission_status(polpo, "deploy") == "completed"
    create_schedule(polpo, "deploy", "2026-06-29T16:00:00Z")
    polpo.edit("deploy", grace="1m", catch_up="skip")
    polpo.clock.advance(2 * 3_600_000)
    polpo.settle()
    assert polpo.all_runs("deploy")[0].state == "missed"
    assert mission_status(polpo, "deploy") == "failed"


def test_p2_a_draft_is_what_its_last_started_run_made_of_it(polpo: Polpo) -> None:
    """P2: starting a mission twice is one run"""
    create_mission(polpo, "deploy", TASKS)
    polpo.meanwhile = lambda: polpo.run("deploy")
    polpo.run("deploy")
    polpo.settle()
    assert mission_status(polpo, "deploy") == "completed"


@pytest.mark.parametrize("expression", ["2026-06-29T14:00:00Z", "0 14 * * *"])
@pytest.mark.parametrize("how", ["update_schedule", "resume", "paused again", "until"])
def test_p2_resuming_it_in_any_way_repeats_what_failed(polpo: Polpo, expression: str, how: str) -> None:
    """P2: "Re-enable: update_schedule(missionId, enabled=true) — resumes execution"; `matins resume` does the same"""
    polpo.failing.add("devops-agent")
    polpo.meanwhile = lambda: polpo.run("deploy")  # skipped, and newer than what failed
    polpo.mission("deploy", expression)
    polpo.run_until("2026-06-29T16:00:00Z")
    assert (mission_status(polpo, "deploy"), len(polpo.asked)) == ("paused", 5)
    polpo.failing.clear()
    polpo.asked.clear()
    match how:
        case "update_schedule":
            update_schedule(polpo, "deploy", enabled=True)
        case "until":
            polpo.pause("deploy", until="2026-06-29T17:00:00Z")
            polpo.run_until("2026-06-29T17:00:00Z")
        case "paused again":
            polpo.pause("deploy", note="later")
            polpo.resume("deploy")
        case _:
            polpo.resume("deploy")
    polpo.settle()
    assert mission_status(polpo, "deploy") == "completed"
    assert [agent for agent, _ in polpo.asked] == ["devops-agent"], "what succeeded is not repeated"
    polpo.run_until("2026-07-02T00:00:00Z")
    assert len(polpo.asked) == 1


def test_p2_resuming_repeats_nothing_that_has_a_time_or_did_not_fail(polpo: Polpo) -> None:
    """P2 P4: another time is that time; a pause of a person before the time changes nothing"""
    polpo.failing.add("build-agent")
    polpo.mission("moved", "2026-06-29T14:00:00Z")
    polpo.mission("waits", "2026-06-29T20:00:00Z")
    polpo.mission("nightly", "0 2 * * *", recurring=True)
    polpo.edit("nightly", pause_after_failures=1)
    polpo.run_until("2026-06-29T16:00:00Z")
    assert [mission_status(polpo, name) for name in ("moved", "nightly")] == ["paused", "paused"]
    polpo.failing.clear()
    polpo.asked.clear()
    update_schedule(polpo, "moved", expression="2026-06-29T18:00:00Z", enabled=True)
    polpo.pause("waits")
    polpo.resume("waits")
    polpo.resume("nightly")
    polpo.settle()
    assert polpo.asked == []
    polpo.run_until("2026-06-29T19:00:00Z")
    assert (len(polpo.asked), mission_status(polpo, "moved")) == (2, "completed")


def test_p2_a_mission_that_a_person_starts(polpo: Polpo) -> None:
    """P2: a draft is run by hand; failed, completed and cancelled are its ends"""
    create_mission(polpo, "deploy", TASKS)
    for failing, status in (({"build-agent"}, "failed"), (set[str](), "completed")):
        polpo.failing = failing
        polpo.run("deploy")
        polpo.settle()
        assert mission_status(polpo, "deploy") == status
    create_schedule(polpo, "deploy", "0 2 * * *", recurring=True)
    assert delete_schedule(polpo, "deploy") == {"removed": True, "missionId": "deploy", "status": "draft"}


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
    for name in ("nothing", "plain"):
        with pytest.raises(NotFound):
            create_schedule(polpo, name, "0 2 * * *")
    create_mission(polpo, "draft", TASKS)
    with pytest.raises(Conflict, match="has no schedule"):
        update_schedule(polpo, "draft", enabled=False)


def test_p4_deleting_what_is_not_there(polpo: Polpo) -> None:
    """P4: `removed` is false for an unscheduled and for an unknown mission, and nothing changes"""
    polpo.add("plain", when="0 2 * * *", job="scheduled-task", agent="test-agent", prompt="Hello")
    create_mission(polpo, "draft", TASKS)
    rev = polpo.get("draft").rev
    for name, status in (("nothing", None), ("plain", None), ("draft", "draft")):
        assert delete_schedule(polpo, name) == {"removed": False, "missionId": name, "status": status}
    assert (polpo.get("draft").rev, polpo.get("plain").state) == (rev, "active")
    create_schedule(polpo, "draft", "0 2 * * *", recurring=True)
    removed = [delete_schedule(polpo, "draft")["removed"] for _ in range(2)]
    assert removed == [True, False]


def test_p10_an_update_does_not_move_created_at(polpo: Polpo) -> None:
    """P10: "createdAt: When the schedule was created" """
    made = polpo.mission("nightly", "0 2 * * *", recurring=True)["createdAt"]
    changes: list[dict[str, Any]] = [
        {"expression": "0 3 * * *"}, {"recurring": False}, {"endDate": "2026-07-30T00:00:00Z"}, {"enabled": False},
        {"enabled": True}, {"expression": "0 4 * * *", "recurring": True, "endDate": None},
    ]  # fmt: skip
    for change in changes:
        polpo.clock.advance(60_000)
        assert update_schedule(polpo, "nightly", **change)["createdAt"] == made, change
    polpo.edit("nightly", when="0 5 * * *")
    assert list_schedules(polpo)[0]["createdAt"] == made
    assert create_schedule(polpo, "nightly", "0 4 * * *", recurring=True)["createdAt"] == "2026-06-29T00:06:00Z"
    delete_schedule(polpo, "nightly")
    polpo.clock.advance(60_000)
    polpo.edit("nightly", when="0 6 * * *")
    assert list_schedules(polpo)[0]["createdAt"] == "2026-06-29T00:07:00Z"


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
