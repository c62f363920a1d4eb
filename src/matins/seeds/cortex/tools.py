"""Cortex's seven tools, by its names and arguments. A task is a ScheduleTask, with instants in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import PurePath
from secrets import token_hex
from typing import Any

from matins.api.results import Schedule
from matins.config.presets import PRESETS
from matins.errors import InvalidInput, NotFound
from matins.mcp.principal_calls import Document, PrincipalCalls, quoted
from matins.mcp.tool import Tool, Toolset
from matins.seeds.cortex import NEEDS, check_pausable, task_document, task_view
from matins.seeds.cortex.file import thread_id

_ID = {"id": {"type": "string", "description": "Id of the task."}}
_MAX_LISTED = 50


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _duration(description: str) -> dict[str, Any]:
    return {"type": ["string", "integer"], "description": description}


def _add(calls: PrincipalCalls, given: Document) -> Document:
    kind = given["type"]
    wanted: Document = {"name": token_hex(4), **_when(calls, given), "prompt": given["message"]}
    wanted["agent"] = given.get("profile") or calls.call("system.context")["profile"]
    wanted["target"] = _target(calls, given.get("target") or "fresh")
    names = {"preCheck": "pre_check", "fallback": "fallback"}
    wanted |= {new: given[old] for old, new in names.items() if given.get(old) is not None}
    preset = PRESETS["cortex"]
    wanted |= {**preset.settings, **(preset.once if kind == "once" else preset.interval if kind == "interval" else {})}
    made = calls.api.add(**wanted)
    approval = calls.approval_of({"id": made.id})
    said = {name: given[name] for name in ("message", "preCheck") if name in given}  # the caller's own: no marks
    answer: Document = {"summary": f"Added {made.name}: {made.trigger_text}.", **_task(calls, made), **said}
    if approval is not None:
        answer["summary"] += f" It waits for a person: {approval['url']}"
        answer["approval"] = approval
    return answer


def _target(calls: PrincipalCalls, target: Any) -> Any:
    """The target. A new conversation is in the channel of the run that asks for it."""
    fresh = target == "fresh" or target == {"kind": "fresh"}
    channel = calls.call("system.context")["channel"] if fresh else None
    return {"kind": "fresh", "channel": channel} if channel else target


def _when(calls: PrincipalCalls, given: Document) -> Document:
    """The time of a task, from the arguments that its type needs."""
    kind = given["type"]
    for name in NEEDS[kind]:
        if name not in given:
            hint = f"It takes {' and '.join(NEEDS[kind])}."
            raise InvalidInput(f'A schedule of type {kind} needs "{name}".', field=name, hint=hint)
    if kind == "interval":
        return {"when": _length(given["interval"])}
    if kind == "once":
        return {"when": _after(calls, given["delay"])}
    days = {"days": [given["dayOfWeek"]]} if kind == "weekly" else {}
    return {"when": {"kind": kind, **days, "times": [given["time"]]}}


def _after(calls: PrincipalCalls, delay: str | int) -> str:
    """The time of a one-shot. A phrase has no milliseconds, so that they are counted from the time here."""
    if isinstance(delay, str) or delay % 1000 == 0:
        return f"in {_length(delay)}"
    second = calls.call("schedules.next_times", text="in 1s", count=1)["fires"][0]["utc"]
    return (datetime.fromisoformat(second) + timedelta(milliseconds=delay - 1000)).isoformat()


def _length(value: str | int) -> str:
    return value if isinstance(value, str) else f"{value // 1000}s" if value % 1000 == 0 else f"{value}ms"


def _task(calls: PrincipalCalls, schedule: Schedule) -> Document:
    """The task, with marks around what a person wrote."""
    task = task_document(task_view(calls.api, schedule))
    marked = {
        "message": quoted("the message", task.get("message")),
        "preCheck": quoted("the command", task.get("preCheck")),
    }
    return {name: value for name, value in {**task, **marked}.items() if value is not None}


def _list(calls: PrincipalCalls, given: Document) -> Document:
    schedules = calls.api.list(limit=given.get("limit", _MAX_LISTED))
    return {"summary": f"{len(schedules)} tasks.", "tasks": [_task(calls, schedule) for schedule in schedules]}


def _get(calls: PrincipalCalls, given: Document) -> Document:
    found = calls.api.get(given["id"])
    return {"summary": f"{found.name}: {found.trigger_text}, {found.state}.", **_task(calls, found)}


def _remove(calls: PrincipalCalls, given: Document) -> Document:
    """Remove a task. `removed` is false when there is none."""
    try:
        removed = calls.api.delete(given["id"])
    except NotFound:
        removed = False
    return {"summary": f"Removed {given['id']}." if removed else f"There is no {given['id']}.", "removed": removed}


def _pause(calls: PrincipalCalls, given: Document) -> Document:
    check_pausable(calls.api.get(given["id"]), "id")
    paused = calls.api.pause(given["id"])
    return {"summary": f"Paused {paused.name}.", **_task(calls, paused)}


def _resume(calls: PrincipalCalls, given: Document) -> Document:
    resumed = calls.api.resume(given["id"])
    return {"summary": f"Resumed {resumed.name}.", **_task(calls, resumed)}


def _context(calls: PrincipalCalls, given: Document) -> Document:
    """The seven fields; all are null outside a run."""
    found = calls.call("system.context")
    thread, workdir = found["thread"], found["workdir"]
    fields: Document = {
        "channel": found["channel"],
        "sessionId": found["session"],
        "sessionName": found["session_name"],
        "threadId": thread_id(int(thread)) if thread else None,
        "profile": found["agent"],
        "project": PurePath(workdir).name if workdir else None,
        "backend": found["runner"],
    }
    return {"summary": "This is no run." if found["run_id"] is None else f"Run {found['run_id']}.", **fields}


CORTEX: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("cortex_schedule_add", "Schedule a message to an agent: by interval, daily, weekly or once.",
             {"type": {"enum": list(NEEDS), "description": "When: interval, daily, weekly or once."},
              "message": _text("What the agent is asked."),
              "interval": _duration("Such as 30m, or milliseconds."), "time": _text("HH:MM, such as 09:00."),
              "dayOfWeek": {"type": "integer", "minimum": 0, "maximum": 6, "description": "0 is Sunday."},
              "delay": _duration("Such as 2h, or milliseconds."),
              "target": {"type": ["string", "object"],
                         "description": "fresh, current-channel, current-session, current-thread, or an object."},
              "fallback": {"enum": ["fresh", "skip", "wait"], "description": "If the target is gone."},
              "profile": {"type": ["string", "null"], "description": "Agent; default: the active profile."},
              "preCheck": _text("Command that must succeed; only the owner sets it, others propose it.")},
             _add, "change", ("type", "message")),
        Tool("cortex_schedule_list", "List tasks, 50 by default.",
             {"limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "At most so many."}}, _list),
        Tool("cortex_schedule_get", "One task.", _ID, _get, required=("id",)),
        Tool("cortex_schedule_remove", "Remove a task.", _ID, _remove, "change", ("id",), destroys=True,
             idempotent=True),
        Tool("cortex_schedule_pause", "Pause a task.", _ID, _pause, "change", ("id",), idempotent=True),
        Tool("cortex_schedule_resume", "Resume a task.", _ID, _resume, "change", ("id",), idempotent=True),
        Tool("cortex_context", "Where you are: channel, session, thread, profile, project and backend.", {}, _context),
    )
}  # fmt: skip
TOOLSET = Toolset(CORTEX, everywhere=True)
