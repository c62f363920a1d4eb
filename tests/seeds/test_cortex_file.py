"""Cortex's schedules.json in daily use (seeds/cortex): ids, profiles, start-up, add and remove, export."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from matins.errors import Conflict, ManagedByFile
from matins.model.access import Principal
from matins.seeds import cortex
from matins.service.file.reload import Reloader
from matins.testing import ManualClock, Sandbox, instant

NOW = "2026-03-27T12:00:00Z"
DAILY = {"id": "e4c91a03", "type": "daily", "time": "09:00", "message": "Digest", "profile": "claude-haiku"}


class Used:
    """A sandbox that uses a schedules.json."""

    def __init__(self, folder: Path, *tasks: dict[str, Any], **more: Any) -> None:
        self.m = Sandbox(clock=ManualClock(NOW))
        for job in ("work", "scheduled-task", "task-dispatch", "task-archive"):
            self.m.job(job)(lambda run: None)
        for profile in ("claude-haiku", "default"):
            self.m.agents.set(profile, runner="message")
        self.path = folder / "schedules.json"
        self.path.write_text(json.dumps({"tasks": tasks, **more}, indent=2))
        self.reloader: Reloader = self.m.watch_file(self.path)

    def check(self) -> str:
        return self.reloader.check().state

    def tasks(self) -> list[dict[str, Any]]:
        return json.loads(self.path.read_text())["tasks"]


@pytest.fixture
def used(tmp_path: Path) -> Iterator[Any]:
    made: list[Used] = []

    def use(*tasks: dict[str, Any], **more: Any) -> Used:
        made.append(Used(tmp_path, *tasks, **more))
        return made[-1]

    yield use
    for each in made:
        each.m.close()


def test_c2_an_id_is_made_where_there_is_none(used: Any) -> None:
    """C2: "8-character hex identifier (auto-generated)": written back, and then a reload changes nothing"""
    other = {"type": "interval", "message": "Look", "intervalMs": 60_000}
    it = used(DAILY, other, other)
    assert it.check() == "applied"
    made = {schedule.name for schedule in it.m.list()} - {"e4c91a03"}
    assert len(made) == 2
    assert all(len(name) == 8 and int(name, 16) >= 0 for name in made)
    assert it.reloader.refresh() is True
    assert {task["id"] for task in it.tasks()} == made | {"e4c91a03"}
    it.path.write_text(it.path.read_text() + "\n")
    assert it.check() == "applied"
    assert {schedule.rev for schedule in it.m.list()} == {1}


@pytest.mark.parametrize(("more", "profile"), [({}, "default"), ({"profile": "claude-haiku"}, "claude-haiku")])
def test_c2_the_default_profile(used: Any, more: dict[str, Any], profile: str) -> None:
    """C2: "Agent profile name (defaults to the active profile)" """
    it = used({"id": "00000001", "type": "interval", "message": "Look", "intervalMs": 60_000}, **more)
    assert it.check() == "applied"
    assert it.m.get("00000001").agent == profile


@pytest.mark.parametrize(
    ("more", "profile"), [({}, "scout"), ({"profile": "rover"}, "rover"), ({"profile": None}, "scout")]
)
def test_c13_the_active_profile_outside_runs(used: Any, more: dict[str, Any], profile: str) -> None:
    """C13 C2: of tasks in the file, and of those that are added: the file's `profile`, or else the only agent; a task
    keeps the agent that it has"""
    it = used({"id": "00000001", "type": "interval", "message": "Look", "intervalMs": 60_000}, **more)
    for former in ("claude-haiku", "default"):
        it.m.agents.delete(former)
    it.m.agents.set("scout", runner="message")
    assert it.check() == "applied"
    assert it.m.get("00000001").agent == profile
    assert it.m.system.context().profile == profile
    assert it.m.acting_as(Principal("agent", "claude-haiku")).system.context().profile == "claude-haiku"
    if profile == "rover":
        it.m.agents.set("rover", runner="message")
    for given in (None, ""):
        added = cortex.schedule_add(it.m, "interval", "Look again", interval="10m", profile=given)
        assert added.profile == profile
    assert it.reloader.refresh() is True
    it.m.agents.set("other", runner="message")
    it.path.write_text(it.path.read_text() + "\n")
    assert it.check() == "applied"
    assert {schedule.agent for schedule in it.m.list()} == {profile}


def test_c2_profiles_without_an_agent_are_named(used: Any, caplog: pytest.LogCaptureFixture) -> None:
    """C2: at the start, in `doctor` and `status`, until there is such an agent; a task that wakes none needs none"""
    it = used(
        {**DAILY, "profile": "opus"},
        {**DAILY, "id": "00000001", "profile": "sonnet", "dispatchType": "work"},
    )
    with caplog.at_level(logging.WARNING, logger="matins"):
        it.reloader.start()
        it.reloader.stop()
    what, fix = 'There is no agent "opus", so runs of e4c91a03 are skipped', "matins agents set opus --runner claude"
    assert f"schedules.json: {what}. Create it: {fix}" in caplog.messages
    found = [
        one for one in it.m.system.doctor() if one.what.startswith("agent ") and "There is no agent" in one.sentence
    ]
    assert [(one.what, one.ok, one.sentence, one.fix) for one in found] == [("agent opus", False, what, fix)]
    items = [one for one in it.m.system.status().attention if one.kind == "no_agent"]
    assert [(one.sentence, one.command) for one in items] == [(f"{what}.", fix)]
    it.m.agents.set("opus", runner="message")
    assert not [one for one in it.m.system.status().attention if one.kind == "no_agent"]
    assert not [one for one in it.m.system.doctor() if "There is no agent" in one.sentence]


@pytest.mark.parametrize("every_ms", [1, 999, 30_500, 86_400_001])
def test_c2_an_interval_of_any_value(used: Any, every_ms: int) -> None:
    """C2: "For interval type: milliseconds between fires" """
    it = used({"id": "00000001", "type": "interval", "message": "Look", "intervalMs": every_ms})
    assert it.check() == "applied"
    assert it.m.get("00000001").trigger["every_ms"] == every_ms


def test_c2_project_id_is_kept(used: Any) -> None:
    """C2: `projectId`, as today's Cortex has it"""
    it = used({**DAILY, "projectId": "apollo"})
    assert it.check() == "applied"
    assert it.m.get("e4c91a03").labels == {"projectId": "apollo"}


