"""The JSON Schema of the file, made from the tables of its words, so that editors complete and check it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import orjson

from matins.config.examples import EXAMPLES, TOP
from matins.config.words import (
    DEFAULTS,
    NESTED,
    NUMBERED,
    OWN_WORDS,
    SCHEDULE,
    SECTIONS,
    SIMPLE,
    Section,
    Shape,
    Table,
    Word,
)

SHIPPED = "matins.schema.json"
_TEXT: dict[str, Any] = {"type": ["string", "number", "boolean"]}
"""What looks like a number is a text all the same where a text is wanted."""


def schema() -> dict[str, Any]:
    """Draft 2020-12."""
    properties = {
        **{name: _word(word, TOP.get(name)) for name, word in SIMPLE.items()},
        DEFAULTS: _mapping(OWN_WORDS, "What schedules say where they do not say otherwise.", EXAMPLES["schedule"]),
        **{name: _section(section) for name, section in SECTIONS.items()},
        **{name: _numbered(word) for name, word in NUMBERED.items()},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "matins.yaml",
        "description": "What Matins does, and when.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": {"schedule": _mapping(SCHEDULE, "A schedule.", EXAMPLES["schedule"])},
    }


def shipped() -> str:
    """The schema as a file of the package."""
    return resources.files("matins.config").joinpath(SHIPPED).read_text(encoding="utf-8")


def written() -> str:
    return orjson.dumps(schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _section(section: Section) -> dict[str, Any]:
    if section.kind == "schedule":
        thing: dict[str, Any] = {"$ref": "#/$defs/schedule"}
    else:
        thing = _mapping(section.table, "", EXAMPLES[section.kind])
    if section.kind == "agent":
        below = {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/schedule"}}
        thing["properties"][NESTED] = {"description": "Its own schedules, by name.", **below}
        thing["properties"]["name"] = {"description": "Where agents are a list.", **_TEXT}
    if section.kind == "hook":
        thing = {"anyOf": [thing, _COMMAND]}
    kind = ["object", "array", "null"] if section.kind == "agent" else ["object", "null"]
    found: dict[str, Any] = {"description": section.says, "type": kind}
    if section.names:
        return {**found, "additionalProperties": False, "properties": dict.fromkeys(section.names, thing)}
    return {**found, "additionalProperties": thing, **({"items": thing} if section.kind == "agent" else {})}


def _mapping(table: Table, says: str, examples: Mapping[str, Any]) -> dict[str, Any]:
    properties = {name: _word(word, examples[name]) for name, word in table.items()}
    needed = [name for name, word in table.items() if word.needed]
    found: dict[str, Any] = {"description": says} if says else {}
    found |= {"type": ["object", "null"] if not needed else "object", "additionalProperties": False}
    return {**found, "properties": properties, **({"required": needed} if needed else {})}


def _numbered(word: Word) -> dict[str, Any]:
    value = _number(word)
    return {
        "description": word.says,
        "type": ["object", "null"],
        "additionalProperties": {"anyOf": [value, {"type": "null"}]},
    }


def _word(word: Word, example: Any) -> dict[str, Any]:
    """Nothing may stand anywhere: it means the usual."""
    shape = _SHAPES[word.shape](word)
    found = {"description": word.says, "examples": [example]}
    if not shape:
        return found
    return {**found, "anyOf": [*shape.get("anyOf", [shape]), {"type": "null"}]}


def _choice(word: Word) -> dict[str, Any]:
    return {"enum": list(word.choices)}


def _number(word: Word) -> dict[str, Any]:
    bounds = {"minimum": word.low, "maximum": word.high}
    kind = "integer" if word.shape == "number" else "number"
    return {"type": kind, **{name: value for name, value in bounds.items() if value is not None}}


def _duration(word: Word) -> dict[str, Any]:
    pattern = "|".join((r" *\+?[0-9]+ *[smhd] *", *word.choices))
    return {"type": "string", "pattern": f"^({pattern})$"}


def _always(shape: Mapping[str, Any]) -> Callable[[Word], dict[str, Any]]:
    return lambda word: dict(shape)


_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_COMMAND: dict[str, Any] = {"anyOf": [_TEXT, _TEXTS]}
_WINDOW: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "examples": ["22:00-07:00", "sat,sun 00:00-24:00"]},
        {"type": "object", "additionalProperties": False, "properties": {"days": {}, "from": {}, "to": {}}},
    ]
}
_SHAPES: dict[Shape, Callable[[Word], dict[str, Any]]] = {
    "text": _always(_TEXT),
    "amount": _always({"type": ["string", "number"]}),
    "duration": _duration,
    "number": _number,
    "decimal": _number,
    "truth": _always({"type": "boolean"}),
    "choice": _choice,
    "texts": _always(_COMMAND),
    "command": _always(_COMMAND),
    "mapping": _always({"type": "object"}),
    "variables": _always({"type": "object", "additionalProperties": _TEXT}),
    "target": _always({"anyOf": [{"type": "string"}, {"type": "object"}]}),
    "windows": _always({"anyOf": [*_WINDOW["anyOf"], {"type": "array", "items": _WINDOW}]}),
    "pause": _always({"type": ["boolean", "string", "number"]}),
    "anything": _always({}),
}
