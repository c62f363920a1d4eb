"""Instants as models write them: ISO, with or without an offset, `yesterday`, `2h ago`."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from matins.errors import InvalidInput
from matins.surfaces.mcp.principal_calls import Document, PrincipalCalls

_AHEAD = re.compile(r"in (\d{1,6})\s{0,3}([smhdw])\w{0,8}", re.IGNORECASE)
_AGO = re.compile(r"(\d{1,6})\s{0,3}([smhdw])\w{0,8}(?: ago)?", re.IGNORECASE)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_HINT = "For example: 2026-11-17T08:00:00Z, 2026-11-17T08:00, yesterday, 2h ago."


def instant_of(calls: PrincipalCalls, given: Document, name: str, schedule: str | None = None) -> datetime | None:
    """The instant of an argument, with its zone; None if it is not given. Without an offset, it is in the zone of the
    schedule, or of the person."""
    text = given.get(name)
    if text is None:
        return None
    named = schedule or given.get("schedule")
    zone = ZoneInfo(calls.call("schedules.get", name=named)["timezone"] if named else calls.zone)
    found = _read(str(text).strip(), zone, calls.now().astimezone(zone))
    if found is None:
        raise InvalidInput(f'"{name}" is not an instant: {text!r:.60}.', value=str(text), field=name, hint=_HINT)
    return found


def _read(text: str, zone: ZoneInfo, now: datetime) -> datetime | None:
    days = {"now": None, "today": 0, "yesterday": 1, "tomorrow": -1}
    if text.lower() in days:
        back = days[text.lower()]
        return now if back is None else datetime.combine(now.date() - timedelta(days=back), time(), zone)
    if (ago := _AGO.fullmatch(text)) is not None:
        return now - timedelta(**{_UNITS[ago[2].lower()]: int(ago[1])})
    if (ahead := _AHEAD.fullmatch(text)) is not None:
        return now + timedelta(**{_UNITS[ahead[2].lower()]: int(ahead[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=zone)
