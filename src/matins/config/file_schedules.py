"""A schedule of the file: its settings with presets and defaults, and its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from matins.config.herdctl import conversation_of
from matins.config.presets import PRESETS, Preset
from matins.config.reader import FileItem, SettingsBlock
from matins.config.sections import of_schedules
from matins.engine.calls import follows_schedule
from matins.engine.prompts import DEFAULT_PROMPT
from matins.engine.schedules import OWN_SETTINGS, TRIGGER_SETTINGS, check_approval, parse_schedule
from matins.engine.setting_values import ParseContext
from matins.engine.settings import parse_setting
from matins.engine.validation import check_name
from matins.engine.when.durations import parse_duration
from matins.engine.when.hashed_cron import is_hashed
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger
from matins.errors import InvalidInput, TriggerError
from matins.executors.command_checks import check_command
from matins.model.call import ANY_CHANNEL
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import Command
from matins.model.trigger import When
from matins.records.kind import RecordContext

_SPELLINGS = {"interval": ("interval",), "cron": ("expression", "cron")}
"""The settings that herdctl uses for each type."""
SPELLINGS = tuple(name for names in _SPELLINGS.values() for name in names)
_CALLS: Mapping[str, Callable[[str], dict[str, str]]] = {
    "webhook": lambda name: {"webhook": name},
    "chat": lambda name: {"chat": ANY_CHANNEL},
}
"""herdctl's types that no time triggers. Its file names no endpoint, so the schedule's own name is meant."""
_COMMANDS = tuple(name for name, declared in OWN_SETTINGS.items() if isinstance(declared.kind, Command))


class ResolvedSettings(NamedTuple):
    """All settings of a schedule: its own, and those of defaults and presets."""

    name: str
    agent: str
    settings: Mapping[str, Any]
    presets: tuple[Preset, ...]


class FileSchedule(NamedTuple):
    agent: str
    name: str
    definition: ScheduleDefinition
    trigger: Trigger


def resolve(item: FileItem, defaults: SettingsBlock | None, preset: str | None) -> ResolvedSettings:
    """Merge the file's preset, its defaults, the schedule's own preset and its own settings; the last one wins."""
    own = {name: value for name, value in item.block.values.items() if name not in ("preset", "agent")}
    own_preset = item.block.values.get("preset")
    when = own["when"] = _when(own, item.name)
    if own.pop("enabled", None) is False:
        own.setdefault("paused", True)
    general = PRESETS[preset] if preset else Preset()
    special = PRESETS[own_preset] if own_preset else Preset()
    sample = None if when is None else _sample(when)
    default_settings = {} if defaults is None else of_schedules(defaults.values)
    settings = {**general.settings_for(sample), **default_settings, **special.settings_for(sample), **own}
    agent = item.agent or item.block.values.get("agent") or ""
    if item.agent and item.block.values.get("agent") not in (None, item.agent):
        message = f'"agent" is "{item.agent}" already: the schedule is listed below it.'
        raise InvalidInput(message, value=item.block.values["agent"], field="agent", hint="Remove it.")
    if settings.pop("resume_session", False):
        settings.setdefault("target", conversation_of(agent))
    if agent and all(settings.get(name) is None for name in ("job", "prompt", "steps")):
        settings["prompt"] = DEFAULT_PROMPT
    settings = {name: value for name, value in settings.items() if value is not None}
    return ResolvedSettings(item.name, agent, settings, (special,) if own_preset else (general,))


def _when(own: dict[str, Any], name_of_schedule: str) -> str | None:
    """The trigger as text, from `when` or from herdctl's settings; None where only calls start runs."""
    kind, when = own.pop("type", None), own.get("when")
    spelled = {name: own.pop(name, None) for name in SPELLINGS}
    given = {name: value for name, value in spelled.items() if value is not None}
    if when is not None and (given or kind):
        name = next(iter(given), "type")
        raise InvalidInput(f'"when" and "{name}" cannot be combined.', value=when, field=name, hint="Keep one of them.")
    if kind in _CALLS:
        if given:
            raise InvalidInput(f'type {kind} has no "{next(iter(given))}".', field="type", hint="Remove it.")
        own["on"] = own.get("on") or _CALLS[kind](name_of_schedule)
        return None
    if kind is not None:
        names = _SPELLINGS[kind]
        name = next((name for name in names if name in given), names[0])
        if name not in given or len(given) > 1:
            raise InvalidInput(f'type {kind} needs "{name}" alone.', field="type", hint=f"{name}: …")
        return given[name].strip()
    if when is None:
        name = next(iter(given), None)
        if name is not None:
            kind = next(kind for kind, names in _SPELLINGS.items() if name in names)
            hint = f"Add type: {kind}, or write when: {given[name]}"
            raise InvalidInput(f'"{name}" needs "type".', field=name, hint=hint)
        if own.get("on") is None and own.get("steps") is None:
            raise InvalidInput('the schedule needs "when" or "on".', field="when", hint="when: every weekday at 9am")
    return when


@lru_cache(maxsize=4096)
def _sample(when: str) -> When | None:
    """The trigger at any time; None for an invalid text, which is reported later."""
    try:
        return parse_trigger(when, now_ms=0, name="sample").definition.when
    except TriggerError:
        return None


@lru_cache(maxsize=4096)
def _trigger(when: str, now: int, options: tuple[tuple[str, Any], ...], name: str | None) -> Trigger:
    """The parsed trigger. Cached: many schedules of a file have the same one."""
    return parse_trigger(when, now_ms=now, name=name, **dict(options))


def parse_file_schedule(given: Mapping[str, Any], resolved: ResolvedSettings, context: RecordContext) -> FileSchedule:
    """The schedule as the file defines it. An error names the setting and what to write."""
    check_name("name", resolved.name)
    if resolved.agent:
        check_name("agent", resolved.agent)
    settings = dict(given)
    when = settings.pop("when", None)
    for name in _COMMANDS:
        if settings.get(name) is not None:
            check_command(settings[name], name, workdir=context.workdir)
    parsing = ParseContext(context.now, context.rates, context.zone)
    options = tuple(
        (name, parse_setting(declared, settings.pop(name), parsing))
        for name, declared in TRIGGER_SETTINGS.items()
        if name in settings
    )
    timed = when is not None and not follows_schedule(when)
    if timed:
        start: Any = _trigger(when, context.now, options, resolved.name if is_hashed(str(when)) else None)
    else:
        start, settings = when, {**settings, **{name: value for name, value in options if name == "timezone"}}
    definition, trigger = parse_schedule(start, settings, context.now, context.rates, context.zone, context.jobs)
    check_approval(definition)
    for preset in resolved.presets:
        _check_preset(preset, when, trigger)
    return FileSchedule(resolved.agent, resolved.name, definition, trigger)


def _check_preset(preset: Preset, when: str | None, trigger: Trigger) -> None:
    if when is not None:
        preset.check_fields(when, trigger.definition.when)
    gap = trigger.smallest_gap()
    if preset.min_interval and gap is not None and gap.total_seconds() * 1000 < parse_duration(preset.min_interval):
        message = f"Schedule interval too short: the minimum is {preset.min_interval}"
        hint = f"Use every {preset.min_interval}, or remove the preset."
        raise TriggerError(message, value=when, field="when", hint=hint)
