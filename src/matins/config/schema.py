"""The JSON Schema of the file, from the declarations of settings, for editors."""

from __future__ import annotations

from typing import Any

from matins.api.schema import FILE_SCHEMA, Schema, file_property
from matins.config.reader import (
    DEFAULTS,
    DEFAULTS_HELP,
    SCHEDULE,
    SCHEDULES,
    SCHEDULES_HELP,
    TOP,
    default_settings,
    sections,
    singles,
)
from matins.model.settings import Table
from matins.records.kind import RecordKind

_SCHEDULE: Schema = {"$ref": "#/$defs/schedule"}
_NULLABLE_OBJECT = ["object", "null"]


def schema() -> dict[str, Any]:
    """The schema, in draft 2020-12."""
    properties = {
        **{name: file_property(declared) for name, declared in TOP.items()},
        **{name: _single(kind) for name, kind in singles().items()},
        DEFAULTS: _mapping(default_settings(), DEFAULTS_HELP),
        SCHEDULES: _named(SCHEDULES_HELP, _SCHEDULE),
        **{name: _section(kind) for name, kind in sections().items()},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "matins.yaml",
        "description": "The configuration file of Matins.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": {"schedule": _schedule()},
    }


def _schedule() -> Schema:
    """A schedule. Its work source may be written inside, as herdctl does."""
    found = _mapping(SCHEDULE, "A schedule.")
    source = found["properties"]["work_source"]
    found["properties"]["work_source"] = {
        "description": source.pop("description"),
        "anyOf": [source, {"type": "object", "required": ["type", "repo"]}],
    }
    return found


def _section(kind: RecordKind[Any]) -> Schema:
    record = _record(kind)
    if kind.noun != "agents":
        return _named(kind.file_help, record, kind.keys)
    below = {"description": "Schedules of the agent, by name.", **_named("", _SCHEDULE)}
    record["properties"][SCHEDULES] = {name: value for name, value in below.items() if value}
    record["properties"]["name"] = {"description": "Name, where agents are a list.", "type": ["string", "number"]}
    found = _named(kind.file_help, record)
    return {**found, "type": ["object", "array", "null"], "items": record}


def _named(text: str, record: Schema, keys: tuple[str, ...] = ()) -> Schema:
    found: Schema = {"description": text} if text else {}
    found["type"] = list(_NULLABLE_OBJECT)
    if keys:
        described = {"description": text, **record}
        return {**found, "additionalProperties": False, "properties": dict.fromkeys(keys, described)}
    return {**found, "additionalProperties": record}


def _single(kind: RecordKind[Any]) -> Schema:
    if not kind.alone:
        return _mapping(kind.table, kind.file_help)
    return {**file_property(kind.table[kind.alone]), "description": kind.file_help}


def _record(kind: RecordKind[Any]) -> Schema:
    record = _mapping(kind.table, "")
    if not kind.alone:
        return record
    declared = kind.table[kind.alone]
    alone = FILE_SCHEMA[type(declared.kind)](declared.kind)
    return {"anyOf": [record, *alone.get("anyOf", [alone]), {"type": "null"}]}


def _mapping(table: Table, text: str) -> Schema:
    required = [name for name, declared in table.items() if declared.setting.required]
    found: Schema = {"description": text} if text else {}
    found |= {"type": "object" if required else list(_NULLABLE_OBJECT), "additionalProperties": False}
    found["properties"] = {name: file_property(declared) for name, declared in table.items()}
    return {**found, "required": required} if required else found
