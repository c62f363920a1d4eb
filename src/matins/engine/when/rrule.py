"""RFC 5545 recurrence rules as text: the parts that schedules use. `rrule_walls` has their meaning.

The meaning of a recurrence rule: the wall times that it allows.

A rule becomes a set of days (month by month) and a mask of times, like cron; fires are not walked from DTSTART.
DTSTART itself fires only if the rule matches it. UNTIL as a bare date includes that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from matins.engine.when.cron import weekdays_mask
from matins.engine.when.days import (
    ALL_MONTHS,
    EPOCH,
    FIRST_DAY,
    LAST_DAY,
    Days,
    MonthDays,
    WeekDays,
    bits,
    date_of,
    days_in_month,
    first_of_month,
    weekday,
)
from matins.engine.when.durations import DAY_MS, MINUTE_MS, SECOND_MS
from matins.engine.when.walltimes import WallSet, WallTimes, WallUnion, spread
from matins.errors import RruleError

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
DAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_PARTS = (
    "FREQ",
    "INTERVAL",
    "BYMONTH",
    "BYMONTHDAY",
    "BYDAY",
    "BYSETPOS",
    "BYHOUR",
    "BYMINUTE",
    "WKST",
    "COUNT",
    "UNTIL",
)
UNITS = {"HOURLY": 60, "MINUTELY": 1}  # minutes
MINUTES = 1440
MAX_NUMBER = 1_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """The parts of a rule; empty if absent."""

    freq: str
    interval: int = 1
    months: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    week_days: tuple[tuple[int, int], ...] = ()
    """(n, day): the n-th such weekday, or every one if n is 0."""
    positions: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    week_start: int = 1
    count: int | None = None
    until: str | None = None

    @property
    def follows_clock(self) -> bool:
        """Whether the rule follows elapsed time through a clock change, as hourly and minutely rules do."""
        return self.freq in UNITS

    @property
    def elapsed_ms(self) -> int | None:
        """The step of an hourly or minutely rule that does not divide the day, and so has no fixed wall times."""
        step = UNITS.get(self.freq, 0) * self.interval
        return step * MINUTE_MS if step and MINUTES % step else None


def parse_rule(text: str) -> Rule:
    """The rule from the text after `RRULE:`."""
    parts = _split(text)
    freq = parts.pop("FREQ")
    rule = Rule(
        freq=freq.upper(),
        interval=_number("INTERVAL", parts.get("INTERVAL", "1"), 1, MAX_NUMBER),
        months=_numbers(parts, "BYMONTH", 1, 12),
        month_days=_numbers(parts, "BYMONTHDAY", -31, 31),
        week_days=tuple(_week_day(item) for item in _items(parts, "BYDAY")),
        positions=_numbers(parts, "BYSETPOS", -366, 366),
        hours=_numbers(parts, "BYHOUR", 0, 23),
        minutes=_numbers(parts, "BYMINUTE", 0, 59),
        week_start=_week_start(parts.get("WKST", "MO")),
        count=_number("COUNT", parts["COUNT"], 1, MAX_NUMBER) if "COUNT" in parts else None,
        until=parts.get("UNTIL"),
    )
    _check_consistent(rule, text)
    return rule


def _split(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.strip().rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        name = name.strip().upper()
        if not equals or not value.strip():
            raise RruleError(f'RRULE part "{part}" is not NAME=VALUE.', value=part, hint="For example: FREQ=DAILY.")
        if name not in _PARTS:
            known = ", ".join(_PARTS)
            raise RruleError(
                f"RRULE part {name} is not supported.", value=name, field=name, allowed=known, hint=f"Known: {known}."
            )
        if name in parts:
            raise RruleError(f"RRULE part {name} is given twice.", value=part, field=name)
        parts[name] = value.strip()
    if parts.get("FREQ", "").upper() not in FREQUENCIES:
        allowed = ", ".join(FREQUENCIES)
        value = parts.get("FREQ")
        problem = f"RRULE FREQ must be one of {allowed}, not {value}." if value else "RRULE has no FREQ."
        seconds = (value or "").upper() == "SECONDLY"
        hint = 'For seconds, write an interval: "10s".' if seconds else "For example: FREQ=WEEKLY;BYDAY=MO."
        raise RruleError(problem, value=value, field="FREQ", allowed=allowed, hint=hint)
    return parts


def _items(parts: dict[str, str], name: str) -> list[str]:
    return [item.strip() for item in parts[name].split(",")] if name in parts else []


def _numbers(parts: dict[str, str], name: str, low: int, high: int) -> tuple[int, ...]:
    return tuple(sorted({_number(name, item, low, high) for item in _items(parts, name)}))


def _number(name: str, text: str, low: int, high: int) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,9}", text):
        number = int(text)
        if low <= number <= high and (number != 0 or low == 0):
            return number
    allowed = f"{low} to {high}" + (" but not 0" if low < 0 else "")
    raise RruleError(f'RRULE {name} must be {allowed}, not "{text}".', value=text, field=name, allowed=allowed)


def _week_day(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([+-]?[0-9]{1,2})?(SU|MO|TU|WE|TH|FR|SA)", text.upper())
    if match is None or (match[1] and not 1 <= abs(int(match[1])) <= 53):
        raise RruleError(
            f'RRULE BYDAY "{text}" is not a weekday.',
            value=text,
            field="BYDAY",
            allowed=", ".join(DAYS),
            hint="For example: MO, 1MO or -1FR.",
        )
    return int(match[1] or 0), DAYS.index(match[2])


def _week_start(text: str) -> int:
    if text.upper() not in DAYS:
        raise RruleError(f'RRULE WKST "{text}" is not a weekday.', value=text, field="WKST", allowed=", ".join(DAYS))
    return DAYS.index(text.upper())


def _check_consistent(rule: Rule, text: str) -> None:
    problem = None
    if rule.freq not in ("MONTHLY", "YEARLY") and any(n for n, _ in rule.week_days):
        problem = f"BYDAY with a number needs FREQ=MONTHLY or YEARLY, not {rule.freq}"
    elif rule.freq == "WEEKLY" and rule.month_days:
        problem = "BYMONTHDAY cannot be combined with FREQ=WEEKLY"
    elif rule.positions and rule.follows_clock:
        problem = f"BYSETPOS cannot be combined with FREQ={rule.freq}"
    elif rule.positions and not (rule.month_days or rule.week_days or rule.months or rule.hours or rule.minutes):
        problem = "BYSETPOS needs another BY part to choose from"
    elif rule.count is not None and rule.until is not None:
        problem = "COUNT and UNTIL cannot be combined"
    elif rule.elapsed_ms and (rule.months or rule.month_days or rule.week_days or rule.hours or rule.minutes):
        problem = f"INTERVAL={rule.interval} does not divide the day, so BY parts cannot be combined with it"
    if problem:
        raise RruleError(f"RRULE {problem}.", value=text)
    if rule.until is not None:
        until_wall(rule.until)


def until_wall(text: str) -> tuple[int, bool]:
    """UNTIL as a time (for a bare date, its last millisecond), and whether it is in UTC."""
    match = re.fullmatch(r"([0-9]{8})(?:T([0-9]{6})(Z)?)?", text.upper())
    if match:
        try:
            moment = datetime.strptime(match[1] + (match[2] or "000000") + "Z", "%Y%m%d%H%M%S%z")
        except ValueError:
            match = None
        else:
            wall = wall_of_naive(moment)
            return (wall if match[2] else wall + DAY_MS - 1), bool(match[3])
    raise RruleError(
        f'RRULE UNTIL "{text}" is not a date.', value=text, field="UNTIL", hint="Use 20261231T235959Z or 20261231."
    )


def wall_of_naive(moment: datetime) -> int:
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return (moment.toordinal() - EPOCH) * DAY_MS + seconds * 1000 + moment.microsecond // 1000


_DTSTART = re.compile(r"DTSTART(?:;TZID=(?P<zone>[^:]+))?:(?P<at>[0-9]{8}(?:T[0-9]{6})?)(?P<utc>Z)?", re.IGNORECASE)

_OF_A_TIME = re.compile(r"\bBY(?:HOUR|MINUTE|SECOND)(?==)", re.IGNORECASE)
"""The parts that RFC 5545 forbids beside a DTSTART that is a date."""


class Recurrence(NamedTuple):
    """The text of a rule, and its DTSTART."""

    rule: str
    start: datetime | None
    start_is_utc: bool
    timezone: str | None


def split_recurrence(text: str) -> Recurrence:
    """`DTSTART…` and `RRULE:…` on separate lines (or words), in either order. The DTSTART is optional."""
    rule, start, utc, zone = None, None, False, None
    is_date = False
    for line in text.split():
        match = _DTSTART.fullmatch(line)
        if match:
            start, utc, zone = _dtstart(match), bool(match["utc"]), match["zone"]
            is_date = "T" not in match["at"].upper()
        elif rule is None and re.match(r"(RRULE:)?[A-Z]+=", line, re.IGNORECASE):
            rule = re.sub(r"^RRULE:", "", line, flags=re.IGNORECASE)
        else:
            raise RruleError(
                f'"{line}" is neither a DTSTART nor an RRULE.', value=line, hint="Write one DTSTART and one RRULE."
            )
    if rule is None:
        raise RruleError("There is a DTSTART but no RRULE.", value=text, hint="Add RRULE:FREQ=…")
    if is_date and (part := _OF_A_TIME.search(rule)):
        message = f"{part[0].upper()} needs a DTSTART with a time, and this one is a date."
        raise RruleError(message, value=text, field="DTSTART", hint=f"Write DTSTART:{start:%Y%m%d}T000000.")
    return Recurrence(rule, start, utc, zone)


def _dtstart(match: re.Match[str]) -> datetime:
    text = match["at"] if "T" in match["at"].upper() else match["at"] + "T000000"
    try:
        return datetime.strptime(text.upper() + "Z", "%Y%m%dT%H%M%S%z")
    except ValueError:
        raise RruleError(f'DTSTART "{match["at"]}" is not a date.', value=match["at"], field="DTSTART") from None


_CYCLE_DAYS = 146_097  # 400 years


class RruleDays(MonthDays):
    """FREQ and INTERVAL select periods from the start, the BY parts days in them, and positions some of those days."""

    def __init__(self, rule: Rule, start: int, positions: tuple[int, ...]) -> None:
        super().__init__(sum(1 << m for m in rule.months) or ALL_MONTHS)
        first = date_of(start)
        self._freq, self._interval, self._start = rule.freq, rule.interval, start
        self._start_month = first.year * 12 + first.month - 1
        self._month_days, self._week_days, self._positions = rule.month_days, rule.week_days, positions
        self._week_start = rule.week_start
        self._sparse = rule.freq in ("DAILY", "WEEKLY") and rule.interval * (1 if rule.freq == "DAILY" else 7) > 31
        self._by_year = rule.freq == "YEARLY" and not rule.months
        self._years: dict[int, set[int]] = {}
        self._months_allowed: dict[tuple[int, int], int] = {}
        if rule.month_days or rule.week_days:
            return
        if rule.freq == "WEEKLY":
            self._week_days = ((0, weekday(start)),)
        elif rule.freq in ("MONTHLY", "YEARLY"):
            self._month_days = (first.day,)
            if self._by_year:
                self.months = 1 << first.month

    def next(self, day: int) -> int | None:
        if not self._sparse:
            return super().next(day)
        return next(self._sparse_days(day, min(LAST_DAY, day + _CYCLE_DAYS)), None)

    def prev(self, day: int) -> int | None:
        if not self._sparse:
            return super().prev(day)
        return next(self._sparse_days(max(FIRST_DAY + 7, day - _CYCLE_DAYS), day + 1, backwards=True), None)

    def count(self, first: int, end: int) -> int:
        return sum(1 for _ in self._sparse_days(first, end)) if self._sparse else super().count(first, end)

    def _sparse_days(self, first: int, end: int, *, backwards: bool = False) -> Iterator[int]:
        """The days of the set in [first, end), by due period, for periods further apart than months."""
        length = 1 if self._freq == "DAILY" else 7
        origin = self._start if self._freq == "DAILY" else self._week(self._start)
        step = length * self._interval
        periods = range(first - (first - origin) % step, end, step)
        for period in reversed(periods) if backwards else periods:
            days = range(max(period, first), min(period + length, end))
            for day in reversed(days) if backwards else days:
                d = date_of(day)
                if self.mask_of(d.year, d.month) >> d.day & 1:
                    yield day

    def pick(self, year: int, month: int) -> int:
        if not self._positions or self._freq == "DAILY":
            outside = self._positions and not {1, -1} & set(self._positions)
            return 0 if outside else self._allowed(year, month)
        first, length = first_of_month(year, month), days_in_month(year, month)
        if self._freq == "MONTHLY":
            chosen = self._choose([first + day - 1 for day in bits(self._allowed(year, month))])
        elif self._freq == "YEARLY":
            chosen = self._chosen_in_year(year)
        else:
            chosen = set[int]()
            for week in range(self._week(first), first + length, 7):
                chosen |= self._choose([day for day in range(week, week + 7) if self._allows(day)])
        return sum(1 << (day - first + 1) for day in chosen if 0 <= day - first < length)

    def _allowed(self, year: int, month: int) -> int:
        """The days of a month before positions are applied."""
        if not self.months >> month & 1 or not self._month_is_due(year, month):
            return 0
        first, length = first_of_month(year, month), days_in_month(year, month)
        mask = (2 << length) - 2
        if self._month_days:
            mask &= sum(1 << day for day in {d if d > 0 else length + 1 + d for d in self._month_days} if day > 0)
        if self._week_days:
            mask &= self._weekdays_of(year, first, length)
        if self._interval > 1 and self._freq == "DAILY":
            mask &= sum([1 << n + 1 for n in range((self._start - first) % self._interval, length, self._interval)])
        elif self._interval > 1 and self._freq == "WEEKLY":
            mask &= self._due_weeks(first, length)
        return mask

    def _month_is_due(self, year: int, month: int) -> bool:
        if self._freq == "MONTHLY":
            return (year * 12 + month - 1 - self._start_month) % self._interval == 0
        return self._freq != "YEARLY" or (year - self._start_month // 12) % self._interval == 0

    def _due_weeks(self, first: int, length: int) -> int:
        """The days from `first` on in weeks that the interval selects."""
        passed = (self._week(first) - self._week(self._start)) // 7 % self._interval
        week = self._week(first) + 7 * ((self._interval - passed) % self._interval)
        starts = range(week - first + 1, length + 1, 7 * self._interval)
        return sum([0b111_1111 << start if start >= 0 else 0b111_1111 >> -start for start in starts])

    def _week(self, day: int) -> int:
        """The first day of the week of a day."""
        return day - (weekday(day) - self._week_start) % 7

    def _weekdays_of(self, year: int, first: int, length: int) -> int:
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

    def _allows(self, day: int) -> bool:
        d = date_of(day)
        month = (d.year, d.month)
        if month not in self._months_allowed:
            if len(self._months_allowed) > 12:
                self._months_allowed.clear()
            self._months_allowed[month] = self._allowed(*month)
        return bool(self._months_allowed[month] >> d.day & 1)


def _bit(day: int, low: int, high: int, first: int) -> int:
    """The bit of a day in the month that begins at `first`, if the day is in its period."""
    return 1 << (day - first + 1) if low <= day < high and 0 <= day - first < 31 else 0


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
