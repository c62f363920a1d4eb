"""Cortex's four schedule types, its guard, its importer, and its views of a schedule and a throttle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, TypedDict

from matins.api._results import RateLimit
from matins.api._types import ScheduleSettings
from matins.api.results import Schedule
from matins.api.schedules import Api
from matins.app import parse_trigger, trigger_from_dict
from matins.config.presets import PRESETS
from matins.config.reader import invalid_file
from matins.engine.jobs import AGENT_JOB
from matins.engine.when.definitions import instant_text
from matins.engine.when.durations import parse_duration
from matins.engine.when.triggers import Trigger, to_ms
from matins.errors import Conflict, TriggerError
from matins.executors.check_executor import Guard, OnBlocked
from matins.importers.entries import (
    Cron,
    Every,
    Imported,
    ImportEntry,
    Importer,
    OldTimes,
    Once,
    agents_of,
    read_text,
    with_preset,
)
from matins.runtime.clock import SystemClock
from matins.seeds.cortex import file
from matins.seeds.cortex.file import PAUSED_BY, SKIPPED_BY, PausedBy, cortex_target
from matins.seeds.run_views import each_item, ms_of, newest_first
from matins.texts.yaml_nodes import to_python

_SECOND = timedelta(seconds=1)
TYPES = ("interval", "daily", "weekly", "once")
NEEDS = {"interval": ("interval",), "daily": ("time",), "weekly": ("dayOfWeek", "time"), "once": ("delay",)}
"""What each type needs, by the names of Cortex's arguments."""


def schedule_trigger(
    type: str,  # noqa: A002 - the seed's own word
    *,
    interval: str | int | None = None,
    time: str | None = None,
    day_of_week: int | None = None,
    delay: str | int | None = None,
    timezone: str = "UTC",
    now: datetime | None = None,
) -> Trigger:
    """interval and delay are durations (`5m`) or milliseconds, time is HH:MM, day_of_week 0 (Sunday) to 6."""
    if type not in TYPES:
        raise TriggerError(f'Unknown schedule type "{type}".', value=type, field="type", allowed=", ".join(TYPES))
    given = {"interval": interval, "time": time, "dayOfWeek": day_of_week, "delay": delay}
    for name in NEEDS[type]:
        if given[name] is None:
            raise TriggerError(f'A schedule of type {type} needs "{name}".', value=None, field=name)
    now_ms = SystemClock().now_ms() if now is None else to_ms(now)
    if type == "interval":
        every = {"kind": "interval", "every_ms": _milliseconds(interval), "origin": instant_text(now_ms)}
        return trigger_from_dict({**every, "anchor": "start", "timezone": timezone})
    if type == "once":
        return parse_trigger(instant_text(now_ms + _milliseconds(delay)), timezone=timezone)
    days = {"kind": "weekly", "days": [day_of_week]} if type == "weekly" else {"kind": "daily"}
    return trigger_from_dict({**days, "times": [time], "timezone": timezone})


def _milliseconds(value: str | int | None) -> int:
    return value if isinstance(value, int) else parse_duration(value or "")


# -- the guard


class Guarding(TypedDict):
    guard: Guard
    on_blocked: OnBlocked | None


def guarding(
    before_run_guard: Callable[[dict[str, Any]], bool],
    on_guard_blocked: Callable[[dict[str, Any]], Awaitable[None]] | None = None,
) -> Guarding:
    """For `Matins(url, **guarding(…))`. Both get the task that fires; true blocks it."""
    blocked = on_guard_blocked
    return {"guard": before_run_guard, "on_blocked": None if blocked is None else lambda task, reason: blocked(task)}


# -- schedules as Cortex shows them


@dataclass(frozen=True, slots=True)
class ScheduleTask:
    """A schedule in the fields of a ScheduleTask. Instants are epoch milliseconds."""

    id: str
    """8 hexadecimal digits where Cortex's functions or its file made it; otherwise the schedule's name."""
    type: str
    message: str | None
    channel: str | None
    profile: str
    interval_ms: int | None
    time: str | None
    day_of_week: int | None
    run_at: int | None
    next_run: int | None
    """None while it is paused."""
    created_at: int
    last_run: int | None
    """The last successful fire."""
    last_skipped: int | None
    """The last fire that preCheck skipped, or that found no target."""
    is_paused: bool
    paused_at: int | None
    paused_by: PausedBy | None
    dispatch_type: str | None
    pre_check: str | list[str] | None
    target: dict[str, Any]
    fallback: str


