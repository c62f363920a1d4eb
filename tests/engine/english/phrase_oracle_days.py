"""Which days a phrase means, for the oracle: rules that are asked one date at a time."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache

from matins.engine.english.grammar import Tree

WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NTHS = ("first", "second", "third", "fourth", "fifth")

DayRule = Callable[[date], bool]


class RefusedError(Exception):
    """The phrase must be refused."""


def need(condition: bool) -> None:
    if not condition:
        raise RefusedError


def split_list(words: list[str]) -> list[list[str]]:
    """At every `and` and comma."""
    pieces: list[list[str]] = [[]]
    for word in words:
        if word in ("and", ","):
            pieces.append([])
        else:
            pieces[-1].append(word)
    return [piece for piece in pieces if piece]


def weekdays(words: list[str]) -> set[int]:
    """0 is Monday."""
    found: set[int] = set()
    for piece in split_list([word for word in words if word != "on"]):
        if piece[0] in ("weekday", "weekdays"):
            found |= {0, 1, 2, 3, 4}
        elif piece[0] in ("weekend", "weekends"):
            found |= {5, 6}
        else:
            first, last = WEEK.index(piece[0][:3]), WEEK.index(piece[-1][:3])
            need(len(piece) == 1 or first != last)
            while True:
                found.add(first)
                if first == last:
                    break
                first = (first + 1) % 7
    return found


def _without(days: set[int], words: list[str]) -> set[int]:
    excepted = weekdays(words)
    need(excepted <= days and excepted != days)
    return days - excepted


def on_days(tree: Tree) -> DayRule:
    chosen = tree.first("on_days")
    if chosen is None:
        return lambda day: True
    first, *words = chosen.words()
    days = _without(set(range(7)), words) if first == "except" else weekdays(words)
    return lambda day: day.weekday() in days


def week_rule(tree: Tree) -> DayRule:
    which = tree.first("which_days")
    assert which is not None
    words, excepted = which.words(), None
    if "except" in words:
        at = words.index("except")
        words, excepted = words[:at], words[at + 1 :]
    names = [word for word in words if word not in ("every", "each", "on", "week", "weekly", "daily", "day")]
    days = weekdays(names) if names else set(range(7))
    if excepted is not None:
        days = _without(days, excepted)
    return lambda day: day.weekday() in days


def year_rule(tree: Tree) -> DayRule:
    which = tree.first("which_dates")
    assert which is not None
    months = {MONTHS.index(month.words()[0][:3]) + 1 for month in which.all("month")} or set(range(1, 13))
    rule = month_rule(which)
    need(any(map(rule, many_dates(months))))
    return lambda day: day.month in months and rule(day)


def many_dates(months: set[int]) -> Iterator[date]:
    """All that these months hold in 28 years, after which dates fall on the same days of the week."""
    return (day for year in range(2000, 2028) for month in months for day in dates_of(year, month))


def _days(year: int, month: int) -> range:
    return range(1, monthrange(year, month)[1] + 1)


def month_rule(tree: Tree) -> DayRule:
    """Which days of a month are meant, whatever the month."""
    chosen = tree.first("month_date", "month_dates", "nth_days", "end_weekday", "nearest")
    assert chosen is not None
    words = chosen.words()
    if chosen.rule == "month_date":
        number = int(re.sub("[a-z]", "", "".join(word for word in words if word[0].isdigit())))
        return lambda day: day.day == number
    if chosen.rule == "nearest":
        return _nearest(int(words[-1][:-2]))
    if chosen.rule == "end_weekday":
        return lambda day: day == [d for d in _month(day) if d.weekday() < 5][0 if words[0] == "first" else -1]
    if chosen.rule == "nth_days":
        rules = [_nth_rule(nth_day.words()) for nth_day in chosen.all("nth_day")]
        return lambda day: any(rule(day) for rule in rules)
    return _dates_rule(words)


def _month(day: date) -> list[date]:
    return dates_of(day.year, day.month)


@cache
def dates_of(year: int, month: int) -> list[date]:
    return [date(year, month, day) for day in _days(year, month)]


def _nearest(number: int) -> DayRule:
    def allows(day: date) -> bool:
        days = _month(day)
        if number > len(days):
            return False
        by_distance = sorted((d for d in days if d.weekday() < 5), key=lambda d: abs(d.day - number))
        return day == by_distance[0]

    return allows


def _nth_rule(words: list[str]) -> DayRule:
    nths, weekday = [piece[0] for piece in split_list(words[:-1])], WEEK.index(words[-1][:3])
    places = [-1 if nth == "last" else NTHS.index(nth) if nth in NTHS else int(nth[0]) - 1 for nth in nths]

    def allows(day: date) -> bool:
        such = [d for d in _month(day) if d.weekday() == weekday]
        return day in [such[place] for place in places if place < len(such)]

    return allows


def _dates_rule(words: list[str]) -> DayRule:
    pieces = [piece[0] for piece in split_list([word for word in words if word != "the"])]
    numbers = {1 if piece == "first" else int(piece[:-2]) for piece in pieces if piece != "last"}
    return lambda day: day.day in numbers or ("last" in pieces and day.day == monthrange(day.year, day.month)[1])


def named_date(tree: Tree) -> date:
    words = [word for word in tree.words() if word not in ("the", "of", ",")]
    try:
        if len(words) == 1:
            return date.fromisoformat(words[0])
        month = next(word for word in words if word.isalpha())
        (day,) = [word for word in words[:-1] if word != month]
        return date(int(words[-1]), MONTHS.index(month[:3]) + 1, int(re.sub("[a-z]", "", day)))
    except ValueError:
        raise RefusedError from None
