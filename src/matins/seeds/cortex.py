"""Cortex's four schedule types."""

from __future__ import annotations

from datetime import datetime

from matins.app import parse_trigger, trigger_from_dict
from matins.engine.when.definitions import instant_text
from matins.engine.when.durations import parse_duration
from matins.engine.when.triggers import Trigger, to_ms
from matins.errors import TriggerError
from matins.runtime.clock import SystemClock

TYPES = ("interval", "daily", "weekly", "once")
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
        raise TriggerError(f'Unknown schedule type "{type}"', value=type, field="type", allowed=", ".join(TYPES))
    given = {"interval": interval, "time": time, "dayOfWeek": day_of_week, "delay": delay}
    for name in _NEEDS[type]:
        if given[name] is None:
            raise TriggerError(f'A schedule of type {type} needs "{name}"', value=None, field=name)
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
