"""The API in OpenAPI 3.1: each route by what it takes and answers."""

from __future__ import annotations

from functools import cache
from inspect import getdoc
from typing import Any, NamedTuple, cast

from matins.service import Service
from matins.surfaces.http.arguments import Inputs
from matins.surfaces.http.shapes import Shapes
from matins.surfaces.routes import ROUTES, Route

Schema = dict[str, Any]
_PROBLEM: Schema = {
    "description": "What is wrong, and how to mend it.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    "description": "The same key and request within 24 hours: the same answer, done once.",
}
_IF_MATCH: Schema = {
    "name": "If-Match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "The ETag of what you read, or *.",
}
_IF_NONE_MATCH: Schema = {
    "name": "If-None-Match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "* makes a new one, or nothing.",
}
_PATH_ID: Schema = {"type": "string", "pattern": "^[0-9]{1,18}$"}


class Described(NamedTuple):
    route: Route
    inputs: Inputs
    told: Schema
    """What FastAPI is told beside the path."""


@cache
def described_routes() -> tuple[list[Described], dict[str, Schema]]:
    """Of every route, and the schemas that they refer to: the same for every server of this process."""
    shapes = Shapes()
    routes = [Described(route, inputs := Inputs(route), described(route, inputs, shapes)) for route in ROUTES]
    return routes, dict(sorted(shapes.components.items()))


def described(route: Route, inputs: Inputs, shapes: Shapes) -> Schema:
    says = getdoc(getattr(Service, route.use_case)) or ""
    extra: Schema = {"parameters": [*_path(route), *_query(inputs), *_headers(route)]}
    if inputs.body is not None:
        schema = {**_plain(inputs.body.model_json_schema()), "additionalProperties": False}
        content = {"application/json": {"schema": schema}}
        extra["requestBody"] = {"required": bool(schema.get("required")), "content": content}
    return {
        "operation_id": route.use_case,
        "summary": route.use_case.replace("_", " ").capitalize(),
        "description": says,
        "tags": [route.path.split("/")[2]],
        "status_code": route.status,
        "responses": {route.status: _answer(shapes.answer(route)), "default": _PROBLEM},
        "openapi_extra": extra,
    }


def _answer(schema: Schema | None) -> Schema:
    if schema is None:
        return {"description": "Done."}
    return {"description": "As asked.", "content": {"application/json": {"schema": schema}}}


def _path(route: Route) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATH_ID if _is_id(name) else {"type": "string"}}
        for name in route.in_path
    ]


def _is_id(name: str) -> bool:
    return name in ("run_id", "approval_id", "thread_id")


def _query(inputs: Inputs) -> list[Schema]:
    schema = _plain(inputs.query.model_json_schema())
    needed = schema.get("required", [])
    found: list[Schema] = []
    for name, part in schema.get("properties", {}).items():
        says = part.pop("description", None)
        parameter = {"name": name, "in": "query", "required": name in needed, "schema": _without_null(part)}
        found.append(parameter if says is None else {**parameter, "description": says})
    return found


def _without_null(schema: Schema) -> Schema:
    """In a query nothing is null: it is there or not."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    rest = {word: value for word, value in schema.items() if word != "anyOf" and (word, value) != ("default", None)}
    if len(kinds) == 1:
        return {**kinds[0], **rest}
    return {**rest, "anyOf": kinds} if kinds else rest


def _headers(route: Route) -> list[Schema]:
    if route.method == "PATCH":
        return [{**_IF_MATCH, "required": True}]
    return {"POST": [_KEY], "PUT": [_IF_MATCH, _IF_NONE_MATCH]}.get(route.method, [])


def _plain(schema: Any) -> Any:
    """Without the titles that pydantic makes up, and without defaults of nothing."""
    if isinstance(schema, list):
        return [_plain(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    kept: Schema = {}
    for word, value in cast("Schema", schema).items():
        if word == "properties":
            kept[word] = {name: _plain(part) for name, part in value.items()}
        elif word != "title" and (word, value) != ("default", None):
            kept[word] = _plain(value)
    return kept


def _text(says: str, media: str) -> Schema:
    return {"description": says, "content": {media: {"schema": {"type": "string"}}}}


_TROUBLES: Schema = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}, "troubles": {"type": "array", "items": {"type": "string"}}},
    "required": ["ready", "troubles"],
}
_AFTER: Schema = {
    "name": "after",
    "in": "query",
    "schema": _PATH_ID,
    "description": "The last event that you have had.",
}
_LAST: Schema = {**_AFTER, "name": "Last-Event-ID", "in": "header"}
_TYPES: Schema = {
    "name": "types",
    "in": "query",
    "schema": {"type": "array", "items": {"type": "string"}},
    "description": "Only these.",
}
_CODE: Schema = {"name": "code", "in": "query", "required": True, "schema": {"type": "string"}}
_OPEN: Schema = {"security": []}


def _beside(name: str, says: str, answer: Schema, **extra: Any) -> Schema:
    status = extra.pop("status", 200)
    return {
        "operation_id": name,
        "summary": name.capitalize(),
        "description": says,
        "tags": ["server"],
        "status_code": status,
        "responses": {status: answer, "default": _PROBLEM},
        "openapi_extra": extra,
    }


BESIDE: dict[tuple[str, str], Schema] = {
    ("GET", "/v1/events/stream"): _beside(
        "stream",
        "Events as they happen, and those since Last-Event-ID.",
        _text("Server-sent events.", "text/event-stream"),
        parameters=[_AFTER, _LAST, _TYPES],
    ),
    ("GET", "/livez"): _beside("livez", "Whether the server answers.", _text("It does.", "text/plain"), **_OPEN),
    ("GET", "/readyz"): _beside(
        "readyz", "Whether it keeps up; 503 and why where it does not.", _answer(_TROUBLES), **_OPEN
    ),
    ("GET", "/metrics"): _beside("metrics", "Figures for Prometheus.", _text("Figures.", "text/plain")),
    ("GET", "/openapi.json"): _beside("openapi", "This document.", _answer({"type": "object"})),
    ("GET", "/login"): _beside(
        "login",
        "A one-time link: opens a session for a browser.",
        _text("A page.", "text/html"),
        parameters=[_CODE],
        **_OPEN,
    ),
    ("POST", "/logout"): _beside("logout", "Ends the session of a browser.", _answer(None), status=204),
}
"""What is no use case."""
SECURITY: Schema = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token: mtn_…"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "matins_session",
        "description": "Of a browser; what changes something needs X-Matins-CSRF as well.",
    },
}
