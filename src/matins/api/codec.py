"""Results to JSON and back.

Payloads on their way to another process. Quick to load: every client of the API does.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import msgspec

from matins.api import _results, results
from matins.api.use_case import UseCase
from matins.errors import StoreUnavailable

_encoder = msgspec.json.Encoder()


def encode(result: Any) -> bytes:
    return _encoder.encode(result)


def to_document(result: Any) -> Any:
    """A result as JSON data."""
    return msgspec.to_builtins(result)


def convert(use_case: UseCase, document: Any) -> Any:
    """The typed result of a use case, from JSON data."""
    try:
        return msgspec.convert(document, result_type(use_case))
    except msgspec.ValidationError as error:
        message = f"The result of {use_case.name} cannot be read: {error}."
        raise StoreUnavailable(message, hint="Use the same version of Matins on both sides.") from None


def result_type(use_case: UseCase) -> Any:
    return _type(use_case.returns)


@cache
def _type(annotation: str) -> Any:
    return eval(annotation, {"builtins": builtins, **vars(results), **vars(_results)})


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
