"""The meaning of each rule of the phrase grammar: a tree becomes a trigger definition.

The days that a phrase selects from weeks, months and years, as cron fields and as RRULE parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from matins.engine.english.grammar import Tree
from matins.engine.english.values import (
    WEEK,
    YEAR,
    Context,
    InvalidPhraseError,
    bounded,
    date_day,
    day_in_month,
    days_of,
    duration,
    iso_date,
    listed,
    milliseconds_of_day,
    minute_of_day,
    minutes_of_day,
    months_of,
    number,
    ordinal,
    the,
    turns,
)
from matins.engine.when.cron import parse_cron
from matins.engine.when.days import weekday
from matins.engine.when.definitions import clock_text
from matins.engine.when.durations import DAY_MS, HOUR_MS, MINUTE_MS
from matins.engine.when.rrule import DAYS, parse_rule, rule_walls
from matins.engine.when.triggers import to_ms
from matins.engine.when.zones import MAX_MS
from matins.model.trigger import Cron, Daily, Interval, Once, Rrule, Weekly, When

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
        last, number = max(_MONTH_LENGTHS[month - 1] for month in named), tree.first("ORDINAL", "DAY")
        possible: list[str] = []
        if number is not None and len(days) == 1:
            possible = [context.instead(number, str(last) if number.rule == "DAY" else ordinal(last))]
        raise InvalidPhraseError(f"No year has a day {min(days)} in {names}", tree.words()[-1], *possible)
    if months == [2] and 29 in days:
        context.note("29 february comes in leap years only")
    elif max(days) > min(28 if month == 2 else _MONTH_LENGTHS[month - 1] for month in named):
        context.note(f"months without a {ordinal(max(days))} do not fire on it")


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


_ALL_DAYS = set(range(7))


def meaning_of(tree: Tree, context: Context) -> When:
    """The definition of a `phrase`; InvalidPhraseError if it cannot be used."""
    part = the(tree, *_MEANINGS)
    return _MEANINGS[part.rule](part, context)


def _elapsed(tree: Tree, context: Context) -> Interval:
    step = tree.first(*_STEPS)
    if step is None:
        return Interval(duration(the(tree, "compound"), context), context.now_ms)
    every = bounded(turns(step, context) * _STEPS[step.rule], step, context)
    if step.rule == "day_step":
        context.note(
            f'"{context.text(step)}" read as every {every // HOUR_MS} hours; with a time it keeps the wall clock'
        )
    return Interval(every, context.now_ms)


_STEPS = {"second_step": 1000, "minute_step": MINUTE_MS, "hour_step": HOUR_MS, "day_step": DAY_MS}


def _aligned(tree: Tree, context: Context) -> Cron:
    step = the(tree, "minute_step", "hour_step")
    count = turns(step, context)
    by_minutes = step.rule == "minute_step"
    if count == 1:
        field = "*"
    else:
        _check_even(step, count, 60 if by_minutes else 24, context)
        field = f"*/{count}"
    days = _weekdays(tree, context)
    return Cron(f"{field} * * * {days}" if by_minutes else f"0 {field} * * {days}")


def _check_even(step: Tree, count: int, size: int, context: Context) -> None:
    """Raise unless the step divides its unit. The clock starts again with every hour and every day."""
    unit, whole, of_one = (
        ("minutes", "hour", "every hour on the hour") if size == 60 else ("hours", "day", "every day at 00:00")
    )
    if count == size:
        raise InvalidPhraseError(f"{count} {unit} are a whole {whole}", str(count), of_one)
    if size % count:
        even = max(n for n in range(1, min(count, size)) if size % n == 0)
        raise InvalidPhraseError(
            f"{count} {unit} do not divide the {whole}, so they cannot be aligned to the clock",
            str(count),
            context.instead(step, f"every {even} {unit}"),
            f"every {count} {unit}",
        )


def _past_the_hour(tree: Tree, context: Context) -> Cron:
    for counted in tree.all("count"):
        if number(counted) > 59:
            raise InvalidPhraseError(
                "Minutes past the hour go from 0 to 59", counted.words()[0], context.instead(counted, "59")
            )
    minutes = sorted({number(counted) for counted in tree.all("count")})
    return Cron(f"{','.join(map(str, minutes))} * * * {_weekdays(tree, context)}")


def _weekdays(tree: Tree, context: Context) -> str:
    """The days of an optional `on_days`, as a cron field."""
    days = _on_days(tree, context)
    if days == _ALL_DAYS:
        return "*"
    return "1-5" if days == {1, 2, 3, 4, 5} else ",".join(map(str, sorted(days)))


def _on_days(tree: Tree, context: Context) -> set[int]:
    chosen = tree.first("on_days")
    if chosen is None:
        return _ALL_DAYS
    return _without(_ALL_DAYS, chosen, context) if chosen.first("except") else days_of(chosen, context)


def _without(days: set[int], tree: Tree, context: Context) -> set[int]:
    exception = tree.first("except")
    excepted = days_of(exception, context) if exception else set[int]()
    if exception and not excepted < days:
        wrong = sorted(excepted - days)
        problem = f"{WEEK[wrong[0]]} is not among the days anyway" if wrong else "no day is left"
        raise InvalidPhraseError(
            f'"{context.text(exception)}": {problem}', exception.words()[-1], context.instead(exception, "")
        )
    return days - excepted


def _window(tree: Tree, context: Context) -> Daily | Weekly:
    step = the(tree, "minute_step", "hour_step")
    bounds = tree.all("time")
    start, end = (minute_of_day(time, context) for time in bounds)
    size = turns(step, context) * (60 if step.rule == "hour_step" else 1)
    if start >= end:
        last = bounds[1]
        afternoon = [context.instead(last, clock_text(end + 720))] if start < end + 720 < 1440 else []
        raise InvalidPhraseError(
            f"{clock_text(start)} to {clock_text(end)} runs past midnight: a window begins and ends on one day",
            last.words()[0],
            *afternoon,
            context.instead(last, "23:59"),
        )
    if start + size > end:
        once = f"every day at {clock_text(start)}"
        raise InvalidPhraseError(
            f'"{context.text(step)}" is longer than from {clock_text(start)} to {clock_text(end)}',
            step.words()[-1],
            once,
        )
    return _on(_on_days(tree, context), tuple(range(start, end + 1, size)))


def _on(days: set[int], times: tuple[int, ...]) -> Daily | Weekly:
    return Daily(times) if days == _ALL_DAYS else Weekly(tuple(sorted(days)), times)


def _by_days(tree: Tree, context: Context) -> Daily | Weekly:
    return _on(_which_days(the(tree, "which_days"), context), minutes_of_day(tree, context))


def _which_days(which: Tree, context: Context) -> set[int]:
    days = days_of(the(which, "chosen_days"), context) or _ALL_DAYS
    return _without(days, which, context)


def _by_months(tree: Tree, context: Context) -> Cron:
    dates = dates_of(the(tree, "which_dates"), context)
    hours, minutes = _clock_lists(tree, context)
    return Cron(f"{minutes} {hours} {dates.cron}")


def _clock_lists(tree: Tree, context: Context) -> tuple[str, str]:
    """Hours and minutes as two lists, whose combinations are exactly the requested times."""
    by_minute: dict[int, list[int]] = {}
    for time in minutes_of_day(tree, context):
        by_minute.setdefault(time % 60, []).append(time // 60)
    hours, *others = by_minute.values()
    if any(other != hours for other in others):
        place = the(tree, "at_times")
        groups = [listed([clock_text(h * 60 + minute) for h in hours]) for minute, hours in by_minute.items()]
        raise InvalidPhraseError(
            f'"{context.text(place)}" cannot be one schedule of this kind: every hour must have the same minutes',
            place.words()[-1],
            *(context.instead(place, f"at {times}") for times in groups),
            all_needed=True,
        )
    return ",".join(map(str, hours)), ",".join(map(str, sorted(by_minute)))


def _by_turns(tree: Tree, context: Context) -> Rrule:
    period = the(tree, *_FREQUENCIES)
    frequency, unit = _FREQUENCIES[period.rule]
    interval = 2 if period.rule == "every_other_day" else turns(period, context)
    bounded(interval * unit * DAY_MS, period, context)
    return _rrule(tree, frequency, interval, dates_of(period, context), context)


def _from_a_date(tree: Tree, context: Context) -> Rrule:
    which = the(tree, "which_days", "which_dates")
    if which.rule == "which_dates":
        dates = dates_of(which, context)
        if not dates.parts:
            end = the(tree, "starting")
            raise InvalidPhraseError(
                "The nearest weekday cannot start at a date", end.words()[0], context.instead(end, "")
            )
        return _rrule(tree, "MONTHLY", 1, dates, context)
    days = _which_days(which, context)
    if days == _ALL_DAYS:
        return _rrule(tree, "DAILY", 1, Dates("* * *"), context)
    return _rrule(tree, "WEEKLY", 1, week_dates(days), context)


def _rrule(tree: Tree, frequency: str, interval: int, dates: Dates, context: Context) -> Rrule:
    """The rule, and the day that it counts from: the named day, or the first day that is not past."""
    hours, minutes = _clock_lists(tree, context)
    times = minutes_of_day(tree, context)
    parts = [f"FREQ={frequency}", f"INTERVAL={interval}", *dates.rule_parts(len(times))]
    parts += [f"BYHOUR={hours}", f"BYMINUTE={minutes}"]
    starting = tree.first("starting")
    start = date_day(the(starting, "date"), context) if starting else first_day(dates, times[-1], context)
    rrule = Rrule(";".join(parts), start * DAY_MS)
    if starting and never_fires(rrule):
        without = context.instead(starting, "")
        raise InvalidPhraseError(
            f"No such day ever comes, counted from {iso_date(start)}", starting.words()[-1], without
        )
    return rrule


_FREQUENCIES = {
    "every_other_day": ("WEEKLY", 7),
    "every_nth_day": ("DAILY", 1),
    "every_nth_week": ("WEEKLY", 7),
    "every_nth_month": ("MONTHLY", 28),
    "every_nth_year": ("YEARLY", 365),
}


def _delay(tree: Tree, context: Context) -> Once:
    return Once(context.now_ms + duration(tree, context))


def _moment(tree: Tree, context: Context) -> Once:
    which, exact = the(tree, "which_date"), the(tree, "exact_time")
    day = _day_of(which, context)
    time = exact.first("time")
    if time:
        minute_of_day(time, context, "at ")  # for its note
    wall = day * DAY_MS + milliseconds_of_day(exact)
    at_ms = _existing(wall, exact, context)
    if at_ms <= context.now_ms:
        raise InvalidPhraseError(
            f'"{context.text(tree)}" has passed', which.words()[-1], context.instead(which, "tomorrow")
        )
    return Once(at_ms)


def _instant(tree: Tree, context: Context) -> Once:
    word = the(tree, "INSTANT").words()[0]
    try:
        at_ms = to_ms(datetime.fromisoformat(word.upper()))
    except ValueError:
        raise InvalidPhraseError(f'There is no "{word}"', word) from None
    if at_ms <= context.now_ms:
        raise InvalidPhraseError(f'"{word}" has passed', word)
    if at_ms >= MAX_MS:
        raise InvalidPhraseError(f'"{word}" is too far away', word)
    return Once(at_ms)


def _day_of(tree: Tree, context: Context) -> int:
    date = tree.first("date")
    if date is not None:
        return date_day(date, context)
    name = tree.first("day_name")
    if name is None:
        return context.today + ("tomorrow" in tree.words())
    wanted = days_of(tree, context).pop()
    day = context.today + 1 + (wanted - weekday(context.today + 1)) % 7
    context.note(f'"next {name.words()[0]}" is {iso_date(day)}')
    return day


def _existing(wall: int, exact: Tree, context: Context) -> int:
    """The instant of a wall time that exists; the first of two."""
    zone, text = context.zone, context.text(exact)
    instants = zone.instants_of(wall)
    where = f"on {iso_date(wall // DAY_MS)} in {zone.name}"
    if not instants:
        after = zone.wall_of(zone.resolve(wall))
        later = f"on {iso_date(after // DAY_MS)} at {clock_text(after % DAY_MS // MINUTE_MS)}"
        raise InvalidPhraseError(f'"{text}" does not exist {where}: the clocks skip it', exact.words()[0], later)
    if len(instants) > 1:
        context.note(f'"{text}" comes twice {where}: the first is taken')
    return zone.resolve(wall)


_MEANINGS: dict[str, Callable[[Tree, Context], When]] = {
    "elapsed": _elapsed,
    "aligned": _aligned,
    "past_the_hour": _past_the_hour,
    "window": _window,
    "by_days": _by_days,
    "by_months": _by_months,
    "by_turns": _by_turns,
    "from_a_date": _from_a_date,
    "delay": _delay,
    "moment": _moment,
    "instant": _instant,
}
