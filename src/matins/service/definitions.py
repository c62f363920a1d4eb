"""What a schedule shall be, before it is one: the words checked, the first slot found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from matins.engine.given import check_name
from matins.engine.planning import Rule
from matins.engine.prompts import check_prompt
from matins.engine.schedules import FIELDS, TRIGGER_WORDS, UNREADABLE, check_approval, define, encode
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.errors import Conflict, InvalidInput
from matins.model.records import NewSchedule
from matins.model.schedule import Schedule, ScheduleDefinition
from matins.model.trigger import TriggerDefinition
from matins.ports import Transaction
from matins.service.wording import when_text

LONGEST_NOTE = 2_000
_OF_TIMES = ("anchor", "first", "strict")
_UNFIT = re.compile("[\0\ud800-\udfff]")  # NUL, and half a pair of UTF-16: no database takes them


class Defined(NamedTuple):
    """A schedule that has no id yet."""

    agent: str
    name: str
    text: str
    slot: int | None
    rule: Rule

    def row(self, schedule_id: int) -> NewSchedule:
        due_at = self.rule.due_at(schedule_id, self.slot)
        return NewSchedule(schedule_id, self.agent, self.name, self.text, self.slot, due_at)


def defined(
    words: Mapping[str, Any],
    now: int,
    same: dict[object, tuple[str, int | None, Rule]],
    rates: Mapping[str, float],
) -> Defined:
    """`same` keeps what the same words meant before: schedules made in bulk differ in little but their names."""
    words = dict(words)
    name, when, agent = words.pop("name", None), words.pop("when", None), words.pop("agent", None) or ""
    check_name("name", name)
    if agent:
        check_name("agent", agent)
    if when is None:
        raise InvalidInput(f'"{name}" needs "when"', value=None, field="when", hint='when="every weekday at 9am"')
    try:
        key = (when, *sorted(words.items()))
        meaning = same.get(key)
    except TypeError:  # words that cannot be compared, such as a payload
        key = meaning = None
    if meaning is None:
        definition, trigger = define(when, words, now, rates)
        check_approval(definition)
        slot = trigger.first_ms(now)
        if slot is None:
            raise InvalidInput(
                f'"{name}" would never fire: {trigger.describe()} is past',
                value=str(when),
                field="when",
                hint="give a time to come",
            )
        meaning = encode(definition), slot, Rule(definition, trigger)
        if key is not None:
            same[key] = meaning
    return Defined(agent, name, *meaning)


def check_note(note: object, field: str = "note") -> None:
    if note is None:
        return
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or _UNFIT.search(note):
        raise InvalidInput(f'"{field}" must be a text of at most {LONGEST_NOTE} characters', value=note, field=field)


def refuse_twins(rows: Sequence[NewSchedule]) -> None:
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.agent, row.name) in seen:
            raise Conflict(f'"{row.name}" is given twice', value=row.name, field="name")
        seen.add((row.agent, row.name))


def refuse_taken(transaction: Transaction, rows: Sequence[NewSchedule]) -> None:
    for name in transaction.taken_names([(row.agent, row.name) for row in rows]):
        raise Conflict(
            f'There is a schedule "{name}" already',
            value=name,
            field="name",
            hint="edit it, remove it, or use another name",
        )


def edited(
    schedule: Schedule, words: Mapping[str, Any], now: int, rates: Mapping[str, float]
) -> tuple[ScheduleDefinition, Trigger]:
    """What it says when these words are changed, and all others kept."""
    words, definition = dict(words), schedule.definition
    if definition is UNREADABLE and not ("when" in words and "do" in words):
        raise Conflict(
            f'What "{schedule.name}" said cannot be read', value=schedule.name, hint='say it anew: "when" and "do"'
        )
    words |= _kept_of_trigger(definition.trigger, words)
    when = words.pop("when", None) or compile_trigger(definition.trigger)
    changed, trigger = define(when, {"do": definition.do, "work": definition.work, **words}, now, rates)
    kept = {f.name: getattr(definition, f.name) for f in fields(definition)}
    new = {f.name: getattr(changed, f.name) for f in fields(changed)}
    given = {"trigger", *(FIELDS.get(word, word) for word in words)}
    whole = ScheduleDefinition(**{name: new[name] if name in given else kept[name] for name in kept})
    check_approval(whole)
    if whole.prompt is not None:  # its source of work may be gone, and what it said about that with it
        check_prompt(whole.prompt, works=whole.work is not None)
    return whole, trigger


def says_when(words: Iterable[str]) -> bool:
    """Whether a change in these words is one of when it fires."""
    return any(word == "when" or word in TRIGGER_WORDS for word in words)


def _kept_of_trigger(trigger: TriggerDefinition, words: Mapping[str, Any]) -> dict[str, Any]:
    """Times, their zone and what clock changes do to them are one trigger: what is not said of it stays."""
    said = {word for word in TRIGGER_WORDS if word in words}
    when = words.get("when")
    if isinstance(when, Trigger) or (when is None and not said):
        return {}
    usual = TriggerDefinition(trigger.when)
    kept = {name: getattr(trigger, name) for name in ("timezone", "dst_gap", "dst_overlap")}
    kept = {name: value for name, value in kept.items() if value != getattr(usual, name)}
    if when is None:
        kept["when"] = when_text(trigger)
        kept |= {word: getattr(trigger.when, word) for word in _OF_TIMES if hasattr(trigger.when, word)}
    return {word: value for word, value in kept.items() if word not in said}


def nearest(transaction: Transaction, name: str) -> str | None:
    names = [row[1] for row in transaction.schedules(0, None, 1_000)]
    close = difflib.get_close_matches(name, names, n=1)
    return f'did you mean "{close[0]}"?' if close else None
