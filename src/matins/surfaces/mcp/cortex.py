"""Cortex's seven tools, by its names and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from matins.errors import InvalidInput, NotFound
from matins.surfaces.mcp.desk import Desk, Document, cut
from matins.surfaces.mcp.tool import Tool

_ID = {"id": {"type": "string", "description": "Id of the task."}}
_MAX_LISTED = 50
_TYPES = ("interval", "daily", "weekly", "once")
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _add(desk: Desk, given: Document) -> Document:
    wanted: Document = {"when": _when(given), "prompt": given["message"]}
    agent = given.get("profile") or (desk.principal.name if desk.principal.role == "agent" else None)
    wanted |= {"agent": agent} if agent else {}
    names = {"target": "target", "preCheck": "pre_check", "fallback": "fallback"}
    wanted |= {new: given[old] for old, new in names.items() if old in given}
    item = desk.send("schedules.add", wanted)
    approval = desk.approval_of(item)
    answer: Document = {"summary": f"Added {task_id(item)}: {item['trigger_text']}.", **_task(item)}
    if approval is not None:
        answer["summary"] += f" It waits for a person: {approval['url']}"
        answer["approval"] = approval
    return answer


def _when(given: Document) -> str:
    """The time of a task, from the argument that its type needs."""
    needs = {"interval": "interval", "daily": "time", "weekly": "dayOfWeek", "once": "delay"}[given["type"]]
    if needs not in given and not (needs == "delay" and "time" in given):
        hint = f'A task of the type {given["type"]} needs "{needs}".'
        raise InvalidInput(f'"{needs}" is missing.', field=needs, hint=hint)
    if given["type"] == "interval":
        return str(given["interval"])
    if given["type"] == "daily":
        return f"every day at {given['time']}"
    if given["type"] == "once":
        return f"in {given['delay']}" if "delay" in given else str(given["time"])
    day = given["dayOfWeek"]
    name = _DAYS[int(day)] if str(day).isdigit() and int(day) < 7 else str(day)
    return f"every {name} at {given.get('time', '09:00')}"


def task_id(item: Document) -> str:
    """The id of eight hexadecimal digits by which Cortex knows a schedule."""
    return f"{int(item['id']) & 0xFFFFFFFF:08x}"


def _task(item: Document) -> Document:
    """A schedule as Cortex shows it."""
    return {
        "id": task_id(item),
        "type": _kind(item),
        "message": cut(item["prompt"]),
        "schedule": item["trigger_text"],
        "profile": item["agent"],
        "enabled": item["enabled"],
        "nextRun": item["next_run_at"],
        "lastRun": item["last_run_at"],
        "createdAt": item["created_at"],
        "name": item["name"],
    }


def _kind(item: Document) -> str:
    kind = item["trigger"]["kind"]
    if kind in ("interval", "once"):
        return kind
    return "weekly" if " at " in item["trigger_text"] and "every day" not in item["trigger_text"] else "daily"


def _list(desk: Desk, given: Document) -> Document:
    items = desk.call("schedules.list", limit=_MAX_LISTED)
    return {"summary": f"{len(items)} tasks.", "tasks": [_task(item) for item in items]}


def _found(desk: Desk, given: Document) -> Document:
    wanted = given["id"].lower()
    after: str | None = None
    while page := desk.call("schedules.list", after=after, limit=1_000):
        for item in page:
            if wanted in (task_id(item), item["name"].lower()):
                return item
        after = page[-1]["id"]
    hint = "Call cortex_schedule_list."
    raise NotFound(f'There is no task "{given["id"]}".', value=given["id"], field="id", hint=hint)


def _full(item: Document) -> str:
    return f"{item['agent']}/{item['name']}" if item["agent"] else item["name"]


def _get(desk: Desk, given: Document) -> Document:
    item = _found(desk, given)
    return {"summary": f"{item['name']}: {item['trigger_text']}, {item['state']}.", **_task(item)}


def _remove(desk: Desk, given: Document) -> Document:
    item = _found(desk, given)
    return {"summary": f"Removed {item['name']}.", "removed": bool(desk.call("schedules.delete", name=_full(item)))}


def _pause(desk: Desk, given: Document) -> Document:
    item = desk.call("schedules.pause", name=_full(_found(desk, given)))
    return {"summary": f"Paused {item['name']}.", **_task(item)}


def _resume(desk: Desk, given: Document) -> Document:
    item = desk.call("schedules.resume", name=_full(_found(desk, given)))
    return {"summary": f"Resumed {item['name']}.", **_task(item)}


def _context(desk: Desk, given: Document) -> Document:
    """The seven fields; all are null outside a run."""
    found = desk.call("system.context")
    thread, workdir = found["thread"], found["workdir"]
    fields: Document = {
        "channel": found["channel"],
        "sessionId": found["session"],
        "sessionName": found["session_name"],
        "threadId": f"thr_{thread}" if thread else None,
        "profile": found["agent"],
        "project": PurePath(workdir).name if workdir else None,
        "backend": found["runner"],
    }
    return {"summary": "This is no run." if found["run_id"] is None else f"Run {found['run_id']}.", **fields}


CORTEX: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("cortex_schedule_add", "Schedule a message to an agent: by interval, daily, weekly or once.",
             {"type": {"enum": list(_TYPES)}, "message": _text("What the agent is asked."),
              "interval": _text("Such as 30m."), "time": _text("Such as 09:00."),
              "dayOfWeek": {"type": ["string", "integer"], "description": "Name, or 0 to 6 from Sunday."},
              "delay": _text("Such as 2h."),
              "target": _text("fresh, current-channel, current-session or current-thread."),
              "fallback": _text("fresh, skip or wait, when the target is gone."), "profile": _text("Agent."),
              "preCheck": _text("Command that must succeed; an agent can only propose it.")},
             _add, "change", ("type", "message")),
        Tool("cortex_schedule_list", "List up to 50 tasks.", {}, _list),
        Tool("cortex_schedule_get", "One task.", _ID, _get, required=("id",)),
        Tool("cortex_schedule_remove", "Remove a task.", _ID, _remove, "change", ("id",), destroys=True,
             idempotent=True),
        Tool("cortex_schedule_pause", "Pause a task.", _ID, _pause, "change", ("id",), idempotent=True),
        Tool("cortex_schedule_resume", "Resume a task.", _ID, _resume, "change", ("id",), idempotent=True),
        Tool("cortex_context", "Where you are: channel, session, thread, profile, project and backend.", {}, _context),
    )
}  # fmt: skip
