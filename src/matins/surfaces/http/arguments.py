"""The arguments of a use case from a request: its path, its query and its body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl

import orjson

from matins.api.arguments import argument_kind
from matins.api.paging import decode_cursor
from matins.api.use_case import UseCase
from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.surfaces.http.problem_json import HttpError

_MAX_DEPTH = 100
_MAX_PAIRS = 200
_CURSOR = "cursor"


def read_request(use_case: UseCase, path: Mapping[str, str], query: bytes, body: bytes) -> dict[str, Any]:
    """The arguments of a request. This checks only where each may be; the service checks the values."""
    outer = _read_query(use_case, query)
    inner = _read_body(use_case, body) if body else {}
    for name in inner:
        if name in path or name in use_case.in_query or name == use_case.revision:
            where = "path" if name in path else "If-Match header" if name == use_case.revision else "query"
            message = f'"{name}" belongs in the {where}.'
            raise InvalidInput(message, field=name, hint="Remove it from the body.")
    return {**inner, **outer, **path}


def _read_query(use_case: UseCase, text: bytes) -> dict[str, Any]:
    if not text:
        return {}
    allowed = [*use_case.in_query, *([_CURSOR] if use_case.page else [])]
    given: dict[str, Any] = {}
    for name, value in _pairs(text):
        if name not in allowed:
            hint = nearest(name, allowed)
            raise InvalidInput(f'There is no parameter "{name[:60]}" here.', field=name[:60], hint=hint)
        read = value if name == _CURSOR else argument_kind(use_case.parameters[name].annotation).from_text(name, value)
        if isinstance(read, list):
            given.setdefault(name, []).extend(read)
        elif name in given:
            raise InvalidInput(f'"{name}" is given twice.', field=name, hint="Give it once.")
        else:
            given[name] = read
    cursor = given.pop(_CURSOR, None)
    if cursor is None:
        return given
    place = decode_cursor(use_case, cursor)
    if place.keys() & given.keys():
        field = next(iter(place))
        raise InvalidInput(f'"cursor" and "{field}" say the same.', field=field, hint="Omit one of them.")
    return {**given, **place}


def _read_body(use_case: UseCase, body: bytes) -> dict[str, Any]:
    if not use_case.has_body:
        return {}
    data = read_json(body)
    if not isinstance(data, dict):
        raise InvalidInput("The body must be a JSON object.", field="body", hint='For example: {"name": …}.')
    return cast("dict[str, Any]", data)


def read_json(body: bytes) -> Any:
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        hint = "Check quotes and commas."
        raise HttpError(400, "invalid_json", f"The body is not JSON: {error}", hint=hint) from None
    if body.count(b"[") + body.count(b"{") > _MAX_DEPTH and _deeper(data, _MAX_DEPTH):
        message = f"The body is nested deeper than {_MAX_DEPTH} levels."
        raise InvalidInput(message, field="body", hint="Make it flatter.")
    return data


def _deeper(value: Any, depth: int) -> bool:
    parts: Iterable[Any] = ()
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        parts = cast("list[Any]", value)
    return depth < 0 or any(_deeper(part, depth - 1) for part in parts)


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_PAIRS, errors="strict")
    except ValueError:
        hint = "Percent-encode it as UTF-8."
        raise InvalidInput("The query cannot be read.", field="query", hint=hint) from None
