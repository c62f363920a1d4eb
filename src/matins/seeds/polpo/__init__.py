"""Polpo's missions and schedules, with its names, its tools and its importer.

A mission is a schedule with steps, by the mission's id; its schedule is its time.
"""

# ruff: noqa: N803 - the seed's own spelling
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, cast
from zoneinfo import ZoneInfo

from matins.api._types import StepSettings
from matins.api.results import Mission
from matins.api.schedules import Api
from matins.config.presets import PRESETS
from matins.engine.events import ALIASES, TERMINAL_EVENTS
from matins.engine.policies import BEFORE_RUN
from matins.engine.steps import GOT_SCHEDULE
from matins.engine.when.cron import parse_cron
from matins.engine.when.definitions import instant_text
from matins.errors import Conflict, InvalidInput, NotFound
from matins.importers.entries import (
    Cron,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    Once,
    Row,
    agents_of,
    read_schedules,
    with_preset,
)
from matins.library import Matins
from matins.mcp.principal_calls import Document, PrincipalCalls
from matins.mcp.tool import Tool, Toolset
from matins.model.schedule import MissionStatus
from matins.seeds.run_views import each_item, text_of

_PREFIX = "sched-"
_PAGE = 1_000
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
_UNSET: Any = object()
_TRIGGERABLE = ("scheduled", "recurring", "active")
_SHAPE = f'{{"hooks": {{"{BEFORE_RUN}": {{"command": "node scripts/check-maintenance-window.js"}}}}}}'


# -- missions


class Task(TypedDict, total=False):
    title: str
    description: str
    assignTo: str
    dependsOn: Sequence[str]


def create_mission(m: Api, missionId: str, tasks: Sequence[Task], **settings: Any) -> Mission:
    """A mission in draft. A task without a description is asked for by its title."""
    return m.missions.make(missionId, steps=cast("Sequence[StepSettings]", tasks), **settings)


def mission_status(m: Api, missionId: str) -> MissionStatus:
    """The status of a mission, such as draft, scheduled, running."""
    return m.missions.get(missionId).status


def abort_mission(m: Api, missionId: str) -> Mission:
    """Cancel what runs, and remove the schedule."""
    return m.missions.abort(missionId)


# -- schedules


class ScheduleEntry(TypedDict):
    id: str
    missionId: str
    expression: str
    recurring: bool
    enabled: bool
    lastRunAt: str | None
    nextRunAt: str | None
    createdAt: str | None


def schedule_id(missionId: str) -> str:
    """The id of a mission's schedule: `sched-` and the mission's id."""
    return _PREFIX + missionId


def create_schedule(
    m: Api, missionId: str, expression: str, recurring: bool = False, endDate: str | None = None
) -> ScheduleEntry:
    """Schedule a mission. Its former schedule is replaced."""
    m.missions.get(missionId)
    timed = {"when": expression, "ends_at": endDate, **PRESETS["polpo"].settings}
    m.edit(missionId, **timed, **_mode(m, missionId, expression, recurring=recurring))
    if m.get(missionId).state == "paused":
        m.resume(missionId)
    return _entry(m, m.missions.get(missionId))


def list_schedules(m: Api) -> list[ScheduleEntry]:
    """The schedules of all missions that have a time."""
    return [_entry(m, mission) for mission in _timed(m)]


def _timed(m: Api) -> Iterator[Mission]:
    missions = each_item(lambda after: m.missions.list(after=after, limit=_PAGE))
    return (mission for mission in missions if mission.when is not None)


def update_schedule(
    m: Api,
    missionId: str,
    *,
    expression: str | None = None,
    recurring: bool | None = None,
    enabled: bool | None = None,
    endDate: str | None = _UNSET,
) -> ScheduleEntry:
    """Change what is given. `endDate=None` removes the end date."""
    mission = _scheduled(m, missionId)
    changed: dict[str, Any] = {} if endDate is _UNSET else {"ends_at": endDate}
    if expression is not None or recurring is not None:
        text = str(mission.when) if expression is None else expression
        repeats = mission.recurring if recurring is None else recurring
        changed |= {"when": text, "strict": True, **_mode(m, missionId, text, recurring=repeats)}
    if changed:
        m.edit(missionId, **changed)
    if enabled is not None:
        m.resume(missionId) if enabled else m.pause(missionId)
    return _entry(m, m.missions.get(missionId))


class Deleted(TypedDict):
    removed: bool
    missionId: str
    status: MissionStatus | None
    """The status of the mission; None when there is none."""


def delete_schedule(m: Api, missionId: str) -> Deleted:
    """Remove the schedule. The mission is a draft again. Without a mission or its schedule, `removed` is false."""
    try:
        mission = m.missions.get(missionId)
    except NotFound:
        return {"removed": False, "missionId": missionId, "status": None}
    removed = mission.when is not None
    status = m.missions.draft(missionId).status if removed else mission.status
    return {"removed": removed, "missionId": missionId, "status": status}


