"""Schedule definitions: from the words that people write, and as the store keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, cast, get_args

import orjson

from matins.engine.given import check_name, check_texts, check_words, is_name
from matins.engine.money import parse_money, parse_tokens
from matins.engine.prompts import check_fields, check_prompt
from matins.engine.targets import define_target
from matins.engine.when import definitions
from matins.engine.when.durations import format_duration, parse_duration
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger
from matins.errors import InstantError, IntervalParseError, InvalidInput, TriggerError
from matins.model.agent import Fallback, Target
from matins.model.schedule import ApprovalDefault, ApprovalPolicy, ScheduleDefinition
from matins.model.trigger import Anchor, DstGap, DstOverlap, First, Once, TriggerDefinition

_DOLLARS = {"USD": 1.0}
_DEFAULTS = {field.name: field.default for field in fields(ScheduleDefinition)}
CHOICES = {
    "catch_up": ("skip", "run_once", "run_all_capped"),
    "overlap": ("skip", "queue", "cancel_other", "allow"),
    "at_capacity": ("wait", "skip"),
    "on_unknown": ("hold", "retry"),
    "approval": get_args(ApprovalPolicy),
    "approval_default": get_args(ApprovalDefault),
    "fallback": get_args(Fallback),
    "final_fallback": ("fresh", "skip"),
}
NUMBERS = {
    "cap": (1, 1000),
    "queue_limit": (1, 100_000),
    "retries": (0, 100),
    "max_executions": (1, 1 << 53),
    "pause_after": (1, 1000),
    "approvals_needed": (1, 100),
}
DURATIONS = {
    "grace": "grace_ms",
    "retry": "retry_ms",
    "retry_most": "retry_most_ms",
    "timeout": "timeout_ms",
    "check_limit": "check_ms",
    "approval_expires": "approval_ms",
    "wait": "wait_ms",
}
NAMES = ("quiet_hours", "provider", "work")
LISTS = ("approvers", "approval_actions")
COMMANDS = ("pre_check", "before", "after")
FIELDS = {**DURATIONS, "ends": "ends_at"}
"""The field that a word fills, where it has another name."""
TRIGGER_CHOICES = {
    "dst_gap": get_args(DstGap),
    "dst_overlap": get_args(DstOverlap),
    "anchor": get_args(Anchor),
    "first": get_args(First),
    "strict": (True, False),
}
TRIGGER_WORDS = ("timezone", *TRIGGER_CHOICES)
_COMMAND = "a command, or a list of its arguments"
_MONEY = ("max_cost", "max_tokens")
TALK = "scheduled-task"
"""The job that tells an agent its prompt."""
MESSAGE = "message"
"""The job that emits its payload as an event; also the runner of agents that hear of it so."""
LONGEST_ABOUT, MOST_LABELS = 2_000, 50
WORDS = (
    "about",
    "labels",
    "prompt",
    "target",
    "do",
    "payload",
    "jitter",
    "ends",
    *CHOICES,
    *NUMBERS,
    *DURATIONS,
    *NAMES,
    *LISTS,
    *COMMANDS,
    *_MONEY,
    *TRIGGER_WORDS,
)
MOST_PAYLOAD = 1 << 20
UNREADABLE = ScheduleDefinition(TriggerDefinition(Once(0)), do="")
"""Stands for a definition that the store gives back damaged."""


def define(
    when: str | Trigger, words: Mapping[str, Any], now_ms: int, rates: Mapping[str, float] = _DOLLARS
) -> tuple[ScheduleDefinition, Trigger]:
    """The definition that these words make; an error names the word, and how to mend it."""
    check_words("A schedule", words, WORDS)
    do = words.get("do", TALK if words.get("prompt") is not None else None)
    if not isinstance(do, str) or not do.isprintable() or not do:
        raise InvalidInput('A schedule needs "do": the job that it starts', value=do, field="do", hint='do="record"')
    trigger = _trigger(when, words, now_ms)
    values: dict[str, Any] = {"trigger": trigger.definition, "do": do}
    for word, value in words.items():
        if value is None or word in TRIGGER_WORDS or word == "do":
            continue
        if word == "prompt":
            values[word] = check_prompt(value, works=words.get("work") is not None)
        elif word == "target":
            values[word] = define_target(value)
        elif word == "ends":
            values["ends_at"] = _end(value, trigger, now_ms)
        elif word in _MONEY:
            values[word] = parse_money(value, rates, word) if word == "max_cost" else parse_tokens(value, word)
        else:
            values[DURATIONS.get(word, word)] = _checked(word, value)
    if values["do"] == TALK:  # nobody repeats blindly what an agent may have done
        values.setdefault("on_unknown", "hold")
    if values["do"] == MESSAGE:
        check_template(values.get("payload"))
    return ScheduleDefinition(**values), trigger


def check_template(value: Any) -> None:
    """Every text in a payload that is a template names only fields that there are."""
    if isinstance(value, str):
        check_fields(value, works=False, field="payload")
    for item in cast("dict[str, Any]", value).values() if isinstance(value, dict) else ():
        check_template(item)
    for item in cast("list[Any]", value) if isinstance(value, list) else ():
        check_template(item)


def check_approval(definition: ScheduleDefinition) -> None:
    """Whoever is to be asked must exist, and be enough."""
    approvers, needed = definition.approvers, definition.approvals_needed
    if definition.approval == "council_approve" and not approvers:
        raise InvalidInput(
            "council_approve needs named approvers",
            field="approvers",
            hint='approvers=["ada", "grace"], approvals_needed=2',
        )
    if needed > max(1, len(approvers)):
        raise InvalidInput(
            f'"approvals_needed" is {needed}, but there are {max(1, len(approvers))} approvers',
            value=needed,
            field="approvals_needed",
            hint="name more approvers, or ask for fewer approvals",
        )


def _end(value: Any, trigger: Trigger, now_ms: int) -> int:
    """An ISO instant, in the trigger's zone where it names none. It may be past: it is looked at when a slot is due."""
    if not isinstance(value, str):
        raise _wrong("ends", value, "an ISO instant as text")
    try:
        end = parse_trigger(value, now_ms=now_ms, timezone=trigger.timezone).definition.when
    except TriggerError as error:
        raise InstantError(
            f'"ends": {error.message}', value=value, field="ends", hint='ends="2026-12-31T18:00"'
        ) from None
    if not isinstance(end, Once):
        raise _wrong("ends", value, "an ISO instant such as 2026-12-31T18:00")
    return end.at_ms


