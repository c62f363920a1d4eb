"""From ready to starting: claims runs and their permits, as capacity allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from matins.engine.inputs import decode_given
from matins.engine.transitions import CANCEL_WAITING, CLAIM, RELEASE
from matins.model.rows import AttemptRow, Claim, CompiledKey, NewEvent, ReadyRun, Release
from matins.runtime import spending
from matins.runtime.attempt import Attempt, key_at_claim
from matins.runtime.capacity import Capacity, Placement
from matins.runtime.catalog import GLOBAL, Catalog, CompiledSchedule
from matins.runtime.clearance import Clearance
from matins.runtime.planner import mark_broken
from matins.runtime.run_changes import RunChange, apply, event_type, hold_with_schedule, unfold
from matins.store.transaction import Transaction

_Chosen = tuple[ReadyRun, CompiledSchedule, int]
_MAX_READ = 500
"""How many runs to read when there is capacity for only one kind."""


class Dispatcher:
    def __init__(self, catalog: Catalog, clearance: Clearance, placement: Placement) -> None:
        self._catalog = catalog
        self._placement = placement
        self._clearance = clearance

    def claim(
        self, transaction: Transaction, now: int, worker: int, capacity: Capacity, places: Sequence[int],
        until: int | None = None,
    ) -> list[Attempt]:  # fmt: skip
        """Claim ready runs of these places, and return them. Runs without a permit stay ready. Jobs that are ready
        `until` then are claimed ahead."""
        if self._clearance.policies.budgets:
            transaction.lock_policies()  # before any run: from here on nothing waits for a lock
        limit = _MAX_READ if capacity.only_one_kind else capacity.maximum
        if GLOBAL in capacity.limited and not capacity.only_one_kind:  # each run but those of steps needs a permit
            limit = min(limit, capacity.permits_left(GLOBAL))
        rows = transaction.ready(until or now, limit, capacity.exhausted(), places)
        if not rows:
            return []
        chosen: list[_Chosen] = []
        for row, item in self._unlocked(transaction, rows, now):
            at = max(now, row.not_before)
            if (at > now and not self._waits(item)) or not self._may_start(transaction, row, item, capacity, at):
                continue
            if item.steps:
                unfold(transaction, row, item, self._place(transaction), now)
                continue
            if not item.emits_message:
                capacity.take(item)
            capacity.take_permits(item)
            chosen.append((row, item, at))
        if capacity.limited:
            chosen = _permitted(transaction, chosen, capacity)
        return self._start(transaction, chosen, worker)

    def _unlocked(
        self, transaction: Transaction, rows: list[ReadyRun], now: int
    ) -> list[tuple[ReadyRun, CompiledSchedule]]:
        """The readable runs, without those whose schedule another worker judges at this moment."""
        compiled = self._catalog.compiled(transaction, {row.key for row in rows})
        self._set_aside(transaction, compiled, now)
        found = [
            (row, item if row.given is None else item.with_given(decode_given(row.given)))
            for row in rows
            if isinstance(item := compiled.get(row.key), CompiledSchedule)
        ]
        judged = {
            row.schedule_id
            for row, item in found
            if row.cancelling or item.emits_message or item.steps or self._clearance.gates_to_start(item)
        }
        judged -= transaction.try_lock_due(judged) if judged else set()
        return [(row, item) for row, item in found if row.schedule_id not in judged] if judged else found

    def _waits(self, item: CompiledSchedule) -> bool:
        """Whether a run can be claimed before its instant: its executor waits, and no check or person must answer."""
        is_job = not (item.wakes_agent or item.emits_message or item.steps)
        return is_job and not self._clearance.asks(item)

    def _start(self, transaction: Transaction, chosen: list[_Chosen], worker: int) -> list[Attempt]:
        claimed = transaction.claim([Claim(row.id, row.epoch, worker, at) for row, _, at in chosen])
        won = [one for one in chosen if one[0].id in claimed]
        transaction.insert_attempts([AttemptRow(row.id, row.epoch + 1, worker, at) for row, _, at in won])
        for row, item, at in won:
            self._clearance.consume_approval(transaction, row, item, at)
            data = {"worker": worker, "epoch": row.epoch + 1, "attempt": row.attempt + 1}
            transaction.events.append(NewEvent(at, event_type(item, CLAIM.event), row.schedule_id, row.id, data))
        return [_attempt(transaction, row, item, at) for row, item, at in won]

    def _place(self, transaction: Transaction) -> Callable[[CompiledSchedule], int]:
        return lambda item: self._placement.place(transaction, item, self._clearance.policies)

    def _may_start(
        self, transaction: Transaction, row: ReadyRun, item: CompiledSchedule, capacity: Capacity, now: int
    ) -> bool:
        clearance = self._clearance
        if row.cancelling:  # it was cancelled while it was claimed, and then released
            apply(
                transaction,
                [RunChange(row.id, row.epoch, row.slot, item, CANCEL_WAITING, now, reason="cancelled")],
                now,
            )
            return False
        return (
            (item.emits_message or bool(item.steps) or capacity.available(item) > 0)
            and clearance.may_start(transaction, row, item, now)
            and capacity.may_take_permits(item)
            and clearance.reserve_budget(transaction, row, item, now)
        )

    def _set_aside(
        self, transaction: Transaction, compiled: Mapping[CompiledKey, CompiledSchedule | Exception], now: int
    ) -> None:
        """Hold the runs of an unreadable schedule, or they would be read again and again."""
        broken = {key[0]: error for key, error in compiled.items() if isinstance(error, Exception)}
        for row in transaction.lock_due(transaction.try_lock_due(broken)) if broken else ():
            mark_broken(transaction, row, broken[row.schedule_id], now)


def release(transaction: Transaction, attempts: list[Attempt], now: int) -> list[Attempt]:
    """Release runs that were claimed but not started: another worker may claim them. Returns the released ones."""
    released = transaction.release([Release(*one.mark, one.not_before or now) for one in attempts])
    transaction.release_permits(released)
    spending.release(transaction, released)
    again = [
        RunChange(attempt.run_id, attempt.epoch, attempt.slot, attempt.compiled, RELEASE, now)
        for attempt in attempts
        if attempt.run_id in released
    ]
    transaction.events.extend(
        NewEvent(now, event_type(one.compiled, RELEASE.event), one.compiled.schedule_id, one.run_id) for one in again
    )
    hold_with_schedule(transaction, again, now, ("pending", "paused", "broken"))
    return [attempt for attempt in attempts if attempt.run_id in released]


def _permitted(transaction: Transaction, chosen: list[_Chosen], capacity: Capacity) -> list[_Chosen]:
    """Those of the chosen runs that get a permit of each of their limited scopes. The others stay ready: other workers
    were faster."""
    needs = {row.id: capacity.limited & item.scopes for row, item, _ in chosen}
    holders, lost = set[int](), set[int]()
    for scope in sorted(capacity.limited):
        asking = [run_id for run_id, scopes in needs.items() if scope in scopes and run_id not in lost]
        taken = set(transaction.take_permits(scope, asking) if asking else ())
        holders |= taken
        if len(taken) < len(asking):
            lost |= set(asking) - taken
            capacity.mark_exhausted(scope)
    if not lost:
        return chosen
    if holders & lost:  # releasing costs more than taking: only what was taken is released
        transaction.release_permits(holders & lost)
    spending.release(transaction, lost)
    return [one for one in chosen if one[0].id not in lost]


def _attempt(transaction: Transaction, row: ReadyRun, item: CompiledSchedule, now: int) -> Attempt:
    slot = transaction.nominal_slot(row.id) if item.step else row.slot
    key = key_at_claim(transaction, item, row.id, row.slot)
    return Attempt(
        row.id, row.epoch + 1, row.attempt + 1, slot, row.slots, row.first_slot, now, item, key, None, row.for_slot
    )
