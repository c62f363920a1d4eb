"""The next slot of a schedule that no run covers: after an edit, a pause, or a clock that was ahead."""

from __future__ import annotations

from matins.engine.when.triggers import Trigger
from matins.model.trigger import Interval
from matins.runtime.catalog import CompiledSchedule
from matins.store.transaction import Transaction


def next_uncovered_slot(transaction: Transaction, schedule_id: int, trigger: Trigger, now: int) -> int | None:
    """The first slot after now that no run covers: the clock may have been ahead. That the others have their records is
    noted, so that nobody plans them again."""
    when = trigger.definition.when
    interval = when.every_ms if isinstance(when, Interval) and when.anchor != "grid" else None
    slot = trigger.next_ms(now) if interval is None else now + interval
    for first, last in transaction.covered(schedule_id, now):
        transaction.note_recorded(last)
        if slot is not None and first <= slot <= last:
            slot = trigger.next_ms(last) if interval is None else last + interval
    return slot


def skip_covered(transaction: Transaction, schedule_id: int, trigger: Trigger, slot: int | None) -> int | None:
    """The slot, or the first after it that no run covers."""
    for first, last in () if slot is None else transaction.covered(schedule_id, slot):
        if slot is not None and first <= slot <= last:
            slot = trigger.next_ms(last)
    return slot


def first_uncovered_slot(transaction: Transaction, schedule_id: int, trigger: Trigger, now: int) -> int | None:
    """The first slot of new settings that no earlier run covers."""
    first = trigger.first_ms(now)
    covered = transaction.covered(schedule_id, now)
    free = first is None or not any(start <= first <= end for start, end in covered)
    return first if free else next_uncovered_slot(transaction, schedule_id, trigger, now)


def recorded_due(transaction: Transaction, item: CompiledSchedule, slot: int, now: int) -> tuple[int, int] | None:
    """The first and last of the due slots from `slot` on that have a record: it started while the clock was ahead."""
    taken = transaction.next_recorded(item.schedule_id, slot)
    if taken is None or taken[0] > now or (item.timetable.elapsed and taken[0] > slot):
        return None  # slots of an interval are not fixed: they meet by chance only
    return taken
