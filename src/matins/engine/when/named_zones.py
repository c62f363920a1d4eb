"""Time zones that the text of a trigger names: `TZ=Europe/London 0 9 * * *`, "every day at 9am New York time"."""

from __future__ import annotations

import re
import zoneinfo
from functools import cache
from typing import NamedTuple

from matins.errors import TimezoneError

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
    return _of_word(text, words)


def names_zone(text: str) -> bool:
    """Whether the text decides its own zone: by a name, an offset, or the DTSTART of a rule."""
    if _OF_RULE.search(text) or _OFFSET.search(text.strip()):
        return True
    try:
        return split_zone(text.strip()).zone is not None
    except TimezoneError:
        return True  # the parser raises it again, for the right field


def _of_word(text: str, words: list[str]) -> ZonedText:
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
