"""The OpenAPI 3.1 document, from the declarations: `python -m matins.surfaces.http.openapi` prints it."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from functools import cache
from typing import Any, get_args

import msgspec
import orjson

import matins.api.schedules as _all_use_cases  # noqa: F401 # pyright: ignore[reportUnusedImport]
from matins._version import __version__
from matins.api import _results, results
from matins.api.arguments import ID, WHEN, argument_kind
from matins.api.codec import result_type
from matins.api.schema import Schema, body_properties
from matins.api.use_case import USE_CASES, Parameter, UseCase
from matins.engine.schedules import SETTINGS
from matins.records import record_kinds

_ABOUT = "Wakes AI agents on time: schedules, runs, approvals and what governs them."
_PROBLEM: Schema = {
    "description": "What is wrong, and how to fix it.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def _header(name: str, description: str, **schema: Any) -> Schema:
    return {"name": name, "in": "header", "schema": {"type": "string", **schema}, "description": description}


_KEY = _header(
    "Idempotency-Key",
    "The same key and request within 24 hours: the same response, done once.",
    minLength=1,
    maxLength=200,
)
_IF_MATCH = _header("If-Match", "The ETag of what you read, or *.")
_IF_NONE_MATCH = _header("If-None-Match", "* creates a new record, or fails.")
_IF_CHANGED = _header("If-None-Match", "The ETag of what you have: 304 while it is unchanged.")
_CURSOR: Schema = {
    "name": "cursor",
    "in": "query",
    "required": False,
    "schema": {"type": "string"},
    "description": "`next` of the page before.",
}
_TEXT: Schema = {"type": "string"}
_PROBLEM_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("type", "title", "detail", "code", "instance", "field", "allowed", "hint"), _TEXT),
        "status": {"type": "integer"},
        "value": {"description": "The value given, shortened."},
        "example": {"type": "object", "description": "The settings in the hint."},
    },
    "required": ["type", "title", "detail", "code", "instance", "status"],
}
SECURITY: Schema = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token: mtn_…"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "matins_session",
        "description": "Of a browser; requests that change something need X-Matins-CSRF as well.",
    },
}


@cache
def openapi() -> Schema:
    """The document, which is the same for every server of this process."""
    shown = [use_case for use_case in USE_CASES.values() if use_case.status != 204]
    schemas, components = msgspec.json.schema_components(
        [result_type(use_case) for use_case in shown], ref_template="#/components/schemas/{name}"
    )
    for name, component in components.items():
        _add_formats(component, vars(_results).get(name) or vars(results)[name])
    by_name = {use_case.name: schema for use_case, schema in zip(shown, schemas, strict=True)}
    paths: dict[str, Schema] = {}
    for (method, path), operation in SERVER_ROUTES.items():
        paths.setdefault(path, {})[method.lower()] = operation
    for use_case in USE_CASES.values():
        path = use_case.path.replace(":path}", "}")
        paths.setdefault(path, {})[use_case.method.lower()] = _operation(use_case, by_name.get(use_case.name))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Matins", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": dict(sorted({**components, "Problem": _PROBLEM_SCHEMA}.items())),
            "securitySchemes": SECURITY,
        },
        "security": [{name: []} for name in SECURITY],
    }


def openapi_text() -> bytes:
    return orjson.dumps(openapi(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _add_formats(component: Schema, kind: Any) -> None:
    """Mark the strings that are instants."""
    for field in msgspec.structs.fields(kind):
        schema = component["properties"][field.encode_name]
        kinds = get_args(field.type) or (field.type,)
        if datetime in kinds:
            place = schema["anyOf"][kinds.index(datetime)] if "anyOf" in schema else schema.get("items", schema)
            place["format"] = "date-time"


def _operation(use_case: UseCase, result: Schema | None) -> Schema:
    operation: Schema = {
        "operationId": use_case.name,
        "summary": _in_json(use_case, use_case.help),
        "description": _in_json(use_case, use_case.description),
        "tags": [use_case.noun],
        "parameters": [*_path(use_case), *_query(use_case), *_headers(use_case)],
    }
    if use_case.has_body:
        schema = body_schema(use_case)
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": bool(schema.get("required")), "content": content}
    operation["responses"] = {str(use_case.status): _success(result), "default": _PROBLEM}
    if use_case.method == "GET":
        operation["responses"]["304"] = {"description": "Unchanged."}
    return operation


def _in_json(use_case: UseCase, text: str) -> str:
    """The description with JSON terms instead of Python's."""
    text = re.sub(r"\bNone\b", "null", text)
    return text.replace("False when", "404 when") if use_case.method == "DELETE" else text


def body_schema(use_case: UseCase) -> Schema:
    """The schema of a body: arguments, and settings."""
    outside = {*use_case.in_path, *use_case.query, use_case.revision}
    inside = {name: p for name, p in use_case.parameters.items() if name not in outside}
    properties = {name: _argument(parameter) for name, parameter in inside.items()}
    required = [name for name, parameter in inside.items() if parameter.required]
    if use_case.settings == "schedule":
        more = {"when": WHEN} if use_case.verb != "add" else {}
        properties |= more | body_properties(SETTINGS)
    elif use_case.settings is not None:
        table = record_kinds()[use_case.settings].table
        properties |= body_properties(table)
        required += [n for n, d in table.items() if d.setting.required and use_case.verb == "set"]
    if use_case.verb in ("edit", "preview_edit"):
        properties = {name: _nullable(schema) for name, schema in properties.items()}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _argument(parameter: Parameter) -> Schema:
    schema = dict(argument_kind(parameter.annotation).schema)
    if parameter.required or parameter.default is None:
        return schema if parameter.required else _nullable(schema)
    return {**schema, "default": parameter.default}


