"""After the clock went back: every schedule goes on from now, at the first slot that no record covers."""

from __future__ import annotations

from matins.model.records import NewEvent
from matins.model.trigger import Interval
from matins.ports import Store, Transaction
from matins.runtime.catalog import Catalog, Known

_PAGE = 500


def replan(store: Store, catalog: Catalog, now: int) -> None:
    after = 0
    while True:
        with store.transaction(now) as transaction:
            page = transaction.cursors(after, _PAGE)
            known = catalog.get(transaction, [(row.schedule_id, row.rev) for row in page])
            for row in page:
                item = known.get((row.schedule_id, row.rev))
                if isinstance(item, Known):
                    _go_back(transaction, row.schedule_id, row.slot, item, now)
        if len(page) < _PAGE:
            return
        after = page[-1].schedule_id


def _go_back(transaction: Transaction, schedule_id: int, slot: int, item: Known, now: int) -> None:
    trigger = item.rule.trigger
    covered = transaction.covered_until(schedule_id, now)
    if isinstance(trigger.definition.when, Interval) and trigger.definition.when.anchor != "grid":
        following = trigger.next_ms(now)
        if covered is not None and following is not None and following <= covered:
            following = covered + trigger.definition.when.every_ms
    else:
        following = trigger.next_ms(now if covered is None else max(covered, now))
    if following is not None and following < slot:
        transaction.replace_cursor(schedule_id, following, item.rule.due_at(schedule_id, following), item.rev)
        transaction.events.append(
            NewEvent(now, "schedule.replanned", schedule_id, None, {"from": slot, "to": following})
        )
