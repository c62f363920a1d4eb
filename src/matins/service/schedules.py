"""Use cases on schedules."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from matins.engine.planning import Rule
from matins.engine.schedules import UNREADABLE, decode, define, encode
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.errors import Conflict, InvalidInput, NotFound
from matins.model.principal import Principal
from matins.model.records import NewEvent, NewSchedule
from matins.model.schedule import Schedule, ScheduleDefinition
from matins.ports import Clock, Store, Transaction
from matins.runtime.catalog import GLOBAL, Catalog, Known
from matins.runtime.limits import Free
from matins.runtime.planner import Planner, live_runs
from matins.runtime.recorder import end_runs
from matins.runtime.replan import first_free, next_free

LONGEST_NAME = 200
LONGEST_NOTE = 2_000
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # half a pair of UTF-16: no database takes it
MOST_PERMITS = 10_000


class Schedules:
    _store: Store
    _clock: Clock
    _catalog: Catalog
    _changed: Callable[[], None]

    def add(self, principal: Principal, name: str, when: str | Trigger, agent: str = "", **words: Any) -> Schedule:
        """A new schedule. A name that is taken is an error: nothing is replaced unasked."""
        ids = self.add_many(principal, [{"name": name, "when": when, "agent": agent, **words}])
        return self._by_id(ids[0])

    def add_many(self, principal: Principal, schedules: Sequence[Mapping[str, Any]]) -> list[int]:
        """Many at once, in the words of `add`; all of them or, when one cannot be used, none."""
        now = self._clock.now_ms()
        same: dict[object, tuple[str, int | None, Rule]] = {}
        defined = [_defined(self._located(words), now, same) for words in schedules]
        with self._store.transaction(now) as transaction:
            ids = transaction.schedule_ids(len(defined))
            rows = [item.row(schedule_id) for schedule_id, item in zip(ids, defined, strict=True)]
            _refuse_twins(rows)
            _refuse_taken(transaction, rows)
            transaction.insert_schedules(rows, now)
            for row in rows:
                data = {"name": row.name, "agent": row.agent, "by": principal.name}
                transaction.events.append(NewEvent(now, "schedule.created", row.id, None, data))
        self._changed()
        return list(ids)

    def edit(self, principal: Principal, name: str, agent: str | None = None, **words: Any) -> Schedule:
        """Change what a schedule says. What is due under the old words is planned first; runs in flight keep theirs."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            schedule = self._find_locked(transaction, name, agent)
            definition, trigger = _edited(schedule, self._located(words), now)
            cursor = self._plan_what_is_due(transaction, schedule, now)
            rev = schedule.rev + 1
            transaction.insert_revision(schedule.id, rev, encode(definition), now)
            slot = first_free(transaction, schedule.id, trigger, now) if "when" in words else cursor
            if slot is not None and slot < now:  # it waits for a completion
                slot = trigger.next_ms(now)
            paused = schedule.state in ("paused", "broken")
            due_at = None if paused else Rule(definition, trigger).due_at(schedule.id, slot)
            transaction.replace_cursor(schedule.id, slot, due_at, rev, paused=paused)
            if schedule.state == "broken":  # nobody but the reader of its row may have noticed yet
                transaction.set_schedule_state(schedule.id, "broken", now, "edited: resume it", principal.name)
            data = {"rev": rev, "words": sorted(words), "by": principal.name}
            transaction.events.append(NewEvent(now, "schedule.updated", schedule.id, None, data))
        self._changed()
        return self._by_id(schedule.id)

    def pause(self, principal: Principal, name: str, agent: str | None = None, note: str | None = None) -> Schedule:
        """Nothing new starts; runs that wait are held back; runs that have started go on."""
        _check_note(note)
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            schedule = self._find_locked(transaction, name, agent)
            self._plan_what_is_due(transaction, schedule, now)
            schedule = self._find(transaction, name, agent)
            transaction.set_schedule_state(schedule.id, "paused", now, note, principal.name)
            waiting = schedule.due_at is None and schedule.next_slot is not None
            transaction.replace_cursor(
                schedule.id, schedule.next_slot, None, schedule.rev, paused=True, waiting=waiting
            )
            transaction.park(schedule.id)
            transaction.events.append(
                NewEvent(now, "schedule.paused", schedule.id, None, {"by": principal.name, "note": note})
            )
        self._changed()
        return self._by_id(schedule.id)

    def resume(self, principal: Principal, name: str, agent: str | None = None) -> Schedule:
        """Go on: an interval from now, everything else at its next occurrence."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            schedule = self._find_locked(transaction, name, agent)
            if schedule.state == "active":
                return schedule
            known = self._known(transaction, schedule)
            slot = _resumed(transaction, schedule, known.rule.trigger, now)
            transaction.set_schedule_state(schedule.id, "active", now, None, None)
            transaction.replace_cursor(schedule.id, slot, known.rule.due_at(schedule.id, slot), schedule.rev)
            transaction.unpark(schedule.id, now)
            transaction.promote([schedule.id], now)
            transaction.events.append(NewEvent(now, "schedule.resumed", schedule.id, None, {"by": principal.name}))
        self._changed()
        return self._by_id(schedule.id)

    def remove(self, principal: Principal, name: str, agent: str | None = None) -> bool:
        """Gone from every list, its history stays. False when there is no such schedule."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            try:
                schedule = self._find_locked(transaction, name, agent)
            except NotFound:
                return False
            transaction.set_schedule_state(schedule.id, "removed", now, None, principal.name)
            transaction.replace_cursor(schedule.id, None, None, schedule.rev)
            live = [run for run, _ in live_runs(transaction, [schedule.id]).get(schedule.id, [])]
            end_runs(transaction, self._catalog, live, now, "schedule_removed")
            transaction.events.append(NewEvent(now, "schedule.removed", schedule.id, None, {"by": principal.name}))
        self._changed()
        return True

    def get(self, principal: Principal, name: str, agent: str | None = None) -> Schedule:
        with self._store.reading() as transaction:
            return self._find(transaction, name, agent)

    def list(self, principal: Principal, agent: str | None = None, after: int = 0, limit: int = 100) -> list[Schedule]:
        """A page of schedules in the order in which they were made."""
        with self._store.reading() as transaction:
            return [schedule_of(row) for row in transaction.schedules(after, agent, limit)]

    def limit(self, principal: Principal, scope: str, size: int) -> None:
        """At most `size` runs of a scope at once, over all processes: "global", or "agent:NAME"."""
        if type(size) is not int or not 1 <= size <= MOST_PERMITS:
            raise InvalidInput(
                f'"size" must be a whole number from 1 to {MOST_PERMITS}, got {size!r}', value=size, field="size"
            )
        if scope != GLOBAL and not (scope.startswith("agent:") and scope.isprintable() and len(scope) > len("agent:")):
            raise InvalidInput(f'"{scope}" has no limit', value=scope, field="scope", hint='"global", or "agent:NAME"')
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            transaction.resize_scope(scope, size)
            transaction.events.append(NewEvent(now, "limit.set", None, None, {"scope": scope, "size": size}))
        self._changed()

    def _located(self, words: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**words, "timezone": self._clock.local_zone()} if words.get("timezone") == "local" else words

    def _find_locked(self, transaction: Transaction, name: str, agent: str | None) -> Schedule:
        """With its cursor locked: what is read from here on stays true until the commit."""
        transaction.due_rows([self._find(transaction, name, agent).id])
        return self._find(transaction, name, agent)

    def _find(self, transaction: Transaction, name: str, agent: str | None) -> Schedule:
        if agent is None and "/" in name and not transaction.schedules_named(name, None):
            agent, name = name.split("/", 1)
        ids = transaction.schedules_named(name, agent)
        if len(ids) == 1:
            row = transaction.schedule(ids[0])
            assert row is not None
            return schedule_of(row)
        if not ids:
            raise NotFound(f'There is no schedule "{name}"', value=name, field="name", hint=_nearest(transaction, name))
        names = [f"{s.agent}/{s.name}" for s in map(schedule_of, filter(None, map(transaction.schedule, ids)))]
        raise Conflict(f'"{name}" is the name of several schedules', value=name, hint=f"say which: {', '.join(names)}")

    def _by_id(self, schedule_id: int) -> Schedule:
        with self._store.reading() as transaction:
            row = transaction.schedule(schedule_id)
        assert row is not None, schedule_id
        return schedule_of(row)

    def _known(self, transaction: Transaction, schedule: Schedule) -> Known:
        known = self._catalog.get(transaction, [(schedule.id, schedule.rev)])[schedule.id, schedule.rev]
        if isinstance(known, Exception):
            raise Conflict(
                f'"{schedule.name}" cannot be used: {known}', value=schedule.name, hint="edit it, then resume it"
            ) from known
        return known

    def _plan_what_is_due(self, transaction: Transaction, schedule: Schedule, now: int) -> int | None:
        """Slots that came before a change get their records under the old words; where the cursor stands then."""
        rows = transaction.due_rows([schedule.id])
        if schedule.due_at is not None and rows[0].slot <= now:  # its jitter may not be over: there is no later
            Planner(self._catalog).plan_rows(transaction, rows, now, 0, Free(0))
            rows = transaction.due_rows([schedule.id])
        return rows[0].slot