def test_c12_startup(used: Any, caplog: pytest.LogCaptureFixture) -> None:
    """C12: "Drops once tasks that are more than 1 minute overdue"; less is run; "Logs the total task count" """
    at = instant(NOW)
    once = [
        {"id": f"0000000{n}", "type": "once", "message": "Remind", "dispatchType": "work", "runAt": at - seconds * 1000}
        for n, seconds in enumerate((30, 90, -60))
    ]
    it = used(*once, DAILY)
    with caplog.at_level(logging.INFO, logger="matins"):
        it.reloader.start()
        it.reloader.stop()
    assert "schedules.json: 4 task(s) scheduled" in caplog.messages
    it.m.settle()
    states = {run.schedule: run.state for n in range(2) for run in it.m.runs.list(schedule=f"0000000{n}")}
    assert states == {"00000000": "succeeded", "00000001": "missed"}
    it.m.run_until("2026-03-28T10:00:00Z")
    it.m.assert_ran("00000002", times=1)
    assert it.m.runs.list(schedule="e4c91a03")


def test_c2_add_and_remove_reach_the_file(used: Any) -> None:
    """C2 C11: "The timer is cleared and the entry is removed from schedules.json." """
    it = used(DAILY)
    assert it.check() == "applied"
    added = cortex.schedule_add(
        it.m, "interval", "Check GPU status and report", interval="10m", profile="claude-haiku", channel="C07"
    )
    assert [task["id"] for task in it.tasks()] == ["e4c91a03", added.id]
    task = it.tasks()[1]
    assert (task["intervalMs"], task["message"], task["profile"]) == (
        600_000,
        "Check GPU status and report",
        "claude-haiku",
    )
    assert it.m.get(added.id).file is not None
    assert it.check() == "applied"
    assert it.m.get(added.id).rev == 1, "its own write is no change"
    once = cortex.schedule_add(it.m, "once", "Remind", delay="2h", profile="claude-haiku")
    assert (it.tasks()[2]["type"], it.tasks()[2]["runAt"]) == ("once", once.run_at)
    for task_id in (added.id, "e4c91a03", once.id):
        assert cortex.schedule_remove(it.m, task_id) == {"removed": True}
        assert task_id not in {task["id"] for task in it.tasks()}
    assert it.tasks() == []
    assert cortex.schedule_remove(it.m, added.id) == {"removed": False}
    again = cortex.schedule_add(it.m, "daily", "Digest", time="08:00", profile="claude-haiku")
    assert [task["id"] for task in it.tasks()] == [again.id]


