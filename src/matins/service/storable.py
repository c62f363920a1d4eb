"""Checks that a store can hold the arguments of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.engine.validation import UNSTORABLE
from matins.errors import InvalidInput

_MAX_INTEGER = 1 << 63


def check_storable(arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if name not in ("payload", "body"):  # stored as JSON, which can encode a NUL
            _check(name, value)


def _check(field: str, value: Any) -> None:
    if isinstance(value, str) and UNSTORABLE.search(value):
        shown = ascii(value)[:60]
        raise InvalidInput(
            f'"{field}" contains a NUL or half a character.', value=shown, field=field, hint="Remove it."
        )
    if isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise InvalidInput(f'"{field}" is too large a number.', value=value, field=field, hint="Use at most 64 bits.")
