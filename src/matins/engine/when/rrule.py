"""RFC 5545 recurrence rules as text: the parts that schedules use. `rrule_walls` has their meaning.

The meaning of a recurrence rule: the wall times that it allows.

A rule becomes a set of days (month by month) and a mask of times, like cron; fires are not walked from DTSTART.
DTSTART itself fires only if the rule matches it. UNTIL as a bare date includes that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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
    day_number,
    days_in_month,
    first_of_month,
    is_leap,
    weekday,
)
from matins.engine.when.durations import DAY_MS, MINUTE_MS, SECOND_MS
from matins.engine.when.walltimes import WallSet, WallTimes, WallUnion, spread
from matins.engine.when.zones import Zone
from matins.errors import RruleError
from matins.model.trigger import Rrule

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
DAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_PARTS = (
    "FREQ",
    "INTERVAL",
    "BYMONTH",
    "BYWEEKNO",
    "BYYEARDAY",
    "BYMONTHDAY",
    "BYDAY",
    "BYSETPOS",
    "BYHOUR",
    "BYMINUTE",
    "BYSECOND",
    "WKST",
    "COUNT",
    "UNTIL",
)
UNITS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}  # seconds
_DAY_SECONDS = 86_400
MAX_NUMBER = 1_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """The parts of a rule; empty if absent."""

    freq: str
    interval: int = 1
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    week_days: tuple[tuple[int, int], ...] = ()
    """(n, day): the n-th such weekday, or every one if n is 0."""
    positions: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    week_start: int = 1
    count: int | None = None
    until: str | None = None

    @property
    def follows_clock(self) -> bool:
        """Whether the rule follows elapsed time through a clock change, as rules of hours, minutes and seconds do."""
        return self.freq in UNITS

    @property
    def choosing_days(self) -> bool:
        """Whether a BY part chooses among the days of a year or month."""
        return bool(self.month_days or self.week_days or self.year_days or self.week_numbers)

    @property
    def same_every_week(self) -> bool:
        return not (self.months or self.month_days or self.year_days or self.week_numbers)

    @property
    def has_by_parts(self) -> bool:
        return self.choosing_days or bool(self.months or self.hours or self.minutes or self.seconds)

    @property
    def elapsed_ms(self) -> int | None:
        """The step of a rule that has no fixed wall times: it does not divide the day, or is of plain seconds."""
        step = UNITS.get(self.freq, 0) * self.interval
        plain_seconds = self.freq == "SECONDLY" and not self.has_by_parts
        return step * SECOND_MS if step and (plain_seconds or _DAY_SECONDS % step) else None


def parse_rule(text: str) -> Rule:
    """The rule from the text after `RRULE:`."""
    parts = _split(text)
    freq = parts.pop("FREQ")
    rule = Rule(
        freq=freq.upper(),
        interval=_number("INTERVAL", parts.get("INTERVAL", "1"), 1, MAX_NUMBER),
        months=_numbers(parts, "BYMONTH", 1, 12),
        week_numbers=_numbers(parts, "BYWEEKNO", -53, 53),
        year_days=_numbers(parts, "BYYEARDAY", -366, 366),
        month_days=_numbers(parts, "BYMONTHDAY", -31, 31),
        week_days=tuple(_week_day(item) for item in _items(parts, "BYDAY")),
        positions=_numbers(parts, "BYSETPOS", -366, 366),
        hours=_numbers(parts, "BYHOUR", 0, 23),
        minutes=_numbers(parts, "BYMINUTE", 0, 59),
        seconds=_numbers(parts, "BYSECOND", 0, 59),
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
            hint = _CALENDAR_HINT if name == "BYEASTER" else f"Known: {known}."
            raise RruleError(f"RRULE part {name} is not supported.", value=name, field=name, allowed=known, hint=hint)
        if name in parts:
            raise RruleError(f"RRULE part {name} is given twice.", value=part, field=name)
        parts[name] = value.strip()
    if parts.get("FREQ", "").upper() not in FREQUENCIES:
        allowed = ", ".join(FREQUENCIES)
        value = parts.get("FREQ")
        problem = f"RRULE FREQ must be one of {allowed}, not {value}." if value else "RRULE has no FREQ."
        hint = "For example: FREQ=WEEKLY;BYDAY=MO."
        raise RruleError(problem, value=value, field="FREQ", allowed=allowed, hint=hint)
    return parts


_CALENDAR_HINT = "List the days in a calendar, or write one schedule for them."


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
    elif rule.week_numbers and any(n for n, _ in rule.week_days):
        problem = "BYDAY with a number cannot be combined with BYWEEKNO"
    elif rule.positions and not rule.has_by_parts:
        problem = "BYSETPOS needs another BY part to choose from"
    elif rule.count is not None and rule.until is not None:
        problem = "COUNT and UNTIL cannot be combined"
    elif rule.elapsed_ms and rule.has_by_parts:
        problem = f"INTERVAL={rule.interval} does not divide the day, so BY parts cannot be combined with it"
    if problem:
        raise RruleError(f"RRULE {problem}.", value=text)
    if rule.until is not None:
        until_wall(rule.until)


def until_wall(text: str) -> tuple[int, bool]:
    """UNTIL as a time (for a bare date, its last millisecond), and whether it is in UTC."""
    wall, has_time, is_utc = _moment(text, "RRULE UNTIL", "UNTIL")
    return (wall if has_time else wall + DAY_MS - 1), is_utc


def excluded_span(text: str, zone: Zone) -> Iterator[tuple[int, int]]:
    """The instants that an EXDATE leaves out: those of a day, or of one time."""
    wall, has_time, is_utc = _moment(text, "EXDATE", "EXDATE")
    if not has_time:
        yield zone.resolve(wall), zone.resolve(wall + DAY_MS)
    else:
        for at in (wall,) if is_utc else zone.instants_of(wall) or (zone.resolve(wall),):
            yield at, at + 1


def _moment(text: str, what: str, field: str) -> tuple[int, bool, bool]:
    """A wall time, whether it has a time of day, and whether it is in UTC."""
    match = re.fullmatch(r"([0-9]{8})(?:T([0-9]{6})(Z)?)?", text.upper())
    if match:
        try:
            moment = datetime.strptime(match[1] + (match[2] or "000000") + "Z", "%Y%m%d%H%M%S%z")
        except ValueError:
            match = None
        else:
            return wall_of_naive(moment), bool(match[2]), bool(match[3])
    hint = "Use 20261231T235959Z or 20261231."
    raise RruleError(f'{what} "{text}" is not a date.', value=text, field=field, hint=hint)


def wall_of_naive(moment: datetime) -> int:
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return (moment.toordinal() - EPOCH) * DAY_MS + seconds * 1000 + moment.microsecond // 1000


_DTSTART = re.compile(
    r"DTSTART(?:;VALUE=DATE(?:-TIME)?)?(?:;TZID=(?P<zone>[^:]+))?:(?P<at>[0-9]{8}(?:T[0-9]{6})?)(?P<utc>Z)?",
    re.IGNORECASE,
)
_EXDATE = re.compile(
    r"EXDATE(?:;VALUE=DATE(?:-TIME)?)?(?:;TZID=(?P<zone>[^:;]+))?(?:;VALUE=DATE-TIME)?:(?P<list>\S+)", re.IGNORECASE
)

_OF_A_TIME = re.compile(r"\bBY(?:HOUR|MINUTE|SECOND)(?==)", re.IGNORECASE)
"""The parts that RFC 5545 forbids beside a DTSTART that is a date."""


class Recurrence(NamedTuple):
    """The text of a rule, and its DTSTART."""

    rule: str
    start: datetime | None
    start_is_utc: bool
    timezone: str | None
    exdates: tuple[str, ...] = ()


def split_recurrence(text: str) -> Recurrence:
    """`DTSTART…`, `RRULE:…` and `EXDATE…` on separate lines (or words), in any order. Only the RRULE must be there."""
    rule, start, utc, zone = None, None, False, None
    is_date = False
    exdates: list[str] = []
    zones = set[str]()
    for line in text.split():
        match = _DTSTART.fullmatch(line)
        if match:
            start, utc, zone = _dtstart(match), bool(match["utc"]), match["zone"]
            is_date = "T" not in match["at"].upper()
            zones |= {zone} if zone else set()
        elif excluded := _EXDATE.fullmatch(line):
            exdates += [each.upper() for each in excluded["list"].split(",")]
            zones |= {excluded["zone"]} if excluded["zone"] else set()
        elif unsupported := re.match(r"(RDATE|EXRULE)(?=[:;])", line, re.IGNORECASE):
            name = unsupported[0].upper()
            hint = "Add a schedule for these times." if name == "RDATE" else "Write EXDATE, or a calendar for skip_on."
            raise RruleError(f"{name} is not supported.", value=line, field=name, hint=hint)
        elif rule is None and re.match(r"(RRULE:)?[A-Z]+=", line, re.IGNORECASE):
            rule = re.sub(r"^RRULE:", "", line, flags=re.IGNORECASE)
        else:
            raise RruleError(
                f'"{line}" is neither a DTSTART, an RRULE nor an EXDATE.',
                value=line,
                hint="Write one DTSTART and one RRULE.",
            )
    if rule is None:
        raise RruleError("There is no RRULE.", value=text, hint="Add RRULE:FREQ=…")
    if len(zones) > 1:
        raise RruleError(f"DTSTART and EXDATE are in {' and '.join(sorted(zones))}.", value=text, field="TZID",
                         hint="Write one time zone.")  # fmt: skip
    for each in exdates:
        _moment(each, "EXDATE", "EXDATE")
    if is_date and (part := _OF_A_TIME.search(rule)):
        message = f"{part[0].upper()} needs a DTSTART with a time, and this one is a date."
        raise RruleError(message, value=text, field="DTSTART", hint=f"Write DTSTART:{start:%Y%m%d}T000000.")
    return Recurrence(rule, start, utc, next(iter(zones), None), tuple(exdates))


def _dtstart(match: re.Match[str]) -> datetime:
    text = match["at"] if "T" in match["at"].upper() else match["at"] + "T000000"
    try:
        return datetime.strptime(text.upper() + "Z", "%Y%m%dT%H%M%S%z")
    except ValueError:
        raise RruleError(f'DTSTART "{match["at"]}" is not a date.', value=match["at"], field="DTSTART") from None


def rule_text(rrule: Rrule) -> str:
    """The lines that parse back to the rule."""
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=rrule.start_wall)
    exdates = [f"EXDATE:{','.join(rrule.exdates)}"] if rrule.exdates else []
    return "\n".join([f"DTSTART:{start.year:04}{start:%m%dT%H%M%S}", f"RRULE:{rrule.rule}", *exdates])


_CYCLE_DAYS = 146_097  # 400 years


class RruleDays(MonthDays):
    """FREQ and INTERVAL select periods from the start, the BY parts days in them, and positions some of those days."""

    def __init__(self, rule: Rule, start: int, positions: tuple[int, ...]) -> None:
        super().__init__(sum(1 << m for m in rule.months) or ALL_MONTHS)
        first = date_of(start)
        self._freq, self._interval, self._start = rule.freq, rule.interval, start
        self._start_month = first.year * 12 + first.month - 1
        self._month_days, self._week_days, self._positions = rule.month_days, rule.week_days, positions
        self._year_days, self._week_numbers = rule.year_days, rule.week_numbers
        self._week_start = rule.week_start
        self._sparse = rule.freq in ("DAILY", "WEEKLY") and rule.interval * (1 if rule.freq == "DAILY" else 7) > 31
        self._by_year = rule.freq == "YEARLY" and not rule.months
        self._years: dict[int, set[int]] = {}
        self._months_allowed: dict[tuple[int, int], int] = {}
        if rule.month_days or rule.week_days or rule.year_days:
            return
        if rule.freq == "WEEKLY" or rule.week_numbers:
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
                allowed = self._allowed_in_week(week)
                chosen |= self._choose([week + place for place in bits(allowed)]) if allowed else set()
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
        if self._year_days:
            mask &= self._days_of_year(year, first)
        if self._week_numbers:
            mask &= self._weeks_of_year(first, length)
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

    def _days_of_year(self, year: int, first: int) -> int:
        low = first_of_month(year, 1)
        high = low + 365 + is_leap(year)
        days = {low + n - 1 if n > 0 else high + n for n in self._year_days}
        return sum(_bit(day, low, high, first) for day in days)

    def _weeks_of_year(self, first: int, length: int) -> int:
        """The days from `first` on in weeks of these numbers. The first week of a year has the 4th of January."""
        mask = 0
        for week in range(self._week(first), first + length, 7):
            year = date_of(min(max(week + 3, FIRST_DAY), LAST_DAY)).year
            number = (week - self._week(day_number(year, 1, 4))) // 7 + 1
            cycle = year if year < 9999 else year - 400
            weeks = (self._week(day_number(cycle + 1, 1, 4)) - self._week(day_number(cycle, 1, 4))) // 7
            if number in self._week_numbers or number - weeks - 1 in self._week_numbers:
                place = week - first + 1
                mask |= 0b111_1111 << place if place >= 0 else 0b111_1111 >> -place
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

    def _allowed_in_week(self, week: int) -> int:
        """The days of the week from this one on, before positions are applied."""
        start = date_of(max(week, FIRST_DAY))
        rest = days_in_month(start.year, start.month) - start.day + 1
        mask = self._allowed_memo(start.year, start.month) >> start.day
        if rest < 7 and (start.year, start.month) != (9999, 12):
            year, month = divmod(start.year * 12 + start.month, 12)
            mask |= self._allowed_memo(year, month + 1) >> 1 << rest
        return mask << max(FIRST_DAY - week, 0) & 0b111_1111

    def _allowed_memo(self, year: int, month: int) -> int:
        if (year, month) not in self._months_allowed:
            if len(self._months_allowed) > 12:
                self._months_allowed.clear()
            self._months_allowed[year, month] = self._allowed(year, month)
        return self._months_allowed[year, month]


def _bit(day: int, low: int, high: int, first: int) -> int:
    """The bit of a day in the month that begins at `first`, if the day is in its period."""
    return 1 << (day - first + 1) if low <= day < high and 0 <= day - first < 31 else 0


_CENTURIES_MS = 500 * 366 * DAY_MS


def rule_walls(rule: Rule, start_wall: int) -> WallSet:
    """The wall times that a rule allows, before DTSTART, COUNT and UNTIL are applied."""
    times, unit = times_of(rule, start_wall)
    if not times:
        problem = "BYSETPOS is larger than any period" if rule.positions else _UNREACHED
        raise RruleError(f"RRULE {problem}.", value=rule.freq)
    if not rule.positions or rule.follows_clock:
        return WallTimes(_days(rule, start_wall, ()), times, unit)
    limit = _max_days(rule)
    chosen = {at: [d for d in days if abs(d) <= limit] for at, days in _positions(rule.positions, times).items()}
    parts = [WallTimes(_days(rule, start_wall, tuple(days)), 1 << at, unit) for at, days in chosen.items() if days]
    if not parts:
        raise RruleError("RRULE BYSETPOS is larger than any period.", value=str(rule.positions), field="BYSETPOS")
    return parts[0] if len(parts) == 1 else WallUnion(tuple(parts))


_UNREACHED = "has no time of day that its FREQ and INTERVAL reach"


def _max_days(rule: Rule) -> int:
    """The maximum number of days in a period of the rule."""
    if rule.freq == "DAILY":
        return 1
    if rule.freq == "WEEKLY":
        return len({day for _, day in rule.week_days}) or (1 if rule.same_every_week else 7)
    months = 1 if rule.freq == "MONTHLY" else len(rule.months) or (12 if rule.choosing_days else 1)
    if not rule.choosing_days:
        return months
    in_year = rule.freq == "YEARLY" and not rule.months
    by_date = len(rule.month_days) * months or 366
    by_weekday = sum(5 * months + 1 if n == 0 else 1 if in_year else months for n, _ in rule.week_days) or 366
    return min(by_date, by_weekday, len(rule.year_days) or 366, len(rule.week_numbers) * 7 or 366)


def times_of(rule: Rule, start_wall: int) -> tuple[int, int]:
    """The mask of the times of a day, and the length of its bits: minutes, or seconds where they are needed."""
    start = start_wall // SECOND_MS % _DAY_SECONDS
    hour, minute, second = start // 3600, start // 60 % 60, start % 60
    seconds = rule.seconds or (second,)
    if seconds == (0,) and rule.freq != "SECONDLY":
        per_minute, unit, within_minute = 1, MINUTE_MS, 1
    else:
        per_minute, unit, within_minute = 60, SECOND_MS, _mask(seconds)
    within_hour = spread(_mask(rule.minutes or (minute,)), per_minute) * within_minute
    if not rule.follows_clock:
        return spread(_mask(rule.hours or (hour,)), 60 * per_minute) * within_hour, unit
    allowed = _mask(rule.hours or range(24))
    if rule.freq == "HOURLY":
        hours = _grid(hour, rule.interval, 24) & allowed
        return spread(hours, 60 * per_minute) * _at_positions(rule.positions, within_hour), unit
    minutes = spread(allowed, 60) * _mask(rule.minutes or range(60))
    if rule.freq == "MINUTELY":
        minutes &= _grid(start // 60, rule.interval, _DAY_SECONDS // 60)
        return spread(minutes, per_minute) * _at_positions(rule.positions, within_minute), unit
    chosen = spread(minutes, 60) * _mask(rule.seconds or range(60)) & _grid(start, rule.interval, _DAY_SECONDS)
    return chosen if not rule.positions or {1, -1} & {*rule.positions} else 0, unit


def _mask(values: Iterable[int]) -> int:
    return sum(1 << value for value in values)


def _grid(start: int, step: int, size: int) -> int:
    """Every `step`-th bit through `start`. The step divides the size."""
    return ((1 << size) - 1) // ((1 << step) - 1) << start % step


def _at_positions(positions: tuple[int, ...], mask: int) -> int:
    """The bits at these places among the set bits."""
    places = bits(mask)
    return mask if not positions else _mask({places[p - 1 if p > 0 else p] for p in positions if abs(p) <= len(places)})


def _positions(positions: tuple[int, ...], times_mask: int) -> dict[int, tuple[int, ...]]:
    """The positions of days for each time. BYSETPOS counts through the days and their times: with t times a day, the
    p-th is always the same time of day."""
    times = bits(times_mask)
    chosen: dict[int, tuple[int, ...]] = {}
    for position in positions:
        day, at = divmod(abs(position) - 1, len(times))
        time = times[at] if position > 0 else times[-1 - at]
        chosen[time] = (*chosen.get(time, ()), day + 1 if position > 0 else -day - 1)
    return chosen


def _days(rule: Rule, start_wall: int, positions: tuple[int, ...]) -> Days:
    start = start_wall // DAY_MS
    if positions and rule.freq == "WEEKLY" and rule.same_every_week:
        # Every week has the same days, so positions select days of the week.
        week = sorted({d for _, d in rule.week_days} or {weekday(start)}, key=lambda d: (d - rule.week_start) % 7)
        chosen = {week[p - 1 if p > 0 else p] for p in positions}
        return _days(replace(rule, week_days=tuple((0, d) for d in sorted(chosen))), start_wall, ())
    plain = rule.interval == 1 or rule.follows_clock
    if plain and rule.same_every_week and not positions:
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
