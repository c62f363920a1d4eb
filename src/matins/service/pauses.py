"""Use cases that pause many schedules with one note, and resume just those."""

from __future__ import annotations

import builtins
import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from matins.api.results import Pause
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotFound
from matins.model.access import Principal, name_of
from matins.model.overview import PausedSchedule
from matins.model.schedule import ScheduleRecord
from matins.runtime.pausing import pause
from matins.service.core import Core
from matins.service.drafts import check_note
from matins.service.schedule_changes import ScheduleChanges
from matins.store.transaction import Transaction

T = TypeVar("T")
_BATCH = 100
"""Schedules in one transaction, so that the engine does not wait for all of them."""


@dataclass(frozen=True)
class Pauses:
    core: Core
    changes: ScheduleChanges

    def pause_all(
        self,
        principal: Principal,
        *,
        names: Sequence[str] | None = None,
        agent: str | None = None,
        note: str | None = None,
        until: int | None = None,
    ) -> Pause:
        check_note(note)
        now = self.core.clock.now_ms()
        if until is not None and until <= now:
            raise InvalidInput('"until" is in the past.', value=until, field="until", hint="Give a time in the future.")
        schedules = self._chosen(names, agent)
        active = [schedule for schedule in schedules if schedule.state == "active"]
        if not active:
            hint = "Those that are paused stay as they are." if schedules else "List schedules: matins list"
            raise Conflict("No active schedule is among them.", value=agent, field="names", hint=hint)
        pause_id = secrets.token_hex(4)
        for some in _batches(active):
            with self.core.store.transaction(now) as transaction:
                for schedule in some:
                    self._pause(transaction, principal, schedule, pause_id, note, until, now)
        self.core.notify()
        return self._pause_of(pause_id)

    def _pause(
        self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord, pause_id: str,
        note: str | None, until: int | None, now: int,
    ) -> None:  # fmt: skip
        transaction.lock_due([schedule.id])
        present = self.core.schedule(transaction, schedule.id)
        if present.state != "active":  # somebody was faster
            return
        self.changes.plan_due(transaction, present, now)
        if pause(transaction, schedule.id, now, principal.who, note, until):
            transaction.set_pause(schedule.id, pause_id)

    def pauses(self, principal: Principal) -> builtins.list[Pause]:
        with self.core.store.reading() as transaction:
            grouped: dict[str, builtins.list[PausedSchedule]] = defaultdict(list)
            for row in transaction.paused_in(None):
                grouped[row.pause_id].append(row)
        return [_result(rows) for rows in grouped.values()]

    def resume_all(self, principal: Principal, pause_id: str) -> Pause:
        now = self.core.clock.now_ms()
        result = self._pause_of(pause_id)
        with self.core.store.reading() as transaction:
            ids = [row.id for row in transaction.paused_in(pause_id)]
        resumed: builtins.list[str] = []
        for some in _batches(ids):
            with self.core.store.transaction(now) as transaction:
                transaction.lock_due(some)
                still = {row.id: row for row in transaction.paused_in(pause_id)}
                for number in some:
                    if number in still:
                        self.changes.resume(transaction, principal, self.core.schedule(transaction, number), now)
                        resumed.append(_full_name(still[number]))
        self.core.notify()
        return Pause(result.id, result.note, result.by, result.at, result.until, resumed)

    def _pause_of(self, pause_id: str) -> Pause:
        with self.core.store.reading() as transaction:
            rows = transaction.paused_in(pause_id)
        if not rows:
            hint = "List them: matins call schedules.pauses"
            raise NotFound(f'No schedule is paused by "{pause_id}".', value=pause_id, field="pause_id", hint=hint)
        return _result(rows)

    def _chosen(self, names: Sequence[str] | None, agent: str | None) -> builtins.list[ScheduleRecord]:
        with self.core.store.reading() as transaction:
            if names is not None:
                return [self.core.find(transaction, name, agent) for name in dict.fromkeys(names)]
            schedules = self.core.all_schedules(transaction)
        return [schedule for schedule in schedules if agent in (None, schedule.agent)]


def _result(rows: Sequence[PausedSchedule]) -> Pause:
    first = rows[0]
    return Pause(
        id=first.pause_id,
        note=first.note,
        by=name_of(first.paused_by),
        at=to_datetime(first.paused_at),
        until=to_datetime(first.paused_until),
        schedules=[_full_name(row) for row in rows],
    )


def _full_name(row: PausedSchedule) -> str:
    return f"{row.agent}/{row.name}" if row.agent else row.name


def _batches(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))