def _mode(m: Api, missionId: str, expression: str, *, recurring: bool) -> dict[str, Any]:
    """The settings of recurring or one-shot missions. A one-shot by cron runs at its next match, once."""
    once = PRESETS["polpo"].once
    if not _ISO.match(expression):
        parse_cron(expression, strict=True)
        if recurring:
            return dict.fromkeys([*once, "max_executions"])
        return {**once, "max_executions": m.get(missionId).executions + 1}
    if recurring:
        message = "A recurring schedule takes a cron expression, not a timestamp."
        hint = 'Give one, such as "0 2 * * *".'
        raise InvalidInput(message, value=expression, field="expression", hint=hint)
    if not m.next_times(expression, count=1).fires:
        hint = "Give a time in the future."
        raise InvalidInput(f'"{expression}" is past.', value=expression, field="expression", hint=hint)
    return {**once, "max_executions": None}


def _scheduled(m: Api, missionId: str) -> Mission:
    mission = m.missions.get(missionId)
    if mission.when is None:
        message, hint = f'The mission "{missionId}" has no schedule.', "Create one: create_schedule."
        raise Conflict(message, value=missionId, field="missionId", hint=hint)
    return mission


def _entry(m: Api, mission: Mission) -> ScheduleEntry:
    return {
        "id": schedule_id(mission.name),
        "missionId": mission.name,
        "expression": mission.when or "",
        "recurring": mission.recurring,
        "enabled": mission.status in _TRIGGERABLE,
        "lastRunAt": text_of(mission.last_run_at),
        "nextRunAt": text_of(mission.next_run_at),
        "createdAt": text_of(_created_at(m, mission)),
    }


def _created_at(m: Api, mission: Mission) -> datetime:
    """When the mission got its schedule; when it was made, if the event is no longer kept."""
    events = m.events.list(types=GOT_SCHEDULE, schedule=mission.name, agent=mission.agent, limit=1)
    return events[0].at if events else mission.created_at


# -- events


def subscribe(m: Matins, function: Callable[[str, dict[str, Any]], object]) -> Callable[[], None]:
    """Call a function with the name and the payload of every event of the seed. Returns what ends it."""
    types = ("schedule:created", "schedule:triggered", "schedule:expired", *TERMINAL_EVENTS - {"schedule.missed"})

    def receive(event: Mapping[str, Any]) -> None:
        found = seed_event(event)
        if found is not None:
            function(*found)

    return m.subscribe(receive, types=types)


