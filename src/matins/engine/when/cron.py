"""Cron expressions: parsed to bit masks. An error names the field, the value and the range.

Five fields (minute, hour, day of month, month, day of week), six with the seconds in front, or seven with the year at
the end. A `Field` holds the mask of its plain values, whether it begins with `*`, and the calendar rules (`L`, `15W`,
`5#2`) that depend on the month.

The days that a cron expression's three day fields allow, month by month.

`H` in a cron field: a value that follows from the name of the schedule, so that not all start at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from matins.engine.when.days import (
    ALL_MONTHS,
    ALL_WEEKDAYS,
    FIRST_DAY,
    Days,
    MonthDays,
    WeekDays,
    YearDays,
    bits,
    days_in_month,
    first_of_month,
    weekday,
)
from matins.engine.when.durations import SECOND_MS
from matins.engine.when.walltimes import WallTimes, spread
from matins.errors import CronParseError

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
        day = length - int(rule[2:].removesuffix("W"))
        return 0 if day < 1 else 1 << (_nearest_weekday(day, first, length) if rule.endswith("W") else day)
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


ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
DAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_LONG_DAYS = tuple(f"{day}DAY" for day in ("SUN", "MON", "TUES", "WEDNES", "THURS", "FRI", "SATUR"))
_LONG_MONTHS = ("JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY", "AUGUST", "SEPTEMBER", "OCTOBER",
                "NOVEMBER", "DECEMBER")  # fmt: skip
ALL_DAYS = (1 << 32) - 2


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One of the fields of an expression."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    long_names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        return f"{self.low}-{self.high}"


SECOND = Kind("second", 0, 59)
MINUTE = Kind("minute", 0, 59)
HOUR = Kind("hour", 0, 23)
DAY_OF_MONTH = Kind("day of month", 1, 31)
MONTH = Kind("month", 1, 12, MONTH_NAMES, _LONG_MONTHS)
DAY_OF_WEEK = Kind("day of week", 0, 7, DAY_NAMES, _LONG_DAYS)
YEAR = Kind("year", 1970, 2199)
_FIVE = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
_SIX = (SECOND, *_FIVE)
_SEVEN = (*_SIX, YEAR)
FIELDS = {5: _FIVE, 6: _SIX, 7: _SEVEN}
_NO_CALENDAR: tuple[str, ...] = ()


class Field(NamedTuple):
    """The values that one field allows."""

    mask: int
    starred: bool = False
    calendar: tuple[str, ...] = _NO_CALENDAR
    """Items that depend on the month: `L`, `LW`, `L-3`, `15W`, `5#2`, `5L`."""


class Cron(NamedTuple):
    seconds: Field | None
    minutes: Field
    hours: Field
    days_of_month: Field
    months: Field
    days_of_week: Field
    years: int = 0
    """The mask of the years; 0 for every year."""

    @property
    def fixed(self) -> bool:
        """Whether the expression names fixed times, rather than following the clock."""
        return not (self.minutes.starred or self.hours.starred)

    def days(self) -> Days:
        return YearDays(self._days(), self.years) if self.years else self._days()

    def _days(self) -> Days:
        dom, dow, months = self.days_of_month, self.days_of_week, self.months.mask
        if dom.mask == ALL_DAYS and months == ALL_MONTHS and not dow.calendar and dom.starred:
            return week_days(dow.mask)
        return cron_days(months, dom.mask, dom.calendar, dow.mask, dow.calendar, dom.starred or dow.starred)

    def walls(self) -> WallTimes:
        minutes = spread(self.hours.mask, 60) * self.minutes.mask
        if self.seconds is None:
            return WallTimes(self.days(), minutes)
        return WallTimes(self.days(), spread(minutes, 60) * self.seconds.mask, SECOND_MS)


# Sets of days are shared, so that triggers with the same days share their cached months.
week_days = lru_cache(maxsize=128)(WeekDays)
cron_days = lru_cache(maxsize=1024)(CronDays)


def parse_cron(text: str, *, strict: bool = False) -> Cron:
    """The parsed expression. CronParseError contains the problem and its field."""
    if text[:1] == "@":
        return parse_cron(_expand(text, strict))
    tokens = text.split()
    if len(tokens) != 5 and (strict or len(tokens) not in FIELDS):
        hint = "Write: minute hour day-of-month month day-of-week."
        if len(tokens) == 6 and strict:
            hint = "Remove the first field: strict mode does not allow seconds."
        if len(tokens) == 7:
            hint = "Remove the first and the last field: strict mode allows neither seconds nor years."
        message = f'Invalid cron expression "{text}" - expected 5 fields, got {len(tokens)}'
        raise CronParseError(message, value=text, allowed="5 fields", hint=hint)
    try:
        if strict:
            for kind, token in zip(_FIVE, tokens, strict=True):
                _check_plain(kind, token)
        plain = len(tokens) == 5
        minute, hour, day, month, weekday = tokens if plain else tokens[1:6]
        cron = Cron(
            None if plain else parse_field(SECOND, tokens[0]),
            parse_field(MINUTE, minute),
            parse_field(HOUR, hour),
            parse_field(DAY_OF_MONTH, day),
            parse_field(MONTH, month),
            parse_field(DAY_OF_WEEK, weekday),
        )
        _check_possible(cron, day, month, weekday)
        if len(tokens) == 7:
            cron = _in_years(cron, tokens[6])
    except _FieldError as error:
        raise error.within(text) from None
    return cron


def _in_years(cron: Cron, token: str) -> Cron:
    years = parse_field(YEAR, token)
    limited = cron if years.starred and years.mask == _EVERY_YEAR else cron._replace(years=years.mask)
    if limited.years and limited.days().next(FIRST_DAY) is None:
        problem = f"its date does not exist in year {token}"
        raise _FieldError(YEAR, token, problem, "29 February is in leap years only.")
    return limited


def _expand(text: str, strict: bool) -> str:
    expression = ALIASES.get(text.lower())
    if expression is None:
        known = ", ".join(ALIASES)
        hint = "Matins has no jobs at boot. Use a schedule." if text.lower() == "@reboot" else f"Known: {known}."
        if text.lower().startswith("@every "):
            hint = f'Write the interval alone: "{text[len("@every ") :].strip()}".'
        raise CronParseError(f'Unknown cron alias "{text}".', value=text, allowed=known, hint=hint)
    if strict:
        raise CronParseError(
            f'Invalid cron expression "{text}" - aliases are not allowed in strict mode',
            value=text,
            hint=f'Write "{expression}".',
        )
    return expression


class _FieldError(Exception):
    """The problem of a field, before the whole expression is known."""

    def __init__(self, kind: Kind, value: str, problem: str, hint: str | None = None, allowed: str = "") -> None:
        super().__init__(problem)
        self.kind, self.value, self.problem, self.hint = kind, value, problem, hint
        self.allowed = allowed or kind.allowed

    def within(self, text: str) -> CronParseError:
        return CronParseError(
            f'Invalid cron expression "{text}" - {self.problem}',
            value=self.value,
            field=self.kind.name,
            allowed=self.allowed,
            hint=self.hint or (_YEAR_IS_LAST if _YEAR.search(text) else None),
        )


_YEAR = re.compile(r"\s(19|20|21)[0-9]{2}([-,/][0-9,/-]*)?$")
_YEAR_IS_LAST = "A year is the last of seven fields, which begin with the seconds: 0 30 9 1 1 * 2027."
_EVERY_YEAR = (2 << YEAR.high) - (1 << YEAR.low)
_STRICT_ITEM = re.compile(r"(\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?")


def _check_plain(kind: Kind, token: str) -> None:
    for item in token.split(","):
        if not _STRICT_ITEM.fullmatch(item):
            problem = f'{kind.name} "{item}" is not allowed in strict mode'
            raise _FieldError(kind, item, problem, "Use numbers, *, ranges, steps and lists.")
        size, step = _size(kind), item.partition("/")[2]
        if step and _bounded_int(step) > size:
            problem = f"{kind.name} step must be 1-{size}, got {step}"
            raise _FieldError(kind, item, problem, f"The field has {size} values.", f"1-{size}")


@lru_cache(maxsize=8192)
def parse_field(kind: Kind, token: str) -> Field:
    """The parsed field. Cached by its text, because expressions share few fields."""
    if token == "*":
        return Field(_range_mask(kind, kind.low, kind.high, 1), starred=True)
    if token.isdigit() and token.isascii():
        return Field(_item_mask(kind, token))
    if not token.isascii():
        odd = next(c for c in token if not c.isascii())
        raise _FieldError(
            kind, token, f'{kind.name} has "{odd}", which is not an ASCII character', "Use the digits 0-9."
        )
    mask, calendar = 0, _NO_CALENDAR
    items = token.split(",")
    if "?" in items and len(items) > 1:
        rest = ",".join(item for item in items if item != "?") or "*"
        raise _FieldError(kind, token, f'{kind.name} "{token}": ? stands alone', f"Write ? or {rest}.")
    for item in items:
        rule = _calendar_item(kind, item.upper())
        if rule is not None:
            calendar = (*calendar, rule)
        else:
            mask |= _item_mask(kind, item)
    return Field(mask, token[0] in "*?", calendar)


def _item_mask(kind: Kind, item: str) -> int:
    base, slash, step_text = item.partition("/")
    step = _step(kind, item, step_text) if slash else 1
    if base == "*":
        return _range_mask(kind, kind.low, kind.high, step)
    if base == "?":
        if kind not in (DAY_OF_MONTH, DAY_OF_WEEK) or slash:
            raise _FieldError(kind, item, f'{kind.name} "{item}": ? stands alone, in the day fields only', "Write *.")
        return _range_mask(kind, kind.low, kind.high, 1)
    low_text, dash, high_text = base.partition("-")
    low = _number(kind, item, low_text)
    if not dash:
        if slash:
            hint = f"{low}-{kind.high}/{step}"
            raise _FieldError(kind, item, f'{kind.name} "{item}" is a step without a range', f"Write {hint}.")
        return 1 << (low % 7 if kind is DAY_OF_WEEK else low)
    last_of_month = kind is DAY_OF_MONTH and high_text in ("L", "l")  # 15-L, the 15th to the last day
    high = kind.high if last_of_month else _number(kind, item, high_text)
    if kind is DAY_OF_WEEK and high == 0 and low > 0 and not high_text.isdigit():
        high = 7  # FRI-SUN
    if low > high and kind.names and not (low_text.isdigit() or high_text.isdigit()):  # FRI-MON, NOV-FEB
        size = _size(kind)
        return sum(1 << (n - kind.low) % size + kind.low for n in range(low, high + size + 1, step))
    if low > high:
        hint = f"Write {low_text}-{kind.high},{kind.low}-{high_text}." if kind is not DAY_OF_WEEK else "List the days."
        raise _FieldError(kind, item, f'{kind.name} range "{item}" runs backwards', hint)
    return _range_mask(kind, low, high, step)


def _range_mask(kind: Kind, low: int, high: int, step: int) -> int:
    if kind is DAY_OF_WEEK:
        last = high if low or high < 7 else 6  # 0-7 names Sunday twice
        return sum(1 << n for n in {n % 7 for n in range(low, last + 1, step)})
    return (2 << high) - (1 << low) if step == 1 else sum([1 << n for n in range(low, high + 1, step)])


def _size(kind: Kind) -> int:
    return kind.high - kind.low + (0 if kind is DAY_OF_WEEK else 1)  # 0 and 7 are Sunday


def _step(kind: Kind, item: str, text: str) -> int:
    """The step. One that is larger than its field leaves the first value: `*/100,1-7` is a starred 1-7."""
    size = _size(kind)
    if not text.isdigit():
        raise _FieldError(kind, item, f'{kind.name} step "{text}" must be 1-{size}', allowed=f"1-{size}")
    step = _bounded_int(text)
    if step == 0:
        message = f"{kind.name} step must be 1-{size}, got {text}"
        raise _FieldError(kind, item, message, "Use a step of 1 or more.", f"1-{size}")
    return step


def _number(kind: Kind, item: str, text: str) -> int:
    if text.isdigit():
        number = _bounded_int(text)
        if kind.low <= number <= kind.high:
            return number
    else:
        upper = text.upper()
        name = next((long[:3] for long in kind.long_names if upper == long), upper)  # MON of mon and Monday
        if name in kind.names:
            return kind.names.index(name) + kind.low
    names = f" or {kind.names[0]}-{kind.names[-1]}" if kind.names else ""
    hint = "Use a number, *, a range a-b, a step */n, or a list a,b." if not text.isdigit() else None
    raise _FieldError(kind, item, f"{kind.name} must be {kind.allowed}{names if not text.isdigit() else ''}", hint)


def _bounded_int(text: str) -> int:
    """The number. Fields have at most four digits; a longer number is out of range."""
    return int(text[:5])


_MAX_BEFORE_LAST = 30
_CALENDAR = {
    DAY_OF_MONTH: re.compile(r"L|LW|WL|([0-9]{1,2})W|L-([0-9]{1,2})W?"),
    DAY_OF_WEEK: re.compile(r"([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#(L|[0-9]+))"),
}


def _calendar_item(kind: Kind, item: str) -> str | None:
    """The plain spelling of an item that depends on the month (`friL` and `fri#L` are `5L`); None for other items."""
    pattern = _CALENDAR.get(kind)
    match = pattern.fullmatch(item) if pattern else None
    if match is None:
        if kind is DAY_OF_MONTH and item.startswith("L-"):
            problem = f'{kind.name} "{item}" is not L, a dash and a number'
            raise _FieldError(kind, item, problem, "Write L-3 for the third day before the last.")
        if kind is DAY_OF_WEEK and item == "L":
            hint = "Use 5L for the last Friday, or 6 for Saturday."
            raise _FieldError(kind, item, f'{kind.name} "L" needs a day', hint)
        return None
    if kind is DAY_OF_MONTH:
        if match[1] and not 1 <= int(match[1]) <= 31:
            raise _FieldError(kind, item, f"{kind.name} must be {kind.allowed}")
        if match[2] and not 1 <= int(match[2]) <= _MAX_BEFORE_LAST:
            problem = f'{kind.name} "{item}": a month has 1-{_MAX_BEFORE_LAST} days before its last'
            raise _FieldError(kind, item, problem, allowed=f"1-{_MAX_BEFORE_LAST}")
        return "LW" if item == "WL" else item.replace("L-0", "L-")
    day = DAY_NAMES.index(match[1]) if match[1] in DAY_NAMES else int(match[1]) % 7
    if match[2].endswith("L"):  # 5L, and 5#L as cron-parser writes it
        return f"{day}L"
    if not 1 <= int(match[3][:3]) <= 5:
        raise _FieldError(kind, item, f'{kind.name} "{item}": a weekday comes 1 to 5 times a month', allowed="1-5")
    return f"{day}{match[2]}"


def _check_possible(cron: Cron, day: str, month: str, weekday: str) -> None:
    """Raise for a date that no year has, such as 30 February, or for days that never meet."""
    dom, dow = cron.days_of_month, cron.days_of_week
    if not dom.starred and not dow.starred:
        return  # either day field may match
    latest = [_latest(rule) for rule in dom.calendar]  # of L, LW, 15W, L-3
    if not dom.mask & 0x1FFF_FFFF and not any(n <= 28 for n in latest):  # no day that every month has
        earliest = min([n for n in (29, 30, 31) if dom.mask >> n & 1] + latest)
        if not cron.months.mask & _MONTHS_WITH[earliest]:
            problem = f"day of month {day} does not exist in month {month}"
            raise _FieldError(DAY_OF_MONTH, day, problem, "This date does not exist. Change the day or the month.")
    if dom.mask != ALL_DAYS and (dow.mask != ALL_WEEKDAYS or dow.calendar) and not _ever_meet(cron):
        problem = f"day of month {day} never falls on day of week {weekday}"
        raise _FieldError(DAY_OF_WEEK, weekday, problem, "Both day fields must match when one begins with *.")


def _ever_meet(cron: Cron) -> bool:
    """Whether the day fields meet. In 28 years each month begins on each weekday, in leap years and others."""
    days = cron.days()
    assert isinstance(days, CronDays)
    months = bits(cron.months.mask)
    return any(days.pick(year, month) for year in range(2000, 2028) for month in months)


_MONTHS_WITH = {29: ALL_MONTHS, 30: ALL_MONTHS & ~(1 << 2), 31: sum(1 << month for month in (1, 3, 5, 7, 8, 10, 12))}


def _latest(rule: str) -> int:
    """How many days a month must have for the rule to have a day in it."""
    if rule.startswith("L-"):
        return int(rule[2:].removesuffix("W")) + 1
    return int(rule[:-1]) if rule[:-1].isdigit() else 1


_HASHED = re.compile(r"(?:^|[\s,])H(?=[\s,/(]|$)")
_ITEM = re.compile(r"H(?:\(([0-9]{1,2})-([0-9]{1,2})\))?(?:/([0-9]{1,4}))?")
_LAST_DAY_OF_EVERY_MONTH = 28


def is_hashed(text: str) -> bool:
    return _HASHED.search(text) is not None


def freeze(text: str, name: str | None) -> str:
    """The expression with numbers instead of `H`, `H/15`, `H(0-29)` and `H(0-29)/10`."""
    if not name:
        hint = "Give the schedule a name: --name NAME"
        raise CronParseError("H follows from the name of the schedule, and there is none.", value=text, hint=hint)
    fields = text.split()
    kinds = FIELDS.get(len(fields))
    if kinds is None:
        return text  # the parser says how many there must be
    return " ".join(
        ",".join(_frozen(kind, item, text, name) for item in field.split(","))
        for kind, field in zip(kinds, fields, strict=True)
    )


def _frozen(kind: Kind, item: str, text: str, name: str) -> str:
    if not item.startswith("H"):
        return item
    found = _ITEM.fullmatch(item)
    low, high = _bounds(kind, found) if found else (0, -1)
    step = int(found[3] or 0) if found else 0
    if found is None or not kind.low <= low <= high <= kind.high or (found[3] and not 1 <= step <= high - low + 1):
        message = f'Invalid cron expression "{text}" - {kind.name} "{item}" is not H, H/n, H(a-b) or H(a-b)/n'
        hint = "For example: H/15 or H(0-29)."
        raise CronParseError(message, value=item, field=kind.name, allowed=kind.allowed, hint=hint)
    seed = int.from_bytes(sha256(f"{kind.name}\n{name}".encode()).digest()[:8], "big")
    if step:
        return f"{low + seed % step}-{high}/{step}"
    return str(low + seed % (high - low + 1))


def _bounds(kind: Kind, found: re.Match[str]) -> tuple[int, int]:
    if found[1]:
        return int(found[1]), int(found[2])
    highest = {DAY_OF_MONTH: _LAST_DAY_OF_EVERY_MONTH, DAY_OF_WEEK: 6}
    return kind.low, highest.get(kind, kind.high)
