"""Checks that a store can hold the arguments of a call."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

from matins.engine.validation import UNSTORABLE
from matins.errors import InvalidInput

_MAX_INTEGER = 1 << 63
_MAX_DEPTH = 100


def check_storable(arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if name in ("payload", "body"):  # stored as JSON, which can encode a NUL
            _check_json(name, value)
        else:
            _check(name, value)


def _check_json(field: str, value: Any, depth: int = 0) -> None:
    """Raise InvalidInput for a number that JSON does not have (NaN, or an infinity), and for deep nesting."""
    if depth > _MAX_DEPTH:
        message = f'"{field}" is nested deeper than {_MAX_DEPTH} levels.'
        raise InvalidInput(message, field=field, hint="Make it flatter.")
    if isinstance(value, float) and not isfinite(value):
        raise InvalidInput(
            f'"{field}" contains {value}, which JSON does not have.', value=str(value), field=field, hint="Use null."
        )
    inner: Any = cast("Any", value)
    if isinstance(value, dict):
        for item in inner.values():
            _check_json(field, item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in inner:
            _check_json(field, item, depth + 1)


def _check(field: str, value: Any) -> None:
    if isinstance(value, str) and UNSTORABLE.search(value):
        shown = ascii(value)[:60]
        raise InvalidInput(
            f'"{field}" contains a NUL or half a character.', value=shown, field=field, hint="Remove it."
        )
    if isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise InvalidInput(f'"{field}" is too large a number.', value=value, field=field, hint="Use at most 64 bits.")
