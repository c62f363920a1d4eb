"""Settings as JSON Schema, by kind: lenient for the file, strict for HTTP bodies and tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from matins.model import settings as kinds
from matins.model.settings import Declared, Kind, Table, settings_of

Schema = dict[str, Any]
_STRING: Schema = {"type": "string"}
_STRINGS: Schema = {"type": "array", "items": _STRING}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
"""YAML accepts a number or a boolean for a string."""
_SCALARS: Schema = {"type": "array", "items": _SCALAR}
_SCALAR_OR_LIST: Schema = {"anyOf": [_SCALAR, _SCALARS]}
_PLACE: Schema = {"anyOf": [_STRING, {"type": "object"}]}
_CALL: Schema = {"anyOf": [_STRING, {"type": "object"}]}
_WINDOW: Schema = {
    "anyOf": [
        {"type": "string", "examples": ["22:00-07:00", "sat,sun 00:00-24:00"]},
        {"type": "object", "additionalProperties": False, "properties": {"days": {}, "from": {}, "to": {}}},
    ]
}


def _always(schema: Schema) -> Callable[[Kind], Schema]:
    return lambda kind: dict(schema)


def _choice(kind: Kind) -> Schema:
    return {"enum": list(cast("kinds.Choice", kind).values)}


def _whole(kind: Kind) -> Schema:
    bounds = cast("kinds.Int", kind)
    return {"type": "integer", "minimum": bounds.low, "maximum": bounds.high}


def _decimal(kind: Kind) -> Schema:
    bounds = cast("kinds.Decimal", kind)
    low = "exclusiveMinimum" if bounds.above else "minimum"
    return {"type": "number", low: bounds.low, "maximum": bounds.high}


def _size(kind: Kind) -> Schema:
    pattern = r"\s*[0-9]{1,15}\s*[KkMmGgTt]?[Bb]\s*" + ("|none" if cast("kinds.Size", kind).none else "")
    return {"type": "string", "pattern": f"^({pattern})$"}


def _duration(kind: Kind) -> Schema:
    span = cast("kinds.Duration", kind)
    pattern = r" *\+?[0-9]+ *(ms|[smhd]) *" + ("|none" if span.none else "|auto" if span.auto else "")
    return {"type": "string", "pattern": f"^({pattern})$"}


def _records(kind: Kind, property_of: Callable[[Declared], Schema]) -> Schema:
    records = cast("kinds.Records", kind)
    table = settings_of(records.record)
    names = {**{name: name for name in table}, **dict(records.spellings)}
    one = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: property_of(table[own]) for name, own in names.items()},
        "required": [name for name, declared in table.items() if declared.setting.required],
    }
    return {"type": "array", "items": one, "minItems": 1, "maxItems": records.max_count}


_TEXTS = (
    kinds.Text, kinds.Template, kinds.Name, kinds.Instant, kinds.Zone, kinds.Secret, kinds.Url,
)  # fmt: skip
_SHARED: Mapping[type[Kind], Callable[[Kind], Schema]] = {
    kinds.Choice: _choice,
    kinds.Flag: _always({"type": "boolean"}),
    kinds.Int: _whole,
    kinds.Decimal: _decimal,
    kinds.Duration: _duration,
    kinds.Size: _size,
    kinds.Tokens: _always({"type": ["string", "integer"]}),
    kinds.Target: _always(_PLACE),
    kinds.Windows: _always({"anyOf": [*_WINDOW["anyOf"], {"type": "array", "items": _WINDOW}]}),
    kinds.Labels: _always({"type": "object"}),
    kinds.Options: _always({"type": "object"}),
    kinds.Json: _always({}),
    kinds.Inputs: _always({"type": "object"}),
    kinds.Calls: _always({"anyOf": [*_CALL["anyOf"], {"type": "array", "items": _CALL}]}),
    kinds.Pause: _always({"type": ["boolean", "string", "number"]}),
}
FILE_SCHEMA: Mapping[type[Kind], Callable[[Kind], Schema]] = {
    **dict.fromkeys(_TEXTS, _always(_SCALAR)),
    **_SHARED,
    kinds.Money: _always({"type": ["string", "number"]}),
    kinds.Tokens: _always({"type": ["string", "number"]}),
    **dict.fromkeys((kinds.Names, kinds.Arguments, kinds.Command), _always(_SCALAR_OR_LIST)),
    kinds.Records: lambda kind: _records(kind, file_property),
    kinds.Variables: _always({"type": "object", "additionalProperties": _SCALAR}),
}
BODY_SCHEMA: Mapping[type[Kind], Callable[[Kind], Schema]] = {
    **dict.fromkeys((*_TEXTS, kinds.Money), _always(_STRING)),
    **_SHARED,
    **dict.fromkeys((kinds.Names, kinds.Arguments), _always(_STRINGS)),
    kinds.Records: lambda kind: _records(kind, body_property),
    kinds.Command: _always({"anyOf": [_STRING, _STRINGS]}),
    kinds.Labels: _always({"type": "object", "additionalProperties": _STRING}),
    kinds.Variables: _always({"type": "object", "additionalProperties": _STRING}),
}


def file_property(declared: Declared) -> Schema:
    """The schema of a setting in the file. Null is allowed everywhere, and means the default."""
    schema = FILE_SCHEMA[type(declared.kind)](declared.kind)
    found: Schema = {"description": declared.setting.help, "examples": [declared.setting.example]}
    return {**found, "anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]} if schema else found


def body_property(declared: Declared) -> Schema:
    schema = BODY_SCHEMA[type(declared.kind)](declared.kind)
    return {**schema, "description": declared.setting.help, "examples": [declared.setting.example]}


def body_properties(table: Table) -> dict[str, Schema]:
    return {name: body_property(declared) for name, declared in table.items()}
