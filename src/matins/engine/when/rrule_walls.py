"""The meaning of a recurrence rule: the wall times that it allows.

A rule becomes a set of days (month by month) and a mask of times, like cron; fires are not walked from DTSTART.
DTSTART itself fires only if the rule matches it. UNTIL as a bare date includes that day.
"""

from __future__ import annotations

from dataclasses import replace

from matins.engine.when.days import Days, WeekDays, weekday
from matins.engine.when.durations import DAY_MS, MINUTE_MS, SECOND_MS
from matins.engine.when.rrule import MINUTES, UNITS, Rule
from matins.engine.when.rrule_days import RruleDays
from matins.engine.when.walltimes import WallSet, WallTimes, WallUnion, spread
from matins.errors import RruleError

_CENTURIES_MS = 500 * 366 * DAY_MS


def rule_walls(rule: Rule, start_wall: int) -> WallSet:
    """The wall times that a rule allows, before DTSTART, COUNT and UNTIL are applied."""
    unit, shift = (SECOND_MS, start_wall // SECOND_MS % 60) if start_wall % MINUTE_MS else (MINUTE_MS, 0)

    def on(days: Days, minutes: int) -> WallTimes:
        return WallTimes(days, spread(minutes, 60) << shift if unit == SECOND_MS else minutes, unit)

    minutes = minutes_of(rule, start_wall // MINUTE_MS % MINUTES)
    if not minutes:
        raise RruleError("RRULE has no time of day that its FREQ and INTERVAL reach.", value=rule.freq)
    if not rule.positions:
        return on(_days(rule, start_wall, ()), minutes)
    limit = _max_days(rule)
    chosen = {at: [d for d in days if abs(d) <= limit] for at, days in _positions(rule.positions, minutes).items()}
    parts = [on(_days(rule, start_wall, tuple(days)), 1 << at) for at, days in chosen.items() if days]
    if not parts:
        raise RruleError("RRULE BYSETPOS is larger than any period.", value=str(rule.positions), field="BYSETPOS")
    return parts[0] if len(parts) == 1 else WallUnion(tuple(parts))


def _max_days(rule: Rule) -> int:
    """The maximum number of days in a period of the rule."""
    if rule.freq == "DAILY":
        return 1
    if rule.freq == "WEEKLY":
        return len({day for _, day in rule.week_days}) or 1
    months = 1 if rule.freq == "MONTHLY" else len(rule.months) or (12 if rule.month_days or rule.week_days else 1)
    if not rule.month_days and not rule.week_days:
        return months
    in_year = rule.freq == "YEARLY" and not rule.months
    by_date = len(rule.month_days) * months or 366
    by_weekday = sum(5 * months + 1 if n == 0 else 1 if in_year else months for n, _ in rule.week_days) or 366
    return min(by_date, by_weekday)


def minutes_of(rule: Rule, start: int) -> int:
    if not rule.follows_clock:
        hours = sum(1 << h for h in rule.hours or (start // 60,))
        return spread(hours, 60) * sum(1 << m for m in rule.minutes or (start % 60,))
    step = UNITS[rule.freq] * rule.interval
    if rule.freq == "HOURLY":
        minutes = rule.minutes or (start % 60,)
        grid = {start // 60 * 60 + m for m in minutes}
        reached = {(at + n) % MINUTES for at in grid for n in range(0, MINUTES, step)}
    else:
        reached = {(start + n) % MINUTES for n in range(0, MINUTES, step)}
        reached = {m for m in reached if not rule.minutes or m % 60 in rule.minutes}
    return sum(1 << m for m in reached if not rule.hours or m // 60 in rule.hours)


def _positions(positions: tuple[int, ...], minutes: int) -> dict[int, tuple[int, ...]]:
    """The positions of days for each time. BYSETPOS counts through the days and their times: with t times a day, the
    p-th is always the same time of day."""
    times = [m for m in range(MINUTES) if minutes >> m & 1]
    chosen: dict[int, tuple[int, ...]] = {}
    for position in positions:
        day, at = divmod(abs(position) - 1, len(times))
        time = times[at] if position > 0 else times[-1 - at]
        chosen[time] = (*chosen.get(time, ()), day + 1 if position > 0 else -day - 1)
    return chosen


def _days(rule: Rule, start_wall: int, positions: tuple[int, ...]) -> Days:
    start = start_wall // DAY_MS
    if positions and rule.freq == "WEEKLY" and not rule.months:
        # Every week has the same days, so positions select days of the week.
        week = sorted({d for _, d in rule.week_days} or {weekday(start)}, key=lambda d: (d - rule.week_start) % 7)
        chosen = {week[p - 1 if p > 0 else p] for p in positions}
        return _days(replace(rule, week_days=tuple((0, d) for d in sorted(chosen))), start_wall, ())
    plain = rule.interval == 1 or rule.follows_clock
    if plain and not (rule.months or rule.month_days or positions):
        if rule.freq == "WEEKLY":
            return WeekDays(sum(1 << d for d in {d for _, d in rule.week_days} or {weekday(start)}))
        if rule.freq in ("DAILY", *UNITS):
            return WeekDays(sum(1 << d for d in {d for _, d in rule.week_days} or set(range(7))))
    return RruleDays(replace(rule, freq="DAILY", interval=1) if rule.follows_clock else rule, start, positions)


def last_wall(walls: WallSet, start_wall: int, count: int) -> int | None:
    """The wall time of the `count`-th fire from `start_wall` on, by bisection; None if it is centuries away."""
    low, width, before = start_wall, DAY_MS, 0
    while (within := walls.count(low, low + width)) + before < count:
        low, before, width = low + width, before + within, width * 2
        if low > start_wall + _CENTURIES_MS:
            return None
    while width > 1:
        half = width // 2
        within = walls.count(low, low + half)
        if before + within >= count:
            width = half
        else:
            low, before, width = low + half, before + within, width - half
    return low
