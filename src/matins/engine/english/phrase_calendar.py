"""The days that a phrase selects from weeks, months and years, as cron fields and as RRULE parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from matins.engine.english.grammar import Tree
from matins.engine.english.phrase_values import YEAR, Context, InvalidPhraseError, day_in_month, days_of, months_of, the
from matins.engine.english.vocabulary import listed, ordinal
from matins.engine.when.cron import parse_cron
from matins.engine.when.durations import DAY_MS, MINUTE_MS
from matins.engine.when.rrule import DAYS, parse_rule
from matins.engine.when.rrule_walls import rule_walls
from matins.model.trigger import Rrule

_LAST = -1
_NTHS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": _LAST}
_MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class Dates:
    """Days of the calendar: cron's three day fields, and the same days as parts of an RRULE."""

    cron: str
    parts: tuple[str, ...] = ()
    position: int = 0
    """1 or -1 for only the first or the last of these days in a month."""

    def rule_parts(self, times: int) -> list[str]:
        """The parts with BYSETPOS, which counts every time on every day: two times on the last day are the last two."""
        if not self.position:
            return list(self.parts)
        return [*self.parts, f"BYSETPOS={_numbers(self.position * n for n in range(1, times + 1))}"]


def dates_of(tree: Tree, context: Context) -> Dates:
    """The dates of a `which_dates`, or of one of the rules of `turn_days`."""
    match tree.rule:
        case "every_nth_day":
            return Dates("* * *")
        case "every_other_day" | "every_nth_week":
            return week_dates(days_of(tree, context))
        case _:
            return _month_dates(tree, context)


def week_dates(days: set[int]) -> Dates:
    from_monday = sorted(days, key=lambda day: (day - 1) % 7)
    return Dates(f"* * {_numbers(from_monday)}", (_by_day(DAYS[day] for day in from_monday),))


def _month_dates(tree: Tree, context: Context) -> Dates:
    months = months_of(tree)
    scope = _numbers(months) or "*"
    of_months = (f"BYMONTH={scope}",) if months else ()
    chosen = the(tree, "month_date", "month_dates", "nth_days", "end_weekday", "nearest")
    match chosen.rule:
        case "nth_days":
            nths = _nth_days(chosen, context)
            field = ",".join(f"{day}L" if nth == _LAST else f"{day}#{nth}" for nth, day in nths)
            return Dates(f"* {scope} {field}", (*of_months, _by_day(f"{nth}{DAYS[day]}" for nth, day in nths)))
        case "end_weekday":
            first = chosen.words()[0] == "first"
            field, position = ("1W", 1) if first else ("LW", _LAST)
            return Dates(f"{field} {scope} *", (*of_months, _by_day(DAYS[1:6])), position)
        case "nearest":
            day = day_in_month(the(chosen, "ORDINAL"))
            _check_dates([day], chosen, months, context)
            return Dates(f"{day}W {scope} *")
        case _:
            days = _dates(chosen)
            _check_dates(days, chosen, months, context)
            field = ",".join("L" if day == _LAST else str(day) for day in days)
            return Dates(f"{field} {scope} *", (*of_months, f"BYMONTHDAY={_numbers(days)}"))


def _dates(tree: Tree) -> list[int]:
    if tree.rule == "month_date":
        return [day_in_month(the(tree, "DAY", "ORDINAL"))]
    dates = {nth_number(item.words()[0]) for item in tree.all("month_dates_item")}
    return sorted(dates, key=_last_last)


def _nth_days(tree: Tree, context: Context) -> list[tuple[int, int]]:
    """Distinct pairs of (n, day of the week)."""
    found: set[tuple[int, int]] = set()
    for group in tree.all("nth_day"):
        day = days_of(group, context).pop()
        found |= {(nth_number(nth.words()[0]), day) for nth in group.all("nth")}
    if any(nth == 5 for nth, _ in found):
        context.note("months without a fifth one do not fire on it")
    return sorted(found, key=lambda item: (_last_last(item[0]), item[1]))


def _last_last(nth: int) -> tuple[bool, int]:
    return nth == _LAST, nth


def nth_number(word: str) -> int:
    """The number of "first", "1st" or "last" (-1)."""
    return _NTHS[word] if word in _NTHS else int(word[:-2])


def _numbers(items: Iterable[int]) -> str:
    return ",".join(map(str, items))


def _by_day(names: Iterable[str]) -> str:
    return f"BYDAY={','.join(names)}"


def _check_dates(days: list[int], tree: Tree, months: list[int], context: Context) -> None:
    """Raise for dates that no year has. Note dates that not every month or year has."""
    named = months or list(range(1, 13))
    if not any(day <= _MONTH_LENGTHS[month - 1] for day in days for month in named):
        names = listed([YEAR[month - 1] for month in named], "or")
        possible = _shorter(days, tree, named, context)
        raise InvalidPhraseError(f"No year has a day {min(days)} in {names}", tree.words()[-1], *possible)
    if months == [2] and 29 in days:
        context.note("29 february comes in leap years only")
    elif max(days) > min(28 if month == 2 else _MONTH_LENGTHS[month - 1] for month in named):
        context.note(f"months without a {ordinal(max(days))} do not fire on it")


def _shorter(days: list[int], tree: Tree, months: list[int], context: Context) -> list[str]:
    """The phrase with the last day of its months."""
    last = max(_MONTH_LENGTHS[month - 1] for month in months)
    number = tree.first("ORDINAL", "DAY")
    if number is None or len(days) > 1:
        return []
    return [context.instead(number, str(last) if number.rule == "DAY" else ordinal(last))]


def first_day(dates: Dates, last_time: int, context: Context) -> int:
    """The day of the first of these dates whose last time is not past."""
    days = parse_cron(f"0 0 {dates.cron}").days()
    today = context.today
    over = context.zone.resolve(today * DAY_MS + last_time * MINUTE_MS) <= context.now_ms
    day = days.next(today + over)
    if day is None:
        raise LookupError(f"no day of {dates.cron} follows {today}")
    return day


def never_fires(rrule: Rrule) -> bool:
    return rule_walls(parse_rule(rrule.rule), rrule.start_wall).next(rrule.start_wall - 1) is None
