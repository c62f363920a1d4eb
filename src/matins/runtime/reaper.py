"""Finds runs whose worker is gone, and gives them the end or the new start that their policy says."""

from __future__ import annotations

from matins.model.records import Started
from matins.model.run import RunState
from matins.ports import Clock, Store, Transaction
from matins.runtime import recorder
from matins.runtime.catalog import Catalog, Known


class Reaper:
    """A worker is dead when its beat stands still for a lease by the reaper's own boot time. On a store that only one
    engine can own, every other worker is dead from the start."""

    def __init__(self, store: Store, clock: Clock, catalog: Catalog, lease_ms: int, every_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._catalog = catalog
        self._lease = lease_ms
        self._every = every_ms
        self._seen: dict[int, tuple[int, int]] = {}
        self._worker = 0
        self._next = 0
        self.reaped = 0

    def open(self, worker: int, now: int) -> None:
        self._worker = worker
        if not self._store.shared:
            with self._store.transaction(now) as transaction:
                dead = {other for other, _, _ in transaction.workers() if other != worker}
                self._bury(transaction, dead, now)
                # Whoever lost its lock and went on for a while may have claimed more after it was buried.
                orphans = [row for row in transaction.started(worker, mine=False) if row.state < RunState.HELD]
                self._lose(transaction, orphans, now)

    def turn(self, now: int, boot: int) -> None:
        """Look round, every few seconds."""
        if not self._store.shared or boot < self._next:
            return
        self._next = boot + self._every
        with self._store.reading() as transaction:
            workers = transaction.workers()
        dead = {other for other, _, beat in workers if other != self._worker and self._still(other, beat, boot)}
        self._seen = {worker: seen for worker, seen in self._seen.items() if worker in {w for w, _, _ in workers}}
        if dead:
            with self._store.transaction(now) as transaction:
                if transaction.beat(self._worker) is not None:  # the dead bury nobody
                    self._bury(transaction, dead, now)

    def _still(self, worker: int, beat: int, boot: int) -> bool:
        last, since = self._seen.get(worker, (None, boot))
        if last != beat:
            self._seen[worker] = beat, boot
            return False
        return boot - since > self._lease

    def _bury(self, transaction: Transaction, dead: set[int], now: int) -> None:
        for worker in sorted(dead):
            if not transaction.stop_worker(worker, now):
                continue  # another reaper was quicker
            rows = transaction.started(worker, mine=True)
            self.reaped += len(rows)
            self._lose(transaction, rows, now)

    def _lose(self, transaction: Transaction, rows: list[Started], now: int) -> None:
        known = self._catalog.get(transaction, {(row.schedule_id, row.rev) for row in rows})
        pairs = [(row, known.get((row.schedule_id, row.rev))) for row in rows]
        recorder.lose(transaction, [(row, item) for row, item in pairs if isinstance(item, Known)], now)
        recorder.give_up(transaction, [row for row, item in pairs if not isinstance(item, Known)], now)
