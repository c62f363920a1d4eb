"""Schedules before they are stored: their settings are checked, and their first slot is computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, cast

import orjson

from matins.engine.calendars import split_exception
from matins.engine.calls import follows_schedule, format_on
from matins.engine.commands import name_of_command
from matins.engine.jobs import MESSAGE_JOB, wakes_agent
from matins.engine.planning import Timetable
from matins.engine.schedules import (
    OWN_SETTINGS,
    TRIGGER_SETTINGS,
    UNREADABLE,
    apply_types,
    check_approval,
    check_texts,
    encode,
    parse_schedule,
    parse_when,
    trigger_settings,
    trigger_source,
)
from matins.engine.settings import ParseContext, parse_setting
from matins.engine.targets import CURRENT, context_of, parse_context, resolve_current
from matins.engine.validation import UNSTORABLE, check_name, items_of
from matins.engine.when.cron import is_hashed
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.engine.when.zones import names_zone
from matins.errors import Conflict, InvalidInput, name_taken
from matins.model.access import Principal
from matins.model.agent import Target
from matins.model.call import OnSchedule
from matins.model.job import JobTypes
from matins.model.rows import NewSchedule
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.trigger import TriggerDefinition
from matins.runtime.command_files import has_commands
from matins.store import Store
from matins.store.transaction import Transaction

MAX_NOTE_LENGTH = 2_000
_MAX_NAME_FROM_TEXT, _NAME_WORDS, _MAX_NUMBER = 40, 6, 1_000
_WORK = ("job", "work_source", "prompt", "command", "stdin")
"""Settings that say what a run does, if it has no steps."""
_SHARED = ("timezone", "dst_gap", "dst_overlap")
"""Settings that a trigger keeps when its times change."""


class Draft(NamedTuple):
    """A schedule that has no id yet."""

    agent: str
    name: str
    text: str
    slot: int | None
    definition: ScheduleDefinition
    """The definition. In a bulk, drafts that differ only in trigger and payload share that of the first."""
    trigger: Trigger
    proposed: tuple[str, ...] = ()
    """Settings that only the owner can set, and about which the owner decides."""

    @property
    def timetable(self) -> Timetable:
        return Timetable(self.definition, self.trigger)

    def with_definition(self, definition: ScheduleDefinition) -> Draft:
        return self._replace(text=encode(definition), definition=definition)

    def row(
        self, schedule_id: int, author: Principal, run_id: int | None, parent: int | None, depth: int
    ) -> NewSchedule:
        due_at = self.timetable.due_at(schedule_id, self.slot) if self.definition.jitter else self.slot
        return NewSchedule(
            schedule_id, self.agent, self.name, self.text, self.slot, due_at, "active", author.who, author.role,
            run_id, parent, depth,
        )  # fmt: skip


class _Timed(NamedTuple):
    """A trigger of shared settings."""

    trigger: Trigger
    slot: int | None
    data: Mapping[str, Any]
    """The definition with this trigger, and with the payload of the first."""
    text: str
    """The same as it is stored, if it has no payload."""


class _Shared(NamedTuple):
    """Settings that schedules of a bulk have in common: all but name, agent, trigger and payload."""

    definition: ScheduleDefinition
    data: Mapping[str, Any]
    timed: dict[object, _Timed]


Cache = dict[object, _Shared]


def make_draft(given: Mapping[str, Any], context: ParseContext, cache: Cache, jobs: JobTypes) -> Draft:
    """The draft of a schedule. `cache` has what those before it in the same bulk were parsed to."""
    settings = dict(given)
    name, when, agent = settings.pop("name", None), settings.pop("when", None), settings.pop("agent", None) or ""
    check_name("name", name, "nightly")
    if agent:
        check_name("agent", agent)
    key, payload = _key(settings), settings.get("payload")
    shared = None if key is None else cache.get(key)
    timed = None if shared is None else _timed(shared, name, when, settings, context)
    if shared is not None and timed is not None:
        text = timed.text
        if payload is not None:
            held = parse_setting(OWN_SETTINGS["payload"], payload, context)
            text = orjson.dumps({**timed.data, "payload": held}).decode()
        return Draft(agent, name, text, timed.slot, shared.definition, timed.trigger)
    definition, trigger = parse_schedule(when, settings, context.now, context.rates, context.local_zone, jobs, name)
    check_approval(definition)
    text, slot = encode(definition), _first_slot(name, when, trigger, context.now)
    read_by_job_alone = payload is None or not (
        definition.steps or definition.job == MESSAGE_JOB or wakes_agent(definition) or jobs.find(definition.job).inputs
    )
    excepted = bool(split_exception(when)[1])
    if key is not None and read_by_job_alone and not (definition.on or has_commands(definition) or excepted):
        cache[key] = _Shared(definition, orjson.loads(text), {})
    return Draft(agent, name, text, slot, definition, trigger)


def _key(settings: Mapping[str, Any]) -> object:
    """What schedules have in common that differ only in trigger and payload; None if it cannot be compared."""
    payload = settings.get("payload")
    others = settings if payload is None else {**settings, "payload": None}
    values = tuple(others.values())
    key = tuple(others), values, tuple(map(type, values)), payload is None
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _timed(shared: _Shared, name: str, when: Any, settings: Mapping[str, Any], context: ParseContext) -> _Timed | None:
    """The shared settings with this trigger; None if it is in another zone, in which instants would be others."""
    key = when if isinstance(when, str) else None
    known = shared.timed.get(key)
    if known is not None or when is None or follows_schedule(when) or split_exception(when)[1]:
        return known
    trigger = parse_when(when, settings, context, name)
    if trigger.timezone != shared.definition.trigger.timezone:
        return None
    data = {**shared.data, "trigger": trigger.to_dict()}
    text = "" if "payload" in data else orjson.dumps(data).decode()
    timed = _Timed(trigger, _first_slot(name, when, trigger, context.now), data, text)
    if key is not None and trigger.kind != "once" and not is_hashed(key):  # an instant, or minutes of its own
        shared.timed[key] = timed
    return timed


def _first_slot(name: str, when: Any, trigger: Trigger, now: int) -> int | None:
    slot = trigger.first_ms(now)
    if slot is None and trigger.kind != "never":
        message = f'"{name}" would never fire: {trigger.describe()} is past.'
        raise InvalidInput(message, value=str(when), field="when", hint="Give a time in the future.")
    return slot


def name_from_text(text: str) -> str:
    """The name for a text, such as `summarise-my-open-prs`."""
    words = re.findall(r"\w+", text.lower())[:_NAME_WORDS]
    while len(words) > 1 and len("-".join(words)) > _MAX_NAME_FROM_TEXT:
        words.pop()
    return "-".join(words)[:_MAX_NAME_FROM_TEXT] or "schedule"


def subject_of(settings: Mapping[str, Any]) -> str:
    """The text from which a schedule gets its name."""
    steps = items_of(settings.get("steps"))
    titles = [str(cast("Mapping[str, Any]", step).get("title", "")) for step in steps if isinstance(step, Mapping)]
    if (command := settings.get("command")) is not None:
        return name_of_command(command if isinstance(command, str) else tuple(map(str, items_of(command))))
    return str(settings.get("prompt") or settings.get("job") or settings.get("work_source") or " ".join(titles))


def free_name(transaction: Transaction, agent: str, text: str) -> str:
    """The name for a text, with a number if the name is in use."""
    name = name_from_text(text)
    for number in range(1, _MAX_NUMBER):
        free = name if number == 1 else f"{name}-{number}"
        if not transaction.taken_names([(agent, free)]):
            return free
    raise Conflict(f'There are too many schedules "{name}".', value=name, field="name", hint="Give it a name.")


def check_note(note: object, field: str = "note") -> None:
    if note is None:
        return
    if not isinstance(note, str) or len(note) > MAX_NOTE_LENGTH or UNSTORABLE.search(note):
        message = f'"{field}" must be text of at most {MAX_NOTE_LENGTH} characters.'
        raise InvalidInput(message, value=note, field=field, hint="Shorten it.")


def check_duplicates(rows: Sequence[Draft]) -> None:
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.agent, row.name) in seen:
            hint = "Give each schedule a different name."
            raise Conflict(f'"{row.name}" is given twice.', value=row.name, field="name", hint=hint)
        seen.add((row.agent, row.name))


def check_available(transaction: Transaction, rows: Sequence[NewSchedule]) -> None:
    for name in transaction.taken_names([(row.agent, row.name) for row in rows]):
        raise name_taken(name)


def apply_edit(
    schedule: ScheduleRecord, given: Mapping[str, Any], context: ParseContext, jobs: JobTypes
) -> tuple[ScheduleDefinition, Trigger]:
    """The definition with these settings changed, and all others kept; None resets one to its default."""
    settings, definition = dict(given), schedule.definition
    if definition is UNREADABLE and not ("when" in settings and "job" in settings):
        message = f'The settings of "{schedule.name}" cannot be read.'
        raise Conflict(message, value=schedule.name, hint='Set "when" and "job".')
    settings |= _kept_of_trigger(definition.trigger, settings)
    timed = not ("when" in settings and settings["when"] is None)
    when = settings.pop("when", None) or (compile_trigger(definition.trigger) if timed else None)
    if "steps" in settings and (settings["steps"] is None) != (not definition.steps):
        settings |= {name: None for name in _WORK if name not in settings}  # from a prompt or a job to steps, or back
    given_work = {name for name in ("prompt", "job", "command") if settings.get(name) is not None}
    if given_work and ("command" in given_work) != (definition.command is not None):  # to a command, or back
        settings |= {name: None for name in (*_WORK, "target", "steps") if name not in settings}
    replaced = follows_schedule(when)  # `after release ends` replaces `after release succeeds`
    kept_calls = tuple(call for call in definition.on if not (replaced and isinstance(call, OnSchedule)))
    kept: dict[str, Any] = {name: getattr(definition, name) for name in _WORK}
    kept |= {"on": format_on(kept_calls) if kept_calls else None, "steps": definition.steps or None}
    changed, trigger = parse_schedule(
        when, {**kept, **settings}, context.now, context.rates, context.local_zone, name=schedule.name
    )
    given_fields = {"trigger", "on", *(OWN_SETTINGS[name].field for name in settings if name in OWN_SETTINGS)}
    whole = ScheduleDefinition(
        **{f.name: getattr(changed if f.name in given_fields else definition, f.name) for f in fields(definition)}
    )
    if settings.keys() & {"job", "payload", "steps"}:  # otherwise the job may be one that no program has any more
        whole = apply_types(whole, jobs, context)
    check_approval(whole)
    check_texts(whole)  # the prompt may need a work source that the edit removed
    return whole, trigger


def changes_trigger(names: Iterable[str]) -> bool:
    """Whether one of these settings belongs to the trigger."""
    return any(name == "when" or name in TRIGGER_SETTINGS for name in names)


def _kept_of_trigger(trigger: TriggerDefinition, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The present settings of a trigger that an edit keeps: times, time zone and DST rules are one trigger."""
    given = {name for name in TRIGGER_SETTINGS if name in settings}
    when = settings.get("when")
    if isinstance(when, (Trigger, Mapping)) or ("when" not in settings and not given):
        return {}
    kept = trigger_settings(trigger)
    if "when" not in settings:
        kept["when"] = trigger_source(trigger)
    else:
        kept = {name: value for name, value in kept.items() if name in _SHARED}
        if isinstance(when, str) and names_zone(when):
            kept.pop("timezone", None)
    return {name: value for name, value in kept.items() if name not in given}


def resolve_target_setting(
    store: Store, principal: Principal, settings: Mapping[str, Any], context: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """The settings with a shorthand such as `current-thread` resolved. The server knows the thread of an agent's run;
    other callers give theirs in `context`."""
    target = settings.get("target")
    here = Target() if context is None else parse_context(context)
    if not isinstance(target, str) or target not in CURRENT:
        return settings
    return {**settings, "target": resolve_current(target, _place_of_run(store, principal) or here)}


def _place_of_run(store: Store, principal: Principal) -> Target | None:
    if principal.run_id is None:
        return None
    with store.reading() as transaction:
        assignment = transaction.thread_assignment(principal.run_id)
    return None if assignment is None else context_of(assignment.thread)