def seed_event(event: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The seed's name and payload of an event; None for an event that the seed does not have.

    A mission run is triggered once, whatever is retried in it, and completed once, when all of it has ended.
    """
    kind, data, name = event["type"].removeprefix("matins."), event["data"], event["schedulename"]
    payload: dict[str, Any] = {"scheduleId": schedule_id(name), "missionId": name}
    if kind in ALIASES["schedule:created"]:
        at = data.get("next_run_at")
        return None if at is None else ("schedule:created", payload | {"nextRunAt": instant_text(at)})
    if kind == "run.started":
        first = data.get("round") == 1
        return ("schedule:triggered", payload | {"expression": data["when"]}) if first else None
    if kind == "schedule.expired":
        return "schedule:expired", payload | {"endDate": instant_text(data["ends_at"])}
    finished = kind in ("run.succeeded", "run.cancelled") or "steps" in data
    return ("schedule:completed", payload) if finished else None


# -- hooks


def load_hooks(m: Api, data: Mapping[str, Any]) -> None:
    """The hook of a file in Polpo's JSON shape: a command that may cancel any scheduled run."""
    hooks = _mapping(data.get("hooks"), "hooks")
    for event in hooks:
        if event != BEFORE_RUN:
            raise InvalidInput(
                f'There is no hook "{event}".', value=event, field="hooks", allowed=BEFORE_RUN, hint=_SHAPE
            )
    if BEFORE_RUN in hooks:
        settings = _mapping(hooks[BEFORE_RUN], f"hooks.{BEFORE_RUN}")
        if list(settings) != ["command"]:
            raise _misshapen(f"hooks.{BEFORE_RUN}", settings)
        m.hooks.set(BEFORE_RUN, command=settings["command"])


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _misshapen(field, value)
    return value  # pyright: ignore[reportUnknownVariableType] - JSON


def _misshapen(field: str, value: object) -> InvalidInput:
    return InvalidInput(f'"{field}" does not have the form of a hook.', value=value, field=field, hint=_SHAPE)


_MISSION = {"type": "string", "description": "Id of the mission."}
_EXPRESSION = {"type": "string", "description": "Cron expression or ISO timestamp."}
_RECURRING = {"type": "boolean", "description": "Whether the schedule repeats; default false."}
_END = {"type": ["string", "null"], "description": "ISO timestamp after which no run starts."}


def _create(calls: PrincipalCalls, given: Document) -> Document:
    create_schedule(calls.api, **given)
    mission = calls.api.missions.get(given["missionId"])
    return {"summary": f"Scheduled {mission.name}: {given['expression']}.", **_with_status(calls.api, mission)}


def _with_status(m: Api, mission: Mission) -> Document:
    """The schedule with the status and the end of its mission."""
    return {**_entry(m, mission), "status": mission.status, "endDate": text_of(mission.ends_at)}


def _list(calls: PrincipalCalls, given: Document) -> Document:
    entries = [_with_status(calls.api, mission) for mission in _timed(calls.api)]
    return {"summary": f"{len(entries)} scheduled.", "schedules": entries}


def _update(calls: PrincipalCalls, given: Document) -> Document:
    name = given["missionId"]
    if calls.api.missions.get(name).when is None:
        hint = "Call create_schedule first."
        raise NotFound(f'"{name}" is not scheduled.', value=name, field="missionId", hint=hint)
    update_schedule(calls.api, **given)
    return {"summary": f"Updated {name}.", **_with_status(calls.api, calls.api.missions.get(name))}


def _delete(calls: PrincipalCalls, given: Document) -> Document:
    deleted, name = delete_schedule(calls.api, given["missionId"]), given["missionId"]
    if deleted["status"] is None:
        summary = f"There is no mission {name}."
    else:
        summary = f"{name} is a draft again." if deleted["removed"] else f"{name} has no schedule."
    return {"summary": summary, **deleted}


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


SOURCE = "polpo"
TABLE = "missions"
_ENDED = ("completed", "failed", "cancelled")
_NEXT_MATCH = "A one-shot by cron: it runs at its next match, once."


def read(path: str, zone: str) -> Imported:
    """The missions of a database, or of a JSON file. Polpo has the times of its machine."""
    found = read_schedules(
        SOURCE, path, TABLE, "mission {id}", lambda mission, origin: _schedule(mission, origin, zone)
    )
    names = (step["agent"] for entry in found.entries for step in entry.settings["steps"] if "agent" in step)
    agents = agents_of(names, path, "An agent of Polpo: set its model.")
    return found._replace(entries=(*agents, *found.entries))


def _schedule(mission: Row, origin: str, zone: str) -> ImportEntry:
    status, text = str(mission.get("status") or "draft"), mission.get("schedule")
    if status in _ENDED:
        raise InvalidInput(f"it is {status}.", value=status, field="status")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("it has no schedule.", field="schedule")
    steps = [_step(task) for task in _tasks(mission)]
    if not steps:
        raise InvalidInput("it has no tasks.", field="tasks")
    recurring = status == "recurring" or bool(mission.get("recurring"))
    old = _old(text.strip(), zone, recurring=recurring)
    once = not recurring and isinstance(old, Cron)
    settings = {
        **({} if recurring else PRESETS["polpo"].once),
        "agent": steps[0].get("agent"),
        "description": mission.get("name"),
        "timezone": zone,
        "steps": steps,
        "ends_at": mission.get("endDate") or mission.get("end_date"),
        "max_executions": 1 if once else None,
    }
    return ImportEntry(
        "schedule", str(mission["id"]), with_preset("polpo", text.strip(), settings), origin, old,
        paused=status == "paused" or mission.get("enabled") is False,
        notes=(_NEXT_MATCH,) if once else (),
    )  # fmt: skip


def _tasks(mission: Row) -> list[dict[str, Any]]:
    """The tasks of a mission: its own, or those of the document that Polpo stores with it."""
    document: Any = mission.json("data")
    inner: Any = Row(cast("dict[str, Any]", document)).json("tasks") if isinstance(document, dict) else None
    return mission.json("tasks") or inner or []


def _step(task: dict[str, Any]) -> dict[str, Any]:
    step = {
        "title": task.get("title"),
        "prompt": task.get("description"),
        "agent": task.get("assignTo"),
        "after": task.get("dependsOn") or None,
    }
    return {name: value for name, value in step.items() if value is not None}


def _old(text: str, zone: str, *, recurring: bool) -> OldTimes:
    if not text[:4].isdigit() or text[4:5] != "-":
        parse_cron(text, strict=True)
        return Cron(text, zone)
    if recurring:
        raise InvalidInput("A recurring schedule takes a cron expression, not a timestamp.", value=text)
    return Once.parse(text, ZoneInfo(zone), "schedule")


IMPORTER = Importer("Import the missions of Polpo, from its database or as JSON.", read)
