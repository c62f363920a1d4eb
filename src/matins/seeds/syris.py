"""Syris' three schedule types."""

from __future__ import annotations

from datetime import datetime

from matins.app import parse_trigger
from matins.engine.when.cron import parse_cron
from matins.engine.when.triggers import Trigger
from matins.errors import InstantError, IntervalParseError, TriggerError

TYPES = ("cron", "interval", "one_shot")


def schedule_trigger(type: str, spec: str, *, timezone: str = "UTC", now: datetime | None = None) -> Trigger:  # noqa: A002
    """spec is a cron expression, a whole number of seconds (counted from the last run), or an ISO instant."""
    if type == "cron":
        parse_cron(spec)
        return parse_trigger(spec, timezone=timezone)
    if type == "interval":
        if not (spec.isascii() and spec.isdigit()):
            raise IntervalParseError(
                f'spec "{spec}" is not a whole number of seconds', value=spec, field="spec", allowed="1, 2, 3 …"
            )
        return parse_trigger(f"{spec}s", timezone=timezone, now=now, anchor="start", first="immediately")
    if type == "one_shot":
        trigger = parse_trigger(spec, timezone=timezone)
        if trigger.kind != "once":
            raise InstantError(f'spec "{spec}" is not an ISO instant', value=spec, field="spec")
        return trigger
    raise TriggerError(f'Unknown schedule type "{type}"', value=type, field="type", allowed=", ".join(TYPES))
