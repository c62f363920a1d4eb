"""The interpretation of a file: presets and defaults applied, each record parsed, all problems collected.

A schedule of the file: its settings with presets and defaults, and its definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from matins.config.presets import PRESETS, Preset
from matins.config.reader import (
    FILE_NAME,
    SCHEDULES,
    FileItem,
    Location,
    ParsedFile,
    Problem,
    SettingsBlock,
    conversation_of,
    in_file,
    of_agents,
    of_schedules,
    within,
)
from matins.engine.calls import follows_schedule, parse_on
from matins.engine.commands import by_person
from matins.engine.jobs import AGENT_JOB, SHELL
from matins.engine.prompts import DEFAULT_PROMPT
from matins.engine.schedules import OWN_SETTINGS, TRIGGER_SETTINGS, check_approval, idle_settings, parse_schedule
from matins.engine.settings import ParseContext, parse_setting
from matins.engine.validation import check_name, nearest, referred_names
from matins.engine.when.cron import is_hashed
from matins.engine.when.durations import parse_duration
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import Trigger
from matins.errors import InvalidInput, TriggerError
from matins.executors.secrets import check_command, check_commands
from matins.model.call import ANY_CHANNEL, CallTrigger, OnSchedule, OnWebhook
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import Command
from matins.model.trigger import When
from matins.records import kinds_by_name
from matins.records.kind import RecordContext
from matins.texts.yaml_nodes import Position, Scalar, SequenceNode

_SPELLINGS = {"interval": ("interval",), "cron": ("expression", "cron")}
"""The settings that herdctl uses for each type."""
SPELLINGS = tuple(name for names in _SPELLINGS.values() for name in names)
_CALLS: Mapping[str, Callable[[str], dict[str, str]]] = {
    "webhook": lambda name: {"webhook": name},
    "chat": lambda name: {"chat": ANY_CHANNEL},
}
"""herdctl's types that no time triggers. Its file names no endpoint, so the schedule's own name is meant."""
_CHECKS = tuple(
    name for name, declared in OWN_SETTINGS.items() if isinstance(declared.kind, Command) and name != "command"
)


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
    if agent and all(settings.get(name) is None for name in ("job", "prompt", "command", "steps")):
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
    for name in _CHECKS:
        if settings.get(name) is not None:
            check_command(settings[name], name, workdir=context.workdir)
    parsing = ParseContext(context.now, context.rates, lambda: context.zone)
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
    definition, trigger = parse_schedule(start, settings, context.now, context.rates, parsing.local_zone, context.jobs)
    check_approval(definition)
    check_commands(definition)
    agent, definition = by_person(resolved.agent, definition)
    for preset in resolved.presets:
        if when is not None:
            preset.check_fields(when, trigger.definition.when)
        gap = trigger.smallest_gap()
        if preset.min_interval and gap is not None and gap.total_seconds() * 1000 < parse_duration(preset.min_interval):
            message = f"Schedule interval too short: the minimum is {preset.min_interval}"
            hint = f"Use every {preset.min_interval}, or remove the preset."
            raise TriggerError(message, value=when, field="when", hint=hint)
    return FileSchedule(agent, resolved.name, definition, trigger)


_TRIGGER = frozenset({"when", *TRIGGER_SETTINGS})
PAUSED = "+paused"
_MAX_TRIES = 12
_ANY: Mapping[str, Any] = {"when": "1d", "steps": [{"title": "any"}]}
"""Replaces an invalid `when`, so that the other settings are checked too."""


class Entry(NamedTuple):
    """A record that the file defines."""

    kind: str
    name: str
    """For a schedule: agent/name."""
    settings: Mapping[str, Any]
    """The settings as written in the file."""
    digest: str
    location: Location
    meant: Any
    """The value of the record; `FileSchedule` for a schedule."""
    paused: bool | str = False
    notes: tuple[str, ...] = ()
    """What the settings of the entry do not do."""

    @property
    def line(self) -> int:
        return self.location.key.position.line

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name


class Interpretation(NamedTuple):
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    edits: str = "refuse"
    empty: bool = False
    records_past: bool = False
    """Whether a one-shot that is past when it is first read has a record, as in Cortex's file."""
    name: str = FILE_NAME


def interpret(parsed: ParsedFile, context: RecordContext, *, loosely: bool = False) -> Interpretation:
    """Interpret a file. `loosely`: agents need not exist yet, as in files of other systems."""
    return _Interpreter(parsed, context, loosely).interpret()


