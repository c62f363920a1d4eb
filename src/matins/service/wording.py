"""A schedule's definition in the words that people write."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any, cast

from matins.engine.money import format_money
from matins.engine.reasons import iso
from matins.engine.schedules import FIELDS, TALK
from matins.engine.when.definitions import to_dict
from matins.engine.when.durations import format_duration
from matins.engine.when.triggers import compile_trigger
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Cron, Interval, Once, TriggerDefinition

WORDS = {field: word for word, field in FIELDS.items()}
"""The word of a field, where it has another name."""
_DEFAULTS = {field.name: field.default for field in fields(ScheduleDefinition)}


def in_words(field: str, value: Any) -> Any:
    """One field, as people write it."""
    if value is None:
        return None
    if field == "trigger":
        return f"{described(value)} ({value.timezone})"
    if field.endswith("_ms"):
        return format_duration(value)
    if field == "ends_at":
        return iso(value)
    if field == "target":
        return {name: item for name, item in value._asdict().items() if item is not None}
    if field == "max_cost":
        return format_money(value)
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value


def words_of(definition: ScheduleDefinition) -> dict[str, Any]:
    """All that it says and that is not the usual."""
    words: dict[str, Any] = {"when": when_text(definition.trigger), "timezone": definition.trigger.timezone}
    for field, usual in _DEFAULTS.items():
        value = getattr(definition, field)
        if field == "trigger" or value == usual or (field == "do" and value == TALK):
            continue
        if field == "on_unknown" and definition.do == TALK and value == "hold":
            continue
        words[WORDS.get(field, field)] = in_words(field, value)
    return words


@lru_cache(maxsize=4096)
def described(definition: TriggerDefinition) -> str:
    """Many schedules share one trigger, and lists are long."""
    return compile_trigger(definition).describe()


@lru_cache(maxsize=4096)
def when_text(definition: TriggerDefinition) -> str:
    """A text that parses back to the same times, wherever one can say them."""
    match definition.when:
        case Cron(expression):
            return expression
        case Interval(every_ms):
            return f"every {format_duration(every_ms)}"
        case Once():
            return to_dict(definition)["at"]
        case _:
            return described(definition)
