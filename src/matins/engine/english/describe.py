"""Exact descriptions of triggers in plain English.

They parse back wherever the grammar allows.
"""

from __future__ import annotations

from matins.engine.english.values import (
    DAYS,
    MAX_LISTED,
    MONTHS,
    WEEKDAYS,
    at_times,
    even_step,
    every,
    every_day,
    every_duration,
    listed,
    on_days,
    on_times,
    ordinal,
    place,
    week_order,
    window,
)
from matins.engine.when.cron import ALL_DAYS, Field, parse_cron
from matins.engine.when.cron import Cron as CompiledCron
from matins.engine.when.days import ALL_MONTHS, ALL_WEEKDAYS, bits, date_of, weekday
from matins.engine.when.definitions import clock_text, wall_text
from matins.engine.when.durations import DAY_MS, MINUTE_MS
from matins.engine.when.instants import DstChange
from matins.engine.when.rrule import Rule, parse_rule, rule_walls, times_of, until_wall
from matins.engine.when.systemd import parse_calendar
from matins.engine.when.zones import Zone
from matins.model.trigger import Cron, Daily, Interval, Never, OnCalendar, Once, Rrule, TriggerDefinition, Weekly


def describe_cron(cron: CompiledCron) -> str:
    years = bits(cron.years)
    step = even_step(years)
    if len(years) > 2 and step:
        text = f"{'' if step == 1 else f'every {ordinal(step)} year '}from {years[0]} to {years[-1]}"
        return f"{_every_year(cron)}, {text}"
    return f"{_every_year(cron)}, in {listed(years)}" if years else _every_year(cron)


def _every_year(cron: CompiledCron) -> str:
    has_dates = cron.days_of_month.mask != ALL_DAYS or bool(cron.days_of_week.calendar)
    text = _by_date(cron) if has_dates else _by_week(cron)
    if cron.seconds is None or cron.seconds.mask == 1:
        return text
    seconds = bits(cron.seconds.mask)
    if len(seconds) == 60:
        return f"{text}, every second of that minute"
    return f"{text}, at {'second' if len(seconds) == 1 else 'seconds'} {listed(seconds)}"


def _by_week(cron: CompiledCron) -> str:
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


def _by_date(cron: CompiledCron) -> str:
    """Days that depend on the month."""
    dates = _dates(cron)
    clock, times = _clock(cron), _times(cron)
    step = even_step(times) if len(times) > MAX_LISTED else None
    if clock:
        return f"{clock}, {dates}"
    return f"{window(times, step)}, {dates}" if step else f"{dates} {at_times(times)}"


def _times(cron: CompiledCron) -> list[int]:
    return [hour * 60 + minute for hour in bits(cron.hours.mask) for minute in bits(cron.minutes.mask)]


def _clock(cron: CompiledCron) -> str | None:
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


def _dates(cron: CompiledCron) -> str:
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
    count = len(dom.calendar)
    if count > 2 and {*dom.calendar} == {"L", *(f"L-{n}" for n in range(1, count))}:
        rules = [f"the last {count} days"]
    else:
        rules = [_date_rule(rule) for rule in dom.calendar]
    if step and len(days) > 5:
        nth = "" if step == 1 else f"{ordinal(step)} "
        return listed([f"every {nth}day from the {ordinal(days[0])} to the {ordinal(days[-1])}", *rules])
    return listed([*(["the " + listed([ordinal(day) for day in days])] if days else []), *rules])


def _date_rule(rule: str) -> str:
    if rule == "L":
        return "the last day"
    if rule.startswith("L-"):
        day = f"the {place(-int(rule[2:].removesuffix('W')) - 1)} day"
        return f"the weekday nearest {day}" if rule.endswith("W") else day
    return "the last weekday" if rule == "LW" else f"the weekday nearest the {ordinal(int(rule[:-1]))}"


def _weekday_names(dow: Field, last: str = "and") -> str:
    plain = [f"{'a ' if last == 'or' else 'every '}{DAYS[day]}" for day in week_order(bits(dow.mask))]
    return listed([*plain, *(_weekday_rule(rule) for rule in dow.calendar)], last)


def _weekday_rule(rule: str) -> str:
    number = -1 if rule[1] == "L" else int(rule[2:])
    return f"the {place(number)} {DAYS[int(rule[0])]}"


def _months(cron: CompiledCron) -> list[str]:
    return [MONTHS[month - 1] for month in bits(cron.months.mask)]


_UNITS = {"YEARLY": "year", "MONTHLY": "month", "WEEKLY": "week", "DAILY": "day"}


def describe_rrule(rrule: Rrule) -> str:
    rule = parse_rule(rrule.rule)
    ends = f"{_start(rule, rrule.start_wall)}{_end(rule)}{_exdates(rrule.exdates)}"
    return f"{_pattern(rule, rrule.start_wall)}{ends}"


def _exdates(exdates: tuple[str, ...]) -> str:
    at = [f" at {each[9:11]}:{each[11:13]}{each[15:]}" if "T" in each else "" for each in exdates]
    days = [f"{each[:4]}-{each[4:6]}-{each[6:8]}{time}" for each, time in zip(exdates, at, strict=True)]
    shown = days if len(days) <= MAX_LISTED else [*days[:3], f"{len(days) - 3} more"]
    return f", except on {listed(shown)}" if shown else ""


