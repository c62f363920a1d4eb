"""Cortex's four schedule types, its guard, and a schedule and a throttle as Cortex shows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from matins.api._results import RateLimit
from matins.api.results import Run, Schedule
from matins.api.schedules import Api
from matins.app import parse_trigger, trigger_from_dict
from matins.engine.gates.paused import BY_BUDGET, BY_FAILURES
from matins.engine.when.definitions import instant_text
from matins.engine.when.durations import parse_duration
from matins.engine.when.triggers import Trigger, to_ms
from matins.errors import Conflict, TriggerError
from matins.executors.check_executor import Guard, OnBlocked
from matins.runtime.clock import SystemClock
from matins.seeds.run_views import ms_of, newest_first

TYPES = ("interval", "daily", "weekly", "once")
PausedBy = Literal["user", "rate-limit", "failures", "budget"]
_NEEDS = {"interval": ("interval",), "daily": ("time",), "weekly": ("dayOfWeek", "time"), "once": ("delay",)}


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
    for name in _NEEDS[type]:
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


# -- a schedule as Cortex shows it


@dataclass(frozen=True, slots=True)
class ScheduleTask:
    """Instants are epoch milliseconds."""

    name: str
    profile: str
    pre_check: str | list[str] | None
    created_at: int
    next_run: int | None
    """None while it is paused."""
    last_run: int | None
    """The last successful fire."""
    last_skipped: int | None
    """The last fire that preCheck skipped."""
    is_paused: bool
    paused_at: int | None
    paused_by: PausedBy | None


def schedule_get(m: Api, name: str, *, agent: str | None = None) -> ScheduleTask:
    return _task(m, m.get(name, agent=agent))


def schedule_pause(m: Api, name: str, *, agent: str | None = None) -> ScheduleTask:
    if _is_once(m.get(name, agent=agent)):
        raise Conflict(
            f'"{name}" is of type once and cannot be paused.', value=name, field="name", hint="Delete it instead."
        )
    return _task(m, m.pause(name, agent=agent))


def schedule_resume(m: Api, name: str, *, agent: str | None = None) -> ScheduleTask:
    """A pause by rate-limit ends with the throttle, not before: lift that instead."""
    return _task(m, m.resume(name, agent=agent))


def _task(m: Api, schedule: Schedule) -> ScheduleTask:
    paused_by, paused_at = _pause_of(m, schedule)
    ran = _last(m, schedule, lambda run: run.state == "succeeded")
    skipped = _last(m, schedule, lambda run: run.state == "skipped" and run.reason == "pre_check")
    return ScheduleTask(
        name=schedule.name,
        profile=schedule.agent,
        pre_check=schedule.settings.get("pre_check"),
        created_at=to_ms(schedule.created_at),
        next_run=None if paused_by else ms_of(schedule.next_run_at),
        last_run=ran and ms_of(ran.started_at),
        last_skipped=skipped and ms_of(skipped.ended_at),
        is_paused=paused_by is not None,
        paused_at=paused_at,
        paused_by=paused_by,
    )


def _last(m: Api, schedule: Schedule, wanted: Callable[[Run], bool]) -> Run | None:
    return next(filter(wanted, newest_first(m, schedule)), None)


def _pause_of(m: Api, schedule: Schedule) -> tuple[PausedBy | None, int | None]:
    """A user's own pause comes first, so that no throttle that ends can seem to lift it."""
    if schedule.state == "paused":
        settings: dict[str | None, PausedBy] = {BY_FAILURES: "failures", BY_BUDGET: "budget"}
        return settings.get(schedule.paused_by, "user"), ms_of(schedule.paused_at)
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
    """Instants are epoch milliseconds."""

    provider: str
    resets_at: int
    activated_at: int
    affected_modes: tuple[str, ...]
    """The profiles that it holds for; none named: all of the provider."""


def throttle_states(m: Api) -> list[ThrottleState]:
    return [
        ThrottleState(held.provider, to_ms(held.resets_at), to_ms(held.activated_at), tuple(held.affects))
        for held in m.throttles.list()
    ]
