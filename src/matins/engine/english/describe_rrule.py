"""A recurrence rule in plain English."""

from __future__ import annotations

from matins.engine.english.vocabulary import (
    DAYS,
    MONTHS,
    WEEKDAYS,
    at_times,
    every,
    every_duration,
    listed,
    ordinal,
    place,
    week_order,
)
from matins.engine.when.days import bits, date_of, weekday
from matins.engine.when.definitions import wall_text
from matins.engine.when.durations import DAY_MS, MINUTE_MS
from matins.engine.when.rrule import Rule, parse_rule, until_wall
from matins.engine.when.rrule_walls import minutes_of, rule_walls
from matins.model.trigger import Rrule

_UNITS = {"YEARLY": "year", "MONTHLY": "month", "WEEKLY": "week", "DAILY": "day"}


def describe_rrule(rrule: Rrule) -> str:
    rule = parse_rule(rrule.rule)
    return f"{_pattern(rule, rrule.start_wall)}{_start(rule, rrule.start_wall)}{_end(rule)}"


def _pattern(rule: Rule, start_wall: int) -> str:
    if rule.elapsed_ms:
        return every_duration(rule.elapsed_ms)
    start = start_wall // DAY_MS
    times = bits(minutes_of(rule, start_wall // MINUTE_MS % 1440))
    parts = [_days(rule, start), at_times(times)]
    seconds = start_wall // 1000 % 60
    if seconds:
        parts.append(f"and {seconds} seconds")
    if rule.positions and not _is_one_weekday(rule, len(times)):
        parts.append(f"(of these only the {listed([place(p) for p in rule.positions])} in each {_UNITS[rule.freq]})")
    return " ".join(parts)


def _is_one_weekday(rule: Rule, times: int) -> bool:
    """Whether the rule is the first or last weekday (Monday to Friday) of the month, with all its times."""
    workdays = {(0, day) for day in WEEKDAYS}
    ends = (tuple(range(1, times + 1)), tuple(range(-times, 0)))
    return rule.freq == "MONTHLY" and not rule.month_days and {*rule.week_days} == workdays and rule.positions in ends


def _days(rule: Rule, start: int) -> str:
    """The days in the phrases of the grammar: `every other Tuesday`, `every 3 months on the 1st`."""
    unit = _UNITS.get(rule.freq, "day")
    interval = 1 if rule.follows_clock else rule.interval
    often = f"every other {unit}" if interval == 2 else every(interval, unit)
    weekdays = rule.week_days or (((0, weekday(start)),) if rule.freq == "WEEKLY" else ())
    if unit == "week" and not rule.months and len(weekdays) == 1 and interval <= 2:
        return f"every{' other' * (interval - 1)} {DAYS[weekdays[0][1]]}"
    chosen = _chosen(rule, weekdays, start, unit)
    if rule.positions and _is_one_weekday(rule, len(rule.positions)):
        chosen = [f"the {place(rule.positions[0] if rule.positions[0] > 0 else -1)} weekday"]
    names = [f"on {listed(chosen)}"] if chosen else []
    months = [f"in {listed([MONTHS[m - 1] for m in _months(rule, start)])}"] if _months(rule, start) else []
    return " ".join([often, *months, *names])


def _months(rule: Rule, start: int) -> tuple[int, ...]:
    if rule.months or rule.freq != "YEARLY" or rule.month_days or rule.week_days:
        return rule.months
    return (date_of(start).month,)


def _chosen(rule: Rule, weekdays: tuple[tuple[int, int], ...], start: int, unit: str) -> list[str]:
    month_days = rule.month_days
    if unit in ("month", "year") and not month_days and not weekdays:
        month_days = (date_of(start).day,)
    dates = [f"the {_date(day)}" for day in month_days]
    if dates and weekdays:
        return [f"{listed(dates)} where it is {listed([_weekday(n, day) for n, day in weekdays], 'or')}"]
    if unit == "week":
        return [DAYS[day] for day in week_order([day for _, day in weekdays])]
    return dates or [_weekday(n, day) for n, day in weekdays]


def _date(day: int) -> str:
    if day > 0:
        return ordinal(day)
    return "last day" if day == -1 else f"{place(day)} day"


def _weekday(n: int, day: int) -> str:
    return f"the {place(n)} {DAYS[day]}" if n else DAYS[day]


def _start(rule: Rule, start_wall: int) -> str:
    """The start of the rule. The time of day is included only if a fire of that day would come before it."""
    date, _, time = wall_text(start_wall).partition("T")
    midnight = start_wall // DAY_MS * DAY_MS
    if rule.elapsed_ms or rule_walls(rule, start_wall).count(midnight, start_wall):
        return f" starting {date} at {time if start_wall % MINUTE_MS else time[:5]}"
    return f" starting {date}"


def _end(rule: Rule) -> str:
    if rule.count is not None:
        return f", {'once' if rule.count == 1 else f'{rule.count} times'}"
    if rule.until is None:
        return ""
    wall, is_utc = until_wall(rule.until)
    return (
        f", until {wall_text(wall)}{'Z' if is_utc else ''}"
        if "T" in rule.until.upper()
        else f", until {wall_text(wall)[:10]}"
    )
