"""RFC 5545 recurrence rules as text: the parts that schedules use. `rrule_walls` has their meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from matins.engine.when.days import EPOCH
from matins.engine.when.durations import DAY_MS, MINUTE_MS
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
