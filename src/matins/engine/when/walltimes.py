"""Sets of wall times: days, and the same times on each day.

The times of a day are one integer with a bit for every minute (or second) of the day. The next time is a shift and a
lowest bit, the previous one a mask and a highest bit, and a count is a population count.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Protocol

from matins.engine.when.days import Days, WeekDays, bits
from matins.engine.when.durations import DAY_MS, MINUTE_MS


class WallSet(Protocol):
    """A set of wall times, in milliseconds of the wall clock."""

    def next(self, wall: int) -> int | None:
        """The first wall time after `wall`."""
        ...

    def prev(self, wall: int) -> int | None:
        """The last wall time before `wall`."""
        ...

    def count(self, start: int, end: int) -> int:
        """The number of wall times in [start, end)."""
        ...

    def smallest_gap(self) -> int:
        """The least milliseconds between neighbours, over the whole cycle."""
        ...


class WallTimes:
    """Every combination of a set of days and a set of times."""

    __slots__ = ("_ahead", "_first", "_last", "_per_day", "_unit", "days", "times")

    def __init__(self, days: Days, times: int, unit: int = MINUTE_MS) -> None:
        self.days = days
        self.times = times
        self._unit = unit
        self._per_day = DAY_MS // unit
        self._first = (times & -times).bit_length() - 1
        self._last = times.bit_length() - 1
        self._ahead = days.ahead if isinstance(days, WeekDays) else None

    @property
    def unit(self) -> int:
        return self._unit

    def next(self, wall: int) -> int | None:
        tick = wall // self._unit + 1
        day, time = divmod(tick, self._per_day)
        if time > self._last:
            day += 1
            time = 0
        ahead = self._ahead
        found = day + ahead[day % 7] if ahead is not None else self.days.next(day)
        if found == day and time > self._first:
            rest = self.times >> time
            return (tick + (rest & -rest).bit_length() - 1) * self._unit
        return None if found is None else (found * self._per_day + self._first) * self._unit

    def prev(self, wall: int) -> int | None:
        tick = -(-wall // self._unit) - 1
        day, time = divmod(tick, self._per_day)
        found = self.days.prev(day)
        if found == day:
            rest = self.times & ((2 << time) - 1)
            if rest:
                return (day * self._per_day + rest.bit_length() - 1) * self._unit
            found = self.days.prev(day - 1)
        return None if found is None else (found * self._per_day + self._last) * self._unit

    def count(self, start: int, end: int) -> int:
        if end <= start:
            return 0
        first_day, first_time = divmod(-(-start // self._unit), self._per_day)
        last_day, last_time = divmod(-(-end // self._unit), self._per_day)
        whole = self.days.count(first_day, last_day) * self.times.bit_count()
        return whole + self._on(last_day, last_time) - self._on(first_day, first_time)

    def _on(self, day: int, before: int) -> int:
        """The number of times of `day` before a time; 0 if the day is not in the set."""
        return (self.times & ((1 << before) - 1)).bit_count() if before and self.days.count(day, day + 1) else 0

    def smallest_gap(self) -> int:
        overnight = self.days.smallest_gap() * self._per_day - self._last + self._first
        return min(_smallest_distance(self.times), overnight) * self._unit


class WallUnion:
    """Several sets that share no wall time."""

    def __init__(self, parts: tuple[WallSet, ...]) -> None:
        self._parts = parts

    def next(self, wall: int) -> int | None:
        return min((w for part in self._parts if (w := part.next(wall)) is not None), default=None)

    def prev(self, wall: int) -> int | None:
        return max((w for part in self._parts if (w := part.prev(wall)) is not None), default=None)

    def count(self, start: int, end: int) -> int:
        return sum(part.count(start, end) for part in self._parts)

    def smallest_gap(self) -> int:
        """The least gap between neighbours in eight years. The parts have no common arithmetic."""
        start = 30 * 365 * DAY_MS
        wall, smallest = self.next(start), 1 << 62
        while wall is not None and wall < start + 8 * 366 * DAY_MS:
            following = self.next(wall)
            if following is not None:
                smallest = min(smallest, following - wall)
            wall = following
        return smallest


def minutes_mask(times: tuple[int, ...]) -> int:
    mask = 0
    for minute in times:
        mask |= 1 << minute
    return mask


@lru_cache(maxsize=4096)
def spread(mask: int, stride: int) -> int:
    """The mask with its bits `stride` apart: hours of a day as minutes, or minutes as seconds."""
    spaced = 0
    for n in bits(mask):
        spaced |= 1 << n * stride
    return spaced


def _smallest_distance(mask: int) -> int:
    """The least distance between two bits; more than a day for a single bit."""
    if mask.bit_count() > 64:  # a crowded mask has close neighbours
        return next(n for n in range(1, mask.bit_length()) if mask & mask >> n)
    return min((b - a for a, b in pairwise(bits(mask))), default=1 << 62)
