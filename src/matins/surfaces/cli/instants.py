"""Instants as options: in local time, in UTC, or as a duration from now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import click

from matins.errors import InstantError
from matins.surfaces.cli import times
from matins.surfaces.cli.context import CliContext

_LENGTH = re.compile(r"(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")


class Instant(click.ParamType[str]):
    """A click type that returns an ISO text with an offset."""

    name = "instant"

    def __init__(self, *, future: bool = False, zoned: bool = False) -> None:
        """`future` accepts 2h for two hours from now. `zoned` leaves any other text to the service, for its zone."""
        self._future = future
        self._zoned = zoned

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        # What is counted from now is shown as counted from the same instant: "in 2h", not "in 1h".
        context = ctx.find_object(CliContext) if ctx is not None else None
        try:
            return self._read(value.strip(), times.now() if context is None else context.now)
        except (ValueError, OverflowError):
            message = f'"{value}" is not an instant.'
            raise InstantError(message, value=value, field=param and param.name, hint=self._hint(value)) from None

    def _read(self, text: str, now: datetime) -> str:
        length = _LENGTH.fullmatch(text) if text and self._future else None
        if length is not None:
            return _iso(now + _length(length))
        if self._zoned:
            return text
        if _DATE.fullmatch(text):
            raise ValueError(text)
        return _iso(datetime.fromisoformat(text).astimezone())

    def _hint(self, text: str) -> str:
        if _DATE.fullmatch(text.strip()):
            return f"Add the time: {text.strip()}T09:00"
        ways = "2026-12-31T18:00 for your own clock, or 2026-12-31T18:00:00Z."
        return f"Use 2h, {ways}" if self._future else f"Use {ways}"


class Seconds(click.ParamType[float]):
    """A click type for a length of time: a number of seconds, or 3s, 2m, 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        length = _LENGTH.fullmatch(text) if text else None
        if length is not None:
            return _length(length).total_seconds()
        if _NUMBER.fullmatch(text):
            return float(text)
        return self.fail(f'"{value}" is not a length of time. Use 90s, 5m or 1h30m.', param, ctx)


def _length(found: re.Match[str]) -> timedelta:
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days, seconds, 0, 0, minutes, hours)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")


FUTURE, ANY = Instant(future=True), Instant()
SECONDS = Seconds()
ZONED = Instant(future=True, zoned=True)
"""For a record with its own time zone: instants without an offset are in that zone."""