def _resumed(transaction: Transaction, schedule: Schedule, trigger: Trigger, now: int) -> int | None:
    """Where a paused schedule goes on. A one-shot keeps its time: whether it is too late, its grace decides."""
    if schedule.next_slot is None or trigger.kind == "once":
        return schedule.next_slot
    return next_free(transaction, schedule.id, trigger, now)


class _Defined(NamedTuple):
    """A schedule that has no id yet."""

    agent: str
    name: str
    text: str
    slot: int | None
    rule: Rule

    def row(self, schedule_id: int) -> NewSchedule:
        due_at = self.rule.due_at(schedule_id, self.slot)
        return NewSchedule(schedule_id, self.agent, self.name, self.text, self.slot, due_at)


def _defined(words: Mapping[str, Any], now: int, same: dict[object, tuple[str, int | None, Rule]]) -> _Defined:
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
        definition, trigger = define(when, words, now)
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
    return _Defined(agent, name, *meaning)


def check_name(field: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInput(
            f'"{field}" must be a text of 1 to {LONGEST_NAME} printable characters, got {str(name)[:60]!r}',
            value=name,
            field=field,
        )


def _check_note(note: object) -> None:
    if note is None:
        return
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or _LONE_SURROGATE.search(note):
        raise InvalidInput(f'"note" must be a text of at most {LONGEST_NOTE} characters', value=note, field="note")


def _refuse_twins(rows: Sequence[NewSchedule]) -> None:
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.agent, row.name) in seen:
            raise Conflict(f'"{row.name}" is given twice', value=row.name, field="name")
        seen.add((row.agent, row.name))


