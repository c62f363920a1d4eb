"""What no store can hold is refused at the door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.engine.validation import UNSTORABLE
from matins.errors import InvalidInput

_MAX_INTEGER = 1 << 63


def check_storable(arguments: Mapping[str, Any]) -> None:
    for word, value in arguments.items():
        if word != "payload":  # kept as JSON, which has a way to write a NUL
            _check(word, value)


def _check(field: str, value: Any) -> None:
    if isinstance(value, str) and UNSTORABLE.search(value):
        shown = ascii(value)[:60]
        raise InvalidInput(
            f'"{field}" contains a NUL or half a character.', value=shown, field=field, hint="Remove it."
        )
    if isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise InvalidInput(f'"{field}" is too large a number.', value=value, field=field, hint="Use at most 64 bits.")