def _nullable(schema: Schema) -> Schema:
    kept = {name: schema[name] for name in ("description", "examples") if name in schema}
    rest = {name: value for name, value in schema.items() if name not in kept}
    return {**kept, "anyOf": [*rest.get("anyOf", [rest]), {"type": "null"}]} if rest else schema


def _path(use_case: UseCase) -> list[Schema]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": argument_kind(use_case.parameters[name].annotation).schema,
        }
        for name in use_case.in_path
    ]


def _query(use_case: UseCase) -> list[Schema]:
    found = [_query_parameter(use_case.parameters[name]) for name in use_case.in_query]
    return [*found, _CURSOR] if use_case.page else found


def _query_parameter(parameter: Parameter) -> Schema:
    schema = dict(argument_kind(parameter.annotation).schema)
    if not parameter.required and parameter.default is not None:
        schema["default"] = parameter.default
    return {"name": parameter.name, "in": "query", "required": parameter.required, "schema": schema}


def _headers(use_case: UseCase) -> list[Schema]:
    if use_case.method == "PATCH":
        return [{**_IF_MATCH, "required": True}]
    if use_case.method in ("PUT", "DELETE"):
        readable = any((other.method, other.path) == ("GET", use_case.path) for other in USE_CASES.values())
        return [_IF_MATCH, *([_IF_NONE_MATCH] if use_case.method == "PUT" else [])] if readable else []
    return [_KEY] if use_case.method == "POST" else [_IF_CHANGED]


def _success(schema: Schema | None) -> Schema:
    if schema is None:
        return {"description": "Done."}
    if schema.get("type") == "array":
        following = {"anyOf": [_TEXT, {"type": "null"}], "description": "The cursor of the next page."}
        schema = {"type": "object", "properties": {"items": schema, "next": following}, "required": ["items", "next"]}
    return {"description": "The result.", "content": {"application/json": {"schema": schema}}}


def _text(description: str, media: str) -> Schema:
    return {"description": description, "content": {media: {"schema": _TEXT}}}


_LOGIN_FORM = {
    "required": True,
    "content": {
        "application/x-www-form-urlencoded": {
            "schema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
        }
    },
}


def _server(name: str, description: str, success: Schema, *, status: int = 200, **extra: Any) -> Schema:
    return {
        "operationId": name,
        "summary": description,
        "description": description,
        "tags": ["server"],
        **extra,
        "responses": {str(status): success, "default": _PROBLEM},
    }


_READY: Schema = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}, "problems": {"type": "array", "items": _TEXT}},
    "required": ["ready", "problems"],
}
_AFTER: Schema = {"name": "after", "in": "query", "schema": ID, "description": "The last event that you received."}
_TYPES: Schema = {
    "name": "types",
    "in": "query",
    "schema": {"type": "array", "items": _TEXT},
    "description": "Types of events; default: all.",
}


def _form(*names: str) -> Schema:
    fields: Schema = {"type": "object", "properties": dict.fromkeys(names, _TEXT), "required": list(names)}
    return {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": fields}}}


_CODE: Schema = {"name": "code", "in": "query", "required": True, "schema": _TEXT}
SERVER_ROUTES: dict[tuple[str, str], Schema] = {
    ("GET", "/v1/events/stream"): _server(
        "events.follow",
        "Stream events as they happen, and those since Last-Event-ID.",
        _text("Server-sent events.", "text/event-stream"),
        parameters=[_AFTER, {**_AFTER, "name": "Last-Event-ID", "in": "header"}, _TYPES],
    ),
    ("GET", "/livez"): _server(
        "livez", "Tell whether the server answers.", _text("It does.", "text/plain"), security=[]
    ),
    ("GET", "/readyz"): _server(
        "readyz", "Tell whether the engine keeps up; 503 and why where it does not.", _success(_READY), security=[]
    ),
    ("GET", "/metrics"): _server("metrics", "Get metrics for Prometheus.", _text("Metrics.", "text/plain")),
    ("GET", "/openapi.json"): _server("openapi", "Get this document.", _success({"type": "object"})),
    ("GET", "/login"): _server(
        "login_page", "Show the button of a one-time link.", _text("A page.", "text/html"),
        parameters=[_CODE], security=[],
    ),
    ("POST", "/login"): _server(
        "login", "Open a session for a browser by the code of a one-time link.", _text("A page.", "text/html"),
        requestBody=_LOGIN_FORM, security=[],
    ),
    ("POST", "/login/email"): _server(
        "login_email", "Mail a link to the person of an address, if there is one.", _success({"type": "object"}),
        status=202, requestBody=_form("email"), security=[],
    ),
    ("POST", "/login/password"): _server(
        "login_password", "Open a session for a browser by a name, or an address, and the password.",
        _text("A page.", "text/html"), status=303, requestBody=_form("name", "password"), security=[],
    ),
    ("GET", "/login/provider"): _server(
        "login_provider", "Send a browser to the provider that signs in.", _text("The provider.", "text/html"),
        status=303, security=[],
    ),
    ("GET", "/login/provider/callback"): _server(
        "login_provider_callback", "Open a session for a browser that the provider sends back.",
        _text("A page.", "text/html"), status=303, security=[],
        parameters=[{**_CODE, "required": False}, {"name": "state", "in": "query", "schema": _TEXT}],
    ),
    ("POST", "/logout"): _server("logout", "End the session of a browser.", _success(None), status=204),
}  # fmt: skip
"""The routes that are no use cases."""


if __name__ == "__main__":
    sys.stdout.buffer.write(openapi_text())
