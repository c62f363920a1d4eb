"""What a route takes, from the signature of its use case: read, checked by type, and described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Annotated, Any, cast, get_type_hints
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, create_model

from matins.errors import InvalidInput
from matins.service import Service
from matins.service.documents import ID_ARGUMENTS, INSTANT_ARGUMENTS
from matins.surfaces.door import parameters_of
from matins.surfaces.http.problems import Refused
from matins.surfaces.http.words import WHEN, WORDS
from matins.surfaces.pages import decode_cursor
from matins.surfaces.routes import PAGES, Route

_DEEPEST = 100
_MOST_PAIRS = 200
_ID = {"type": "string", "pattern": "^[0-9]{1,18}$"}
_INSTANT = {"type": "string", "format": "date-time"}
_BY_NAME: dict[str, Any] = {
    **{name: Annotated[Any, WithJsonSchema(_ID)] for name in ID_ARGUMENTS},
    **{name: Annotated[Any, WithJsonSchema(_INSTANT)] for name in INSTANT_ARGUMENTS},
    "when": Annotated[str, WithJsonSchema(WHEN)],
    "types": list[str] | str,
}
_BY_USE_CASE: dict[tuple[str, str], Any] = {
    ("deliveries", "after"): str,
    ("next_times", "after"): Annotated[str, WithJsonSchema(_INSTANT)],
}
_LIMIT = Annotated[int, Field(ge=1, le=1000)]
_NOT_REPEATED = frozenset({"secret"})
"""Answers are kept for whoever asks twice."""
_HEADERS_SAY = frozenset({"if_rev"})


class Inputs:
    """Of one route: what stands in its path, its query and its body."""

    def __init__(self, route: Route) -> None:
        known, self.free = parameters_of(route.use_case)
        here = {name: p for name, p in known.items() if name not in _HEADERS_SAY}
        inner = (
            {n for n in here if n not in route.in_path and n not in route.in_query} if route.has_body else set[str]()
        )
        outer = [name for name in here if name not in inner and name not in route.in_path]
        self.route = route
        self.paged = route.use_case in PAGES
        self._outer = frozenset([*outer, "cursor"] if self.paged else outer)
        self.query = _model(route, {name: here[name] for name in outer}, {}, cursor=self.paged)
        words = WORDS.get(route.use_case, {})
        self.body = _model(route, {n: p for n, p in here.items() if n in inner}, words) if route.has_body else None
        self._lists = frozenset(name for name in outer if name == "types")

    def read(self, path: Mapping[str, str], query: bytes, body: bytes) -> dict[str, Any]:
        """The arguments of the use case."""
        said = self._query(query)
        inner = self._body(body)
        for name in inner:
            if name in path or name in self._outer:
                where = "path" if name in path else "query"
                raise InvalidInput(f'"{name}" stands in the {where}', field=name, hint="take it out of the body")
        return {**inner, **said, **path}

    def _query(self, text: bytes) -> dict[str, Any]:
        if not text:
            return {}
        pairs = _pairs(text)
        given: dict[str, Any] = {}
        for name, value in pairs:
            if name not in self._outer:
                known = ", ".join(sorted(self._outer)) or "none"
                raise InvalidInput(f'There is no parameter "{name}" here', field=name[:60], hint=f"known: {known}")
            if name in self._lists:
                given.setdefault(name, []).extend(value.split(","))
            elif name in given:
                raise InvalidInput(f'"{name}" is there twice', field=name, hint="once is enough")
            else:
                given[name] = value
        checked = _checked(self.query, given, strict=False)
        said = {name: getattr(checked, name) for name in given}
        cursor = said.pop("cursor", None)
        if cursor is None:
            return said
        place = decode_cursor(self.route.use_case, cursor)
        if place.keys() & said.keys():
            raise InvalidInput('"cursor" says where to go on already', field=next(iter(place)), hint="leave it out")
        return {**said, **place}

    def _body(self, body: bytes) -> dict[str, Any]:
        if self.body is None or not body:
            return {}
        data = read_json(body)
        if not isinstance(data, dict):
            raise InvalidInput("The body must be a JSON object", field="body", hint='{"name": …}')
        _checked(self.body, cast("dict[str, Any]", data), strict=True)
        return cast("dict[str, Any]", data)


def read_json(body: bytes) -> Any:
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refused(
            400, "unreadable_json", f"The body is not JSON: {error}", hint="check quotes and commas"
        ) from None
    if body.count(b"[") + body.count(b"{") > _DEEPEST and _deeper(data, _DEEPEST):
        raise InvalidInput(f"The body is nested deeper than {_DEEPEST}", field="body", hint="make it flatter")
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
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_PAIRS, errors="strict")
    except ValueError:
        raise InvalidInput("The query cannot be read", field="query", hint="percent-encode it as UTF-8") from None


def _model(
    route: Route, parameters: Mapping[str, Parameter], words: Mapping[str, Any], *, cursor: bool = False
) -> type[BaseModel]:
    hints = get_type_hints(_function(route.use_case))
    fields: dict[str, Any] = {}
    for name, parameter in parameters.items():
        usual = ... if parameter.default is Parameter.empty else parameter.default
        fields[name] = (_type(route.use_case, name, hints[name], optional=usual is None), usual)
    for word, schema in words.items():
        fields[word] = (Annotated[Any, WithJsonSchema(schema)], None)
    if cursor:
        fields["cursor"] = (str | None, Field(None, description="`next` of the page before"))
    title = "".join(part.capitalize() for part in route.use_case.split("_"))
    return create_model(title, __config__=ConfigDict(extra="allow"), **fields)


def _type(use_case: str, name: str, hint: Any, *, optional: bool) -> Any:
    if name == "limit" and hint is int and (use_case in PAGES or use_case == "upcoming"):
        return _LIMIT
    named = _BY_USE_CASE.get((use_case, name), _BY_NAME.get(name))
    if named is None:
        return hint
    return named | None if optional else named


def _function(use_case: str) -> Any:
    return Service.next_fires if use_case == "next_times" else getattr(Service, use_case)


def _checked(model: type[BaseModel], data: dict[str, Any], *, strict: bool) -> BaseModel:
    try:
        return model.model_validate(data, strict=strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"][:1]))
        if first["type"] == "missing":
            raise InvalidInput(f'"{field}" is missing', field=field, hint="see /openapi.json") from None
        value = None if field in _NOT_REPEATED else first["input"]
        allowed = first["msg"].removeprefix("Input should be ")
        message = f'"{field}" must be {allowed}'
        raise InvalidInput(message, value=value, field=field, allowed=allowed, hint="see /openapi.json") from None
