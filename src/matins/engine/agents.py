"""Agents, from the words that people write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, cast

from matins.engine.given import check_name, check_number, check_texts, check_words, wrong
from matins.engine.money import parse_money
from matins.engine.targets import define_target
from matins.engine.when.durations import parse_duration
from matins.errors import InvalidInput
from matins.model.agent import FRESH, Agent, Target

TEXTS = ("runner", "model", "workdir", "permission_mode", "provider", "url")
LISTS = ("tools", "command", "arguments")
NUMBERS = {"max_turns": 10_000, "max_concurrent": 10_000}
DURATIONS = {"wall": "wall_ms", "idle": "idle_ms", "after_final": "after_final_ms"}
HIDDEN = "…"
"""What is shown in the place of a variable's value."""
WORDS = (*TEXTS, *LISTS, *NUMBERS, *DURATIONS, "environment", "max_cost", "target", "options")


def define_agent(name: str, words: Mapping[str, Any], rates: Mapping[str, float]) -> Agent:
    """The agent that these words make; an error names the word, and how to mend it."""
    check_name("name", name, "scout")
    check_words("An agent", words, WORDS)
    values: dict[str, Any] = {"name": name}
    for word, value in words.items():
        if value is not None:
            values[DURATIONS.get(word, word)] = _checked(word, value, rates)
    if "runner" not in values:
        raise InvalidInput('An agent needs "runner"', field="runner", hint='runner="claude"; see the runners')
    return Agent(**values)


def edit_agent(agent: Agent, words: Mapping[str, Any], rates: Mapping[str, float]) -> Agent:
    """With these words said anew; None goes back to what is usual."""
    check_words("An agent", words, WORDS)
    if words.get("runner", agent.runner) is None:
        raise InvalidInput('An agent needs "runner"', field="runner", hint='runner="claude"; see the runners')
    usual = Agent(agent.name, agent.runner)
    values = {
        field: getattr(usual, field) if value is None else _checked(word, value, rates)
        for word, value in words.items()
        for field in [DURATIONS.get(word, word)]
    }
    return replace(agent, **values)


def _checked(word: str, value: Any, rates: Mapping[str, float]) -> Any:
    if word == "url":
        return _url(value)
    if word in TEXTS:
        return check_name(word, value, "claude")
    if word in LISTS:
        return check_texts(word, value)
    if word in NUMBERS:
        return check_number(word, value, 1, NUMBERS[word])
    if word in DURATIONS:
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


def _url(value: Any) -> str:
    """Of an endpoint: without a password, which everybody who may look would see."""
    text = check_name("url", value, "https://models.example.com")
    if "@" in text.partition("://")[2].partition("/")[0]:
        hint = 'environment={"OPENAI_API_KEY": "env:OPENAI_API_KEY"}: secrets are named, not written'
        raise InvalidInput('"url" holds a name or a password', field="url", hint=hint)
    return text


def _environment(value: Any) -> tuple[tuple[str, str], ...]:
    """Values that look like a reference must be a whole one."""
    pairs: list[tuple[str, str]] = []
    for name, text in cast("dict[Any, Any]", value).items() if isinstance(value, dict) else [(None, None)]:
        if not isinstance(name, str) or not isinstance(text, str) or not name.isidentifier() or "\0" in text:
            shown = name.partition("=")[0] if isinstance(name, str) else name  # behind it stands a value
            raise wrong("environment", shown, "a mapping of names to texts")
        for kind in ("env:", "file:"):
            if text == kind:
                hint = "env:NAME, or file:/path/of/the/secret"
                raise InvalidInput(f'"{name}" refers to nothing: {text}', value=text, field="environment", hint=hint)
        if text == HIDDEN:
            hint = "say its value, or where it is: env:NAME, file:/path"
            raise InvalidInput(f'"{name}" is not told: {text} stands for its value', field="environment", hint=hint)
        pairs.append((name, text))
    return tuple(pairs)


def agent_to_dict(agent: Agent) -> dict[str, Any]:
    """As the store keeps it: what differs from the defaults."""
    plain = asdict(Agent(agent.name, agent.runner))
    data = {word: value for word, value in asdict(agent).items() if word == "runner" or value != plain[word]}
    return {**data, "name": agent.name}


def agent_from_dict(data: Mapping[str, Any]) -> Agent:
    values = dict(data)
    values["environment"] = tuple((name, text) for name, text in values.get("environment", ()))
    for word in LISTS:
        values[word] = tuple(values.get(word, ()))
    values["target"] = Target(*values["target"]) if "target" in values else FRESH
    return Agent(**{field.name: values[field.name] for field in fields(Agent) if field.name in values})
