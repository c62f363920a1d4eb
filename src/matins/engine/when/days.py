"""Sets of calendar days, found by arithmetic and bit masks. A day is its number since 1970-01-01.

A month's days are one integer: bit 1 is the 1st, bit 31 the 31st. Days of the week count from Sunday = 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import date
from itertools import pairwise

EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY = 1 - EPOCH
LAST_DAY = date(9999, 12, 31).toordinal() - EPOCH
ALL_MONTHS = 0b1_1111_1111_1110
ALL_WEEKDAYS = 0b111_1111
_CYCLE_YEARS = 400  # the calendar repeats after 400 years, weekdays included
_CYCLE_MONTHS = _CYCLE_YEARS * 12
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MEMO_LIMIT = 1024
_WEEKDAY_OF_PLACE = (4, 5, 6, 0, 1, 2, 3)  # day 0 was a Thursday


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else _LENGTHS[month - 1]


def first_of_month(year: int, month: int) -> int:
    return date(year, month, 1).toordinal() - EPOCH


def day_number(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal() - EPOCH


def date_of(day: int) -> date:
    return date.fromordinal(day + EPOCH)


def weekday(day: int) -> int:
    return (day + 4) % 7


def lowest_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def bits(mask: int) -> list[int]:
    return [n for n, bit in enumerate(bin(mask)[:1:-1]) if bit == "1"]


class Days(ABC):
    @abstractmethod
    def next(self, day: int) -> int | None:
        """The first day of the set at or after `day`."""

    @abstractmethod
    def prev(self, day: int) -> int | None:
        """The last day of the set at or before `day`."""

    @abstractmethod
    def count(self, first: int, end: int) -> int:
        """The number of days of the set in [first, end)."""

    @abstractmethod
    def smallest_gap(self) -> int:
        """The fewest days from one day of the set to the next, over the calendar's whole cycle."""


class WeekDays(Days):
    """The same days every week."""

    def __init__(self, mask: int) -> None:
        self.mask = mask
        # The distances from a place in the week to the next and to the last day of the set.
        weeks = mask | mask << 7
        self.ahead = tuple([lowest_bit(weeks >> start) for start in _WEEKDAY_OF_PLACE])
        self._behind = tuple([s + 8 - (weeks & ((2 << s + 7) - 1)).bit_length() for s in _WEEKDAY_OF_PLACE])

    def next(self, day: int) -> int:
        return day + self.ahead[day % 7]

    def prev(self, day: int) -> int:
        return day - self._behind[day % 7]

    def count(self, first: int, end: int) -> int:
        if end <= first:
            return 0
        weeks, rest = divmod(end - first, 7)
        return weeks * self.mask.bit_count() + sum(self.ahead[(first + n) % 7] == 0 for n in range(rest))

    def smallest_gap(self) -> int:
        return min(1 + self.ahead[(place + 1) % 7] for place in range(7) if self.ahead[place] == 0)


