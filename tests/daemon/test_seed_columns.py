"""What the seeds keep of a schedule and its executions, seen through the API of a real daemon."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from house import House

SCHEDULE: dict[str, Callable[[Any], Any]] = {
    "id": lambda doc: doc["id"],
    "name": lambda doc: doc["name"],
    "description": lambda doc: doc["description"],
    "project_id": lambda doc: doc["labels"]["project_id"],
    "notify_address": lambda doc: doc["labels"]["notify_address"],
    "agent_id": lambda doc: doc["agent"],
    "cron_expression": lambda doc: doc["trigger"]["expression"],
    "interval_ms": lambda doc: doc["trigger"].get("every_ms"),
    "actions": lambda doc: (doc["job"], doc["settings"]["prompt"]),
    "approval_policy": lambda doc: doc["settings"]["approval"],
    "max_executions": lambda doc: doc["max_executions"],
    "execution_count": lambda doc: doc["executions"],
    "status": lambda doc: doc["state"],
    "consecutive_failures": lambda doc: doc["failures"],
    "last_run_at": lambda doc: doc["last_run_at"],
    "next_run_at": lambda doc: doc["next_run_at"],
    "created_at": lambda doc: doc["created_at"],
    "updated_at": lambda doc: doc["updated_at"],
}


def waiting_run(house: House, name: str) -> Any:
    house.ask("agents.set", name="scout", runner="demo")
    words = {"prompt": "Review what is open.", "approval": "owner_approve", "max_executions": 5}
    labels = {"project_id": "p-7", "notify_address": "ADDR"}
    house.ask(
        "schedules.add", name=name, when="0 9 * * 1", agent="scout", description="Reviews", labels=labels, **words
    )
    run = house.ask("schedules.run", name=name)
    assert house.logged(f"run.awaiting_approval {name}")
    return run


def test_v2_the_six_figures_and_an_approval_resolved(shared: House) -> None:
    """V2: get_stats over HTTP; resolve_approval gives the run, and nothing when nothing is asked."""
    stats = shared.ask("system.stats")
    figures = (
        "running",
        "active_schedules",
        "paused_schedules",
        "running_executions",
        "max_concurrent",
        "recent_failures",
    )
    assert all(figure in stats for figure in figures)
    assert (stats["running"], stats["max_concurrent"]) == (True, None)
    run = waiting_run(shared, "v2-review")
    assert shared.ask("system.stats")["waiting_approvals"] == 1
    assert shared.ask("approvals.answer", run_id=run["id"], approved=True)["id"] == run["id"]
    assert shared.logged("run.succeeded v2-review")
    assert shared.ask("approvals.answer", run_id=run["id"], approved=True) is None


def test_v2_events_come_until_one_stops_listening(shared: House) -> None:
    """V2: on_event over HTTP is a stream that is left by closing it."""
    newest = shared.ask("events.list", limit=1)[0]["id"]
    shared.ask("limits.set", scope="agent:nobody", size=3)
    told = shared.client.events.follow(after=newest, types=["limit.set"])
    with closing(told):  # type: ignore[type-var]
        assert next(told).data["scope"] == "agent:nobody"
    assert next(told, None) is None


def test_v12_every_column_of_a_schedule(shared: House) -> None:
    """V12: agent_schedules; what Matins does not act on is kept as labels."""
    run = waiting_run(shared, "v12-review")
    shared.ask("approvals.answer", run_id=run["id"], approved=True)
    assert shared.logged("run.succeeded v12-review")
    document = shared.ask("schedules.get", name="v12-review")
    seen = {column: read(document) for column, read in SCHEDULE.items()}
    assert seen["cron_expression"] == "0 9 * * 1"
    assert seen["approval_policy"] == "owner_approve"
    assert seen["actions"] == (document["job"], "Review what is open.")
    assert (seen["execution_count"], seen["max_executions"], seen["consecutive_failures"]) == (0, 5, 0)  # by hand
    assert (seen["status"], seen["agent_id"], seen["interval_ms"]) == ("active", "scout", None)
    assert all(
        seen[column] for column in ("id", "description", "last_run_at", "next_run_at", "created_at", "updated_at")
    )
    assert (seen["description"], seen["project_id"], seen["notify_address"]) == ("Reviews", "p-7", "ADDR")


def test_v12_every_column_of_an_execution(shared: House) -> None:
    """V12: schedule_executions; a later edit does not touch the snapshot (V7)."""
    run = waiting_run(shared, "v12-once")
    asked = next(a for a in shared.ask("approvals.list") if a["run_id"] == run["id"])
    shared.ask("approvals.approve", approval_id=asked["id"])
    assert shared.logged("run.succeeded v12-once")
    shared.ask("schedules.edit", name="v12-once", max_executions=9)
    ended, then = shared.ask("runs.get", run_id=run["id"]), shared.ask("runs.snapshot", run_id=run["id"])
    assert ended["schedule_id"] == then["schedule_id"] == shared.ask("schedules.get", name="v12-once")["id"]
    assert (then["agent"], then["prompt"]) == ("scout", "Review what is open.")
    assert then["settings"]["max_executions"] == 5
    assert ended["status"] == "succeeded"
    assert ended["started_at"] <= ended["ended_at"]
    assert "Good to be awake" in str(ended["outcome"])
    assert shared.ask("runs.thread", run_id=run["id"])["thread"]["session"]


def test_p10_every_field_of_a_schedule_entry(shared: House) -> None:
    """P10: id, missionId, expression, recurring, enabled, lastRunAt, nextRunAt, createdAt."""
    shared.ask("agents.set", name="scout", runner="demo")
    shared.ask("schedules.add", name="sched-m1", when="0 9 * * *", agent="scout", prompt="Go on with the mission.")
    shared.ask("schedules.add", name="sched-m2", when="in 2 hours", agent="scout", prompt="Once.")
    entry, once = shared.ask("schedules.get", name="sched-m1"), shared.ask("schedules.get", name="sched-m2")
    assert entry["name"].removeprefix("sched-") == "m1"
    assert entry["trigger"]["expression"] == "0 9 * * *"
    assert (entry["trigger"]["kind"], once["trigger"]["kind"]) == ("cron", "once")
    assert (entry["enabled"], entry["last_run_at"]) == (True, None)
    assert entry["next_run_at"].endswith("T09:00:00Z")
    assert entry["created_at"] <= entry["next_run_at"]
    shared.ask("schedules.pause", name="sched-m1")
    paused = shared.ask("schedules.get", name="sched-m1")
    assert (paused["enabled"], paused["next_run_at"]) == (False, None)
