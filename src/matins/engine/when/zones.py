"""Time zones as integer tables: each offset with its start and end.

`zoneinfo` computes one instant at a time and hides its transitions; the engine needs the periods between them.
The periods come from the files of `zoneinfo`. The file's last rule extends them as far as needed.

The last rule of a time zone file: POSIX TZ text such as `EST5EDT,M3.2.0,M11.1.0`.

Time zones that the text of a trigger names: `TZ=Europe/London 0 9 * * *`, "every day at 9am New York time".
"""

from __future__ import annotations

import difflib
import hashlib
import re
import struct
import zoneinfo
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from matins.engine.when.days import FIRST_DAY, LAST_DAY, days_in_month, first_of_month, is_leap
from matins.engine.when.durations import DAY_MS
from matins.errors import TimezoneError

_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_TIME = r"[+-]?\d+(?::\d+(?::\d+)?)?"
_RULE = re.compile(rf"{_NAME}(?P<std>{_TIME})(?:{_NAME}(?P<dst>{_TIME})?,(?P<start>[^,]+),(?P<end>[^,]+))?")


@dataclass(frozen=True, slots=True)
class YearDay:
    """A day of the year and a wall time on it: `M3.2.0/2`, `J60/0` or `59`."""

    kind: str
    month: int
    week: int
    day: int
    time_ms: int

    def wall(self, year: int) -> int:
        return self._day_number(year) * DAY_MS + self.time_ms

    def _day_number(self, year: int) -> int:
        january = first_of_month(year, 1)
        if self.kind == "J":  # 1 to 365; 29 February is never counted
            return january + self.day - 1 + (is_leap(year) and self.day >= 60)
        if self.kind == "n":
            return january + self.day
        first = first_of_month(year, self.month)
        day = 1 + (self.day - (first + 4)) % 7 + 7 * (self.week - 1)
        return first + (day if day <= days_in_month(year, self.month) else day - 7) - 1


@dataclass(frozen=True, slots=True)
class ZoneRule:
    standard: int
    summer: int
    changes: tuple[YearDay, YearDay] | None

    def transitions(self, first_year: int, last_year: int) -> list[tuple[int, int]]:
        """(instant, offset after it) for every year of the range, in order."""
        if self.changes is None:
            return []
        start, end = self.changes
        found: list[tuple[int, int]] = []
        for year in range(first_year, last_year + 1):
            found.append((start.wall(year) - self.standard, self.summer))
            found.append((end.wall(year) - self.summer, self.standard))
        return sorted(found)


def parse_zone_rule(text: str) -> ZoneRule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a POSIX TZ rule: {text!r}")
    standard = -_time_ms(match["std"])
    if match["start"] is None:
        return ZoneRule(standard, standard, None)
    summer = -_time_ms(match["dst"]) if match["dst"] else standard + 3_600_000
    return ZoneRule(standard, summer, (_year_day(match["start"]), _year_day(match["end"])))


def _year_day(text: str) -> YearDay:
    date, _, time = text.partition("/")
    time_ms = _time_ms(time) if time else 2 * 3_600_000
    if date.startswith("M"):
        month, week, day = map(int, date[1:].split("."))
        return YearDay("M", month, week, day, time_ms)
    if date.startswith("J"):
        return YearDay("J", 0, 0, int(date[1:]), time_ms)
    return YearDay("n", 0, 0, int(date), time_ms)