def _refuse_taken(transaction: Transaction, rows: Sequence[NewSchedule]) -> None:
    for name in transaction.taken_names([(row.agent, row.name) for row in rows]):
        raise Conflict(
            f'There is a schedule "{name}" already',
            value=name,
            field="name",
            hint="edit it, remove it, or use another name",
        )


def _edited(schedule: Schedule, words: Mapping[str, Any], now: int) -> tuple[ScheduleDefinition, Trigger]:
    words, definition = dict(words), schedule.definition
    if definition is UNREADABLE and not ("when" in words and "do" in words):
        raise Conflict(
            f'What "{schedule.name}" said cannot be read', value=schedule.name, hint='say it anew: "when" and "do"'
        )
    when = words.pop("when", None) or compile_trigger(definition.trigger)
    changed, trigger = define(when, {"do": definition.do, **words}, now)
    kept = {f.name: getattr(definition, f.name) for f in fields(definition)}
    new = {f.name: getattr(changed, f.name) for f in fields(changed)}
    given = {"trigger", *(_FIELD.get(word, word) for word in words)}
    return ScheduleDefinition(**{name: new[name] if name in given else kept[name] for name in kept}), trigger


_FIELD = {"grace": "grace_ms", "retry": "retry_ms", "retry_most": "retry_most_ms", "timeout": "timeout_ms"}


def _nearest(transaction: Transaction, name: str) -> str | None:
    names = [row[1] for row in transaction.schedules(0, None, 1_000)]
    close = difflib.get_close_matches(name, names, n=1)
    return f'did you mean "{close[0]}"?' if close else None


def schedule_of(row: Sequence[Any]) -> Schedule:
    values = list(row)
    try:
        values[5] = decode(values[5])
    except Exception as error:  # one bad row must not hide the others
        values[3], values[5], values[6] = "broken", UNREADABLE, f"{type(error).__name__}: {error}"
    if values[3] == "active" and values[9] is None:
        values[3] = "completed"
    return Schedule(*values)
