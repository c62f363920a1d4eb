"""Polpo's four tools, by its names and arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from matins.engine.steps import GOT_SCHEDULE
from matins.engine.when.cron import parse_cron
from matins.errors import InvalidInput, NotFound
from matins.service.presets import preset_of
from matins.surfaces.mcp.principal_calls import Document, PrincipalCalls
from matins.surfaces.mcp.tool import Tool, Toolset

_MISSION = {"type": "string", "description": "Id of the mission."}
_EXPRESSION = {"type": "string", "description": "Cron expression or ISO timestamp."}
_RECURRING = {"type": "boolean", "description": "Whether the schedule repeats; default false."}
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
_TRIGGERABLE = ("scheduled", "recurring", "active")
_END = {"type": ["string", "null"], "description": "ISO timestamp after which no run starts."}


def _create(calls: PrincipalCalls, given: Document) -> Document:
    name, expression = given["missionId"], given["expression"]
    calls.call("missions.get", name=name)
    edits = {"when": expression, "ends_at": given.get("endDate"), **preset_of("polpo").settings}
    edits |= _tool_mode(calls, name, expression, recurring=given.get("recurring", False))
    calls.send("schedules.edit", {"name": name, **edits})
    if calls.call("schedules.get", name=name)["state"] == "paused":
        calls.call("schedules.resume", name=name)
    return {"summary": f"Scheduled {name}: {expression}.", **_found(calls, name)}


def _tool_mode(calls: PrincipalCalls, name: str, expression: str, *, recurring: bool) -> Document:
    """The settings of a recurring or one-shot mission. A one-shot by cron runs at its next match, once."""
    once = preset_of("polpo").once
    if _ISO.match(expression) is None:
        parse_cron(expression, strict=True)
        if recurring:
            return dict.fromkeys([*once, "max_executions"])
        return {**once, "max_executions": calls.call("schedules.get", name=name)["executions"] + 1}
    if recurring:
        message, hint = "A recurring schedule takes a cron expression, not a timestamp.", 'Such as "0 2 * * *".'
        raise InvalidInput(message, value=expression, field="expression", hint=hint)
    if not calls.call("schedules.next_times", text=expression, count=1)["fires"]:
        hint = "Give a time in the future."
        raise InvalidInput(f'"{expression}" is past.', value=expression, field="expression", hint=hint)
    return {**once, "max_executions": None}


def _tool_entry(calls: PrincipalCalls, mission: Document) -> Document:
    """A schedule as Polpo shows it, with the status and the end of its mission."""
    name, kept = mission["name"], {"types": GOT_SCHEDULE, "schedule": mission["name"], "limit": 1}
    events = calls.call("events.list", **kept, agent=mission["agent"] or None)
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


def _found(calls: PrincipalCalls, name: str) -> Document:
    return _tool_entry(calls, calls.call("missions.get", name=name))


def _list(calls: PrincipalCalls, given: Document) -> Document:
    timed = [mission for mission in calls.call("missions.list", limit=1_000) if mission["when"] is not None]
    entries = [_tool_entry(calls, mission) for mission in timed]
    return {"summary": f"{len(entries)} scheduled.", "schedules": entries}


def _update(calls: PrincipalCalls, given: Document) -> Document:
    mission = _scheduled_mission(calls, given["missionId"])
    name = mission["name"]
    edits: dict[str, Any] = {"ends_at": given["endDate"]} if "endDate" in given else {}
    if "expression" in given or "recurring" in given:
        expression = given.get("expression", mission["when"])
        recurring = given.get("recurring", mission["recurring"])
        edits |= {"when": expression, "strict": True, **_tool_mode(calls, name, expression, recurring=recurring)}
    if edits:
        calls.send("schedules.edit", {"name": name, **edits})
    if "enabled" in given:
        calls.call("schedules.resume" if given["enabled"] else "schedules.pause", name=name)
    return {"summary": f"Updated {name}.", **_found(calls, name)}


def _delete(calls: PrincipalCalls, given: Document) -> Document:
    """Of a mission that is not there, or that has no schedule, `removed` is false."""
    name = given["missionId"]
    try:
        mission = calls.call("missions.get", name=name)
    except NotFound:
        return {"summary": f"There is no mission {name}.", "removed": False, "missionId": name, "status": None}
    removed = mission["when"] is not None
    status = calls.call("missions.draft", name=name)["status"] if removed else mission["status"]
    summary = f"{name} is a draft again." if removed else f"{name} has no schedule."
    return {"summary": summary, "removed": removed, "missionId": name, "status": status}


def _scheduled_mission(calls: PrincipalCalls, name: str) -> Document:
    mission = calls.call("missions.get", name=name)
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
             {"missionId": _MISSION, "expression": _EXPRESSION, "recurring": _RECURRING,
              "enabled": {"type": "boolean", "description": "false pauses it."},
              "endDate": _END}, _update, "change", ("missionId",), destroys=True, idempotent=True),
        Tool("delete_schedule", "Remove the time of a mission, which becomes a draft again.", {"missionId": _MISSION},
             _delete, "change", ("missionId",), destroys=True, idempotent=True),
    )
}  # fmt: skip
TOOLSET = Toolset(POLPO)
