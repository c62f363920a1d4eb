"""What was changed of a schedule, by whom and when; and back to earlier settings."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from itertools import pairwise

from matins.api.results import Change, Schedule, SettingChange
from matins.engine.schedules import decode
from matins.engine.validation import check_name
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, ManagedByFile, NotFound
from matins.model.access import Principal, name_of
from matins.model.rows import RevisionRow
from matins.model.schedule import ScheduleRecord
from matins.model.words import counted
from matins.service.core import MAX_ID, Core
from matins.service.file.write_back import Renamed
from matins.service.previews import differences
from matins.service.schedules import Schedules, check_revision, edits_between, schedule_result
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class Changes:
    core: Core
    schedules: Schedules

    def history(
        self, principal: Principal, name: str, *, agent: str | None = None, limit: int = 100
    ) -> builtins.list[Change]:
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent)
            rows = transaction.history(schedule.id, MAX_ID, limit + 1)
        first = [] if len(rows) > limit else [_change(rows[-1], None)]
        return [*(_change(row, before) for row, before in pairwise(rows)), *first]

    def undo(
        self,
        principal: Principal,
        name: str,
        *,
        to: int | None = None,
        agent: str | None = None,
        if_rev: int | None = None,
    ) -> Schedule:
        with self.core.store.reading() as transaction:
            schedule = self.core.schedule_for(transaction, principal, name, agent, lock=False)
            check_revision(schedule, if_rev)
            rows = {row.rev: row for row in transaction.history(schedule.id, MAX_ID, MAX_ID)}
        earlier = [rev for rev in rows if rev < schedule.rev]
        hint = f"List its changes: matins history {schedule.name}"
        if to is None and not earlier:
            message = f'"{schedule.name}" has its first settings: there is nothing to undo.'
            raise Conflict(message, value=schedule.name, field="name", hint=hint)
        rev = max(earlier) if to is None else to
        if rev not in rows or rev == schedule.rev:
            has = "has" if rev == schedule.rev else "never had"
            message = f'"{schedule.name}" {has} the settings of revision {rev}.'
            raise NotFound(message, value=rev, field="to", hint=hint)
        edits = edits_between(schedule.definition, decode(rows[rev].definition))
        if not edits:
            message = f"Revision {rev} has the same settings."
            raise Conflict(message, value=rev, field="to", hint=hint)
        return self.schedules.edit(principal, schedule.name, agent=schedule.agent, if_rev=schedule.rev, **edits)

    def rename(self, principal: Principal, name: str, to: str, *, agent: str | None = None) -> Schedule:
        now, core = self.core.clock.now_ms(), self.core
        check_name("to", to, "nightly-report")
        results: builtins.list[Schedule] = []

        def lock(transaction: Transaction) -> None:
            schedule = core.schedule_for(transaction, principal, name, agent, lock=False)
            if schedule.name == to:
                raise Conflict(f'"{to}" has this name already.', value=to, field="to", hint="Use another name.")
            numbers = [schedule.id, *self.schedules.changes.followers(transaction, schedule)]
            transaction.lock_due(sorted(numbers))
            self._check_holders(transaction, principal, schedule)

        def in_store(transaction: Transaction) -> None:
            schedule = core.schedule_for(transaction, principal, name, agent)
            followers = self.schedules.changes.rename(transaction, principal, schedule, to, now)
            notes = [f"Renamed in {counted(followers, 'schedule')} that follow it."] if followers else []
            results[:] = [schedule_result(transaction, core.schedule(transaction, schedule.id), notes)]

        with core.store.reading() as transaction:
            found = core.find(transaction, name, agent)
        key = f"{found.agent}/{found.name}"
        self.schedules.writer.change(principal, "schedule", key, now, in_store, Renamed(to), lock)
        return results[0] if results else self.schedules.get(principal, to, agent=found.agent)

    def _check_holders(self, transaction: Transaction, principal: Principal, schedule: ScheduleRecord) -> None:
        """Raise if the principal may not change what follows the schedule, or a file defines what holds its name."""
        full = f"{schedule.agent}/{schedule.name}"
        own = transaction.file_entry("schedule", full)
        holders = [("budget", one.name) for one in self.core.catalog.policies(transaction).budgets if one.of == full]
        for number in self.schedules.changes.followers(transaction, schedule):
            follower = self.core.schedule(transaction, number)
            self.core.check_may_change(principal, follower)
            holders.append(("schedule", f"{follower.agent}/{follower.name}"))
        for kind, name in holders:
            entry = transaction.file_entry(kind, name)
            if entry is not None and own is None:
                shown = name.removeprefix("/")
                message = f'"{shown}" in {entry.path} (line {entry.line}) names "{schedule.name}".'
                raise ManagedByFile(message, value=entry.path, field="name", hint="Change it there first.")


def _change(row: RevisionRow, before: RevisionRow | None) -> Change:
    settings = [] if before is None else differences(decode(before.definition), decode(row.definition))
    if before is not None and before.name != row.name:
        settings.insert(0, SettingChange("name", before.name, row.name))
    return Change(row.rev, to_datetime(row.at), name_of(row.author), settings)