class MonthDays(Days):
    """Days that a rule picks month by month. The masks are cached."""

    def __init__(self, months: int = ALL_MONTHS) -> None:
        self.months = months
        self._masks: dict[int, int] = {}
        self._firsts: dict[int, int] = {}
        self._barren = 1 << 62
        """From this month on, no month has a day."""

    @abstractmethod
    def pick(self, year: int, month: int) -> int:
        """The mask of one month, which `months` allows."""

    def next(self, day: int) -> int | None:
        d = date.fromordinal(day + EPOCH)
        month = d.year * 12 + d.month - 1
        mask = self._masks.get(month)
        rest = (self._mask(month) if mask is None else mask) >> d.day
        if rest:
            return day + (rest & -rest).bit_length() - 1
        found = self._firsts.get(month + 1)
        return self._first_from(month + 1) if found is None else found

    def prev(self, day: int) -> int | None:
        d = date.fromordinal(day + EPOCH)
        month = d.year * 12 + d.month - 1
        mask = self._mask(month) & ((2 << d.day) - 1)
        for earlier in range(month, max(month - _CYCLE_MONTHS, 12) - 1, -1):
            if earlier != month:
                mask = self._mask(earlier)
            if mask:
                return _month_start(earlier) + mask.bit_length() - 2
        return None

    def count(self, first: int, end: int) -> int:
        if end <= first:
            return 0
        head, tail = date_of(first), date_of(end - 1)
        month, last = head.year * 12 + head.month - 1, tail.year * 12 + tail.month - 1
        before = (self._mask(month) & ((1 << head.day) - 1)).bit_count()
        after = (self._mask(last) >> (tail.day + 1)).bit_count()
        return sum(self._mask(m).bit_count() for m in range(month, last + 1)) - before - after

    def smallest_gap(self) -> int:
        smallest, last_day, start = LAST_DAY, None, 2000 * 12
        for month in range(start, start + _CYCLE_MONTHS + 12):
            mask = self._mask(month)
            if not mask:
                continue
            first = _month_start(month) - 1
            if last_day is not None:
                smallest = min(smallest, first + lowest_bit(mask) - last_day)
            smallest = min([smallest, *(b - a for a, b in pairwise(bits(mask)))])
            if smallest == 1:
                break
            last_day = first + mask.bit_length() - 1
        return smallest

    def mask_of(self, year: int, month: int) -> int:
        return self._mask(year * 12 + month - 1)

    def _mask(self, month: int) -> int:
        mask = self._masks.get(month)
        if mask is None:
            year, index = divmod(month, 12)
            mask = self.pick(year, index + 1) if self.months >> (index + 1) & 1 else 0
            if len(self._masks) >= _MEMO_LIMIT:
                self._masks.clear()
            self._masks[month] = mask
        return mask

    def _first_from(self, month: int) -> int | None:
        if month >= self._barren:
            return None
        found = self._search(month)
        if found is None:
            self._barren = month
        else:
            if len(self._firsts) >= _MEMO_LIMIT:
                self._firsts.clear()
            self._firsts[month] = found
        return found

    def _search(self, month: int) -> int | None:
        year, index = divmod(month, 12)
        last_year = min(year + _CYCLE_YEARS, 9999)
        allowed = self.months >> (index + 1) << (index + 1)
        while year <= last_year:
            while allowed:
                month = (allowed & -allowed).bit_length() - 1
                mask = self.pick(year, month)
                if mask:
                    return first_of_month(year, month) + (mask & -mask).bit_length() - 2
                allowed &= allowed - 1
            allowed = self.months
            year += 1
        return None


class YearDays(Days):
    """The days of another set in some years, which are the bits of a mask."""

    def __init__(self, days: Days, years: int) -> None:
        self._days, self._years = days, years

    def next(self, day: int) -> int | None:
        found = self._days.next(day)
        while found is not None and not self._years >> (year := date_of(found).year) & 1:
            later = self._years >> year
            found = self._days.next(first_of_month(year + lowest_bit(later), 1)) if later else None
        return found

    def prev(self, day: int) -> int | None:
        found = self._days.prev(day)
        while found is not None and not self._years >> (year := date_of(found).year) & 1:
            earlier = self._years & ((1 << year) - 1)
            found = self._days.prev(day_number(earlier.bit_length() - 1, 12, 31)) if earlier else None
        return found

    def count(self, first: int, end: int) -> int:
        spans = ((max(first, first_of_month(y, 1)), min(end, day_number(y, 12, 31) + 1)) for y in bits(self._years))
        return sum(self._days.count(start, stop) for start, stop in spans if start < stop)

    def smallest_gap(self) -> int:
        """The smallest gap of all years: a gap between two of these days is never less."""
        return self._days.smallest_gap()


def _month_start(month: int) -> int:
    year, index = divmod(month, 12)
    return first_of_month(year, index + 1)
