"""Schedule definitions: from the words that people write, and as the store keeps them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, get_args

import orjson

from matins.engine.when import definitions
from matins.engine.when.durations import parse_duration
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger
from matins.errors import IntervalParseError, InvalidInput
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Anchor, DstGap, DstOverlap, First, Once, TriggerDefinition

_DEFAULTS = {field.name: field.default for field in fields(ScheduleDefinition)}
_CHOICES = {
    "catch_up": ("skip", "run_once", "run_all_capped"),
    "overlap": ("skip", "queue", "cancel_other", "allow"),
    "at_capacity": ("wait", "skip"),
    "on_unknown": ("hold", "retry"),
}
_NUMBERS = {"cap": (1, 1000), "queue_limit": (1, 100_000), "retries": (0, 100), "max_executions": (1, 1 << 53)}
_DURATIONS = {"grace": "grace_ms", "retry": "retry_ms", "retry_most": "retry_most_ms", "timeout": "timeout_ms"}
_TRIGGER_CHOICES = {
    "dst_gap": get_args(DstGap),
    "dst_overlap": get_args(DstOverlap),
    "anchor": get_args(Anchor),
    "first": get_args(First),
    "strict": (True, False),
}
_TRIGGER = ("timezone", *_TRIGGER_CHOICES)
WORDS = ("do", "payload", "jitter", *_CHOICES, *_NUMBERS, *_DURATIONS, *_TRIGGER)
MOST_PAYLOAD = 1 << 20
UNREADABLE = ScheduleDefinition(TriggerDefinition(Once(0)), do="")
"""Stands for a definition that the store gives back damaged."""


def define(when: str | Trigger, words: Mapping[str, Any], now_ms: int) -> tuple[ScheduleDefinition, Trigger]:
    """The definition that these words make; an error names the word, and how to mend it."""
    for word in words:
        if word not in WORDS:
            close = difflib.get_close_matches(word, WORDS, n=1)
            hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(WORDS)}"
            raise InvalidInput(f'A schedule has no "{word}"', value=word, field=word, hint=hint)
    do = words.get("do")
    if not isinstance(do, str) or not do.isprintable() or not do:
        raise InvalidInput('A schedule needs "do": the job that it starts', value=do, field="do", hint='do="record"')
    trigger = _trigger(when, words, now_ms)
    values: dict[str, Any] = {"trigger": trigger.definition, "do": do}
    for word, value in words.items():
        if value is not None and word not in _TRIGGER and word != "do":
            values[_DURATIONS.get(word, word)] = _checked(word, value)
    return ScheduleDefinition(**values), trigger


def _trigger(when: str | Trigger, words: Mapping[str, Any], now_ms: int) -> Trigger:
    options = {word: words[word] for word in _TRIGGER if words.get(word) is not None}
    for word, choices in _TRIGGER_CHOICES.items():
        if word in options and options[word] not in choices:
            raise _wrong(word, options[word], " or ".join(map(str, choices)))
    if not isinstance(options.get("timezone", ""), str):
        raise _wrong("timezone", options["timezone"], "a text")
    if isinstance(when, Trigger):
        if options:
            word = next(iter(options))
            raise InvalidInput(f'"{word}" belongs to the trigger that is given already', value=word, field=word)
        return when
    if not isinstance(when, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
        raise InvalidInput('"when" must be a text or a trigger', value=when, field="when", hint='when="0 2 * * *"')
    return parse_trigger(when, now_ms=now_ms, **options)


def _checked(word: str, value: Any) -> Any:
    if word in _CHOICES:
        if value not in _CHOICES[word]:
            raise _wrong(word, value, " or ".join(_CHOICES[word]))
        return value
    if word in _NUMBERS:
        low, high = _NUMBERS[word]
        if type(value) is not int or not low <= value <= high:
            raise _wrong(word, value, f"a whole number from {low} to {high}")
        return value
    if word in _DURATIONS:
        if not isinstance(value, str):
            raise _wrong(word, value, 'a duration such as "5m"')
        return _duration(word, value)
    if word == "jitter":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 10:
            raise _wrong(word, value, "0 to 10 percent")
        return value
    return _payload(value)


def _duration(word: str, text: str) -> int:
    try:
        return parse_duration(text)
    except IntervalParseError as error:
        message = f'"{word}": {error.message}'
        raise IntervalParseError(message, value=text, field=word, allowed=error.allowed, hint=error.hint) from None


def _payload(value: Any) -> Any:
    try:
        size = len(orjson.dumps(value))
    except TypeError as error:
        raise _wrong("payload", type(value).__name__, f"something that JSON can hold ({error})") from None
    if size > MOST_PAYLOAD:
        raise _wrong("payload", f"{size} bytes", f"at most {MOST_PAYLOAD} bytes as JSON")
    return value


def _wrong(word: str, value: object, allowed: str) -> InvalidInput:
    usual = _DEFAULTS.get(_DURATIONS.get(word, word))
    hint = "leave it out" if usual is None else f"leave it out for {usual}"
    return InvalidInput(
        f'"{word}" must be {allowed}, got {value!r}', value=value, field=word, allowed=allowed, hint=hint
    )


def encode(definition: ScheduleDefinition) -> str:
    """As the store keeps it: what differs from the defaults."""
    data: dict[str, Any] = {"trigger": definitions.to_dict(definition.trigger)}
    for name, default in _DEFAULTS.items():
        value = getattr(definition, name)
        if name != "trigger" and value != default:
            data[name] = value
    return orjson.dumps(data).decode()


def decode(text: str) -> ScheduleDefinition:
    data = orjson.loads(text)
    return ScheduleDefinition(trigger=_trigger_of(orjson.dumps(data.pop("trigger"))), **data)


@lru_cache(maxsize=4096)
def _trigger_of(text: bytes) -> TriggerDefinition:
    """Many schedules share one, whatever else they say."""
    return definitions.from_dict(orjson.loads(text))
