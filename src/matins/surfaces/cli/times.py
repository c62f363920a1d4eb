"""Instants as text: relative to now, and in local time."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from matins.surfaces.display import SIZES, amounts

_UNITS = ("d", "h", "m", "s")
_TWO_DAYS, _WEEK_S, _SEASON_S = 172_800, 6 * 86_400, 270 * 86_400


def now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def relative_time(text: str, at: datetime) -> str:
    """For example: in 3h, 2m ago, now."""
    seconds = round((instant(text) - at).total_seconds())
    if seconds == 0:
        return "now"
    length = duration(abs(seconds))
    return f"in {length}" if seconds > 0 else f"{length} ago"


def duration(seconds: float) -> str:
    """The duration in its largest unit; days only from two days on."""
    whole = round(seconds)
    for size, unit in zip(SIZES, _UNITS, strict=True):
        if whole >= (_TWO_DAYS if unit == "d" else size):
            return f"{whole // size}{unit}"
    return "0s"


def duration_text(milliseconds: int) -> str:
    """The duration in its two largest units; with a fraction below ten seconds."""
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.1f}s" if milliseconds >= 1000 else f"{milliseconds}ms"
    return two_units(milliseconds / 1000)


def two_units(seconds: float) -> str:
    """For example: 3d 8h, 45s."""
    return " ".join(amounts(seconds, _UNITS)[:2]) or "now"


def local(text: str, at: datetime) -> str:
    """The instant in local time, no longer than needed."""
    moment = instant(text).astimezone()
    gap = abs((moment - at).total_seconds())
    clock = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
    if gap < _WEEK_S:
        return clock if moment.date() == at.astimezone().date() else f"{moment:%a} {clock}"
    return f"{moment.day} {moment:%b} {clock}" if gap < _SEASON_S else f"{moment:%Y-%m-%d}"


def when(text: str | None, at: datetime) -> str:
    """For example: in 3h (09:00)."""
    return "–" if text is None else f"{relative_time(text, at)} ({local(text, at)})"


def full_time(text: str) -> str:
    moment = instant(text).astimezone()
    clock = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
    return f"{moment:%a %Y-%m-%d} {clock} {moment:%Z}"
