"""Backfills make runs for past slots, lazily: as many as may be live at once, and the next ones when those end.

The records of the slots stay as they are. A backfill makes a run when no other run of its schedule is in the way and no
other run waits for the same capacity; after it has let others pass for a minute, it makes one all the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from matins.engine.backfill import FAILURES_IN_A_ROW, SlotRecords, is_chosen, window
from matins.engine.gates import Candidate, Facts, judge
from matins.model.access import signed
from matins.model.rows import BackfillRow, NewEvent
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition
from matins.runtime import spending
from matins.runtime.capacity import Placement
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.planner import NO_RUNS, insert_requested_run, met_runs
from matins.store.transaction import Transaction

YIELD_MS = 60_000
"""How long a backfill lets other runs pass."""
_SHORT_MS, _LONG_MS = 1_000, 10_000
"""When to look again where something is in the way, and where only its own runs are. The end of a run is seen in
the turn that records it."""
_WINDOW = 500
_ENDS = {"done": "backfill.done", "cancelled": "backfill.cancelled"}
_OPEN = ("running", "paused")


def without_bounds(definition: ScheduleDefinition, *, waits: bool) -> ScheduleDefinition:
    """The settings of a run that is not bounded by the end of its schedule or the number of its runs. `waits`: it meets
    other runs of its schedule as a queued one does."""
    overlap = "queue" if waits and definition.overlap != "allow" else definition.overlap
    limit = (1 << 30) if waits else definition.queue_limit
    return replace(definition, ends_at=None, max_executions=None, overlap=overlap, queue_limit=limit)


def goes_on(transaction: Transaction, backfill_id: int | None) -> bool:
    """Whether a run is of a backfill that continues, also while its schedule is paused."""
    row = None if backfill_id is None else transaction.backfill(backfill_id)
    return row is not None and row.state == "running"


class Backfills:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.running = True
        """Whether a backfill runs, as far as this process knows: then every turn looks."""

    def turn(self, transaction: Transaction, now: int) -> None:
        """Make the runs that may be made now."""
        rows = transaction.running_backfills()
        self.running = bool(rows)
        for backfill_id, schedule_id, next_at, room in rows:
            is_due = next_at is None or next_at <= now
            if (room > 0 or is_due) and transaction.try_lock_due([schedule_id]):
                row = transaction.lock_backfill(backfill_id)
                if row is not None and row.state == "running":
                    self._advance(transaction, row, room, now)

    def _advance(self, transaction: Transaction, row: BackfillRow, room: int, now: int) -> None:
        schedule = transaction.schedule(row.schedule_id)
        item = self._catalog.find(transaction, (row.schedule_id, row.rev, 0))
        if schedule is None or schedule.state in ("removed", "rejected"):
            end(transaction, row, "cancelled", now)
        elif schedule.state in ("pending", "broken") or not isinstance(item, CompiledSchedule):
            pause(transaction, row, "schedule", None, now)
        elif (reason := self._trouble(transaction, row, item)) is not None:
            pause(transaction, row, reason, None, now)
        else:
            moved = self._make(transaction, row, item, room, now)
            if moved is not None:
                transaction.move_backfill(moved)

    def _trouble(self, transaction: Transaction, row: BackfillRow, item: CompiledSchedule) -> str | None:
        """Why it pauses: its runs failed in a row, or met the end of a budget."""
        most = item.definition.pause_after_failures or FAILURES_IN_A_ROW
        ends = transaction.backfill_ends(row.id, row.failures_after, most)
        if len(ends) == most and all(state == RunState.FAILED for state in ends):
            return "failures"
        return "budget" if ends and ends[0] == RunState.OVER_BUDGET else None

    def _make(
        self, transaction: Transaction, row: BackfillRow, item: CompiledSchedule, room: int, now: int
    ) -> BackfillRow | None:
        """Make runs as long as there is room and nothing in the way. None when the backfill has ended or pauses."""
        trigger, newest_first, policies = (
            item.timetable.trigger, bool(row.newest_first), self._catalog.policies(transaction)
        )  # fmt: skip
        row = row._replace(next_at=now + _LONG_MS)
        while room > 0:
            ahead = window(
                trigger, row.first_slot, row.last_slot, row.last_seen, newest_first=newest_first, size=_WINDOW
            )
            slot = None if row.made >= row.most else self._next(transaction, row, ahead.slots)
            if slot is None and (ahead.is_last or row.made >= row.most):
                if not transaction.backfill_runs(row.id, live=1):
                    end(transaction, row, "done", now)
                    return None
                return row
            if slot is None:
                return row._replace(last_seen=ahead.slots[-1], next_at=now)
            if row.max_cost is not None:
                wanted = spending.estimate(transaction, policies, item).money
                if transaction.backfill_spent(row.id) + wanted > row.max_cost:
                    pause(transaction, row, "max_cost", None, now)
                    return None
            met = met_runs(transaction, [row.schedule_id]).get(row.schedule_id, NO_RUNS)
            if item.exclusive and met.runs:
                return row._replace(next_at=now + _SHORT_MS)
            short = None if item.steps else spending.expected_charge(transaction, policies, item, now)
            facts = Facts(met.runs, False, item.agent, policies, short, called=True)
            candidate = Candidate(without_bounds(item.definition, waits=True), None, facts, 0, False, now)
            verdict = judge(candidate, item.levels)
            if verdict is not None and verdict.state is RunState.OVER_BUDGET:
                pause(transaction, row, "budget", None, now)
                return None
            if verdict is not None:  # quiet hours, a throttle: no run is made that would wait for them
                return row._replace(next_at=verdict.until or now + _LONG_MS)
            place = Placement().place(transaction, item, policies)
            since = now if row.waits_since is None else row.waits_since
            if now - since < YIELD_MS and transaction.waiting_before(place, item.scope, now):
                return row._replace(waits_since=since, next_at=now + _SHORT_MS)
            by = {"kind": "backfill", "name": f"backfill {row.id}", "who": row.created_by}
            key = f"backfill:{row.id}:{slot}"
            insert_requested_run(transaction, self._catalog, item, None, key, by, now, for_slot=slot, backfill=row.id)
            row = row._replace(made=row.made + 1, last_seen=slot, waits_since=None)
            room -= 1
        return row

    def _next(self, transaction: Transaction, row: BackfillRow, slots: list[int]) -> int | None:
        """The first of these slots that is to run."""
        if not slots:
            return None
        records = SlotRecords(transaction.slot_runs(row.schedule_id, min(slots), max(slots)))
        return next((slot for slot in slots if is_chosen(row.choice, records.newest(slot))), None)


def pause(transaction: Transaction, row: BackfillRow, cause: str, by: str | None, now: int) -> None:
    """Pause a backfill, and not its schedule. Its runs that have started continue."""
    transaction.set_backfill_state(row.id, "paused", cause, by, None, None)
    _tell(transaction, row, "backfill.paused", now, {"reason": cause, **({} if by is None else signed(by))})


def end(transaction: Transaction, row: BackfillRow, state: str, now: int, by: str | None = None) -> None:
    transaction.set_backfill_state(row.id, state, None, by, None, now)
    _tell(transaction, row, _ENDS[state], now, {} if by is None else signed(by))


def end_all(transaction: Transaction, schedule_id: int, now: int) -> None:
    """Cancel the backfills of a schedule that is deleted or rejected."""
    for backfill_id in transaction.open_backfills(schedule_id):
        row = transaction.lock_backfill(backfill_id)
        if row is not None and row.state in _OPEN:
            end(transaction, row, "cancelled", now)


def _tell(transaction: Transaction, row: BackfillRow, kind: str, now: int, data: dict[str, Any]) -> None:
    facts = {"backfill": str(row.id), "made": row.made, **data}
    transaction.events.append(NewEvent(now, kind, row.schedule_id, None, facts))
