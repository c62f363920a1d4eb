"""Payloads on their way to another process. Quick to load: every client of the API does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast


def check_payloads(arguments: Any) -> None:
    """Raise InvalidInput for a payload that would be another one after its way as JSON, in arguments of any depth."""
    if isinstance(arguments, Mapping):
        for name, value in cast("Mapping[str, Any]", arguments).items():
            if name == "payload":
                from matins.engine.validation import check_json  # most calls have no payload

                check_json(name, value)
            else:
                check_payloads(value)
    elif isinstance(arguments, (list, tuple)):
        for item in cast("Sequence[Any]", arguments):
            check_payloads(item)
