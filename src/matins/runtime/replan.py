"""Planning after the clock was set back: every schedule continues at the first slot that no run covers."""

from __future__ import annotations

from matins.engine.when.triggers import Trigger
from matins.model.rows import NewEvent
from matins.model.trigger import Interval
from matins.ports import RunRows, Store, Transaction
from matins.runtime.catalog import Catalog, CompiledSchedule

_PAGE = 500


def replan(store: Store, catalog: Catalog, now: int) -> None:
    after = 0
    while True:
        with store.transaction(now) as transaction:
            page = transaction.cursors(after, _PAGE)
            compiled = catalog.compiled(transaction, [(row.schedule_id, row.rev) for row in page])
            for row in page:
                item = compiled.get((row.schedule_id, row.rev))
                if isinstance(item, CompiledSchedule):
                    _go_back(transaction, row.schedule_id, row.slot, item, now)
            if not after:
                transaction.undefer_runs(now)
        if len(page) < _PAGE:
            return
        after = page[-1].schedule_id


def _go_back(transaction: Transaction, schedule_id: int, slot: int, item: CompiledSchedule, now: int) -> None:
    following = next_uncovered_slot(transaction, schedule_id, item.timetable.trigger, now)
    if following is not None and following < slot:
        transaction.replace_cursor(schedule_id, following, item.timetable.due_at(schedule_id, following), item.rev)
        transaction.events.append(
            NewEvent(now, "schedule.replanned", schedule_id, None, {"from": slot, "to": following})
        )


def next_uncovered_slot(transaction: RunRows, schedule_id: int, trigger: Trigger, now: int) -> int | None:
    """The first slot after now that no run covers: the clock may have been ahead."""
    covered = transaction.covered_until(schedule_id, now)
    when = trigger.definition.when
    if isinstance(when, Interval) and when.anchor != "grid":
        following = now + when.every_ms
        return following if covered is None or following > covered else covered + when.every_ms
    return trigger.next_ms(now if covered is None else max(covered, now))


def first_uncovered_slot(transaction: Transaction, schedule_id: int, trigger: Trigger, now: int) -> int | None:
    """The first slot of new settings that no earlier run covers."""
    first = trigger.first_ms(now)
    covered = transaction.covered_until(schedule_id, now)
    free = first is None or covered is None or first > covered
    return first if free else next_uncovered_slot(transaction, schedule_id, trigger, now)