def name_of_file(parsed: ParsedFile) -> str:
    """The name that owns what the file defines."""
    name = parsed.simple.get("name")
    return FILE_NAME if name is None else name


def when_changed(before: str, after: str) -> bool:
    """Whether the triggers of two schedule digests differ."""
    return before.partition("-")[0] != after.partition("-")[0]


class _Interpreter:
    def __init__(self, parsed: ParsedFile, context: RecordContext, loosely: bool) -> None:
        self.parsed = parsed
        self.loosely = loosely
        self.problems = list(parsed.problems)
        self.preset = parsed.simple.get("preset")
        self.context = context

    def interpret(self) -> Interpretation:
        items = [*self._limits_of_preset(), *self.parsed.items]
        items.sort(key=lambda item: 1 if item.kind == "schedule" else kinds_by_name()[item.kind].order)
        entries: dict[tuple[str, str], Entry] = {}
        for item in items:
            entry = self._schedule(item) if item.kind == "schedule" else self._record(item)
            if entry is not None and entry.key in entries:
                self._duplicate(entry, entries[entry.key])
            elif entry is not None:
                entries[entry.key] = entry
                if entry.kind == "rate":  # later records need it
                    self.context = self.context._replace(rates={**self.context.rates, entry.name: entry.meant.usd})
                elif entry.kind == "allowed_hosts":
                    self.context = self.context._replace(allowed_hosts=entry.meant.hosts)
        self._check_references()
        for entry in entries.values():
            other = entries.get(("limit", f"agent:{entry.name}"))
            if entry.kind == "agent" and other is not None and entry.meant.max_concurrent is not None:
                self._duplicate(entry._replace(kind="limit", name=other.name), other)
        edits = self.parsed.simple.get("edits") or "refuse"
        given, name = tuple(entries.values()), name_of_file(self.parsed)
        try:
            check_name("name", name)
        except InvalidInput as error:
            self._add(self.parsed.top["name"], error.message, name, error.allowed, "name: team-a")
        return Interpretation(given, tuple(self.problems), edits, self.parsed.empty, self.loosely, name)

    def _limits_of_preset(self) -> Iterator[FileItem]:
        limited = {item.name for item in self.parsed.items if item.kind == "limit"}
        for scope, size in PRESETS[self.preset].limits.items() if self.preset else ():
            if scope not in limited:
                location = self.parsed.top["preset"]
                yield FileItem("limit", scope, "", SettingsBlock(location, {"size": size}, {"size": location}))

    def _record(self, item: FileItem) -> Entry | None:
        kind, settings = kinds_by_name()[item.kind], dict(item.block.values)
        if "timezone" in kind.table and settings.get("timezone") is None and self.parsed.defaults:
            settings["timezone"] = self.parsed.defaults.values.get("timezone")
        if item.kind == "agent" and self.parsed.defaults:
            settings = {**of_agents(self.parsed.defaults.values), **settings}
        limited = any(other.kind == "limit" and other.name == f"agent:{item.name}" for other in self.parsed.items)
        if self.preset and item.kind == "agent" and not limited:  # a limit of the file for the agent counts instead
            settings = {**PRESETS[self.preset].agent, **settings}
        settings = {name: value for name, value in settings.items() if value is not None}
        meant = self._try(item, settings, lambda given: kind.parse(item.name, given, self.context))
        if meant is None:
            return None
        notes = tuple(kind.notes(meant, self._known))
        return Entry(item.kind, item.name, settings, _digest(settings), item.block.location, meant, notes=notes)

    def _schedule(self, item: FileItem) -> Entry | None:
        try:
            resolved = resolve(item, self.parsed.defaults, self.preset)
        except InvalidInput as error:
            self._report(item, error)
            return None
        settings = dict(resolved.settings)
        paused = settings.pop("paused", None) or False
        meant = self._try(item, settings, lambda given: parse_file_schedule(given, resolved, self.context))
        if meant is None:
            return None
        # Its trigger, its other settings and its pause can be compared separately.
        when = _digest({name: value for name, value in settings.items() if name in _TRIGGER})
        rest = _digest([{name: value for name, value in settings.items() if name not in _TRIGGER}, paused])
        digest = f"{when}-{rest}{PAUSED if paused else ''}"
        notes = (*meant.trigger.notes, *idle_settings(meant.definition, item.block.values))
        return Entry(
            "schedule", f"{meant.agent}/{meant.name}", settings, digest, item.block.location, meant, paused, notes
        )

    def _try(self, item: FileItem, settings: dict[str, Any], parse: Callable[[Mapping[str, Any]], Any]) -> Any:
        """The parsed record, or None. An invalid setting is reported, and the others are checked without it."""
        given, reported = dict(settings), set[str]()
        for _ in range(_MAX_TRIES):
            try:
                meant = parse(given)
            except InvalidInput as error:
                if error.field in reported:
                    return None
                name = self._report(item, error)
                if name is None or given.pop(name, None) is None:
                    return None
                reported.add(name)
                if name in _ANY:
                    given[name] = _ANY[name]
            else:
                return None if reported else meant
        return None

    def _report(self, item: FileItem, error: InvalidInput) -> str | None:
        """Add the problem at its location. Returns the setting that has the problem."""
        name, location = _location_of(item.block, self.parsed.defaults, error)
        location = within(location, error.field)
        position = _position_of(location, error)
        known = any(
            f"{p.path}.".startswith(f"{location.path}.") or p.position[2:] == position[2:] for p in self.parsed.problems
        )
        if not known:
            hint = in_file(error.hint)
            self.problems.append(Problem(position, location.path, error.message, error.value, error.allowed, hint))
        return name

    def _duplicate(self, entry: Entry, other: Entry) -> None:
        what = f'{entry.kind} "{entry.name}" is defined on line {other.line} too'
        self.problems.append(
            Problem(entry.location.key.position, entry.location.path, what, entry.name, hint="Remove one of them.")
        )

    def _check_references(self) -> None:
        """Report references to records that neither the file nor the store has."""
        schedules = [item for item in self.parsed.items if item.kind == "schedule"]
        for block in filter(None, (self.parsed.defaults, *(item.block for item in schedules))):
            for name, declared in OWN_SETTINGS.items():
                if of := getattr(declared.kind, "of", ""):
                    self._refer(block, name, of)
        for item in schedules if not self.loosely else ():
            self._check_agent(item)
            for setting, trigger in _calls_of(item):
                if isinstance(trigger, OnWebhook):
                    self._check_known(item.block, setting, "inbound", trigger.webhook, self._known("inbound"))
                elif isinstance(trigger, OnSchedule):
                    names = {name.removeprefix("/") for name in self._known(SCHEDULES)}
                    bare = {name.rpartition("/")[2] for name in names}
                    self._check_known(item.block, setting, SCHEDULES, trigger.schedule, names | bare)
        for item in self.parsed.items:
            for name, noun in kinds_by_name()[item.kind].refers.items() if item.kind != "schedule" else ():
                self._refer(item.block, name, noun)
            scope = item.block.values.get("scope") if item.kind == "budget" else None
            if scope in ("schedule", "agent"):
                self._refer(item.block, "of", f"{scope}s")

    def _known(self, noun: str) -> set[str]:
        kind = "schedule" if noun == SCHEDULES else next(k.kind for k in kinds_by_name().values() if k.noun == noun)
        items = [item for item in self.parsed.items if item.kind == kind]
        names = {f"{_agent_of(i)}/{i.name}" for i in items} if noun == SCHEDULES else {i.name for i in items}
        return names | self.context.known.get(noun, frozenset())

    def _check_agent(self, item: FileItem) -> None:
        defaults = self.parsed.defaults.values if self.parsed.defaults else {}
        if item.block.values.get("steps") is not None:
            self._check_steps(item)
            return
        job = item.block.values.get("job") or defaults.get("job") or AGENT_JOB
        if not self._wakes_agent(job) or self._is_for_shell(item.block.values, _agent_of(item)):
            return
        runner = self._runner_of(_agent_of(item)) if item.block.values.get("command") is not None else None
        if runner not in (None, SHELL):
            what = f'"command" needs an agent that runs shell; "{_agent_of(item)}" runs {runner}.'
            self._add(item.block.locations["command"], what, _agent_of(item), None, "Remove agent.")
        if not _agent_of(item) and (job != AGENT_JOB or item.block.values.get("prompt") is not None):
            known = ", ".join(sorted(self._known("agents")))
            self._add(
                item.block.location,
                "the schedule has a prompt but no agent" if job == AGENT_JOB else f'the job "{job}" needs an agent',
                None,
                known,
                "agent: NAME",
            )
        elif not item.agent:
            self._refer(item.block, "agent", "agents")

    def _is_for_shell(self, settings: Mapping[str, Any], agent: str) -> bool:
        """Whether it is a command for the agent that is made with the first one."""
        return settings.get("command") is not None and agent in ("", SHELL)

    def _runner_of(self, agent: str) -> str | None:
        """The runner of an agent of the file."""
        own = (item for item in self.parsed.items if item.kind == "agent" and item.name == agent)
        return next((item.block.values.get("runner") for item in own), None)

    def _wakes_agent(self, name: str) -> bool:
        if name == AGENT_JOB or self.context.jobs is None:
            return name == AGENT_JOB
        try:
            return self.context.jobs.find(name).prompt is not None
        except InvalidInput:  # reported at the job itself
            return False

    def _check_steps(self, item: FileItem) -> None:
        """Report steps whose agent or work source does not exist."""
        place, agents, sources = item.block.locations["steps"], self._known("agents"), self._known("work_sources")
        for step in item.block.values["steps"]:
            agent, source = step.get("agent") or _agent_of(item), step.get("work_source")
            if self._is_for_shell(step, step.get("agent") or ""):
                continue
            if self._wakes_agent(step.get("job") or AGENT_JOB) and agent not in agents:
                what = f'there is no agent "{agent}"' if agent else f'step "{step.get("title")}" has no agent'
                hint = nearest(agent, sorted(agents)) if agents else "Define it under agents."
                self._add(place, what, agent or None, ", ".join(sorted(agents)), hint)
            if source is not None and source not in sources:
                hint = nearest(source, sorted(sources)) if sources else "Define it under work_sources."
                self._add(place, f'there is no work source "{source}"', source, ", ".join(sorted(sources)), hint)

    def _refer(self, block: SettingsBlock, setting: str, noun: str) -> None:
        for name in referred_names(block.values.get(setting)):
            self._check_known(block, setting, noun, name, self._known(noun))

    def _check_known(self, block: SettingsBlock, setting: str, noun: str, name: str, known: set[str]) -> None:
        if name not in known:
            one = "schedule" if noun == SCHEDULES else next(k.one for k in kinds_by_name().values() if k.noun == noun)
            hint = nearest(name, sorted(known)) if known else f"Define it under {noun}."
            self._add(block.locations[setting], f'there is no {one} "{name}"', name, ", ".join(sorted(known)), hint)

    def _add(self, location: Location, what: str, value: Any, allowed: str | None, hint: str | None) -> None:
        self.problems.append(Problem(_position_of(location), location.path, what, value, allowed, hint))


