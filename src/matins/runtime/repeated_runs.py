"""Runs that a resumed schedule repeats: those of one-shots, which have no other slot."""

from __future__ import annotations

import uuid
from typing import Any

from matins.model.run import RunState
from matins.model.schedule import ScheduleRecord
from matins.model.trigger import Once
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.requested_runs import insert_requested_run
from matins.store.transaction import Transaction


def repeat_one_shot(
    transaction: Transaction, catalog: Catalog, schedule: ScheduleRecord, by: dict[str, Any], now: int
) -> None:
    """Repeat what failed in the last run of a one-shot that its failures paused, and that is resumed."""
    if not _is_spent(schedule) or transaction.live([schedule.id]):
        return
    for last in transaction.started_runs([schedule.id]):
        compiled = catalog.find(transaction, (schedule.id, last.rev, 0))
        if last.state == RunState.FAILED and isinstance(compiled, CompiledSchedule):
            made = insert_requested_run(transaction, catalog, compiled, None, str(uuid.uuid4()), by, now)
            transaction.set_retry(made, last.id, None)


def _is_spent(schedule: ScheduleRecord) -> bool:
    """Whether a one-shot that pauses after failures has no slot left."""
    definition = schedule.definition
    most = definition.max_executions
    once = isinstance(definition.trigger.when, Once) or (most is not None and schedule.executions >= most)
    return once and definition.pause_after_failures is not None and schedule.next_slot is None
