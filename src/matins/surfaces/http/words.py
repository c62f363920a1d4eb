"""The words of schedules, agents and policies as JSON Schema. It tells people; the service checks, with a hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.config import words
from matins.config.words import Table, Word

Schema = dict[str, Any]

_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_WINDOW: Schema = {
    "type": "object",
    "properties": {"days": {}, "from": {"type": "string"}, "to": {"type": "string"}},
}
_SHAPES: Mapping[str, Schema] = {
    "text": {"type": "string"},
    "duration": {"type": "string", "examples": ["5m"]},
    "number": {"type": "integer"},
    "decimal": {"type": "number"},
    "truth": {"type": "boolean"},
    "choice": {},
    "texts": _TEXTS,
    "command": {"anyOf": [{"type": "string"}, _TEXTS]},
    "amount": {"type": "string", "examples": ["$2", "200k"]},
    "mapping": {"type": "object"},
    "variables": {"type": "object", "additionalProperties": {"type": "string"}},
    "target": {"anyOf": [{"type": "string"}, {"type": "object"}]},
    "windows": {
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, _WINDOW]},
        "examples": [["22:00-07:00", "sat,sun 00:00-24:00"]],
    },
    "anything": {},
}


def _schema(word: Word) -> Schema:
    schema: Schema = {**_SHAPES[word.shape], "description": word.says}
    if word.shape == "choice":
        schema["enum"] = list(word.choices)
    if word.low is not None:
        schema["minimum"] = word.low
    if word.high is not None:
        schema["maximum"] = word.high
    return schema


def _table(table: Table) -> dict[str, Schema]:
    return {name: _schema(word) for name, word in table.items()}


WHEN = {**_schema(words.SCHEDULE["when"]), "examples": ["every weekday at 9am", "*/5 * * * *", "in 2 hours"]}
_CONTEXT: Schema = {"type": "object", "description": "Where you speak from, for targets such as current-thread."}
_SCHEDULE = {**_table(words.OWN_WORDS), "context": _CONTEXT}
WORDS: dict[str, dict[str, Schema]] = {
    "add": _SCHEDULE,
    "edit": {"when": WHEN, **_SCHEDULE},
    "preview_change": {"when": WHEN, **_SCHEDULE},
    "set_agent": _table(words.AGENT),
    "edit_agent": _table(words.AGENT),
    "set_budget": _table(words.BUDGET),
    "set_quiet_hours": _table(words.QUIET_HOURS),
    "set_price": _table(words.PRICE),
    "set_agent_rules": _table(words.RULES),
    "set_work_source": _table(words.SOURCE),
}
"""What each use case takes beside its arguments."""