def _agent_of(item: FileItem) -> str:
    return item.agent or item.block.values.get("agent") or ""


def _calls_of(item: FileItem) -> Iterator[tuple[str, CallTrigger]]:
    """What the schedule listens to, with the setting that names it. Invalid values are reported elsewhere."""
    values = item.block.values
    given = {"on": values.get("on"), "when": values.get("when") if follows_schedule(values.get("when")) else None}
    if values.get("type") == "webhook" and given["on"] is None:
        given["type"] = {"webhook": item.name}
    for setting, value in given.items():
        with suppress(InvalidInput):
            yield from ((setting, trigger) for trigger in (() if value is None else parse_on(value)))


def _location_of(
    block: SettingsBlock, defaults: SettingsBlock | None, error: InvalidInput
) -> tuple[str | None, Location]:
    """The setting of an error, and its location: in the block, in the defaults, or the block itself."""
    field = (error.field or "").partition("[")[0].partition(".")[0]
    about_time = field == "when" or (isinstance(error, TriggerError) and error.code != "timezone_invalid")
    for name in (field, "when"):
        location = _find_location(block, defaults, name) if name != "when" or about_time else None
        if location is not None:
            return name, location
    return None, block.location


def _find_location(block: SettingsBlock, defaults: SettingsBlock | None, name: str) -> Location | None:
    for candidate in ("when", *SPELLINGS) if name == "when" else (name,):
        if candidate in block.locations:
            return block.locations[candidate]
    return defaults.locations.get(name) if defaults is not None else None


def _position_of(location: Location, error: InvalidInput | None = None) -> Position:
    """The position of the value; that of the name when the value is a mapping or empty."""
    number = (error.field or "").partition("[")[2].partition("]")[0] if error is not None else ""
    if isinstance(location.node, SequenceNode) and number.isdecimal() and int(number) < len(location.node.items):
        return location.node.items[int(number)].position
    return (
        location.node.position
        if isinstance(location.node, Scalar) and location.node.value is not None
        else location.key.position
    )


def _digest(settings: Any) -> str:
    return sha256(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
