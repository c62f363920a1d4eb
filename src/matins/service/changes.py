"""What was changed of a schedule, by whom and when; and back to earlier settings."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from itertools import pairwise

from matins.api.results import Change, Schedule
from matins.engine.schedules import decode
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, NotFound
from matins.model.access import Principal, name_of
from matins.model.rows import RevisionRow
from matins.service.core import MAX_ID, Core
from matins.service.previews import differences
from matins.service.schedules import Schedules, check_revision, edits_between


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


def _change(row: RevisionRow, before: RevisionRow | None) -> Change:
    settings = [] if before is None else differences(decode(before.definition), decode(row.definition))
    return Change(row.rev, to_datetime(row.at), name_of(row.author), settings)