def _trigger(when: str | Trigger, words: Mapping[str, Any], now_ms: int) -> Trigger:
    options = {word: words[word] for word in TRIGGER_WORDS if words.get(word) is not None}
    for word, choices in TRIGGER_CHOICES.items():
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
    if word in CHOICES:
        if value not in CHOICES[word]:
            raise _wrong(word, value, " or ".join(CHOICES[word]))
        return value
    if word in NUMBERS:
        low, high = NUMBERS[word]
        if type(value) is not int or not low <= value <= high:
            raise _wrong(word, value, f"a whole number from {low} to {high}")
        return value
    if word in DURATIONS:
        if not isinstance(value, str):
            raise _wrong(word, value, 'a duration such as "5m"')
        return _duration(word, value)
    if word in NAMES or word in LISTS or word in COMMANDS:
        return _texts(word, value)
    if word == "jitter":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 10:
            raise _wrong(word, value, "0 to 10 percent")
        return value
    if word == "about":
        if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_ABOUT:
            raise _wrong(word, value, f"a text of at most {LONGEST_ABOUT} characters")
        return value
    return _labels(value) if word == "labels" else _payload(value)


def _labels(value: Any) -> dict[str, str]:
    """Names and texts: {"project": "apollo"}."""
    labels = cast("dict[Any, Any]", value) if isinstance(value, dict) else {}
    texts = [text for pair in labels.items() for text in pair]
    if not 1 <= len(labels) <= MOST_LABELS or not all(map(is_name, texts)):
        raise _wrong("labels", cast("Any", value), f"a mapping of at most {MOST_LABELS} names to texts")
    return labels


def _texts(word: str, value: Any) -> Any:
    """One name, several names, or a command: a text for the shell or a list of arguments."""
    if word in COMMANDS:
        return check_texts(word, [value], _COMMAND)[0] if isinstance(value, str) else check_texts(word, value, _COMMAND)
    if word in NAMES:
        return check_name(word, value)
    names = check_texts(word, value, "a list of names")
    if len(set(names)) != len(names):
        raise _wrong(word, value, "a list of different names")
    return tuple(check_name(word, name) for name in names)


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
    usual: Any = _DEFAULTS.get(DURATIONS.get(word, word))
    if word in DURATIONS and usual is not None:
        usual = format_duration(usual)
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
            data[name] = value._asdict() if name == "target" else value
    return orjson.dumps(data).decode()


def decode(text: str) -> ScheduleDefinition:
    data = orjson.loads(text)
    for word in (*LISTS, *COMMANDS):
        if isinstance(data.get(word), list):
            data[word] = tuple(data[word])
    if "target" in data:
        data["target"] = Target(**data["target"])
    return ScheduleDefinition(trigger=_trigger_of(orjson.dumps(data.pop("trigger"))), **data)


@lru_cache(maxsize=4096)
def _trigger_of(text: bytes) -> TriggerDefinition:
    """Many schedules share one, whatever else they say."""
    return definitions.from_dict(orjson.loads(text))
