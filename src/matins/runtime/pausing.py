"""Pausing and resuming a schedule: by a person, its failures, its budget, or a time."""

from __future__ import annotations

from matins.engine.gates import Facts, touched_gates
from matins.engine.gates.state import BY_BUDGET, BY_FAILURES
from matins.model.access import signed
from matins.model.rows import NewEvent, ScheduleRow
from matins.model.schedule import HELD_STATES, ScheduleRecord
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.new_runs import new_run, next_uncovered_slot, planned_event, recorded_due
from matins.store.transaction import Transaction

_AUTOMATIC = (BY_FAILURES, BY_BUDGET)


def is_held(transaction: Transaction, schedule_id: int) -> bool:
    """Whether waiting runs of the schedule are held: it is paused, pending, rejected or broken."""
    row = transaction.schedule(schedule_id)
    return row is not None and row.state in HELD_STATES


def pause(
    transaction: Transaction, schedule_id: int, now: int, by: str, note: str | None, until: int | None = None
) -> bool:
    """Pause a schedule. Waiting runs are held, running runs continue. False when it is not active."""
    transaction.lock_due([schedule_id])  # locked against planning
    row = transaction.schedule(schedule_id)
    if row is None or row.state not in ("active", "paused"):
        return False
    by_person = row.state == "paused" and row.paused_by not in _AUTOMATIC
    if by_person and by in _AUTOMATIC and row.paused_until is None:
        return False  # a pause by a person stays: only a person resumes it
    if by_person and by == row.paused_by:  # the first note and instant stay
        first = row.paused_at if row.paused_at is not None else now
        transaction.set_schedule_state(schedule_id, "paused", first, row.note or note, row.paused_by)
        transaction.set_paused_until(schedule_id, until)
        return True
    next_slot, due_at, rev = row.next_slot, row.due_at, row.rev
    waiting = row.state == "active" and due_at is None and next_slot is not None
    if due_at is not None and next_slot is not None and next_slot <= now:
        next_slot = _skip_due(transaction, row, next_slot, now)
    transaction.set_schedule_state(schedule_id, "paused", now, note, by)
    transaction.set_paused_until(schedule_id, until)
    transaction.replace_cursor(schedule_id, next_slot, None, rev, paused=True, waiting=waiting)
    transaction.suspend_runs(schedule_id)
    transaction.pause_backfills(schedule_id)
    data = {**signed(by), "note": note, "until": until}
    transaction.events.append(NewEvent(now, "schedule.paused", schedule_id, None, data))
    return True


def _skip_due(transaction: Transaction, row: ScheduleRow, slot: int, now: int) -> int | None:
    """Record slots that are due but not yet planned as skipped, and return the slot after them."""
    item = CompiledSchedule(row.id, row.rev, row.name, row.agent, row.definition)
    facts = Facts(paused=True)
    taken = recorded_due(transaction, item, slot, now)
    plan = item.timetable.plan(item.schedule_id, slot, 0, row.executions, facts, now, touched_gates(facts), taken)
    if plan.expired:
        return slot
    planned_runs = list(zip(transaction.run_ids(len(plan.runs)), plan.runs, strict=True))
    transaction.insert_runs([new_run(run_id, item, planned, now, None) for run_id, planned in planned_runs])
    transaction.events.extend(planned_event(run_id, item, planned, now) for run_id, planned in planned_runs)
    if taken is not None and plan.next_slot is not None and plan.next_slot <= now:
        return _skip_due(transaction, row, plan.next_slot, now)
    return plan.next_slot


def resume(transaction: Transaction, schedule: ScheduleRecord, compiled: CompiledSchedule, now: int, by: str) -> None:
    """Resume a schedule: an interval counts from now, other triggers continue at their next slot."""
    slot, trigger = schedule.next_slot, compiled.timetable.trigger
    if slot is not None and trigger.kind != "once":  # a one-shot keeps its time; its grace decides if it is too late
        slot = next_uncovered_slot(transaction, schedule.id, trigger, now)
    transaction.set_schedule_state(schedule.id, "active", now, None, None)
    transaction.replace_cursor(schedule.id, slot, compiled.timetable.due_at(schedule.id, slot), schedule.rev)
    transaction.resume_runs(schedule.id, now)
    transaction.resume_backfills(schedule.id, now)
    transaction.promote([schedule.id], now)
    transaction.events.append(NewEvent(now, "schedule.resumed", schedule.id, None, signed(by)))
