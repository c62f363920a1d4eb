"""The days that a cron expression's three day fields allow, month by month."""

from __future__ import annotations

from matins.engine.when.days import ALL_WEEKDAYS, MonthDays, days_in_month, first_of_month, weekday

_WEEKLY = sum(1 << day for day in (1, 8, 15, 22, 29, 36))  # the 1st and the days in weekly steps after it


class CronDays(MonthDays):
    def __init__(
        self,
        months: int,
        dom: int,
        dom_rules: tuple[str, ...],
        dow: int,
        dow_rules: tuple[str, ...],
        both: bool,
    ) -> None:
        super().__init__(months)
        self._dom, self._dom_rules = dom, dom_rules
        self._dow, self._dow_rules = dow, dow_rules
        self._both = both
        self._by_date_only = both and dow == ALL_WEEKDAYS and not dom_rules

    def pick(self, year: int, month: int) -> int:
        length = days_in_month(year, month)
        by_date = self._dom
        if self._by_date_only:
            return by_date & ((2 << length) - 1)
        first = weekday(first_of_month(year, month))
        for rule in self._dom_rules:
            by_date |= _date_rule(rule, first, length)
        by_weekday = weekdays_mask(self._dow, first)
        for rule in self._dow_rules:
            by_weekday |= _weekday_rule(rule, first, length)
        chosen = by_date & by_weekday if self._both else by_date | by_weekday
        return chosen & ((2 << length) - 1)


def weekdays_mask(days: int, first: int) -> int:
    """The days of a month on these weekdays, when the 1st falls on `first`."""
    mask = 0
    for day in range(7):
        if days >> day & 1:
            mask |= _WEEKLY << (day - first) % 7
    return mask


def _date_rule(rule: str, first: int, length: int) -> int:
    if rule == "L":
        return 1 << length
    if rule.startswith("L-"):
        day = length - int(rule[2:])
        return 1 << day if day > 0 else 0
    if rule == "LW":
        return 1 << _nearest_weekday(length, first, length)
    day = int(rule[:-1])
    return 1 << _nearest_weekday(day, first, length) if day <= length else 0


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """The nearest day from Monday to Friday within the month."""
    on = (first + day - 1) % 7
    if on == 6:
        return day - 1 if day > 1 else day + 2
    if on == 0:
        return day + 1 if day < length else day - 2
    return day


def _weekday_rule(rule: str, first: int, length: int) -> int:
    day = 1 + (int(rule[0]) - first) % 7
    if rule[1] == "#":
        day += 7 * (int(rule[2:]) - 1)
        return 1 << day if day <= length else 0
    return 1 << day + (length - day) // 7 * 7
