"""iCalendar files (RFC 5545): their all-day events, as days with names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

from matins.engine.when.days import EPOCH
from matins.engine.when.durations import DAY_MS
from matins.engine.when.rrule import UNITS, parse_rule
from matins.engine.when.triggers import compile_trigger
from matins.errors import InvalidInput, RruleError
from matins.model.trigger import Rrule, TriggerDefinition

_MAX_DAYS = 20_000
_MAX_LENGTH = 400
"""Days of one event."""
_MAX_NAME = 100
_PROPERTY = re.compile(r'([A-Za-z-]+)((?:;[A-Za-z-]+=(?:"[^"]*"|[^";:]*))*):(.*)', re.DOTALL)
_DATE = re.compile(r"[0-9]{8}")
_DURATION = re.compile(r"P(?:([0-9]{1,3})W|([0-9]{1,4})D)")


class _Event(NamedTuple):
    values: dict[str, list[str]]
    """The values of each property."""

    def first(self, name: str) -> str:
        return self.values.get(name, [""])[0].strip()

    @property
    def name(self) -> str:
        text = re.sub(r"\\(.)", lambda found: " " if found[1] in "nN" else found[1], self.first("SUMMARY"))
        return " ".join(text.split())[:_MAX_NAME] or "Busy"

    @property
    def starts_on(self) -> date | None:
        """None for an event with a time of day."""
        return _day(self.first("DTSTART")) if _DATE.fullmatch(self.first("DTSTART")) else None

    @property
    def length(self) -> int:
        start, end = self.starts_on, self.first("DTEND")
        duration = _DURATION.fullmatch(self.first("DURATION"))
        days = 1
        if start is not None and _DATE.fullmatch(end):
            days = (_day(end) - start).days
        elif duration is not None:
            days = int(duration[1] or 0) * 7 + int(duration[2] or 0)
        return min(max(days, 1), _MAX_LENGTH)


def is_ics(text: str) -> bool:
    """Whether a text is a calendar itself, and no path to one."""
    return text.lstrip("\ufeff \r\n").upper().startswith("BEGIN:VCALENDAR")


def days_of_ics(text: str, first: date, last: date, field: str = "ics") -> tuple[str, ...]:
    """The all-day events between two days, as texts of days with names. Raises InvalidInput."""
    if not is_ics(text):
        raise InvalidInput("This is not an iCalendar file: it does not begin with BEGIN:VCALENDAR.", field=field)
    events = [event for event in _events(text) if event.first("STATUS").upper() != "CANCELLED"]
    all_day = [event for event in events if event.starts_on is not None]
    if not all_day:
        hint = "Times of day are for quiet hours: matins quiet-hours set"
        raise InvalidInput("The calendar has no all-day events.", field=field, hint=hint)
    moved: defaultdict[str, set[date]] = defaultdict(set)
    for event in events:
        if at := event.first("RECURRENCE-ID"):
            moved[event.first("UID")].add(_day(at[:8]))
    window, found, left = range(first.toordinal(), last.toordinal() + 1), dict[tuple[date, str], str](), _MAX_DAYS
    for event in all_day:
        name, length = event.name, event.length
        left_out = {_day(text) for text in _dates(event, "EXDATE")}
        elsewhere = set[date]() if event.first("RECURRENCE-ID") else moved[event.first("UID")]
        for start in _starts(event, first - timedelta(length), last, field):
            if (left := left - length) < 0:  # each counts, also one that is there or left out: there may be no end
                raise InvalidInput(f"The calendar has more than {_MAX_DAYS:,} days.", field=field)
            if start in left_out or start in elsewhere:
                continue
            for number in range(start.toordinal(), start.toordinal() + length):
                if number in window:
                    day = date.fromordinal(number)
                    found[day, name] = f"{day.isoformat()} {name}"
    return tuple(found[key] for key in sorted(found))


def _starts(event: _Event, first: date, last: date, field: str) -> Iterator[date]:
    """The days on which an event starts, also those that are left out."""
    start = event.starts_on
    assert start is not None
    yield from {start, *(_day(text) for text in _dates(event, "RDATE"))}
    for rule in event.values.get("RRULE", ()) if not event.first("RECURRENCE-ID") else ():
        wall = (start.toordinal() - EPOCH) * DAY_MS
        try:
            if parse_rule(rule).freq in UNITS:
                raise RruleError("A day does not repeat within a day.", value=rule)
            trigger = compile_trigger(TriggerDefinition(Rrule(rule.strip().upper(), wall)))
        except RruleError as error:
            raise InvalidInput(f'The event "{event.name}": {error.message}', value=rule, field=field) from error
        yield start  # each rule counts, also one without a day
        at = trigger.next_ms(max((first.toordinal() - EPOCH) * DAY_MS, wall) - 1)
        while at is not None and at <= (last.toordinal() - EPOCH) * DAY_MS:
            yield date.fromordinal(at // DAY_MS + EPOCH)
            at = trigger.next_ms(at)


def _events(text: str) -> Iterator[_Event]:
    values: dict[str, list[str]] | None = None
    inner = 0
    for line in re.sub(r"\r?\n[ \t]", "", text).splitlines():
        match = _PROPERTY.fullmatch(line)
        if match is None:
            continue
        name, value = match[1].upper(), match[3]
        if name == "BEGIN" and value.strip().upper() == "VEVENT":
            values, inner = {}, 0
        elif name == "END" and value.strip().upper() == "VEVENT" and values is not None:
            yield _Event(values)
            values = None
        elif name in ("BEGIN", "END"):  # an alarm within an event
            inner += 1 if name == "BEGIN" else -1
        elif values is not None and inner == 0:
            values.setdefault(name, []).append(value)


def _dates(event: _Event, name: str) -> list[str]:
    texts = [text.strip()[:8] for value in event.values.get(name, ()) for text in value.split(",")]
    return [text for text in texts if _DATE.fullmatch(text)]


def _day(text: str) -> date:
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:8]))
    except ValueError:
        raise InvalidInput(f'The calendar has the date "{text}", which does not exist.', field="ics") from None
