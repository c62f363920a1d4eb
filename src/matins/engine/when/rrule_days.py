"""The days that a recurrence rule allows, month by month."""

from __future__ import annotations

from collections.abc import Iterator

from matins.engine.when.cron_days import weekdays_mask
from matins.engine.when.days import (
    ALL_MONTHS,
    FIRST_DAY,
    LAST_DAY,
    MonthDays,
    bits,
    date_of,
    days_in_month,
    first_of_month,
    weekday,
)
from matins.engine.when.rrule import Rule

_CYCLE_DAYS = 146_097  # 400 years


class RruleDays(MonthDays):
    """FREQ and INTERVAL select periods from the start, the BY parts days in them, and positions some of those days."""

    def __init__(self, rule: Rule, start: int, positions: tuple[int, ...]) -> None:
        super().__init__(sum(1 << m for m in rule.months) or ALL_MONTHS)
        first = date_of(start)
        self._freq, self._interval, self._start = rule.freq, rule.interval, start
        self._start_month = first.year * 12 + first.month - 1
        self._month_days, self._week_days, self._positions = rule.month_days, rule.week_days, positions
        self._week_start = rule.week_start
        self._sparse = rule.freq in ("DAILY", "WEEKLY") and rule.interval * (1 if rule.freq == "DAILY" else 7) > 31
        self._by_year = rule.freq == "YEARLY" and not rule.months
        self._years: dict[int, set[int]] = {}
        self._months_allowed: dict[tuple[int, int], int] = {}
        if rule.month_days or rule.week_days:
            return
        if rule.freq == "WEEKLY":
            self._week_days = ((0, weekday(start)),)
        elif rule.freq in ("MONTHLY", "YEARLY"):
            self._month_days = (first.day,)
            if self._by_year:
                self.months = 1 << first.month

    def next(self, day: int) -> int | None:
        if not self._sparse:
            return super().next(day)
        return next(self._sparse_days(day, min(LAST_DAY, day + _CYCLE_DAYS)), None)

    def prev(self, day: int) -> int | None:
        if not self._sparse:
            return super().prev(day)
        return next(self._sparse_days(max(FIRST_DAY + 7, day - _CYCLE_DAYS), day + 1, backwards=True), None)

    def count(self, first: int, end: int) -> int:
        return sum(1 for _ in self._sparse_days(first, end)) if self._sparse else super().count(first, end)

    def _sparse_days(self, first: int, end: int, *, backwards: bool = False) -> Iterator[int]:
        """The days of the set in [first, end), by due period, for periods further apart than months."""
        length = 1 if self._freq == "DAILY" else 7
        origin = self._start if self._freq == "DAILY" else self._week(self._start)
        step = length * self._interval
        periods = range(first - (first - origin) % step, end, step)
        for period in reversed(periods) if backwards else periods:
            days = range(max(period, first), min(period + length, end))
            for day in reversed(days) if backwards else days:
                d = date_of(day)
                if self.mask_of(d.year, d.month) >> d.day & 1:
                    yield day

    def pick(self, year: int, month: int) -> int:
        if not self._positions or self._freq == "DAILY":
            outside = self._positions and not {1, -1} & set(self._positions)
            return 0 if outside else self._allowed(year, month)
        first = first_of_month(year, month)
        if self._freq == "MONTHLY":
            chosen = self._choose([first + day - 1 for day in bits(self._allowed(year, month))])
        elif self._freq == "YEARLY":
            chosen = self._chosen_in_year(year)
        else:
            chosen = self._chosen_in_weeks(first, first + days_in_month(year, month))
        return _mask_of(chosen, first, days_in_month(year, month))

    def _allowed(self, year: int, month: int) -> int:
        """The days of a month before positions are applied."""
        if not self.months >> month & 1 or not self._month_is_due(year, month):
            return 0
        first, length = first_of_month(year, month), days_in_month(year, month)
        mask = (2 << length) - 2
        if self._month_days:
            mask &= sum(1 << day for day in {d if d > 0 else length + 1 + d for d in self._month_days} if day > 0)
        if self._week_days:
            mask &= self._weekdays_of(year, first, length)
        if self._interval > 1 and self._freq == "DAILY":
            mask &= sum([1 << n + 1 for n in range((self._start - first) % self._interval, length, self._interval)])
        elif self._interval > 1 and self._freq == "WEEKLY":
            mask &= self._due_weeks(first, length)
        return mask

    def _month_is_due(self, year: int, month: int) -> bool:
        if self._freq == "MONTHLY":
            return (year * 12 + month - 1 - self._start_month) % self._interval == 0
        return self._freq != "YEARLY" or (year - self._start_month // 12) % self._interval == 0

    def _due_weeks(self, first: int, length: int) -> int:
        """The days from `first` on in weeks that the interval selects."""
        passed = (self._week(first) - self._week(self._start)) // 7 % self._interval
        week = self._week(first) + 7 * ((self._interval - passed) % self._interval)
        starts = range(week - first + 1, length + 1, 7 * self._interval)
        return sum([0b111_1111 << start if start >= 0 else 0b111_1111 >> -start for start in starts])

    def _week(self, day: int) -> int:
        """The first day of the week of a day."""
        return day - (weekday(day) - self._week_start) % 7

    def _weekdays_of(self, year: int, first: int, length: int) -> int:
        mask = weekdays_mask(sum(1 << d for d in {d for n, d in self._week_days if n == 0}), weekday(first))
        low, high = first, first + length
        if self._by_year:
            low, high = first_of_month(year, 1), first_of_month(year, 12) + 31
        for n, on in self._week_days:
            if n > 0:
                mask |= _bit(low + (on - weekday(low)) % 7 + 7 * (n - 1), low, high, first)
            elif n < 0:
                mask |= _bit(high - 1 - (weekday(high - 1) - on) % 7 + 7 * (n + 1), low, high, first)
        return mask

    def _choose(self, days: list[int]) -> set[int]:
        count = len(days)
        places = {p - 1 if p > 0 else count + p for p in self._positions}
        return {days[p] for p in places if 0 <= p < count}

    def _chosen_in_year(self, year: int) -> set[int]:
        if year not in self._years:
            months = [(first_of_month(year, m), self._allowed(year, m)) for m in range(1, 13)]
            self._years.clear()
            self._years[year] = self._choose([first + day - 1 for first, mask in months for day in bits(mask)])
        return self._years[year]

    def _chosen_in_weeks(self, first: int, end: int) -> set[int]:
        chosen: set[int] = set()
        for week in range(self._week(first), end, 7):
            chosen |= self._choose([day for day in range(week, week + 7) if self._allows(day)])
        return chosen

    def _allows(self, day: int) -> bool:
        d = date_of(day)
        month = (d.year, d.month)
        if month not in self._months_allowed:
            if len(self._months_allowed) > 12:
                self._months_allowed.clear()
            self._months_allowed[month] = self._allowed(*month)
        return bool(self._months_allowed[month] >> d.day & 1)


def _bit(day: int, low: int, high: int, first: int) -> int:
    """The bit of a day in the month that begins at `first`, if the day is in its period."""
    return 1 << (day - first + 1) if low <= day < high and 0 <= day - first < 31 else 0


def _mask_of(days: set[int], first: int, length: int) -> int:
    return sum(1 << (day - first + 1) for day in days if 0 <= day - first < length)
