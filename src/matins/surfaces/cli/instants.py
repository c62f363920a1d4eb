"""Instants as people type them: on their own clock, in UTC, or so far from now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import click

from matins.errors import InstantError
from matins.surfaces.cli import times

_LENGTH = re.compile(r"(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Instant(click.ParamType[str]):
    """Becomes an ISO text with its offset; `ahead` takes 2h for two hours from now."""

    name = "instant"

    def __init__(self, *, ahead: bool) -> None:
        self._ahead = ahead

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return self._read(value.strip())
        except (ValueError, OverflowError):
            message = f'"{value}" is not an instant'
            raise InstantError(message, value=value, field=param and param.name, hint=self._hint(value)) from None

    def _read(self, text: str) -> str:
        length = _LENGTH.fullmatch(text) if text and self._ahead else None
        if length is not None:
            days, hours, minutes, seconds = (int(part or 0) for part in length.groups())
            return (times.now() + timedelta(days, seconds, 0, 0, minutes, hours)).isoformat()
        if _DATE.fullmatch(text):
            raise ValueError(text)
        return datetime.fromisoformat(text).astimezone().isoformat()

    def _hint(self, text: str) -> str:
        if _DATE.fullmatch(text.strip()):
            return f"say the time too: {text.strip()}T09:00"
        ways = "2026-12-31T18:00 on your own clock, or 2026-12-31T18:00:00Z"
        return f"2h, {ways}" if self._ahead else ways


AHEAD, ANY = Instant(ahead=True), Instant(ahead=False)
