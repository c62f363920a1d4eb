"""The last rule of a time zone file: POSIX TZ text such as `EST5EDT,M3.2.0,M11.1.0`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from matins.engine.when.days import days_in_month, first_of_month, is_leap
from matins.engine.when.durations import DAY_MS

_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_TIME = r"[+-]?\d+(?::\d+(?::\d+)?)?"
_RULE = re.compile(rf"{_NAME}(?P<std>{_TIME})(?:{_NAME}(?P<dst>{_TIME})?,(?P<start>[^,]+),(?P<end>[^,]+))?")


@dataclass(frozen=True, slots=True)
class YearDay:
    """A day of the year and a wall time on it: `M3.2.0/2`, `J60/0` or `59`."""

    kind: str
    month: int
    week: int
    day: int
    time_ms: int

    def wall(self, year: int) -> int:
        return self._day_number(year) * DAY_MS + self.time_ms

    def _day_number(self, year: int) -> int:
        january = first_of_month(year, 1)
        if self.kind == "J":  # 1 to 365; 29 February is never counted
            return january + self.day - 1 + (is_leap(year) and self.day >= 60)
        if self.kind == "n":
            return january + self.day
        first = first_of_month(year, self.month)
        day = 1 + (self.day - (first + 4)) % 7 + 7 * (self.week - 1)
        return first + (day if day <= days_in_month(year, self.month) else day - 7) - 1


@dataclass(frozen=True, slots=True)
class ZoneRule:
    standard: int
    summer: int
    changes: tuple[YearDay, YearDay] | None

    def transitions(self, first_year: int, last_year: int) -> list[tuple[int, int]]:
        """(instant, offset after it) for every year of the range, in order."""
        if self.changes is None:
            return []
        start, end = self.changes
        found: list[tuple[int, int]] = []
        for year in range(first_year, last_year + 1):
            found.append((start.wall(year) - self.standard, self.summer))
            found.append((end.wall(year) - self.summer, self.standard))
        return sorted(found)


def parse_zone_rule(text: str) -> ZoneRule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a POSIX TZ rule: {text!r}")
    standard = -_time_ms(match["std"])
    if match["start"] is None:
        return ZoneRule(standard, standard, None)
    summer = -_time_ms(match["dst"]) if match["dst"] else standard + 3_600_000
    return ZoneRule(standard, summer, (_year_day(match["start"]), _year_day(match["end"])))


def _year_day(text: str) -> YearDay:
    date, _, time = text.partition("/")
    time_ms = _time_ms(time) if time else 2 * 3_600_000
    if date.startswith("M"):
        month, week, day = map(int, date[1:].split("."))
        return YearDay("M", month, week, day, time_ms)
    if date.startswith("J"):
        return YearDay("J", 0, 0, int(date[1:]), time_ms)
    return YearDay("n", 0, 0, int(date), time_ms)


def _time_ms(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = ([int(part) for part in text.lstrip("+-").split(":")] + [0, 0])[:3]
    return sign * ((hours * 60 + minutes) * 60 + seconds) * 1000
