"""Planning after the clock was set back: every schedule continues at the first slot that no run covers.

Records of slots to come that never started are withdrawn, since the clock was ahead when they were made. Slots that
have started do not start again.
"""

from __future__ import annotations

from matins.engine.audit_runs import SHORTENED, WITHDRAWN
from matins.engine.when.triggers import Trigger
from matins.model.rows import Due, NewEvent, RunAhead
from matins.model.run import RunState
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.run_changes import continue_schedule, end_runs
from matins.runtime.uncovered_slots import next_uncovered_slot
from matins.store import Store
from matins.store.transaction import Transaction

_PAGE = 500
_COUNTED = (*(state for state in RunState if state.live), RunState.CANCELLED)
"""States of runs that never started and count as executions."""


def replan(store: Store, catalog: Catalog, now: int) -> None:
    with store.transaction(now) as transaction:
        transaction.set_replanning(True)
    _withdraw_all(store, catalog, now)
    _go_back_all(store, catalog, now)
    with store.transaction(now) as transaction:
        transaction.set_replanning(False)


def _go_back_all(store: Store, catalog: Catalog, now: int) -> None:
    after = 0
    while True:
        with store.transaction(now) as transaction:
            page = transaction.cursors(after, _PAGE)
            _go_back(transaction, catalog, page, now)
            if not after:
                transaction.undefer_runs(now)
        if len(page) < _PAGE:
            return
        after = page[-1].schedule_id


def _withdraw_all(store: Store, catalog: Catalog, now: int) -> None:
    """The cursors go back in the same transaction: a slot without a record is one that is still to come."""
    after = 0
    while True:
        with store.transaction(now) as transaction:
            page = transaction.runs_ahead(now, after, _PAGE)
            schedule_ids = sorted({row.schedule_id for row in page})
            transaction.lock_due(schedule_ids)
            compiled = catalog.compiled(transaction, {(row.schedule_id, row.rev, 0) for row in page})
            ahead = transaction.runs_ahead(now, after, _PAGE)
            rows = [row for row in ahead if (row.schedule_id, row.rev, 0) in compiled]
            for row in rows:
                item = compiled[row.schedule_id, row.rev, 0]
                if isinstance(item, CompiledSchedule):
                    _shorten(transaction, row, item.timetable.trigger, now)
            _withdraw(transaction, catalog, [row for row in rows if _never_started(row, now)], now)
            cursors = [row for id_ in schedule_ids for row in transaction.cursors(id_ - 1, 1) if row.schedule_id == id_]
            _go_back(transaction, catalog, cursors, now)
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _never_started(row: RunAhead, now: int) -> bool:
    return row.started_at is None and (row.first_slot is None or row.first_slot > now)


def _shorten(transaction: Transaction, row: RunAhead, trigger: Trigger, now: int) -> None:
    """Let a run of several slots cover those up to now, or its first, if all are to come and it has started."""
    if row.first_slot is None:
        return
    if row.first_slot <= now:
        last = trigger.prev_ms(now + 1)
        assert last is not None  # the first slot, or a later one
        slots = trigger.count(row.first_slot, last + 1)
        _cover(transaction, row, row.first_slot if slots > 1 else None, last, slots, now)
    elif row.started_at is not None:
        _cover(transaction, row, None, row.first_slot, 1, now)


def _cover(transaction: Transaction, row: RunAhead, first: int | None, slot: int, slots: int, now: int) -> None:
    transaction.set_range(row.id, first, slot, slots)
    data = {"slot": slot, "slots": slots, "first": first}
    transaction.events.append(NewEvent(now, SHORTENED, row.schedule_id, row.id, data))


def _withdraw(transaction: Transaction, catalog: Catalog, rows: list[RunAhead], now: int) -> None:
    live = [row for row in rows if row.state < RunState.SUCCEEDED]
    end_runs(transaction, catalog, [row.id for row in live], now, "clock_went_back")
    for row in rows:
        if row.state in _COUNTED:
            transaction.uncount_execution(row.schedule_id, row.id)
    transaction.withdraw_runs([row.id for row in rows])
    for row in rows:
        data = {"slot": row.slot, "state": RunState(row.state).label}
        transaction.events.append(NewEvent(now, WITHDRAWN, row.schedule_id, row.id, data))
    for schedule_id in sorted({row.schedule_id for row in rows}):
        continue_schedule(transaction, schedule_id, now)


def _go_back(transaction: Transaction, catalog: Catalog, cursors: list[Due], now: int) -> None:
    """Move cursors to the first slot after now that no run covers, if they are beyond it."""
    compiled = catalog.compiled(transaction, [(row.schedule_id, row.rev, 0) for row in cursors])
    for schedule_id, slot, rev, *_ in cursors:
        item = compiled.get((schedule_id, rev, 0))
        if not isinstance(item, CompiledSchedule):
            continue
        following = next_uncovered_slot(transaction, schedule_id, item.timetable.trigger, now)
        if following is not None and following < slot:
            transaction.replace_cursor(schedule_id, following, item.timetable.due_at(schedule_id, following), item.rev)
            transaction.events.append(
                NewEvent(now, "schedule.replanned", schedule_id, None, {"from": slot, "to": following})
            )