def test_c2_what_a_task_cannot_hold_stays_in_the_store(used: Any) -> None:
    """C2: a schedule with a name, or with a setting that Cortex does not know; edits are made in the file"""
    it = used(DAILY)
    assert it.check() == "applied"
    it.m.add("weekly-review", when="1h", agent="claude-haiku", prompt="Review")
    it.m.add(when="0 9 13 * 5", agent="claude-haiku", prompt="Friday the 13th")
    assert len(it.tasks()) == 1
    assert len(it.m.list()) == 3
    with pytest.raises(ManagedByFile):
        it.m.edit("e4c91a03", prompt="Other")


def test_c10_once_cannot_be_paused_by_any_way(used: Any) -> None:
    """C10: "Once-type schedules cannot be paused (they either fire or get dropped)." """
    runs_at = instant("2026-03-28T12:00:00Z")
    it = used({"id": "00000001", "type": "once", "message": "Remind", "runAt": runs_at}, DAILY)
    assert it.check() == "applied"
    for pause in (it.m.pause, lambda name: cortex.schedule_pause(it.m, name)):
        with pytest.raises(Conflict, match="once and cannot be paused"):
            pause("00000001")
    it.m.pause("e4c91a03")
    paused = [{**task, "isPaused": True} for task in it.tasks()]
    it.path.write_text(json.dumps({"tasks": paused}))
    assert it.check() == "invalid"


def test_c5_skip_records_last_skipped_and_a_note(used: Any) -> None:
    """C5: "Record lastSkipped, post a one-line Slack note, do not run the task" """
    session = {"kind": "session", "sessionName": "cortex-a1b2c3", "channel": "C07ABCDEF"}
    it = used({**DAILY, "profile": "default", "target": session, "fallback": "skip"})
    it.m.agents.set("default", runner="demo")
    assert it.check() == "applied"
    it.m.run_until("2026-03-28T09:00:30Z")
    (run,) = it.m.runs.list(schedule="e4c91a03")
    assert (run.state, run.reason) == ("skipped", "target_gone")
    note = '"e4c91a03" was skipped: its target session cortex-a1b2c3 no longer exists.'
    assert run.evidence is not None
    assert run.evidence["note"] == note
    assert cortex.schedule_get(it.m, "e4c91a03").last_skipped == instant("2026-03-28T09:00:00Z")
    it.reloader.refresh()
    assert it.tasks()[0]["lastSkipped"] == instant("2026-03-28T09:00:00Z")


SEED_FIELDS = {
    "id", "type", "message", "channel", "profile", "intervalMs", "time", "dayOfWeek", "runAt", "nextRun", "createdAt",
    "lastRun", "lastSkipped", "isPaused", "pausedAt", "pausedBy", "dispatchType", "preCheck", "target", "fallback",
}  # fmt: skip


