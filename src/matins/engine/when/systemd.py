"""Calendar events of systemd (`OnCalendar=`): parsed to the same fields as cron.

`Mon..Fri *-*-01..07 09,17:00/30` is weekdays, a date and a time, each of which may be left out. All of them must match.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NoReturn

from matins.engine.when.cron import (
    DAY_OF_MONTH,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Cron,
    Field,
    Kind,
)
from matins.engine.when.days import ALL_WEEKDAYS, FIRST_DAY
from matins.errors import TriggerError

PREFIX = "OnCalendar="
_SHORTHANDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "anually": "*-01-01 00:00:00",
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAYS = re.compile(r"[A-Za-z][A-Za-z,.-]*")
_DATE = re.compile(r"(?:([^-~:]+)-)?([^-~:]+)([-~])([^-~:]+)")
_TIME = re.compile(r"([^:]+):([^:]+)(?::([^:]+))?")
_ITEM = re.compile(r"(\*|[0-9]{1,4})(?:\.\.([0-9]{1,4}))?(?:/([0-9]{1,4}))?")
_CENTURY = 70
"""Years of two digits from this one on are of the twentieth century."""


@lru_cache(maxsize=1024)
def parse_calendar(text: str) -> Cron:
    """The fields of an expression without its prefix and time zone. Raises TriggerError."""
    words = _SHORTHANDS.get(text.strip().lower(), text).split()
    weekdays = _weekdays(words.pop(0), text) if words and _WEEKDAYS.fullmatch(words[0]) else ALL_WEEKDAYS
    date = _DATE.fullmatch(words[0]) if words else None
    words = words[1:] if date else words
    time = _TIME.fullmatch(words[0]) if words else None
    words = words[1:] if time else words
    if words or not text.strip():
        _refuse(text, f"{words[0] if words else ''!r} is not a weekday, a date or a time")
    year, month, sign, day = date.groups() if date else (None, "*", "-", "*")
    hours, minutes, seconds = time.groups() if time else ("0", "0", None)
    days = _values(DAY_OF_MONTH, day, text, from_the_end=sign == "~")
    second = _values(SECOND, seconds or "0", text)
    cron = Cron(
        None if second.mask == 1 else second,
        _values(MINUTE, minutes, text),
        _values(HOUR, hours, text),
        days._replace(starred=True),  # as the weekdays: so that both must match
        _values(MONTH, month, text),
        Field(weekdays, starred=True),
        0 if year in (None, "*") else _values(YEAR, str(year), text).mask,
    )
    if cron.days().next(FIRST_DAY) is None:
        _refuse(text, "this date never comes")
    return cron


def _weekdays(text: str, whole: str) -> int:
    mask = 0
    for item in text.split(","):
        if not item:
            continue  # systemd allows a comma at the end
        first, _, last = re.sub(r"\.\.|-", "..", item).partition("..")
        begin, end = _weekday(first, whole), _weekday(last or first, whole)
        if end < begin:
            _refuse(whole, f"the range {item} runs backwards")
        mask |= sum(1 << (day + 1) % 7 for day in range(begin, end + 1))
    return mask


def _weekday(text: str, whole: str) -> int:
    found = [n for n, name in enumerate(_DAYS) if text.lower() in (name, name[:3])]
    return found[0] if found else _refuse(whole, f"{text!r} is not a weekday")


def _values(kind: Kind, token: str, text: str, *, from_the_end: bool = False) -> Field:
    """The values of a part. A day with `~` counts back from the end of the month."""
    mask, rules, starred = 0, list[str](), False
    for item in token.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            _refuse(text, f"{kind.name} {item!r} is not a number, *, a..b, a/n or a..b/n")
        first, last, step = match.groups()
        every = first == "*"
        low = kind.low if every else _bounded(kind, first, text)
        high = low if last is None and step is None and not every else kind.high
        high = high if last is None else _bounded(kind, last, text)
        if every and last is not None:
            _refuse(text, f"{kind.name} {item!r}: * is every value already")
        if high < low:
            _refuse(text, f"{kind.name} range {item} runs backwards")
        if step is not None and int(step) == 0:
            _refuse(text, f"{kind.name} step must be 1 or more")
        values = range(low, high + 1, int(step or 1))
        if from_the_end and not every:  # ~07/1: from the seventh last day to the last
            back = values if last is not None or step is None else range(low, 0, -int(step))
            rules += [f"L-{n - 1}" if n > 1 else "L" for n in back]
            continue
        starred = starred or every or (step is not None and last is None)
        mask |= sum([1 << n for n in values])
    return Field(mask, starred, tuple(rules))


def _bounded(kind: Kind, digits: str, text: str) -> int:
    number = int(digits)
    if kind is YEAR and len(digits) <= 2:
        number += 1900 if number >= _CENTURY else 2000
    if not kind.low <= number <= kind.high:
        _refuse(text, f"{kind.name} must be {kind.allowed}, not {digits}")
    return number


def _refuse(text: str, problem: str) -> NoReturn:
    hint = "For example: OnCalendar=Mon..Fri *-*-* 09:00 Europe/Berlin."
    raise TriggerError(f"Invalid calendar event {PREFIX}{text}: {problem}.", value=text, hint=hint)
