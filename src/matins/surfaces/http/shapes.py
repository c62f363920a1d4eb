"""What use cases answer, as JSON Schema: read off the types that they return, by the rules of `documents`."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from matins.model.run import RunState
from matins.model.schedule import ScheduleState
from matins.service import Service
from matins.service.documents import IDS, INSTANTS
from matins.surfaces.routes import Route

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
_TRUTH: Schema = {"type": "boolean"}
_OBJECT: Schema = {"type": "object"}
ID: Schema = {"type": "string", "pattern": "^[0-9]+$"}
INSTANT: Schema = {"type": "string", "format": "date-time"}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


_STATE: Schema = {"type": "string", "enum": list(get_args(ScheduleState))}
_SCHEDULE: dict[str, Schema] = {
    "id": ID,
    **dict.fromkeys(("name", "agent"), _TEXT),
    "state": _STATE,
    "enabled": _TRUTH,
    "rev": _NUMBER,
    "trigger": _OBJECT,
    "timezone": _TEXT,
    "do": _TEXT,
    "prompt": _maybe(_TEXT),
    "about": _maybe(_TEXT),
    "labels": {"type": "object", "additionalProperties": _TEXT},
    **dict.fromkeys(("next_run_at", "due_at", "ends_at"), _maybe(INSTANT)),
    **dict.fromkeys(("note", "paused_by"), _maybe(_TEXT)),
    **dict.fromkeys(("paused_at", "paused_until"), _maybe(INSTANT)),
    "executions": _NUMBER,
    "max_executions": _maybe(_NUMBER),
    "failures": _NUMBER,
    "created_at": INSTANT,
    **dict.fromkeys(("created_by", "creator_role"), _TEXT),
    **dict.fromkeys(("creator_run", "parent"), _maybe(ID)),
    "depth": _NUMBER,
    "updated_at": INSTANT,
}
_RUN: dict[str, Schema] = {
    **dict.fromkeys(("id", "schedule_id"), ID),
    "schedule": _TEXT,
    "rev": _NUMBER,
    "state": {"type": "string", "enum": [state.word for state in RunState]},
    "status": _TEXT,
    "live": _TRUTH,
    "slot": _maybe(INSTANT),
    "request_key": _maybe(_TEXT),
    "covered": _NUMBER,
    "covered_from": _maybe(INSTANT),
    **dict.fromkeys(("attempt", "epoch"), _NUMBER),
    "not_before": _maybe(INSTANT),
    "planned_at": INSTANT,
    **dict.fromkeys(("started_at", "ended_at"), _maybe(INSTANT)),
    "took_ms": _maybe(_NUMBER),
    "reason": _maybe(_TEXT),
    "evidence": {},
    "outcome": {},
}
_FILE = _object({"path": _TEXT, "line": _NUMBER})
_BUDGET = {
    **dict.fromkeys(("name", "scope", "per", "timezone"), _TEXT),
    **dict.fromkeys(("of", "money"), _maybe(_TEXT)),
    "tokens": _maybe(_NUMBER),
}
_WRITTEN: dict[str, Schema] = {
    "Schedule": _object(_SCHEDULE),
    "Run": _object(_RUN),
    "FileEntry": _FILE,
    "Overview": _object(
        {
            **_SCHEDULE,
            "description": _TEXT,
            "words": _OBJECT,
            "last_run_at": _maybe(INSTANT),
            "last_run": _maybe(_ref("Run")),
            "file": _maybe(_FILE),
        }
    ),
    "Agent": _object(
        {"name": _TEXT, "runner": _TEXT, "model": _maybe(_TEXT), "environment": _OBJECT, "target": _OBJECT}
    ),
    "QuietHours": _object({"name": _TEXT, "windows": _list_of(_TEXT), "timezone": _TEXT, "mode": _TEXT}),
    "Budget": _object(_BUDGET),
    "BudgetWithPurses": _object({**_BUDGET, "purses": _list_of(_ref("Purse"))}),
    "Purse": _object(
        {
            **dict.fromkeys(("budget", "of", "period", "money", "money_reserved"), _TEXT),
            **dict.fromkeys(("tokens", "tokens_reserved"), _NUMBER),
        }
    ),
    "Price": _object(dict.fromkeys(("model", "input", "output", "cached"), _TEXT)),
    "Token": _object(
        {
            **dict.fromkeys(("id", "name", "role"), _TEXT),
            "rights": _maybe(_list_of(_TEXT)),
            "created_at": INSTANT,
            "created_by": _TEXT,
            **dict.fromkeys(("expires_at", "revoked_at", "used_at"), _maybe(INSTANT)),
        }
    ),
    "Webhook": _object(
        {
            **dict.fromkeys(("name", "url", "state", "created_by"), _TEXT),
            "types": _list_of(_TEXT),
            "note": _maybe(_TEXT),
            "created_at": INSTANT,
        }
    ),
    "Delivery": _object(
        {
            "event": _TEXT,
            "schedule_id": _maybe(ID),
            "attempts": _NUMBER,
            "next_at": _maybe(INSTANT),
            "last_error": _maybe(_TEXT),
            "state": _TEXT,
        }
    ),
    "Problem": _object(
        {
            **dict.fromkeys(("type", "title", "detail", "code", "instance"), _TEXT),
            "status": _NUMBER,
        }
    ),
}
"""Documents that `documents` writes by hand."""
_WRITTEN["Problem"]["properties"] |= {
    **dict.fromkeys(("field", "allowed", "hint"), _TEXT),
    "value": {"description": "What was given, shortened."},
}
_ANSWERS: dict[str, Schema] = {
    "add_many": _list_of(ID),
    "budgets": _list_of(_ref("BudgetWithPurses")),
    "webhooks": _list_of(_ref("Webhook")),
    "add_webhook": {"allOf": [_ref("Webhook"), _object({"secret": _TEXT})]},
    "deliveries": _list_of(_ref("Delivery")),
}
"""Answers whose type says too little."""


class Shapes:
    """Gathers what is referred to."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = dict(_WRITTEN)

    def answer(self, route: Route) -> Schema | None:
        """What a route answers when all is well; None where that is nothing."""
        if route.status == 204:
            return None
        hints = get_type_hints(getattr(Service, route.use_case))
        schema = _ANSWERS.get(route.use_case) or self.of(hints["return"])
        if schema.get("type") != "array":
            return schema
        return _object({"items": schema, "next": {**_maybe(_TEXT), "description": "The cursor of the next page."}})

    def of(self, hint: Any, name: str = "") -> Schema:
        if hint in (Any, object):
            return {}
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(part, name) for part in inner]}
        if origin is Literal:
            return {"enum": list(inner)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return _OBJECT
        if origin is tuple and inner[-1] is not Ellipsis:
            return {"type": "array", "prefixItems": [self.of(part) for part in inner]}
        if isinstance(origin, type) and issubclass(origin, (Sequence, Iterable)):
            return _list_of(self.of(inner[0], name))
        return self._plain(hint, name)

    def _plain(self, hint: Any, name: str) -> Schema:
        if hint is type(None):
            return {"type": "null"}
        if hint is int and (name in INSTANTS or name.endswith("_at")):
            return INSTANT
        if hint is int and (name in IDS or name.endswith("_id")):
            return ID
        simple = _SIMPLE.get(hint)
        if simple is not None:
            return simple
        return self._named(hint)

    def _named(self, hint: Any) -> Schema:
        if issubclass(hint, Enum):
            return {"enum": [member.name.lower() for member in hint]}
        title: str = hint.__name__
        if title not in self.components:
            self.components[title] = {}  # it may speak of itself
            hints = get_type_hints(hint)
            self.components[title] = _object({name: self.of(hints[name], name) for name in _fields(hint)})
        return _ref(title)


def _fields(hint: Any) -> list[str]:
    return [field.name for field in fields(hint)] if is_dataclass(hint) else list(hint._fields)


_SIMPLE: dict[Any, Schema] = {
    bool: _TRUTH,
    int: _NUMBER,
    float: {"type": "number"},
    str: _TEXT,
    dict: _OBJECT,
    list: {"type": "array"},
    datetime: INSTANT,
    timedelta: {"type": "number", "description": "Seconds."},
}
