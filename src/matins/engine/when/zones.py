"""Time zones as integer tables: each offset with its start and end.

`zoneinfo` computes one instant at a time and hides its transitions; the engine needs the periods between them.
The periods come from the files of `zoneinfo`. The file's last rule extends them as far as needed.
"""

from __future__ import annotations

import difflib
import hashlib
import struct
import zoneinfo
from bisect import bisect_right
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from matins.engine.when.days import FIRST_DAY, LAST_DAY
from matins.engine.when.durations import DAY_MS
from matins.engine.when.zone_rules import parse_zone_rule
from matins.errors import TimezoneError

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
        """The zone with this name, as the data of a TZif file tell it."""
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
    if name not in _known_names():
        close = _same_ending(name) or difflib.get_close_matches(name, _known_names(), n=1, cutoff=0.6)
        hint = f'Did you mean "{close[0]}"?' if close else 'Use an IANA name such as "Europe/London", or "UTC".'
        raise TimezoneError(f'Unknown time zone "{name}".', value=name, field="timezone", hint=hint)
    for folder in zoneinfo.TZPATH:
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes()
    return resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()


@lru_cache(maxsize=1)
def _known_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _same_ending(name: str) -> list[str]:
    """Names that end in the given text, in any case: `london`, `new york`."""
    wanted = "/" + name.replace(" ", "_").casefold()
    return sorted(known for known in _known_names() if f"/{known}".casefold().endswith(wanted))


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
