"""Agents and targets, from the words that people write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, cast

from matins.engine.given import check_name, check_number, check_texts, check_words, wrong
from matins.engine.money import parse_money
from matins.engine.when.durations import parse_duration
from matins.errors import InvalidInput
from matins.model.agent import FRESH, Agent, Target

_TEXTS = ("runner", "model", "workdir", "permission_mode", "provider", "url")
_LISTS = ("tools", "command", "arguments")
_NUMBERS = {"max_turns": 10_000, "max_concurrent": 10_000}
_DURATIONS = {"wall": "wall_ms", "idle": "idle_ms", "after_final": "after_final_ms"}
WORDS = (*_TEXTS, *_LISTS, *_NUMBERS, *_DURATIONS, "environment", "max_cost", "target", "options")
_TARGETS = {"fresh": (), "channel": ("channel",), "session": ("session",), "thread": ("thread",)}
_TARGET_WORDS = ("kind", "channel", "session", "session_name", "thread")
# As Cortex writes them.
_SPELLINGS = {"sessionId": "session", "sessionName": "session_name", "threadId": "thread"}
_LONGEST_THREAD = 18
CURRENT = ("current-channel", "current-session", "current-thread")


def define_agent(name: str, words: Mapping[str, Any], rates: Mapping[str, float]) -> Agent:
    """The agent that these words make; an error names the word, and how to mend it."""
    check_name("name", name, "scout")
    check_words("An agent", words, WORDS)
    values: dict[str, Any] = {"name": name}
    for word, value in words.items():
        if value is not None:
            values[_DURATIONS.get(word, word)] = _checked(word, value, rates)
    if "runner" not in values:
        raise InvalidInput('An agent needs "runner"', field="runner", hint='runner="claude"; see the runners')
    return Agent(**values)


def _checked(word: str, value: Any, rates: Mapping[str, float]) -> Any:
    if word in _TEXTS:
        return check_name(word, value, "claude")
    if word in _LISTS:
        return check_texts(word, value)
    if word in _NUMBERS:
        return check_number(word, value, 1, _NUMBERS[word])
    if word in _DURATIONS:
        return None if value == "none" else parse_duration(value)
    if word == "max_cost":
        return parse_money(value, rates, word)
    if word == "target":
        return define_target(value)
    if word == "environment":
        return _environment(value)
    if not isinstance(value, dict):
        raise wrong(word, value, "a mapping")
    return cast("dict[str, Any]", value)


def _environment(value: Any) -> tuple[tuple[str, str], ...]:
    """Values that look like a reference must be a whole one."""
    pairs: list[tuple[str, str]] = []
    for name, text in cast("dict[Any, Any]", value).items() if isinstance(value, dict) else [(None, None)]:
        if not isinstance(name, str) or not isinstance(text, str) or not name.isidentifier() or "\0" in text:
            raise wrong("environment", name, "a mapping of names to texts")
        for kind in ("env:", "file:"):
            if text == kind:
                hint = "env:NAME, or file:/path/of/the/secret"
                raise InvalidInput(f'"{name}" refers to nothing: {text}', value=text, field="environment", hint=hint)
        pairs.append((name, text))
    return tuple(pairs)


def define_target(value: Any) -> Target:
    """A word (`fresh`), or a mapping with its kind: {"kind": "channel", "channel": "C07"}."""
    if isinstance(value, Target):
        return value
    given = {"kind": value} if isinstance(value, str) else value
    if not isinstance(given, dict):
        raise wrong("target", value, "a word or a mapping")
    words = {_SPELLINGS.get(word, word): item for word, item in cast("dict[str, Any]", given).items()}
    unknown = [word for word in words if word not in _TARGET_WORDS]
    kind = words.get("kind")
    if not isinstance(kind, str) or kind not in _TARGETS or unknown:
        what = f'has no "{unknown[0]}"' if unknown else f"{kind!r} is not known"
        allowed = ", ".join(_TARGETS)
        raise InvalidInput(f"target: {what}", value=value, field="target", allowed=allowed, hint=f"one of: {allowed}")
    for word in _TARGETS[kind]:
        if words.get(word) is None:
            raise InvalidInput(f'A target of kind {kind} needs "{word}"', value=value, field="target", hint=f"{word}=…")
    for word in ("channel", "session", "session_name"):
        if words.get(word) is not None:
            check_name(word, words[word])
    if words.get("thread") is not None:
        words["thread"] = _thread(words["thread"])
    return Target(**words)


def _thread(value: Any) -> int:
    text = str(value).removeprefix("thr_") if isinstance(value, (str, int)) else ""
    if isinstance(value, bool) or not text.isdecimal() or len(text) > _LONGEST_THREAD:
        raise wrong("thread", value, "the number of a thread")
    return int(text)


def agent_to_dict(agent: Agent) -> dict[str, Any]:
    """As the store keeps it: what differs from the defaults."""
    plain = asdict(Agent(agent.name, agent.runner))
    data = {word: value for word, value in asdict(agent).items() if word == "runner" or value != plain[word]}
    return {**data, "name": agent.name}


def agent_from_dict(data: Mapping[str, Any]) -> Agent:
    values = dict(data)
    values["environment"] = tuple((name, text) for name, text in values.get("environment", ()))
    for word in _LISTS:
        values[word] = tuple(values.get(word, ()))
    values["target"] = Target(*values["target"]) if "target" in values else FRESH
    return Agent(**{field.name: values[field.name] for field in fields(Agent) if field.name in values})
