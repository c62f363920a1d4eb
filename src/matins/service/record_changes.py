"""Changes of records inside a transaction: for use cases, and for the file.

Edits, parsed before a transaction is open: while one is, no other change is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from matins.engine.jobs import wakes_agent
from matins.engine.schedules import references
from matins.engine.steps import of_step
from matins.engine.validation import referred_names
from matins.engine.when.triggers import Trigger
from matins.errors import Conflict
from matins.model.access import Principal
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.records import record_kinds
from matins.records.kind import RecordChange, RecordKind
from matins.records.policies import HOOKS
from matins.runtime.approval_requests import release_unchanged
from matins.service.core import Core
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class RecordChanges:
    core: Core

    def wake(self, transaction: Transaction, kind: RecordKind[Any], now: int) -> None:
        """Wake runs that wait for this kind. Call this first: cursors and runs are locked before policies."""
        if kind.wakes is None:
            return
        rows = transaction.waiting_for(kind.wakes)
        transaction.lock_due({row.schedule_id for row in rows})
        for row in rows:
            transaction.wake_run(row.id, kind.wakes, now)

    def set(
        self, transaction: Transaction, principal: Principal, kind: RecordKind[Any], key: str, value: Any, now: int,
        given: Collection[str] = (),
    ) -> Any:  # fmt: skip
        change = self._change(transaction, principal, now)._replace(given=given)
        before = self.read(transaction, kind).get(key)
        held = kind.storage.put(kind, key, value, change)
        kind.changed(held, before, change)
        if kind is HOOKS:
            release_unchanged(transaction, self.core.catalog, now)
        return held

    def put(
        self, transaction: Transaction, principal: Principal, kind: RecordKind[Any], key: str, value: Any, now: int
    ) -> None:
        """Store a record in which only a name changed: nothing follows from it."""
        kind.storage.put(kind, key, value, self._change(transaction, principal, now))

    def delete(self, transaction: Transaction, principal: Principal, kind: RecordKind[Any], key: str, now: int) -> bool:
        change = self._change(transaction, principal, now)
        held = self.read(transaction, kind).get(key)
        deleted = kind.storage.delete(kind, key, change)
        if deleted and held is not None:
            kind.deleted(held, held, change)
        return deleted

    def read(self, transaction: Transaction, kind: RecordKind[Any]) -> dict[str, Any]:
        return dict(kind.storage.read(kind, transaction, self.core.catalog.policies(transaction)))

    def records_with(self, transaction: Transaction, kind: RecordKind[Any], key: str) -> list[str]:
        """The records of other kinds that refer to a record."""
        return [
            name
            for other in record_kinds().values()
            for setting in (setting for setting, noun in other.refers.items() if noun == kind.noun)
            for name, value in self.read(transaction, other).items()
            if key in referred_names(getattr(value, other.table[setting].field))
        ]

    def _change(self, transaction: Transaction, principal: Principal, now: int) -> RecordChange:
        return RecordChange(transaction, principal, self.core.catalog.policies(transaction), now)


def users_of(noun: str, name: str, schedules: Iterable[ScheduleRecord]) -> list[str]:
    """The schedules that refer to a record."""
    return [schedule.name for schedule in schedules if _uses(schedule, noun, name)]


def _uses(schedule: ScheduleRecord, noun: str, name: str) -> bool:
    if noun == "agents":
        steps = [of_step(schedule.definition, number) for number in range(1, len(schedule.definition.steps) + 1)]
        names = [step.agent or schedule.agent for step in schedule.definition.steps]
        woken = [agent for agent, step in zip(names, steps, strict=True) if wakes_agent(step)]
        return name in woken or (schedule.agent == name and wakes_agent(schedule.definition))
    return any(found.noun == noun and found.name == name for found in references(schedule.definition))


_Result = TypeVar("_Result")
_TRIES = 20


class Edit(NamedTuple):
    """A parsed edit, and what it was parsed with."""

    revision: tuple[int, int]
    """The schedule, and the revision that the edit changes."""
    rates: Mapping[str, float]
    given: Mapping[str, Any]
    definition: ScheduleDefinition
    trigger: Trigger

    def check_same(self, revision: tuple[int, int], rates: Mapping[str, float]) -> None:
        """Raise Moved unless the transaction has what the edit was parsed with."""
        if revision != self.revision or rates != self.rates:
            raise Moved


class Moved(Exception):  # noqa: N818 - it names what happened
    """What an edit changes is not what it was parsed with any more."""


def until_unmoved(change: Callable[[], _Result], what: str) -> _Result:
    """What `change` returns. It parses and writes, and is called again when it raises Moved."""
    for _ in range(_TRIES):
        try:
            return change()
        except Moved:
            continue
    raise Conflict(f"{what} was changed by someone else at the same time.", hint="Try again.")