def _pattern(rule: Rule, start_wall: int) -> str:
    if rule.elapsed_ms:
        return every_duration(rule.elapsed_ms)
    times, unit = times_of(rule, start_wall)
    parts = [_days(rule, start_wall // DAY_MS), _rule_times(times, unit)]
    if rule.positions and not rule.follows_clock and not _is_one_weekday(rule, times.bit_count()):
        parts.append(f"(of these only the {listed([place(p) for p in rule.positions])} in each {_UNITS[rule.freq]})")
    return " ".join(parts)


def _rule_times(times: int, unit: int) -> str:
    ticks = bits(times) if unit != MINUTE_MS else [minute * 60 for minute in bits(times)]
    minutes = sorted({tick // 60 for tick in ticks})
    seconds = sorted({tick % 60 for tick in ticks})
    if seconds == [0]:
        return at_times(minutes)
    if len(ticks) == len(minutes) * len(seconds):  # the same seconds of each minute
        few = f"{seconds[0]} seconds" if len(seconds) == 1 else f"seconds {listed(seconds)}"
        return f"{at_times(minutes)} and {few if len(seconds) <= MAX_LISTED else f'{len(seconds)} seconds of each'}"
    texts = [f"{clock_text(tick // 60)}:{tick % 60:02}" for tick in ticks]
    return f"at {listed(texts) if len(texts) <= MAX_LISTED else f'{len(texts)} times from {texts[0]} to {texts[-1]}'}"


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
    months = [f"in {listed([MONTHS[m - 1] for m in _rule_months(rule, start)])}"] if _rule_months(rule, start) else []
    weeks = [f"in {_weeks(rule.week_numbers)}"] if rule.week_numbers else []
    return " ".join([often, *months, *weeks, *names])


def _weeks(numbers: tuple[int, ...]) -> str:
    plain, last = [n for n in numbers if n > 0], [f"the {place(n)} week" for n in numbers if n < 0]
    return listed([*([f"week{'s' * (len(plain) > 1)} {listed(plain)}"] if plain else []), *last])


def _rule_months(rule: Rule, start: int) -> tuple[int, ...]:
    if rule.months or rule.freq != "YEARLY" or rule.choosing_days:
        return rule.months
    return (date_of(start).month,)


def _chosen(rule: Rule, weekdays: tuple[tuple[int, int], ...], start: int, unit: str) -> list[str]:
    month_days = rule.month_days
    if rule.week_numbers and not (month_days or weekdays or rule.year_days):
        weekdays = ((0, weekday(start)),)
    if unit in ("month", "year") and not (month_days or weekdays or rule.year_days):
        month_days = (date_of(start).day,)
    dates = [f"the {_date(day)}" for day in month_days]
    if rule.year_days:
        of_year = [f"the {ordinal(day) if day > 0 else place(day)} day of the year" for day in rule.year_days]
        dates = [f"{listed(dates)} where it is {listed(of_year, 'or')}"] if dates else of_year
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


_MINUTE_MS = 60_000


def describe(definition: TriggerDefinition, zone: Zone) -> str:
    match definition.when:
        case Cron(expression):
            return describe_cron(parse_cron(expression))
        case OnCalendar(expression):
            return describe_cron(parse_calendar(expression))
        case Interval() as interval:
            return _interval(interval)
        case Daily(times):
            return on_times(range(7), times)
        case Weekly(days, times):
            return on_times(days, times)
        case Once(at_ms):
            return _once(at_ms, zone)
        case Rrule() as rrule:
            return describe_rrule(rrule)
        case Never():
            return "never"


def _interval(interval: Interval) -> str:
    text = every_duration(interval.every_ms)
    if interval.anchor == "grid":
        text += f", counted from {wall_text(interval.origin_ms)}Z"
    elif interval.anchor == "start":
        text += ", from start to start"
    return f"{text}, the first time at once" if interval.first == "immediately" else text


def _once(at_ms: int, zone: Zone) -> str:
    wall = zone.wall_of(at_ms)
    if wall % 1000 or zone.instants_of(wall)[0] != at_ms:
        offset = (wall - at_ms) // _MINUTE_MS
        sign = "-" if offset < 0 else "+"
        return f"once at {wall_text(wall)}{sign}{clock_text(abs(offset))}"
    date, _, time = wall_text(wall).partition("T")
    return f"once on {date} at {time if wall % _MINUTE_MS else time[:5]}"


def explain(change: DstChange, zone: Zone) -> str:
    """The effect of a clock change, in one sentence."""
    times = [wall_text(wall).replace("T", " ").removesuffix(":00") for wall in change.walls]
    if change.count > len(times):
        times = [*times, f"{change.count - len(times)} more"]
    names = listed(times)
    there, them = ("does not exist", "it") if change.count == 1 else ("do not exist", "them")
    twice = "occurs twice" if change.count == 1 else "occur twice"
    match change.effect:
        case "moved" | "shifted":
            fires = wall_text(zone.wall_of(change.fires_ms or change.at_ms)).partition("T")[2][:5]
            start = "fires" if change.count == 1 else "the first fires" if change.effect == "shifted" else "fire once,"
            return f"{names} {there}: {start} at {fires}"
        case "skipped" | "not_reached":
            return f"{names} {there}: nothing fires for {them}"
        case "first_only":
            return f"{names} {twice}: only the first fires"
        case "repeated":
            return f"{names} {twice}: both fire"
