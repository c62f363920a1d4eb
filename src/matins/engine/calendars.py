"""Calendars: days with names, and which of them a schedule leaves out.

A day is a text: `2026-12-25`, `12-25` in every year, or a range of either, `2026-12-24..2027-01-02`; a name may follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from matins.engine.validation import DAYS
from matins.engine.when.durations import DAY_MS
from matins.engine.when.zones import load_zone
from matins.errors import Example, InvalidInput
from matins.model.settings import Arguments, Setting, Text

YEARS_AHEAD = 10
"""How many years of a country's holidays are stored when the calendar is set."""
MAX_DAYS = 20_000
_MAX_MOVE = 400
"""Days that a run is moved at most: longer than any calendar that leaves a day."""
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = re.compile(rf"{DAYS.pattern}(?: (\S[^\n]*))?")
_LEAP_YEAR = 2000
"""A year that has every day of a year."""


@dataclass(frozen=True)
class Calendar:
    """Days on which schedules that name the calendar do not run."""

    name: str
    dates: Annotated[
        tuple[str, ...],
        Setting(
            Arguments(), 'Days: "2026-12-25", "12-25" in every year, or "2026-12-24..2027-01-02"; a name may follow.',
            ["12-25 Christmas Day", "2026-12-27..2026-12-31"],
        ),
    ] = ()  # fmt: skip
    country: Annotated[
        str | None,
        Setting(Text(20), "Public holidays of a country, or of a part of it; needs the extra `holidays`.", "DE-BE"),
    ] = None
    ics: Annotated[
        str | None,
        Setting(Text(200_000, lines=True), "All-day events of an iCalendar file: its path, or its text.", "team.ics"),
    ] = None
    days: Annotated[
        tuple[str, ...],
        Setting(Arguments(), "The days of `country` and `ics` with their names, filled in when they are set.",
                ["2026-12-25 Christmas Day"]),
    ] = ()  # fmt: skip


class Days(NamedTuple):
    """Days by number since 1970, and by month and day in every year, with their names."""

    single: Mapping[int, str]
    yearly: Mapping[tuple[int, int], str]

    def name_of(self, day: int) -> str | None:
        found = self.single.get(day)
        if found is not None or not self.yearly:
            return found
        on = date.fromordinal(_EPOCH + day)
        return self.yearly.get((on.month, on.day))


def is_day(text: str) -> bool:
    """Whether a text names days, and no calendar."""
    return DAYS.fullmatch(text) is not None


@lru_cache(maxsize=512)
def read_days(texts: tuple[str, ...], field: str = "dates") -> Days:
    """The days of these texts. Raises InvalidInput for one that is none."""
    single: dict[int, str] = {}
    yearly: dict[tuple[int, int], str] = {}
    for text in texts:
        match = _DAY.fullmatch(text.strip())
        if match is None:
            raise _no_day(text, field)
        first, last, name = match.groups()
        try:
            begin, end = _date(first), _date(last or first)
        except ValueError:
            raise _no_day(text, field) from None
        if (len(first) == 5) != (len(last or first) == 5) or (end < begin and len(first) > 5):
            raise _no_day(text, field)
        if end < begin:  # over the end of a year
            end = date(end.year + 4, end.month, end.day)
            end = date(_LEAP_YEAR + 1, end.month, end.day) if (end.month, end.day) != (2, 29) else end
        for number in range(min((end - begin).days + 1, MAX_DAYS)):
            day = begin + timedelta(number)
            if len(first) == 5:
                yearly[day.month, day.day] = name or text.strip()
            else:
                single[day.toordinal() - _EPOCH] = name or text.strip()
    return Days(single, yearly)


def _date(text: str) -> date:
    return date.fromisoformat(f"{_LEAP_YEAR}-{text}" if len(text) == 5 else text)


def _no_day(text: str, field: str) -> InvalidInput:
    hint = Example({field: ["2026-12-25", "12-25", "2026-12-24..2027-01-02"]})
    return InvalidInput(f"{text!r} is not a day or a range of days.", value=text, field=field, hint=hint)


def check_days(skip_on: Iterable[str]) -> None:
    """Raise for what looks like a day and is none."""
    for text in skip_on:
        if is_day(text):
            read_days((text,), "skip_on")


class SkippedDay(NamedTuple):
    name: str
    calendar: str | None
    """None: the schedule itself names the day."""


def skipped_day(
    skip_on: tuple[str, ...], calendars: Mapping[str, Calendar], at_ms: int, timezone: str
) -> SkippedDay | None:
    """The day on which an instant is skipped; None if it is not. A calendar that is gone has no days."""
    day = load_zone(timezone).wall_of(at_ms) // DAY_MS
    return _skipped(skip_on, calendars, day)


def _skipped(skip_on: tuple[str, ...], calendars: Mapping[str, Calendar], day: int) -> SkippedDay | None:
    for one in skip_on:
        calendar = None if is_day(one) else calendars.get(one)
        texts = (one,) if is_day(one) else () if calendar is None else calendar.dates + calendar.days
        name = read_days(texts).name_of(day)
        if name is not None:
            return SkippedDay(name, None if calendar is None else one)
    return None


def day_changes(
    skip_on: tuple[str, ...], calendars: Mapping[str, Calendar], start: int, end: int, timezone: str
) -> set[int]:
    """The midnights between two instants at which skipped days begin or end."""
    zone = load_zone(timezone)
    first, last = zone.wall_of(start) // DAY_MS, zone.wall_of(end) // DAY_MS
    days = range(first, min(last, first + _MAX_MOVE) + 1) if skip_on else ()
    skipped = [_skipped(skip_on, calendars, day) is not None for day in days]
    return {
        zone.resolve(day * DAY_MS)
        for day, (one, other) in zip(days[1:], pairwise(skipped), strict=True)
        if one != other
    }


def moved_to(skip_on: tuple[str, ...], calendars: Mapping[str, Calendar], at_ms: int, timezone: str) -> int | None:
    """The same wall time on the first day that is not skipped; None if there is none for more than a year."""
    zone = load_zone(timezone)
    wall = zone.wall_of(at_ms)
    for ahead in range(1, _MAX_MOVE):
        later = wall + ahead * DAY_MS
        if _skipped(skip_on, calendars, later // DAY_MS) is None:
            return zone.resolve(later)
    return None


_EXCEPT = re.compile(r"(?P<when>[^\n]{1,500}?),? except on (?P<names>[^\n]{1,500})", re.IGNORECASE)


def split_exception(when: Any) -> tuple[Any, tuple[str, ...]]:
    """`every weekday at 9am except on holidays-de` as the text before, and what it leaves out."""
    match = _EXCEPT.fullmatch(when.strip()) if isinstance(when, str) and " except on " in when.lower() else None
    if match is None:
        return when, ()
    names = match["names"].replace(" and ", ",").split(",")
    return match["when"], tuple(name.strip() for name in names if name.strip())
