"""Results to JSON and back."""

from __future__ import annotations

import builtins
from functools import cache
from typing import Any

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
