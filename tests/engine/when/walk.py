"""An independent oracle for cron and daylight saving: it shares no code with the engine.

It walks real time tick by tick, asks `zoneinfo` what a clock on the wall shows, and says which ticks fire.
What the clock never showed (a gap) and showed twice (an overlap) is seen in the walk itself.
"""

from __future__ import annotations

from calendar import day_abbr, month_abbr, monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
DayTest = Callable[[date], bool]

DAY = 86_400
EPOCH = date(1970, 1, 1)
# More than the largest jump since 1970 (a whole day), so that both passes of an overlap are in the walk.
MARGIN = 26 * 3600

MONTHS = {name.upper(): number for number, name in enumerate(month_abbr) if name}
WEEKDAYS = {name.upper(): (number + 1) % 7 for number, name in enumerate(day_abbr)}


def instant(text: str) -> int:
    """UTC seconds of `2026-03-29T01:00` (UTC when it names no offset)."""
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def offset_of(zone: ZoneInfo, at: int) -> int:
    """Seconds that the wall clock is ahead of UTC at this instant."""
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None
    return offset.days * DAY + offset.seconds


# --- what a cron text says about a wall clock ---------------------------------------------------------------


def numbers(text: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
    """The values of a field, or of one item of it, that is made of numbers, `*`, ranges, steps and lists."""
    known = names or {}

    def number(word: str) -> int:
        return known[word.upper()] if word.upper() in known else int(word)

    values: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        begin = low if span == "*" else number(first)
        end = high if span == "*" else number(last or first)
        values.update(range(begin, end + 1, int(step or 1)))
    assert values <= set(range(low, high + 1)), f"the oracle was given {text!r}"
    return values


def weekday(day: date) -> int:
    """Sunday is 0."""
    return day.isoweekday() % 7


def last_of_month(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def working_days(day: date) -> list[int]:
    """Days of this month that are Monday to Friday."""
    return [n for n in range(1, last_of_month(day) + 1) if weekday(day.replace(day=n)) in range(1, 6)]


def is_nearest_working_day(day: date, to: int) -> bool:
    if to > last_of_month(day):
        return False
    return day.day == min(working_days(day), key=lambda n: abs(n - to))


def day_of_month_test(item: str) -> DayTest:
    item = item.upper()
    if item == "L":
        return lambda day: day.day == last_of_month(day)
    if item == "LW":
        return lambda day: day.day == working_days(day)[-1]
    if item.endswith("W"):
        return lambda day: is_nearest_working_day(day, int(item[:-1]))
    allowed = numbers(item.replace("?", "*"), 1, 31)
    return lambda day: day.day in allowed


def day_of_week_test(item: str) -> DayTest:
    item = item.upper()
    if "#" in item:
        name, _, nth = item.partition("#")
        wanted, count = numbers(name, 0, 7, WEEKDAYS).pop() % 7, int(nth)
        return lambda day: weekday(day) == wanted and (day.day + 6) // 7 == count
    if item.endswith("L"):
        wanted = numbers(item[:-1], 0, 7, WEEKDAYS).pop() % 7
        return lambda day: weekday(day) == wanted and day.day + 7 > last_of_month(day)
    top = 6 if item[0] in "*?" else 7
    allowed = {n % 7 for n in numbers(item.replace("?", "*"), 0, top, WEEKDAYS)}
    return lambda day: weekday(day) in allowed


class CronText:
    """The wall times that a cron expression matches, read from its text in the plainest way."""

    def __init__(self, text: str) -> None:
        self.text = text
        fields = text.split()
        seconds = fields.pop(0) if len(fields) == 6 else "0"
        self.minute, self.hour, self.dom, self.month, self.dow = fields
        self.seconds = sorted(numbers(seconds, 0, 59))
        self.months = numbers(self.month, 1, 12, MONTHS)
        self.dom_tests = [day_of_month_test(item) for item in self.dom.split(",")]
        self.dow_tests = [day_of_week_test(item) for item in self.dow.split(",")]

    @property
    def follows_elapsed_time(self) -> bool:
        return self.minute.startswith("*") or self.hour.startswith("*")

    @cached_property
    def minutes_of_day(self) -> Mask:
        table = np.zeros(1440, dtype=np.bool_)
        for hour in numbers(self.hour, 0, 23):
            table[[hour * 60 + minute for minute in numbers(self.minute, 0, 59)]] = True
        return table

    def on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month = any(test(day) for test in self.dom_tests)
        in_week = any(test(day) for test in self.dow_tests)
        starred = self.dom[0] in "*?" or self.dow[0] in "*?"
        return (in_month and in_week) if starred else (in_month or in_week)

    def is_possible(self) -> bool:
        """Whether any day matches: 28 years have each kind of year, leap or not, beginning on each weekday."""
        return any(self.on(date(2001, 1, 1) + timedelta(days=n)) for n in range(28 * 365 + 7))


# --- the walk -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Wall times, and the instant that each stands for."""

    wall: Seconds
    at: Seconds

    @cached_property
    def days(self) -> tuple[list[date], npt.NDArray[np.intp]]:
        numbers_, positions = np.unique(self.wall // DAY, return_inverse=True)
        return [EPOCH + timedelta(days=int(n)) for n in numbers_], positions

    @cached_property
    def minute_of_day(self) -> Seconds:
        return self.wall // 60 % 1440

    def matching(self, cron: CronText, tick: int, *, coalesce: bool = False) -> Iterator[Seconds]:
        """Instants at which this expression fires; a row of a minute's tick stands for all its seconds."""
        if not len(self.wall):
            return
        days, position = self.days
        on_day = np.array([cron.on(day) for day in days], dtype=np.bool_)
        hits = np.flatnonzero(cron.minutes_of_day[self.minute_of_day] & on_day[position])
        second = self.wall[hits] % 60
        for wanted in cron.seconds:
            late = wanted % tick
            chosen = self.at[hits[second == wanted - late]]
            yield chosen if coalesce else chosen + late


class Walk:
    """Every tick of real time in a zone from `start` to `end` (UTC seconds), and what the wall showed."""

    def __init__(self, zone: str, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.tick = 60
        at, offset = self._look(ZoneInfo(zone))
        if (offset % 60).any():  # Monrovia's clocks were 44 minutes and 30 seconds behind until 1972
            self.tick = int(np.gcd.reduce(offset, initial=60))
            at, offset = self._look(ZoneInfo(zone))
        wall = at + offset
        _, first = np.unique(wall, return_index=True)
        self.shown = Rows(wall, at)
        self.shown_first = Rows(wall[first], at[first])
        self.lost_after, self.lost_shifted = self._lost(wall, at, offset)

    def _look(self, zone: ZoneInfo) -> tuple[Seconds, Seconds]:
        ticks = range(self.start - MARGIN, self.end + MARGIN, self.tick)
        return np.array(ticks), np.array([offset_of(zone, at) for at in ticks])

    def _lost(self, wall: Seconds, at: Seconds, offset: Seconds) -> tuple[Rows, Rows]:
        """Wall times that were jumped over: with the instant of the jump, and by the offset before it."""
        walls, jumps, shifted = [wall[:0]], [at[:0]], [at[:0]]
        for n in np.flatnonzero(np.diff(wall) > self.tick):
            gap = np.arange(wall[n] + self.tick, wall[n + 1], self.tick)
            gap = gap[~np.isin(gap, wall)]
            walls.append(gap)
            jumps.append(np.full(len(gap), at[n + 1]))
            shifted.append(gap - offset[n])
        lost = np.concatenate(walls)
        return Rows(lost, np.concatenate(jumps)), Rows(lost, np.concatenate(shifted))

    def fires(self, cron: CronText, gap: str = "after", overlap: str = "first") -> list[int]:
        """UTC milliseconds, in [start, end), at which the expression fires."""
        found = np.unique(np.concatenate([*self._fires(cron, gap, overlap)]))
        return (found[(found >= self.start) & (found < self.end)] * 1000).tolist()

    def _fires(self, cron: CronText, gap: str, overlap: str) -> Iterator[Seconds]:
        if cron.follows_elapsed_time:
            yield from self.shown.matching(cron, self.tick)
            return
        yield from (self.shown if overlap == "both" else self.shown_first).matching(cron, self.tick)
        if gap == "after":
            yield from self.lost_after.matching(cron, self.tick, coalesce=True)
        if gap == "shift":
            yield from self.lost_shifted.matching(cron, self.tick)


# --- where the clocks change --------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Transition:
    """At this instant the offset changes (all in seconds)."""

    at: int
    before: int
    after: int


def transitions(name: str, start: int, end: int, step: int = DAY) -> list[Transition]:
    """Changes of offset between `start` and `end`: looked for every `step` seconds, then bisected."""
    zone = ZoneInfo(name)
    looks = [*range(start, end, step), end]
    offsets = [offset_of(zone, at) for at in looks]
    changed = [n for n in range(1, len(looks)) if offsets[n] != offsets[n - 1]]
    return [_bisect(zone, looks[n - 1], looks[n]) for n in changed]


def _bisect(zone: ZoneInfo, low: int, high: int) -> Transition:
    before, after = offset_of(zone, low), offset_of(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset_of(zone, middle) == before else (low, middle)
    return Transition(high, before, after)