def _time_ms(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = ([int(part) for part in text.lstrip("+-").split(":")] + [0, 0])[:3]
    return sign * ((hours * 60 + minutes) * 60 + seconds) * 1000


FOREVER = 1 << 62
# A few days at both ends of the range of datetime stay unused, so that no offset and no step leaves the range.
MIN_MS = (FIRST_DAY + 3) * DAY_MS
MAX_MS = (LAST_DAY - 3) * DAY_MS
_FIRST_HORIZON_YEAR = 2050
_LAST_YEAR = 9999


class OffsetPeriod(NamedTuple):
    """The instants from `start` up to `end`, at one offset; `before` is the offset that ended at `start`."""

    start: int
    end: int
    offset: int
    before: int
    unaffected: tuple[int, int, int]
    """(from, to, offset) of the part that no gap or overlap at its start affects."""


class Zone:
    """The offset periods of one zone, in milliseconds."""

    def __init__(self, name: str, data: bytes) -> None:
        """The zone with this name, from the data of a TZif file."""
        transitions, first_offset, footer = _parse_tzif(data)
        rule = parse_zone_rule(footer) if footer else None
        self.name = name
        self.data = data
        self.info = zoneinfo.ZoneInfo(name)
        self._rule = rule
        self._transitions = transitions
        self._first_offset = first_offset
        # The last result of a search: a hint for the next one, which is mostly about the same days.
        self.recent: tuple[int, int, int] = (0, 0, 0)
        self._horizon_year = _LAST_YEAR
        if rule is not None and rule.changes:
            self._horizon_year = _FIRST_HORIZON_YEAR
        self._build()

    @property
    def digest(self) -> str:
        """The version of its data."""
        return hashlib.sha256(self.data).hexdigest()[:16]

    def period_index(self, at_ms: int) -> int:
        """The index of the period that contains an instant."""
        while at_ms >= self._horizon_ms:
            self._extend()
        return bisect_right(self._starts, at_ms) - 1

    def period(self, index: int) -> OffsetPeriod | None:
        """The period with an index; None outside the range."""
        while index >= len(self._periods) and self._horizon_ms < FOREVER:
            self._extend()
        return self._periods[index] if 0 <= index < len(self._periods) else None

    def period_at(self, at_ms: int) -> OffsetPeriod:
        index = self.period_index(at_ms)  # first, because it may extend the list
        return self._periods[index]

    def wall_of(self, at_ms: int) -> int:
        """The wall time of an instant."""
        return at_ms + self.period_at(at_ms).offset

    def instants_of(self, wall: int) -> tuple[int, ...]:
        """The instants of a wall time: none in a gap, two in an overlap."""
        first = self.period_index(wall - _A_DAY_AND_MORE)
        last = self.period_index(wall + _A_DAY_AND_MORE)
        candidates = self._periods[first : last + 1]
        return tuple(wall - s.offset for s in candidates if s.start <= wall - s.offset < s.end)

    def resolve(self, wall: int) -> int:
        """The earliest instant of this wall time; in a gap, the first instant after the jump."""
        instants = self.instants_of(wall)
        if instants:
            return instants[0]
        index = self.period_index(wall - _A_DAY_AND_MORE)
        while self._periods[index].start + self._periods[index].offset <= wall:
            index += 1
        return self._periods[index].start

    def _extend(self) -> None:
        self._horizon_year = min(self._horizon_year + 100, _LAST_YEAR)
        self._build()

    def _build(self) -> None:
        # Threads may read while another extends, so the horizon moves last.
        known = list(self._transitions)
        rule = self._rule
        if rule is not None:
            after = known[-1][0] if known else -FOREVER
            first_year = max(1970 + after // _YEAR_MS, 1970)
            known += [t for t in rule.transitions(first_year, self._horizon_year) if t[0] > after]
        periods = _offset_periods(known, self._first_offset)
        self._periods = periods
        self._starts = [s.start for s in periods]
        self._horizon_ms = FOREVER if self._horizon_year >= _LAST_YEAR else periods[-1].start


_YEAR_MS = 31_556_952_000
_A_DAY_AND_MORE = 2 * DAY_MS


def _offset_periods(transitions: list[tuple[int, int]], first_offset: int) -> list[OffsetPeriod]:
    """The periods between transitions. A transition that keeps the offset (a new abbreviation) is not a boundary."""
    starts, offsets = [-FOREVER], [first_offset]
    for at, offset in transitions:
        if offset != offsets[-1]:
            starts.append(at)
            offsets.append(offset)
    ends = [*starts[1:], FOREVER]
    befores = [first_offset, *offsets[:-1]]
    return [OffsetPeriod(*row, _unaffected(*row)) for row in zip(starts, ends, offsets, befores, strict=True)]


def _unaffected(start: int, end: int, offset: int, before: int) -> tuple[int, int, int]:
    return max(start + abs(offset - before), MIN_MS), min(end, MAX_MS), offset


@lru_cache(maxsize=1024)
def load_zone(name: str) -> Zone:
    return Zone(name, _read(name))


def _read(name: str) -> bytes:
    data = _find(name)
    if data is None:
        known = _known_names()
        wanted = "/" + name.replace(" ", "_").casefold()  # `london`, `new york`
        close = sorted(one for one in known if f"/{one}".casefold().endswith(wanted))
        close = close or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f'Did you mean "{close[0]}"?' if close else 'Use an IANA name such as "Europe/London", or "UTC".'
        raise TimezoneError(f'Unknown time zone "{name}".', value=name, field="timezone", hint=hint)
    return data


def is_zone(name: str) -> bool:
    """Whether a zone has this name. Only its own file is opened: listing all zones takes 30 ms."""
    return _find(name) is not None


def _find(name: str) -> bytes | None:
    """The file of a zone; None for a name that `zoneinfo.available_timezones` would not list."""
    parts = name.split("/")
    if not all(map(_PART.fullmatch, parts)) or parts[0] in _NOT_LISTED:
        return None
    for folder in zoneinfo.TZPATH:
        data = _read_in(Path(folder), parts)
        if data is not None:
            return data
    packaged = resources.files("tzdata") if find_spec("tzdata") is not None else None
    return None if packaged is None else _read_in(packaged.joinpath("zoneinfo"), parts)


def _read_in(folder: Traversable, parts: list[str]) -> bytes | None:
    for part in parts:
        if not folder.is_dir() or part not in {one.name for one in folder.iterdir()}:  # some systems ignore case
            return None
        folder = folder.joinpath(part)
    data = folder.read_bytes() if folder.is_file() else b""
    return data if data.startswith(b"TZif") else None


_PART = re.compile(r"[\w+-]+", re.ASCII)
_NOT_LISTED = ("posix", "right", "posixrules")
"""Copies of the zones, and of one of them."""


@lru_cache(maxsize=1)
def _known_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _parse_tzif(data: bytes) -> tuple[list[tuple[int, int]], int, str]:
    """Transitions as (instant, offset after it), the offset before them, and the text of the last rule (RFC 9636)."""
    if data[:4] != b"TZif" or data[4:5] < b"2":
        raise TimezoneError("The time zone file is not in TZif version 2 or later.", field="timezone")
    second = 44 + _body_length(_counts(data, 0), 4)
    counts = _counts(data, second)
    _, _, _, times, types, _ = counts
    body = second + 44
    instants = struct.unpack_from(f">{times}q", data, body)
    kinds = data[body + 8 * times : body + 9 * times]
    offsets: list[int] = []
    is_dst: list[bool] = []
    for i in range(types):
        seconds, dst, _ = struct.unpack_from(">iBB", data, body + 9 * times + 6 * i)
        offsets.append(seconds * 1000)
        is_dst.append(bool(dst))
    standard = next((i for i, dst in enumerate(is_dst) if not dst), 0)
    footer = data[body + _body_length(counts, 8) :].strip(b"\n").decode("ascii")
    return [(at * 1000, offsets[kind]) for at, kind in zip(instants, kinds, strict=True)], offsets[standard], footer


def _counts(data: bytes, at: int) -> tuple[int, ...]:
    """isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt of the header at `at`."""
    return struct.unpack_from(">6l", data, at + 20)


def _body_length(counts: tuple[int, ...], width: int) -> int:
    isut, isstd, leap, times, types, chars = counts
    return times * (width + 1) + types * 6 + chars + leap * (width + 4) + isstd + isut


_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.+)", re.DOTALL)
_OF_RULE = re.compile(r"DTSTART;TZID=|DTSTART:\S{0,64}Z\b", re.IGNORECASE)
_OFFSET = re.compile(r"T\d\S{0,64}(Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)
_MAX_WORDS = 3
_PACIFIC, _MOUNTAIN, _CENTRAL, _EASTERN = "America/Los_Angeles", "America/Denver", "America/Chicago", "America/New_York"
_SHORT = {
    "utc": "UTC", "gmt": "UTC",
    "pst": _PACIFIC, "pdt": _PACIFIC, "pt": _PACIFIC, "mst": _MOUNTAIN, "mdt": _MOUNTAIN, "mt": _MOUNTAIN,
    "cst": _CENTRAL, "cdt": _CENTRAL, "ct": _CENTRAL, "est": _EASTERN, "edt": _EASTERN, "et": _EASTERN,
    "cet": "Europe/Paris", "cest": "Europe/Paris", "bst": "Europe/London", "jst": "Asia/Tokyo",
    "aest": "Australia/Sydney", "aedt": "Australia/Sydney",
}  # fmt: skip
_REGIONS = {"pacific": _PACIFIC, "mountain": _MOUNTAIN, "central": _CENTRAL, "eastern": _EASTERN,
            "uk": "Europe/London", "central european": "Europe/Paris"}  # fmt: skip
_AMBIGUOUS = {"ist": ("Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"), "ast": ("America/Halifax", "Asia/Riyadh")}


class ZonedText(NamedTuple):
    text: str
    """The rest of the text."""
    zone: str | None
    note: str | None = None


def split_zone(text: str) -> ZonedText:
    """The zone that a cron expression or an English phrase names, and the rest of the text."""
    before = _PREFIX.fullmatch(text)
    if before is not None:
        return ZonedText(before[2], before[1])
    words = text.split()
    if len(words) < 2 or not words[-1][-1].isalpha():
        return ZonedText(text, None)
    if words[-1].lower() == "time":
        return _of_place(text, words[:-1])
    last = words[-1]
    rest = " ".join(words[:-1])
    if last.lower() in _AMBIGUOUS:
        known = " or ".join(_AMBIGUOUS[last.lower()])
        message = f'"{last}" is the name of several time zones.'
        raise TimezoneError(message, value=last, field="timezone", hint=f"Write {known}.")
    short = _SHORT.get(last.lower())
    if short is not None:
        return ZonedText(rest, short, None if short == "UTC" else _note(last, short))
    if "/" in last and last[0].isalpha():
        found = _by_lower_case().get(last.lower())
        if found is not None:
            return ZonedText(rest, found)
    return ZonedText(text, None)


def names_zone(text: str) -> bool:
    """Whether the text decides its own zone: by a name, an offset, or the DTSTART of a rule."""
    if _OF_RULE.search(text) or _OFFSET.search(text.strip()):
        return True
    try:
        return split_zone(text.strip()).zone is not None
    except TimezoneError:
        return True  # the parser raises it again, for the right field


def _of_place(text: str, words: list[str]) -> ZonedText:
    """`… New York time`, `… Pacific time`: the longest name wins."""
    for count in range(min(_MAX_WORDS, len(words) - 1), 0, -1):
        place = " ".join(words[-count:])
        found = _SHORT.get(place.lower()) or _REGIONS.get(place.lower()) or _cities().get(place.lower())
        if found is not None:
            return ZonedText(" ".join(words[:-count]), found, _note(f"{place} time", found))
    return ZonedText(text, None)


def _note(said: str, zone: str) -> str:
    return f'"{said}" read as {zone}, with its clock changes'


@cache
def _by_lower_case() -> dict[str, str]:
    return {name.lower(): name for name in zoneinfo.available_timezones()}


@cache
def _cities() -> dict[str, str]:
    """Zones by the city in their name. A city in two zones, such as those of Indiana, has its zone in America."""
    names = sorted((name for name in zoneinfo.available_timezones() if "/" in name), key=lambda name: -name.count("/"))
    kept = [name for name in names if not name.startswith(("Etc/", "posix/", "right/", "SystemV/"))]
    return {name.rpartition("/")[2].replace("_", " ").lower(): name for name in kept}
