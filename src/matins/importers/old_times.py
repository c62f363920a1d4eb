"""When another system fires, by its own rules. It shares no code with the time engine, so that the two can be compared.

A cron expression is matched minute by minute, as the other systems do.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ALIASES = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip


class Every(NamedTuple):
    """A fixed interval from its next fire."""

    every_ms: int
    next_ms: int | None = None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        at = start if self.next_ms is None else max(start, _instant(self.next_ms))
        while at < end:
            yield at
            at += timedelta(milliseconds=self.every_ms)


class Once(NamedTuple):
    at_ms: int

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        at = _instant(self.at_ms)
        if start <= at < end:
            yield at


class Cron(NamedTuple):
    """Five fields or an alias, matched against the wall clock of a zone."""

    expression: str
    zone: str
    both_days: bool = False
    """Whether day of month and day of week must both match; otherwise either, where both are restricted."""
    debian: bool = False
    """Whether a fixed time that a clock change skips still runs, and one that occurs twice runs once."""

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        tokens = _ALIASES.get(self.expression.lower(), self.expression).split()
        allowed = [_values(token, n) for n, token in enumerate(tokens)]
        starred = [token.startswith("*") for token in tokens]
        fixed = self.debian and not (starred[0] or starred[1])
        either = not self.both_days and not (starred[2] or starred[4] if self.debian else "*" in (tokens[2], tokens[4]))
        zone, done = ZoneInfo(self.zone), set[datetime]()
        at, before = start.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE, None
        while at < end:
            wall = at.astimezone(zone).replace(tzinfo=None)
            skipped = _between(before, wall) if fixed and before is not None else ()
            walls = [each for each in (*skipped, wall) if _matches(each, allowed, either)]
            if walls and not (fixed and walls[-1] in done):
                yield at
            done.update(walls if fixed else ())
            at, before = at + _MINUTE, wall


OldTimes = Every | Once | Cron


def _between(before: datetime, wall: datetime) -> Iterator[datetime]:
    """The minutes that the wall clock has skipped."""
    before += _MINUTE
    while before < wall:
        yield before
        before += _MINUTE


def _matches(wall: datetime, allowed: list[set[int]], either: bool) -> bool:
    minutes, hours, days, months, weekdays = allowed
    if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
        return False
    by_date, by_weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
    return by_date or by_weekday if either else by_date and by_weekday


def _values(token: str, field: int) -> set[int]:
    low, high = _RANGES[field]
    found: set[int] = set()
    for item in token.lower().split(","):
        base, _, step = item.partition("/")
        first, _, last = base.partition("-")
        start = low if base in "*?" else _number(first, field)
        end = high if base in "*?" or (step and not last) else _number(last or first, field)
        found.update(range(start, end + 1, int(step or 1)))
    return {value % 7 for value in found} if field == 4 else found


def _number(text: str, field: int) -> int:
    names, first = {3: (_MONTHS, 1), 4: (_DAYS, 0)}.get(field, ((), 0))
    return names.index(text[:3]) + first if text[:3] in names else int(text)


def _instant(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
