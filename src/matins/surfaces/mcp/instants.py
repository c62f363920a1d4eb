"""Instants as models write them: ISO, with or without an offset, `yesterday`, `2h ago`."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from matins.errors import InvalidInput
from matins.surfaces.mcp.principal_calls import Document, PrincipalCalls

_LENGTH = re.compile(
    r"(in )?(\d{1,6})\s{0,3}"
    r"(?:(s)(?:ecs?|econds?)?|(m)(?:ins?|inutes?)?|(h)(?:rs?|ours?)?|(d)(?:ays?)?|(w)(?:eeks?)?)( ago)?",
    re.IGNORECASE,
)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_HINTS = {
    False: "For example: 2026-11-17T08:00:00Z, 2026-11-17T08:00, yesterday, 2h ago.",
    True: "For example: 2026-11-17T08:00:00Z, 2026-11-17T08:00, tomorrow, in 2h.",
}


def instant_of(calls: PrincipalCalls, given: Document, name: str, *, future: bool = False) -> datetime | None:
    """The instant of an argument, with its zone; None if it is not given. Without an offset, it is in the zone of the
    person. `future`: whether a length of time is counted from now on, and not back."""
    text = given.get(name)
    if text is None:
        return None
    zone = ZoneInfo(calls.zone)
    try:
        return _read(str(text).strip(), zone, calls.now().astimezone(zone), future)
    except (ValueError, OverflowError):
        message = f'"{name}" is not an instant: {text!r:.60}.'
        raise InvalidInput(message, value=str(text), field=name, hint=_HINTS[future]) from None


def _read(text: str, zone: ZoneInfo, now: datetime, future: bool) -> datetime:
    """The instant. Raises ValueError or OverflowError for what is none."""
    if text.lower() == "now":
        return now
    if (days := _DAYS.get(text.lower())) is not None:
        return datetime.combine(now.date() + timedelta(days=days), time(), zone)
    if (found := _LENGTH.fullmatch(text)) is not None and not (found[1] and found[8]):
        unit = next(filter(None, found.groups()[2:7])).lower()
        length = timedelta(**{_UNITS[unit]: int(found[2])})
        return now + length if found[1] or (future and not found[8]) else now - length
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=zone)