def test_c2_every_field_of_a_schedule_task(used: Any) -> None:
    """C2: the table of ScheduleTask fields"""
    it = used()
    assert {cortex._camel(field.name) for field in fields(cortex.ScheduleTask)} == SEED_FIELDS
    weekly = cortex.schedule_add(
        it.m, "weekly", "Run a weekly review", day_of_week=1, time="21:00", profile="claude-haiku", fallback="wait",
        pre_check="true", dispatch_type="work", target={"kind": "channel", "channel": "C07ABCDEF"},
    )  # fmt: skip
    assert (weekly.type, weekly.day_of_week, weekly.time, weekly.interval_ms) == ("weekly", 1, "21:00", None)
    assert (weekly.dispatch_type, weekly.pre_check, weekly.fallback) == ("work", "true", "wait")
    assert (weekly.channel, weekly.target) == ("C07ABCDEF", {"kind": "channel", "channel": "C07ABCDEF"})
    assert (weekly.message, weekly.profile, len(weekly.id)) == ("Run a weekly review", "claude-haiku", 8)
    assert cortex.schedule_list(it.m) == [weekly]


def test_c2_export(used: Any, tmp_path: Path) -> None:
    """C2: what is exported is read again as it was"""
    it = used()
    cortex.schedule_add(it.m, "interval", "Look", interval="30s", profile="claude-haiku")
    cortex.schedule_add(it.m, "daily", "Digest", time="08:00", profile="claude-haiku", channel="C07")
    it.m.add("cron", when="0 9 13 * 5", job="work")
    it.m.throttles.set("anthropic", resets_at="2026-03-27T13:00:00Z", affects=["claude-haiku"])
    exported = json.loads(json.dumps(cortex.export_tasks(it.m)))
    assert len(exported["tasks"]) == 2
    assert exported["throttle"]["affectedModes"] == ["claude-haiku"]
    (tmp_path / "copy").mkdir()
    copy = Used(tmp_path / "copy", *exported["tasks"], throttle=exported["throttle"])
    assert copy.check() == "applied"
    before, after = ({s.name: s.settings for s in m.m.list() if s.name != "cron"} for m in (it, copy))
    assert {name: each["when"] for name, each in before.items()} == {name: each["when"] for name, each in after.items()}
    copy.m.close()


SEED_FILE = {
    "tasks": [
        {
            "id": "d6f1bb1e",
            "type": "interval",
            "message": "Check for new tasks and dispatch if available",
            "channel": "C07ABCDEF",
            "profile": "claude-haiku",
            "intervalMs": 30000,
            "createdAt": 1747680000000,
            "nextRun": 1747680030000,
            "lastRun": 1747680000000,
            "dispatchType": "task-dispatch",
            "target": {"kind": "fresh"},
            "fallback": "fresh",
            "preCheck": "test -f ~/.cortex/data/schedules.json",
        },
        {
            "id": "e4c91a03",
            "type": "interval",
            "message": "Archive completed tasks older than 3 days",
            "channel": "C07ABCDEF",
            "profile": "claude-haiku",
            "intervalMs": 21600000,
            "dispatchType": "task-archive",
        },
    ]
}


