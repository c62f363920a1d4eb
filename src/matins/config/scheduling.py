"""A schedule of the file: presets and defaults filled in, other spellings understood, and its definition."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from matins.config.defining import World
from matins.config.presets import PRESETS, Preset
from matins.config.reading import Block, Said
from matins.engine.given import check_name
from matins.engine.prompts import DEFAULT_PROMPT
from matins.engine.schedules import COMMANDS, TRIGGER_CHOICES, check_approval, define
from matins.engine.when.durations import parse_duration
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger
from matins.errors import CronParseError, InvalidInput, TriggerError
from matins.executors.commands import check_command
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Cron, Interval, Once

_TRIGGER = ("timezone", *TRIGGER_CHOICES)
_SPELLINGS = {"interval": "interval", "cron": "expression"}
"""What herdctl writes beside each type."""


class Resolved(NamedTuple):
    """All that is said about a schedule, by it or for it."""

    name: str
    agent: str
    words: Mapping[str, Any]
    presets: tuple[Preset, ...]


class Meant(NamedTuple):
    agent: str
    name: str
    definition: ScheduleDefinition
    trigger: Trigger


def resolve(said: Said, defaults: Block | None, preset: str | None) -> Resolved:
    """The file's preset, its defaults, the schedule's own preset and its own words: the later one counts."""
    own = {word: value for word, value in said.block.values.items() if word not in ("preset", "agent")}
    own_preset = said.block.values.get("preset")
    when = own["when"] = _when(own, said)
    general = PRESETS[preset] if preset else Preset()
    special = PRESETS[own_preset] if own_preset else Preset()
    kind = _kind(when)
    usual = {} if defaults is None else defaults.values
    words = {**_preset_words(general, kind), **usual, **_preset_words(special, kind), **own}
    agent = said.agent or said.block.values.get("agent") or ""
    if said.agent and said.block.values.get("agent") not in (None, said.agent):
        raise InvalidInput(
            f'it stands below "{said.agent}"', value=said.block.values["agent"], field="agent", hint="leave it out"
        )
    if agent and words.get("do") is None and words.get("prompt") is None:
        words["prompt"] = DEFAULT_PROMPT
    words = {word: value for word, value in words.items() if value is not None}
    return Resolved(said.name, agent, words, (special,) if own_preset else (general,))


def _when(own: dict[str, Any], said: Said) -> str:
    """As we write it, or as herdctl does."""
    kind, when = own.pop("type", None), own.get("when")
    spelled = {word: own.pop(word, None) for word in _SPELLINGS.values()}
    given = {word: value for word, value in spelled.items() if value is not None}
    if when is not None and (given or kind):
        word = next(iter(given), "type")
        raise InvalidInput(f'"when" and "{word}" say the same', value=when, field=word, hint="keep one of them")
    if kind is not None:
        word = _SPELLINGS[kind]
        if word not in given or len(given) > 1:
            raise InvalidInput(f'type {kind} needs "{word}", and nothing else of it', field="type", hint=f"{word}: …")
        return given[word]
    if when is None:
        word = next(iter(given), None)
        if word is not None:
            kind = next(kind for kind, needs in _SPELLINGS.items() if needs == word)
            raise InvalidInput(f'"{word}" needs "type"', field=word, hint=f"type: {kind}, or write when: {given[word]}")
        raise InvalidInput('it needs "when"', field="when", hint="when: every weekday at 9am")
    return when


@lru_cache(maxsize=4096)
def _kind(when: str) -> type[Any] | None:
    """What sort of trigger it is, whenever it is said; None for a text that cannot be understood: told later."""
    try:
        return type(parse_trigger(when, now_ms=0).definition.when)
    except TriggerError:
        return None


@lru_cache(maxsize=4096)
def _trigger(when: str, now: int, options: tuple[tuple[str, Any], ...]) -> Trigger:
    """Many schedules of a file say the same."""
    return parse_trigger(when, now_ms=now, **dict(options))


def _preset_words(preset: Preset, kind: type[Any] | None) -> dict[str, Any]:
    more = {Interval: preset.interval, Once: preset.once}.get(kind) if kind is not None else None
    return {**preset.words, **(more or {})}


def define_schedule(words: Mapping[str, Any], resolved: Resolved, world: World) -> Meant:
    """An error names the word, and how to mend it."""
    check_name("name", resolved.name)
    if resolved.agent:
        check_name("agent", resolved.agent)
    given = dict(words)
    if given.get("timezone") == "local":
        given["timezone"] = world.zone
    when = given.pop("when")
    for word in COMMANDS:
        if given.get(word) is not None:
            check_command(given[word], word, workdir=world.workdir)
    options = tuple((word, given.pop(word)) for word in _TRIGGER if word in given)
    definition, trigger = define(_trigger(when, world.now, options), given, world.now, world.rates)
    check_approval(definition)
    for preset in resolved.presets:
        _check_preset(preset, when, trigger)
    return Meant(resolved.agent, resolved.name, definition, trigger)


def _check_preset(preset: Preset, when: str, trigger: Trigger) -> None:
    cron = trigger.definition.when
    if preset.fields and isinstance(cron, Cron) and not when.startswith("@") and len(when.split()) != preset.fields:
        raise CronParseError(
            f'Invalid cron expression "{when}" - expected {preset.fields} fields, got {len(when.split())}', value=when
        )
    gap = trigger.smallest_gap()
    if preset.floor and gap is not None and gap.total_seconds() * 1000 < parse_duration(preset.floor):
        raise TriggerError(
            f"Schedule interval too short: the minimum is {preset.floor}", value=when, field="when",
            hint=f"every {preset.floor}, or leave out the preset",
        )  # fmt: skip