def schedule_add(
    m: Api,
    type: str,  # noqa: A002 - the seed's own word
    message: str,
    *,
    interval: str | int | None = None,
    time: str | None = None,
    day_of_week: int | None = None,
    delay: str | int | None = None,
    target: str | Mapping[str, Any] = "fresh",
    fallback: Literal["fresh", "skip", "wait"] = "fresh",
    profile: str | None = None,
    pre_check: str | None = None,
    dispatch_type: str | None = None,
    channel: str | None = None,
    context: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> ScheduleTask:
    """Add a schedule under a new id; into schedules.json, where Matins uses one. Without a profile it has the active
    one: that of schedules.json, the agent "default", or the only one."""
    now = now or _now(m)
    trigger = schedule_trigger(type, interval=interval, time=time, day_of_week=day_of_week, delay=delay, now=now)
    here = channel or (context or {}).get("channel")
    settings: ScheduleSettings = {"prompt": message, "fallback": fallback, "target": _target(target, here)}
    settings |= {"pre_check": pre_check} if pre_check is not None else {}
    settings |= {"job": dispatch_type} if dispatch_type is not None else {}
    settings["failure_backoff"] = PRESETS["cortex"].settings["failure_backoff"]
    if type == "once":
        settings["grace"] = PRESETS["cortex"].once["grace"]
    agent = profile or m.system.context().profile
    return task_view(m, m.add(token_hex(4), when=trigger, agent=agent, context=context, **settings))


def _now(m: Api) -> datetime:
    """The time by the clock of this Matins, which may be on another machine, or in a Sandbox."""
    return m.next_times(f"in {_SECOND.seconds}s", count=1).fires[0].utc - _SECOND


def _target(target: str | Mapping[str, Any], channel: str | None) -> Any:
    """The target. A new conversation is in the schedule's channel."""
    fresh = target == "fresh" or (isinstance(target, Mapping) and target.get("kind") == "fresh")
    return {"kind": "fresh", "channel": channel} if fresh and channel is not None else target


def schedule_list(m: Api, limit: int = 50) -> list[ScheduleTask]:
    """All schedules, the oldest first."""
    return [task_view(m, schedule) for schedule in m.list(limit=limit)]


def schedule_get(m: Api, name: str, *, agent: str | None = None) -> ScheduleTask:
    """One schedule by its id. Raises NotFound."""
    return task_view(m, m.get(name, agent=agent))


def schedule_remove(m: Api, name: str, *, agent: str | None = None) -> dict[str, bool]:
    """Delete a schedule, also from schedules.json. Of one that is not there, `removed` is false."""
    return {"removed": m.delete(name, agent=agent)}


def schedule_pause(m: Api, name: str, *, agent: str | None = None) -> ScheduleTask:
    """Pause a schedule. One of type once is refused."""
    check_pausable(m.get(name, agent=agent), "name")
    return task_view(m, m.pause(name, agent=agent))


def check_pausable(schedule: Schedule, field: str) -> None:
    """Raise Conflict for a schedule of type once, which can only be removed."""
    if _is_once(schedule):
        message, hint = f'"{schedule.name}" is of type once and cannot be paused.', "Remove it instead."
        raise Conflict(message, value=schedule.name, field=field, hint=hint)


def schedule_resume(m: Api, name: str, *, agent: str | None = None) -> ScheduleTask:
    """Resume a schedule. A pause by rate limit ends with its throttle only: delete that instead."""
    return task_view(m, m.resume(name, agent=agent))


def export_tasks(m: Api) -> dict[str, Any]:
    """All schedules of Cortex's four types as the content of a schedules.json, with the throttle that ends last."""
    schedules = each_item(lambda after: m.list(after=after))
    tasks = [task_document(task_view(m, each)) for each in schedules if each.trigger["kind"] in TYPES]
    throttles = sorted(throttle_states(m), key=lambda state: state.resets_at)
    return {"tasks": tasks, "throttle": _throttle_document(throttles[-1]) if throttles else None}


def task_document(task: ScheduleTask) -> dict[str, Any]:
    """The task in Cortex's spelling, without fields that it does not have."""
    return {_camel(name): value for name, value in asdict(task).items() if value is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _throttle_document(state: ThrottleState) -> dict[str, Any]:
    fields = {_camel(name): value for name, value in asdict(state).items()}
    return {**fields, "affectedModes": list(state.affected_modes)}


def task_view(m: Api, schedule: Schedule) -> ScheduleTask:
    """The schedule as Cortex shows it."""
    paused_by, paused_at = _pause_of(m, schedule)
    ran = next(newest_first(m, schedule, "succeeded"), None)
    skipped = next((run for run in newest_first(m, schedule, "skipped") if run.reason in SKIPPED_BY), None)
    settings, trigger = schedule.settings, schedule.trigger
    target = cortex_target(settings.get("target") or {"kind": "fresh"})
    return ScheduleTask(
        id=schedule.name,
        type=trigger["kind"],
        message=settings.get("prompt", schedule.prompt),
        channel=target.get("channel"),
        profile=schedule.agent,
        interval_ms=trigger.get("every_ms"),
        time=next(iter(trigger.get("times") or ()), None),
        day_of_week=next(iter(trigger.get("days") or ()), None),
        run_at=to_ms(datetime.fromisoformat(trigger["at"])) if trigger["kind"] == "once" else None,
        next_run=None if paused_by else ms_of(schedule.next_run_at),
        created_at=to_ms(schedule.created_at),
        last_run=ran and ms_of(ran.started_at),
        last_skipped=skipped and ms_of(skipped.ended_at),
        is_paused=paused_by is not None,
        paused_at=paused_at,
        paused_by=paused_by,
        dispatch_type=None if schedule.job == AGENT_JOB else schedule.job,
        pre_check=settings.get("pre_check"),
        target=target,
        fallback=settings.get("fallback", "fresh"),
    )


def _pause_of(m: Api, schedule: Schedule) -> tuple[PausedBy | None, int | None]:
    """A user's own pause comes first, so that no throttle that ends can seem to lift it."""
    if schedule.state == "paused":
        return PAUSED_BY.get(schedule.paused_by, "user"), ms_of(schedule.paused_at)
    for throttle in m.throttles.list():
        if schedule.state == "active" and not _is_once(schedule) and _holds_for(throttle, schedule):
            return "rate-limit", to_ms(throttle.activated_at)
    return None, None


def _holds_for(throttle: RateLimit, schedule: Schedule) -> bool:
    concerned = not throttle.affects or schedule.agent in throttle.affects
    return concerned and throttle.provider == schedule.settings.get("provider")


def _is_once(schedule: Schedule) -> bool:
    return schedule.trigger["kind"] == "once"


# -- rate limits


@dataclass(frozen=True, slots=True)
class ThrottleState:
    """A throttle. Instants are epoch milliseconds."""

    provider: str
    resets_at: int
    activated_at: int
    affected_modes: tuple[str, ...]
    """The profiles that it holds for; none named: all of the provider."""


def throttle_states(m: Api) -> list[ThrottleState]:
    """The throttles that are in force."""
    return [
        ThrottleState(held.provider, to_ms(held.resets_at), to_ms(held.activated_at), tuple(held.affects))
        for held in m.throttles.list()
    ]


SOURCE = "cortex"


def read(path: str, zone: str) -> Imported:
    """The tasks of a file. Cortex has the times of its machine."""
    text = read_text(path)
    parsed = file.with_profiles(file.read(text), file.Profiles())
    if parsed.problems:
        raise invalid_file(Path(path), list(parsed.problems))
    names = (item.block.values["agent"] for item in parsed.items if "agent" in item.block.values)
    entries = agents_of(names, path, "A profile of Cortex: set its model.")
    for item in parsed.items:
        task: dict[str, Any] = to_python(item.block.location.node)
        values = {name: value for name, value in item.block.values.items() if name not in ("when", "paused")}
        settings = with_preset("cortex", item.block.values["when"], {"timezone": zone, **values})
        entries.append(
            ImportEntry(
                "schedule", item.name, settings, item.block.location.path, _old(task, zone),
                paused=bool(item.block.values.get("paused")),
            )
        )  # fmt: skip
    return Imported(SOURCE, tuple(entries))


def _old(task: dict[str, Any], zone: str) -> OldTimes:
    kind = task["type"]
    if kind == "interval":
        return Every(task["intervalMs"], task.get("nextRun"))
    if kind == "once":
        return Once(task["runAt"])
    hour, minute = task["time"].split(":")
    day = task["dayOfWeek"] if kind == "weekly" else "*"
    return Cron(f"{int(minute)} {int(hour)} * * {day}", zone)


IMPORTER = Importer("Import the schedules.json of Cortex.", read)
