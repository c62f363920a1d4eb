"""Finds runs whose worker is dead, and ends or retries them by their policy."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from matins.model.rows import NewEvent, StartedRun, WorkerRow
from matins.model.run import RunState
from matins.runtime import recorder
from matins.runtime.attempt import Attempt, Executor, Mark
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.placement import trouble_of
from matins.runtime.run_change import event_type
from matins.runtime.run_changes import end_unreadable
from matins.runtime.run_keys import key_at_claim
from matins.store import Store
from matins.store.transaction import Transaction

IsGone = Callable[[Mapping[str, Any]], bool]
"""Whether the process of a worker with this identity has ended, and left its runs to the folder of this process."""


class Reaper:
    """A worker is dead when its heartbeat has not changed for a lease, by the reaper's boot time, or when its process
    on this machine has ended. On a store with a single owner, every other worker is dead."""

    def __init__(self, store: Store, catalog: Catalog, lease_ms: int, every_ms: int) -> None:
        self._store = store
        self._catalog = catalog
        self._lease = lease_ms
        self._every = every_ms
        self._seen: dict[int, tuple[int, int]] = {}
        self._worker = 0
        self._next = 0
        self._executor: Executor | None = None
        self._is_gone: IsGone | None = None
        self._nonce: str | None = None
        self._adopted: list[Attempt] = []

    def open(
        self,
        worker: int,
        now: int,
        executor: Executor | None = None,
        identity: Mapping[str, Any] | None = None,
        is_gone: IsGone | None = None,
    ) -> None:
        self._worker = worker
        self._executor = executor
        self._is_gone = is_gone
        self._nonce = (identity or {}).get("nonce")
        self._adopted = []
        if self._store.shared and is_gone is not None:
            with self._store.transaction(now) as transaction:
                # At once: after a lease, engines on other machines would give up runs that still run here.
                self._stop_workers(transaction, self._gone(transaction.workers()), now)
        if not self._store.shared:
            with self._store.transaction(now) as transaction:
                dead = {other.id for other in transaction.workers() if other.id != worker}
                self._stop_workers(transaction, dead, now)
                # A worker that lost its lock may have claimed more runs after it was declared dead.
                orphans = [row for row in transaction.started(worker, mine=False) if row.state < RunState.HELD]
                self._recover(transaction, self._others(transaction, orphans), now)

    def _others(self, transaction: Transaction, orphans: list[StartedRun]) -> list[StartedRun]:
        """Keep the runs that this process still runs, and return the others."""
        has = set[Mark]() if self._executor is None else self._executor.marks()
        return [
            row
            for row in orphans
            if (row.id, row.epoch) not in has or not transaction.adopt(row.id, row.epoch, self._worker)
        ]

    def adopted_attempts(self) -> list[Attempt]:
        """Runs that were adopted since the last call. The executor knows whether they still run."""
        adopted, self._adopted = self._adopted, []
        return adopted

    def turn(self, now: int, boot: int, executor: Executor | None = None) -> None:
        """Check the other workers, and runs without one, every `every_ms`."""
        self._adopted = []  # of a transaction that failed: whatever was committed is found again
        if boot < self._next:
            return
        self._next = boot + self._every
        if self._store.shared:
            self._check_workers(now, boot)
        if executor is not None:
            self._check_runs(now, executor)

    def _check_workers(self, now: int, boot: int) -> None:
        with self._store.reading() as transaction:
            workers = transaction.workers()
        dead = {other.id for other in workers if other.id != self._worker and self._is_dead(other, boot)}
        dead |= self._gone(workers)
        compiled = {worker.id for worker in workers}
        self._seen = {worker: seen for worker, seen in self._seen.items() if worker in compiled}
        if dead:
            with self._store.transaction(now) as transaction:
                if transaction.heartbeat(self._worker) is not None:  # a dead worker declares no other dead
                    self._stop_workers(transaction, dead, now)

    def _check_runs(self, now: int, executor: Executor) -> None:
        """Take up runs whose worker has stopped or is unknown, and own runs that the executor does not have. End
        attempts that are no longer ours."""
        has = executor.marks() | {attempt.mark for attempt in self._adopted}
        with self._store.reading() as transaction:
            mine = transaction.started(self._worker, mine=True)
            lost = self._without_attempt(mine, has) + transaction.orphans()
        ours = {row.id for row in mine}
        if foreign := {run_id for run_id, _ in has if run_id not in ours}:
            executor.cancel(foreign)
        if not lost:
            return
        with self._store.transaction(now) as transaction:
            if transaction.heartbeat(self._worker) is None:
                return  # a dead worker takes up nothing
            transaction.lock_due({row.schedule_id for row in lost})  # one reaper at a time, and all locks at once
            mine = self._without_attempt(transaction.started(self._worker, mine=True), has)
            locked = {row.id for row in lost}
            lost = [row for row in mine + transaction.orphans() if row.id in locked]
            self._recover(transaction, lost, now)

    @staticmethod
    def _without_attempt(mine: list[StartedRun], has: set[Mark]) -> list[StartedRun]:
        return [row for row in mine if row.state < RunState.HELD and (row.id, row.epoch) not in has]

    def _gone(self, workers: list[WorkerRow]) -> set[int]:
        """The workers whose process on this machine has ended."""
        is_gone = self._is_gone
        return set() if is_gone is None else {one.id for one in workers if is_gone(_parsed(one.identity))}

    def _is_dead(self, worker: WorkerRow, boot: int) -> bool:
        last, since = self._seen.get(worker.id, (None, boot))
        if last != worker.beat:
            self._seen[worker.id] = worker.beat, boot
            return False
        return boot - since > self._lease

    def _stop_workers(self, transaction: Transaction, dead: set[int], now: int) -> None:
        rows = {worker.id: worker for worker in transaction.workers()} if dead else {}
        here = {number for number, row in rows.items() if self._is_here(_parsed(row.identity))}
        for worker in sorted(dead):
            if not transaction.stop_worker(worker, now):
                continue  # another reaper was faster
            if worker in rows:
                end_trouble(transaction, rows[worker], now)
            self._recover(transaction, transaction.started(worker, mine=True), now, here=worker in here)

    def _is_here(self, identity: Mapping[str, Any]) -> bool:
        """Whether the journals of a worker are in the folder of this one. Where several engines run, by its nonce:
        containers may share the name of a host, and two engines of one host have folders of their own."""
        is_ours = not self._store.shared or identity.get("nonce") == self._nonce
        return is_ours and identity.get("host") == socket.gethostname()

    def _recover(self, transaction: Transaction, rows: list[StartedRun], now: int, *, here: bool = True) -> None:
        compiled = self._catalog.compiled(transaction, {row.key for row in rows})
        pairs = [(row, compiled.get(row.key)) for row in rows]
        if here:
            pairs = [(row, item) for row, item in pairs if not self._adopt(transaction, row, item, now)]
        recorder.mark_unknown(
            transaction, [(row, item) for row, item in pairs if isinstance(item, CompiledSchedule)], now
        )
        end_unreadable(transaction, [row for row, item in pairs if not isinstance(item, CompiledSchedule)], now)

    def _adopt(
        self, transaction: Transaction, row: StartedRun, item: CompiledSchedule | Exception | None, now: int
    ) -> bool:
        """Take over a run whose process may have outlived its worker on this machine, with the same epoch."""
        run = (
            transaction.run(row.id)
            if isinstance(item, CompiledSchedule) and item.wakes_agent and row.state < RunState.HELD
            else None
        )
        if run is None or not isinstance(item, CompiledSchedule) or self._executor is None:
            return False
        started_at = run.started_at or run.planned_at
        slot = transaction.nominal_slot(row.id) if item.step else row.slot
        key = key_at_claim(transaction, item, row.id, row.slot)
        attempt = Attempt(row.id, row.epoch, row.attempt, slot, run.slots, run.first_slot, started_at, item, key)
        if not self._executor.adoptable(attempt) or not transaction.adopt(row.id, row.epoch, self._worker):
            return False
        transaction.events.append(
            NewEvent(now, event_type(item, "run.adopted"), row.schedule_id, row.id, {"epoch": row.epoch})
        )
        self._adopted.append(attempt)
        return True


def end_trouble(transaction: Transaction, worker: WorkerRow, now: int) -> None:
    """Report the end of what an engine reported about its machine: the engine has ended."""
    reason = trouble_of(orjson.loads(worker.offers))
    if reason is not None:
        data = {"host": _parsed(worker.identity).get("host"), "worker": worker.id, "reason": reason, "stopped": True}
        transaction.events.append(NewEvent(now, "engine.can_start", None, None, data))


def _parsed(identity: str) -> Mapping[str, Any]:
    try:
        found = orjson.loads(identity)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
