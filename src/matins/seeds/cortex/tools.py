"""Cortex's seven tools, by its names and arguments. A task is a ScheduleTask, with instants in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import PurePath
from secrets import token_hex
from typing import Any

from matins.engine.gates.state import BY_BUDGET, BY_FAILURES
from matins.engine.jobs import AGENT_JOB
from matins.errors import Conflict, InvalidInput, NotFound
from matins.mcp.principal_calls import Document, PrincipalCalls, quoted
from matins.mcp.tool import Tool, Toolset
from matins.seeds.cortex.file import SKIPPED_BY, thread_id
from matins.seeds.presets import cortex_target, preset_of

_ID = {"id": {"type": "string", "description": "Id of the task."}}
_MAX_LISTED = 50
_NEEDS = {"interval": ("interval",), "daily": ("time",), "weekly": ("dayOfWeek", "time"), "once": ("delay",)}
"""The types, and the arguments that each needs."""


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
    preset = preset_of("cortex")
    wanted |= {**preset.settings, **(preset.once if kind == "once" else preset.interval if kind == "interval" else {})}
    item = calls.send("schedules.add", wanted)
    approval = calls.approval_of(item)
    said = {name: given[name] for name in ("message", "preCheck") if name in given}  # the caller's own: no marks
    answer: Document = {"summary": f"Added {item['name']}: {item['trigger_text']}.", **_task(calls, item), **said}
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
    for name in _NEEDS[kind]:
        if name not in given:
            hint = f"It takes {' and '.join(_NEEDS[kind])}."
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


def _task(calls: PrincipalCalls, item: Document) -> Document:
    """A schedule as Cortex shows it, without fields that it does not have."""
    trigger, settings = item["trigger"], item["settings"]
    paused_by, paused_at = _pause_of(calls, item)
    target = cortex_target(settings.get("target") or {"kind": "fresh"})
    found: Document = {
        "id": item["name"],
        "type": trigger["kind"],
        "message": quoted("the message", settings.get("prompt", item["prompt"])),
        "channel": target.get("channel"),
        "profile": item["agent"],
        "intervalMs": trigger.get("every_ms"),
        "time": next(iter(trigger.get("times") or ()), None),
        "dayOfWeek": next(iter(trigger.get("days") or ()), None),
        "runAt": _ms(trigger.get("at")),
        "nextRun": None if paused_by else _ms(item["next_run_at"]),
        "createdAt": _ms(item["created_at"]),
        "lastRun": _last(calls, item, "succeeded", "started_at"),
        "lastSkipped": _last(calls, item, "skipped", "ended_at"),
        "isPaused": paused_by is not None,
        "pausedAt": _ms(paused_at),
        "pausedBy": paused_by,
        "dispatchType": None if item["job"] == AGENT_JOB else item["job"],
        "preCheck": quoted("the command", settings.get("pre_check")),
        "target": target,
        "fallback": settings.get("fallback", "fresh"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _ms(at: str | None) -> int | None:
    return None if at is None else round(datetime.fromisoformat(at).timestamp() * 1000)


def _last(calls: PrincipalCalls, item: Document, state: str, field: str) -> int | None:
    """When the last run succeeded, or was skipped by preCheck or without a target."""
    runs = calls.call("runs.list", schedule=_full(item), state=state, limit=20)
    return next((_ms(run[field]) for run in runs if state != "skipped" or run["reason"] in SKIPPED_BY), None)


def _pause_of(calls: PrincipalCalls, item: Document) -> tuple[str | None, str | None]:
    """A user's own pause comes first, so that no rate limit that ends can seem to lift it."""
    if item["state"] == "paused":
        return {BY_FAILURES: "failures", BY_BUDGET: "budget"}.get(item["paused_by"], "user"), item["paused_at"]
    if item["state"] == "active" and item["trigger"]["kind"] != "once":
        for limit in calls.call("throttles.list"):
            concerned = not limit["affects"] or item["agent"] in limit["affects"]
            if concerned and limit["provider"] == item["settings"].get("provider"):
                return "rate-limit", limit["activated_at"]
    return None, None


def _list(calls: PrincipalCalls, given: Document) -> Document:
    items = calls.call("schedules.list", limit=given.get("limit", _MAX_LISTED))
    return {"summary": f"{len(items)} tasks.", "tasks": [_task(calls, item) for item in items]}


def _full(item: Document) -> str:
    return f"{item['agent']}/{item['name']}" if item["agent"] else item["name"]


def _get(calls: PrincipalCalls, given: Document) -> Document:
    item = calls.call("schedules.get", name=given["id"])
    return {"summary": f"{item['name']}: {item['trigger_text']}, {item['state']}.", **_task(calls, item)}


def _remove(calls: PrincipalCalls, given: Document) -> Document:
    """Of a task that is not there, `removed` is false."""
    try:
        removed = bool(calls.call("schedules.delete", name=given["id"]))
    except NotFound:
        removed = False
    return {"summary": f"Removed {given['id']}." if removed else f"There is no {given['id']}.", "removed": removed}


def _pause(calls: PrincipalCalls, given: Document) -> Document:
    item = calls.call("schedules.get", name=given["id"])
    if item["trigger"]["kind"] == "once":
        message, hint = f'"{item["name"]}" is of type once and cannot be paused.', "Remove it instead."
        raise Conflict(message, value=item["name"], field="id", hint=hint)
    item = calls.call("schedules.pause", name=given["id"])
    return {"summary": f"Paused {item['name']}.", **_task(calls, item)}


def _resume(calls: PrincipalCalls, given: Document) -> Document:
    item = calls.call("schedules.resume", name=given["id"])
    return {"summary": f"Resumed {item['name']}.", **_task(calls, item)}


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
             {"type": {"enum": list(_NEEDS), "description": "When: interval, daily, weekly or once."},
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
