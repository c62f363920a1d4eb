"""A cron expression in plain English."""

from __future__ import annotations

from matins.engine.english.vocabulary import (
    DAYS,
    MAX_LISTED,
    MONTHS,
    at_times,
    even_step,
    every,
    every_day,
    listed,
    on_days,
    ordinal,
    place,
    week_order,
    window,
)
from matins.engine.when.cron import ALL_DAYS, Cron, Field, parse_cron
from matins.engine.when.days import ALL_MONTHS, ALL_WEEKDAYS, bits


def describe_cron(expression: str) -> str:
    cron = parse_cron(expression)
    text = _by_date(cron) if _has_dates(cron) else _by_week(cron)
    if cron.seconds is None or cron.seconds.mask == 1:
        return text
    seconds = bits(cron.seconds.mask)
    if len(seconds) == 60:
        return f"{text}, every second of that minute"
    return f"{text}, at {'second' if len(seconds) == 1 else 'seconds'} {listed(seconds)}"


def _has_dates(cron: Cron) -> bool:
    return cron.days_of_month.mask != ALL_DAYS or bool(cron.days_of_week.calendar)


def _by_week(cron: Cron) -> str:
    """The same days every week."""
    days = bits(cron.days_of_week.mask)
    clock, times = _clock(cron), _times(cron)
    step = even_step(times)
    if clock:
        text = f"{clock} {on_days(days)}"
    elif step:
        text = f"{window(times, step)} {on_days(days)}"
    else:
        text = f"{every_day(days)} {at_times(times)}"
    months = f" in {listed(_months(cron))}" if cron.months.mask != ALL_MONTHS else ""
    return text.rstrip() + months


def _by_date(cron: Cron) -> str:
    """Days that depend on the month."""
    dates = _dates(cron)
    clock, times = _clock(cron), _times(cron)
    step = even_step(times) if len(times) > MAX_LISTED else None
    if clock:
        return f"{clock}, {dates}"
    return f"{window(times, step)}, {dates}" if step else f"{dates} {at_times(times)}"


def _times(cron: Cron) -> list[int]:
    return [hour * 60 + minute for hour in bits(cron.hours.mask) for minute in bits(cron.minutes.mask)]


def _clock(cron: Cron) -> str | None:
    """The text of times that follow the clock through clock changes; None for fixed times."""
    if cron.fixed:
        return None
    minutes, hours = bits(cron.minutes.mask), bits(cron.hours.mask)
    minute_step, hour_step = _whole_step(minutes, 60), _whole_step(hours, 24)
    if minute_step and len(hours) == 24:
        return f"{every(minute_step, 'minute')} on the clock"
    if minutes == [0] and hour_step:
        return f"{every(hour_step, 'hour')} on the hour"
    if minute_step and len(minutes) > 1:
        return f"{every(minute_step, 'minute')} on the clock in {_hours(hours)}"
    if len(minutes) == 60:
        return f"every minute on the clock in {_hours(hours)}"
    unit = "minute" if minutes == [1] else "minutes"
    past = "every hour" if len(hours) == 24 else _hours(hours)
    return f"at {listed(minutes)} {unit} past {past}"


def _whole_step(values: list[int], size: int) -> int | None:
    """The step of values at even distances, such as 0, 15, 30, 45 of 60."""
    step = size // len(values)
    return step if values == list(range(0, size, step)) and size % step == 0 and step < size else None


def _hours(hours: list[int]) -> str:
    if len(hours) > 2 and even_step(hours) == 1:
        return f"the hours {hours[0]} to {hours[-1]}"
    return f"the hour {hours[0]}" if len(hours) == 1 else f"the hours {listed(hours)}"


def _dates(cron: Cron) -> str:
    dom, dow = cron.days_of_month, cron.days_of_week
    of = "every month" if cron.months.mask == ALL_MONTHS else f"every {listed(_months(cron))}"
    all_dates, all_weekdays = dom.mask == ALL_DAYS, dow.mask == ALL_WEEKDAYS
    if all_dates and all_weekdays:
        return f"every day of {of}"
    if all_weekdays and (dom.starred or dow.starred):
        return f"on {_date_names(dom)} of {of}"
    if all_dates and (dom.starred or dow.starred):
        return f"on {_weekday_names(dow)} of {of}"
    if dom.starred or dow.starred:
        return f"on {_date_names(dom)} of {of} where it is {_weekday_names(dow, 'or')}"
    return f"on {_date_names(dom)} of {of} or on {_weekday_names(dow)}"


def _date_names(dom: Field) -> str:
    days = bits(dom.mask)
    step = even_step(days)
    rules = [_date_rule(rule) for rule in dom.calendar]
    if step and len(days) > 5:
        nth = "" if step == 1 else f"{ordinal(step)} "
        return listed([f"every {nth}day from the {ordinal(days[0])} to the {ordinal(days[-1])}", *rules])
    return listed([*(["the " + listed([ordinal(day) for day in days])] if days else []), *rules])


def _date_rule(rule: str) -> str:
    if rule == "L":
        return "the last day"
    if rule.startswith("L-"):
        return f"the {place(-int(rule[2:]) - 1)} day"
    return "the last weekday" if rule == "LW" else f"the weekday nearest the {ordinal(int(rule[:-1]))}"


def _weekday_names(dow: Field, last: str = "and") -> str:
    plain = [f"{'a ' if last == 'or' else 'every '}{DAYS[day]}" for day in week_order(bits(dow.mask))]
    return listed([*plain, *(_weekday_rule(rule) for rule in dow.calendar)], last)


def _weekday_rule(rule: str) -> str:
    number = -1 if rule[1] == "L" else int(rule[2:])
    return f"the {place(number)} {DAYS[int(rule[0])]}"


def _months(cron: Cron) -> list[str]:
    return [MONTHS[month - 1] for month in bits(cron.months.mask)]