def test_c2_the_file_of_the_seed(used: Any) -> None:
    """C2: "Each schedule is stored as a JSON object in ~/.cortex/data/schedules.json", its own example"""
    it = used(*SEED_FILE["tasks"])
    assert it.check() == "applied"
    first, second = (cortex.schedule_get(it.m, name) for name in ("d6f1bb1e", "e4c91a03"))
    assert (first.type, first.interval_ms, first.dispatch_type) == ("interval", 30_000, "task-dispatch")
    assert (first.message, first.channel) == ("Check for new tasks and dispatch if available", "C07ABCDEF")
    assert (first.fallback, first.pre_check) == ("fresh", "test -f ~/.cortex/data/schedules.json")
    assert first.target == {"kind": "fresh", "channel": "C07ABCDEF"}
    assert (second.dispatch_type, second.interval_ms, second.is_paused) == ("task-archive", 21_600_000, False)
    assert first.next_run == instant(NOW) + 30_000, "what Cortex computed is computed here"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            {"type": "interval", "message": "Check GPU status and report", "interval": "10m", "fallback": "fresh",
             "target": "current-channel", "context": {"channel": "C07ABCDEF"}},
            ("interval", 600_000, None, "default", {"kind": "channel", "channel": "C07ABCDEF"}),
        ),
        (
            {"type": "daily", "message": "Run morning research scan", "time": "08:00", "profile": "claude-sonnet"},
            ("daily", None, "08:00", "claude-sonnet", {"kind": "fresh"}),
        ),
    ],
)  # fmt: skip
def test_c13_creating_a_schedule(used: Any, given: dict[str, Any], shown: tuple[Any, ...]) -> None:
    """C4 C13: "Creating a Schedule via MCP": shorthands are "resolved to concrete IDs at create time" """
    it = used()
    it.m.agents.set("claude-sonnet", runner="message")
    task = cortex.schedule_add(it.m, given.pop("type"), given.pop("message"), **given)
    assert (task.type, task.interval_ms, task.time, task.profile, task.target) == shown


@pytest.mark.parametrize(
    "change",
    [
        {"type": "weekly", "dayOfWeek": 1},
        {"time": "10:00"},
        {"message": "Another"},
        {"channel": "C08"},
        {"dispatchType": "work"},
        {"preCheck": "true"},
        {"fallback": "skip"},
        {"target": {"kind": "channel", "channel": "C09"}},
        {"isPaused": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_c7_an_edit_of_any_field_is_taken_up(used: Any, change: dict[str, Any]) -> None:
    """C7: "Each task's scheduling-relevant fields are hashed … edits to any scheduling field trigger an automatic
    re-schedule" """
    it = used(DAILY)
    assert it.check() == "applied"
    it.path.write_text(json.dumps({"tasks": [{**DAILY, **change}]}))
    plan = it.m.file.plan()
    assert (plan.added, plan.removed, plan.changed) == (0, 0, 1)
    assert it.check() == "applied"
    it.path.write_text(json.dumps({"tasks": [{**DAILY, **change, "nextRun": 1, "lastRun": 2}]}))
    assert it.m.file.plan().state == "same", "what is computed is no edit"


def test_c7_another_profile_is_another_agent(used: Any) -> None:
    """C7: the task moves: "Removes timers for tasks no longer in the file; Adds timers for new tasks" """
    it = used(DAILY)
    assert it.check() == "applied"
    it.path.write_text(json.dumps({"tasks": [{**DAILY, "profile": "default"}]}))
    it.m.file.apply()
    assert [(schedule.agent, schedule.name) for schedule in it.m.list()] == [("default", "e4c91a03")]


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        ("test -f ready", True),
        ("test -f missing", False),
        ("[ $(cat /proc/loadavg | cut -d' ' -f1 | cut -d. -f1) -lt 100000 ]", True),
        ("[ $(cat /proc/loadavg | cut -d' ' -f1 | cut -d. -f1) -lt 0 ]", False),
    ],
)
def test_c6_use_cases_of_pre_check(tmp_path: Path, command: str, passes: bool) -> None:
    """C6: "Check if a required file exists before running", "Check system load" """
    (tmp_path / "ready").touch()
    m = Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(NOW))
    m.job("work")(lambda run: None)
    m.add("gated", when="1h", job="work", pre_check=command)
    m.run_until("2026-03-27T13:00:30Z")
    (run,) = m.runs.list(schedule="gated")
    assert (run.state, run.reason) == (("succeeded", None) if passes else ("skipped", "pre_check"))
    m.close()
