"""Polpo's four tools, by its names and arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from matins.engine.gates.paused import BY_FAILURES
from matins.engine.when.cron import parse_cron
from matins.errors import InvalidInput, NotFound
from matins.service.presets import preset_of
from matins.surfaces.mcp.desk import Desk, Document
from matins.surfaces.mcp.tool import Tool

_MISSION = {"type": "string", "description": "Id of the mission."}
_EXPRESSION = {"type": "string", "description": "Cron expression or ISO timestamp."}
_RECURRING = {"type": "boolean", "description": "Whether the schedule repeats; default false."}
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
_TRIGGERABLE = ("scheduled", "recurring", "active")
_END = {"type": ["string", "null"], "description": "ISO timestamp after which no run starts."}


def _create(desk: Desk, given: Document) -> Document:
    name, expression = given["missionId"], given["expression"]
    desk.call("missions.get", name=name)
    edits = {"when": expression, "ends_at": given.get("endDate"), **preset_of("polpo").settings}
    edits |= _mode(desk, name, expression, recurring=given.get("recurring", False))
    desk.send("schedules.edit", {"name": name, **edits})
    if desk.call("schedules.get", name=name)["state"] == "paused":
        desk.call("schedules.resume", name=name)
    return {"summary": f"Scheduled {name}: {expression}.", **_found(desk, name)}


def _mode(desk: Desk, name: str, expression: str, *, recurring: bool) -> Document:
    """The settings of a recurring or one-shot mission. A one-shot by cron runs at its next match, once."""
    once = preset_of("polpo").once
    if _ISO.match(expression) is None:
        parse_cron(expression, strict=True)
        if recurring:
            return dict.fromkeys([*once, "max_executions"])
        return {**once, "max_executions": desk.call("schedules.get", name=name)["executions"] + 1}
    if recurring:
        message, hint = "A recurring schedule takes a cron expression, not a timestamp.", 'Such as "0 2 * * *".'
        raise InvalidInput(message, value=expression, field="expression", hint=hint)
    if not desk.call("schedules.next_times", text=expression, count=1)["fires"]:
        hint = "Give a time in the future."
        raise InvalidInput(f'"{expression}" is past.', value=expression, field="expression", hint=hint)
    return {**once, "max_executions": None}


def _entry(desk: Desk, mission: Document) -> Document:
    """A schedule as Polpo shows it, with the status and the end of its mission."""
    name, kept = mission["name"], {"types": ["schedule:created"], "schedule": mission["name"], "limit": 1}
    events = desk.call("events.list", **kept, agent=mission["agent"] or None)
    return {
        "id": f"sched-{name}",
        "missionId": name,
        "expression": mission["when"],
        "recurring": mission["recurring"],
        "enabled": mission["status"] in _TRIGGERABLE,
        "lastRunAt": mission["last_run_at"],
        "nextRunAt": mission["next_run_at"],
        "createdAt": events[0]["at"] if events else mission["created_at"],
        "status": mission["status"],
        "endDate": mission["ends_at"],
    }


def _found(desk: Desk, name: str) -> Document:
    return _entry(desk, desk.call("missions.get", name=name))


def _list(desk: Desk, given: Document) -> Document:
    timed = [mission for mission in desk.call("missions.list", limit=1_000) if mission["when"] is not None]
    entries = [_entry(desk, mission) for mission in timed]
    return {"summary": f"{len(entries)} scheduled.", "schedules": entries}


def _update(desk: Desk, given: Document) -> Document:
    mission = _scheduled(desk, given["missionId"])
    name = mission["name"]
    edits: dict[str, Any] = {"ends_at": given["endDate"]} if "endDate" in given else {}
    if "expression" in given or "recurring" in given:
        expression = given.get("expression", mission["when"])
        recurring = given.get("recurring", mission["recurring"])
        edits |= {"when": expression, "strict": True, **_mode(desk, name, expression, recurring=recurring)}
    if edits:
        desk.send("schedules.edit", {"name": name, **edits})
    if "enabled" in given:
        _enable(desk, name) if given["enabled"] else desk.call("schedules.pause", name=name)
    return {"summary": f"Updated {name}.", **_found(desk, name)}


def _enable(desk: Desk, name: str) -> None:
    """Resume a mission. One that was paused because it failed is retried."""
    before = desk.call("schedules.get", name=name)
    if before["state"] == "paused":
        desk.call("schedules.resume", name=name)
        if before["paused_by"] == BY_FAILURES and before["last_run"] is not None:
            desk.call("runs.retry", run_id=before["last_run"]["id"])


def _delete(desk: Desk, given: Document) -> Document:
    name = _scheduled(desk, given["missionId"])["name"]
    mission = desk.call("missions.draft", name=name)
    return {"summary": f"{name} is a draft again.", "deleted": True, "missionId": name, "status": mission["status"]}


def _scheduled(desk: Desk, name: str) -> Document:
    mission = desk.call("missions.get", name=name)
    if mission["when"] is None:
        hint = "Call create_schedule first."
        raise NotFound(f'"{name}" is not scheduled.', value=name, field="missionId", hint=hint)
    return mission


POLPO: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("create_schedule", "Schedule a mission: once, or again and again. Scheduling it again replaces the time.",
             {"missionId": _MISSION, "expression": _EXPRESSION, "recurring": _RECURRING, "endDate": _END}, _create,
             "change", ("missionId", "expression"), destroys=True, idempotent=True),
        Tool("list_schedules", "List the scheduled missions.", {}, _list),
        Tool("update_schedule", "Change the time of a mission, or enable or disable it. endDate null removes the end.",
             {"missionId": _MISSION, "expression": _EXPRESSION, "recurring": _RECURRING, "enabled": {"type": "boolean"},
              "endDate": _END}, _update, "change", ("missionId",), destroys=True, idempotent=True),
        Tool("delete_schedule", "Remove the time of a mission, which becomes a draft again.", {"missionId": _MISSION},
             _delete, "change", ("missionId",), destroys=True, idempotent=True),
    )
}  # fmt: skip
