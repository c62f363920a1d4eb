"""Checks that a store can hold the arguments of a call."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

from matins.engine.validation import UNSTORABLE
from matins.errors import InvalidInput

_MAX_INTEGER = 1 << 63


def check_storable(arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if name in ("payload", "body"):  # stored as JSON, which can encode a NUL
            _check_finite(name, value)
        else:
            _check(name, value)


def _check_finite(field: str, value: Any) -> None:
    """Raise InvalidInput for a number that JSON does not have: NaN, or an infinity."""
    if isinstance(value, float) and not isfinite(value):
        raise InvalidInput(
            f'"{field}" contains {value}, which JSON does not have.', value=str(value), field=field, hint="Use null."
        )
    inner: Any = cast("Any", value)
    if isinstance(value, dict):
        for item in inner.values():
            _check_finite(field, item)
    elif isinstance(value, (list, tuple)):
        for item in inner:
            _check_finite(field, item)


def _check(field: str, value: Any) -> None:
    if isinstance(value, str) and UNSTORABLE.search(value):
        shown = ascii(value)[:60]
        raise InvalidInput(
            f'"{field}" contains a NUL or half a character.', value=shown, field=field, hint="Remove it."
        )
    if isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise InvalidInput(f'"{field}" is too large a number.', value=value, field=field, hint="Use at most 64 bits.")
