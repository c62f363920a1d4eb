"""Polpo's four tools, by its names and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.errors import InvalidInput, NotFound
from matins.surfaces.mcp.desk import Desk, Document
from matins.surfaces.mcp.tool import Tool

_MISSION = {"type": "string", "description": "Id of the mission."}
_EXPRESSION = {"type": "string", "description": "Cron expression or ISO timestamp."}
_RECURRING = {"type": "boolean", "description": "Whether the schedule repeats; default false."}
_END = {"type": ["string", "null"], "description": "ISO timestamp after which no run starts."}


def _create(desk: Desk, given: Document) -> Document:
    mission = desk.call("missions.get", name=given["missionId"])
    recurring = given.get("recurring", False)
    when, once = _when(desk, given["expression"], recurring=recurring)
    edits: Document = {"when": when, "max_executions": 1 if once else None, "ends_at": given.get("endDate")}
    desk.send("schedules.edit", {"name": mission["name"], **edits})
    found = _entry(desk.call("missions.get", name=mission["name"]))
    return {"summary": f"Scheduled {mission['name']}: {given['expression']}.", **found}


def _when(desk: Desk, expression: str, *, recurring: bool) -> tuple[str, bool]:
    """The time as Matins reads it, and whether it fires once."""
    parsed = desk.call("schedules.next_times", text=expression, count=1)
    if parsed["kind"] == "once":
        if recurring:
            hint = "Give a cron expression, or leave recurring out."
            raise InvalidInput("An instant does not repeat.", value=expression, field="expression", hint=hint)
        return expression, True
    if recurring:
        return expression, False
    if not parsed["fires"]:
        raise InvalidInput("The expression never fires.", value=expression, field="expression", hint="Check it.")
    return parsed["fires"][0]["utc"], True


def _entry(mission: Document) -> Document:
    """A schedule as Polpo shows it."""
    return {
        "missionId": mission["name"],
        "status": mission["status"],
        "expression": mission["when"],
        "recurring": mission["recurring"],
        "enabled": mission["status"] not in ("paused", "draft"),
        "nextRunAt": mission["next_run_at"],
        "lastRunAt": mission["last_run_at"],
        "endDate": mission["ends_at"],
    }


def _list(desk: Desk, given: Document) -> Document:
    timed = [mission for mission in desk.call("missions.list") if mission["when"] is not None]
    return {"summary": f"{len(timed)} scheduled.", "schedules": [_entry(mission) for mission in timed]}


def _update(desk: Desk, given: Document) -> Document:
    name = _scheduled(desk, given["missionId"])["name"]
    edits: dict[str, Any] = {"ends_at": given["endDate"]} if "endDate" in given else {}
    if "expression" in given or "recurring" in given:
        before = _entry(desk.call("missions.get", name=name))
        expression, recurring = (
            given.get("expression", before["expression"]),
            given.get("recurring", before["recurring"]),
        )
        edits["when"], once = _when(desk, expression, recurring=recurring)
        edits["max_executions"] = 1 if once else None
    if edits:
        desk.send("schedules.edit", {"name": name, **edits})
    if "enabled" in given:
        desk.call("schedules.resume" if given["enabled"] else "schedules.pause", name=name)
    return {"summary": f"Updated {name}.", **_entry(desk.call("missions.get", name=name))}


def _delete(desk: Desk, given: Document) -> Document:
    name = _scheduled(desk, given["missionId"])["name"]
    desk.call("missions.draft", name=name)
    return {"summary": f"{name} is a draft again.", "deleted": True, "missionId": name}


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
