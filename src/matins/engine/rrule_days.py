"""The days that a recurrence rule allows, month by month."""

from __future__ import annotations

from matins.engine.cron_days import weekdays_mask
from matins.engine.days import ALL_MONTHS, MonthDays, bits, date_of, days_in_month, first_of_month, weekday
from matins.engine.rrule import Rule


class RruleDays(MonthDays):
    """FREQ and INTERVAL choose periods counted from the start, the BY parts days in them, positions among those."""

    def __init__(self, rule: Rule, start: int, positions: tuple[int, ...]) -> None:
        super().__init__(sum(1 << m for m in rule.months) or ALL_MONTHS)
        first = date_of(start)
        self._freq, self._interval, self._start = rule.freq, rule.interval, start
        self._start_month = first.year * 12 + first.month - 1
        self._month_days, self._week_days, self._positions = rule.month_days, rule.week_days, positions
        self._week_start = rule.week_start
        self._by_year = rule.freq == "YEARLY" and not rule.months
        self._years: dict[int, set[int]] = {}
        if rule.month_days or rule.week_days:
            return
        if rule.freq == "WEEKLY":
            self._week_days = ((0, weekday(start)),)
        elif rule.freq in ("MONTHLY", "YEARLY"):
            self._month_days = (first.day,)
            if self._by_year:
                self.months = 1 << first.month

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
        """The days of a month that everything but the positions allows."""
        if not self.months >> month & 1 or not self._month_is_due(year, month):
            return 0
        first, length = first_of_month(year, month), days_in_month(year, month)
        mask = (2 << length) - 2
        if self._month_days:
            mask &= sum(1 << day for day in {d if d > 0 else length + 1 + d for d in self._month_days} if day > 0)
        if self._week_days:
            mask &= self._weekdays_of(year, month, first, length)
        if self._freq in ("DAILY", "WEEKLY") and self._interval > 1:
            mask &= sum(1 << n + 1 for n in range(length) if self._day_is_due(first + n))
        return mask

    def _month_is_due(self, year: int, month: int) -> bool:
        if self._freq == "MONTHLY":
            return (year * 12 + month - 1 - self._start_month) % self._interval == 0
        return self._freq != "YEARLY" or (year - self._start_month // 12) % self._interval == 0

    def _day_is_due(self, day: int) -> bool:
        if self._freq == "DAILY":
            return (day - self._start) % self._interval == 0
        return (self._week(day) - self._week(self._start)) // 7 % self._interval == 0

    def _week(self, day: int) -> int:
        """The first day of the week that holds a day."""
        return day - (weekday(day) - self._week_start) % 7

    def _weekdays_of(self, year: int, month: int, first: int, length: int) -> int:
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
        return bool(self._allowed(d.year, d.month) >> d.day & 1)


def _bit(day: int, low: int, high: int, first: int) -> int:
    """The bit of a day in the month that begins at `first`, when the day lies in its period."""
    return 1 << (day - first + 1) if low <= day < high and 0 <= day - first < 31 else 0


def _mask_of(days: set[int], first: int, length: int) -> int:
    return sum(1 << (day - first + 1) for day in days if 0 <= day - first < length)
