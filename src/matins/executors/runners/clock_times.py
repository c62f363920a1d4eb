"""Clock times at which a limit ends, as tools write them for people: "at 10:21 AM", "at Nov 18th, 2026 11:06 AM"."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = re.compile(
    r"(?:try again|resets?|available again)\s{1,3}(?:(?:at|on|by)\s{1,3})?"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]{0,7}\s{1,3}(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,?\s{1,3}(?P<year>\d{4}))?,?\s{1,3}(?:at\s{1,3})?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s{0,3}(?P<half>[AP]M)\b(?:\s{0,3}\((?P<zone>[\w/+-]{1,60})\))?",
    re.IGNORECASE,
)


class ClockTime(NamedTuple):
    """A time on the wall clock, of a date or of the next day that has it."""

    hour: int
    minute: int
    month: int | None = None
    day: int | None = None
    year: int | None = None
    zone: str | None = None
    """The zone of this machine when the tool names none."""

    def after(self, now: int) -> int | None:
        """UTC milliseconds of its first occurrence after `now`; None when there is no such date."""
        here = datetime.fromtimestamp(now / 1000, UTC).astimezone(_zone(self.zone))
        year = self.year or here.year
        try:
            at = here.replace(
                year, self.month or here.month, self.day or here.day, self.hour, self.minute, second=0, microsecond=0
            )
            if at <= here and self.month is None:
                at += timedelta(days=1)
            elif at <= here and self.year is None:
                at = at.replace(year + 1)
        except ValueError:
            return None
        return round(at.timestamp() * 1000)


def find_clock_time(text: str) -> ClockTime | None:
    found = _TIME.search(text)
    if found is None:
        return None
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    month = (found["month"] or "").lower()
    if not 1 <= hour <= 12 or minute > 59 or (month and month not in _MONTHS):
        return None
    hour = hour % 12 + (12 if found["half"].lower() == "pm" else 0)
    if not month:
        return ClockTime(hour, minute, zone=found["zone"])
    year = int(found["year"]) if found["year"] else None
    return ClockTime(hour, minute, _MONTHS.index(month) + 1, int(found["day"]), year, found["zone"])


def _zone(name: str | None) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        return None
