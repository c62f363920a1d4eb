"""Heartbeats from a separate thread, so that no job or slow turn delays them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from matins.errors import MatinsError
from matins.model.clock import Clock
from matins.model.rows import StartedRun
from matins.store import Store

log = logging.getLogger("matins")


class Heartbeat:
    """Sends heartbeats on a shared store, and cancels runs that are to end."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        worker: Callable[[], int],
        every_ms: int,
        lease_ms: int,
        cancel: Callable[[set[int]], None],
        fenced: Callable[[bool], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker = worker
        self._every = every_ms
        self._lease = lease_ms
        self._cancel = cancel
        self._fenced = fenced
        self._last = clock.boot_ms()
        self._stop = False
        self._soon = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._last = self._clock.boot_ms()
        self._thread = threading.Thread(target=self._run, name="matins-heart", daemon=True)
        self._thread.start()

    def beat_now(self) -> None:
        """Send a heartbeat now: runs may have to be cancelled."""
        self._soon.set()

    def stop(self) -> None:
        self._stop = True
        self._soon.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def beat(self) -> None:
        """Send a heartbeat. Without one for two thirds of the lease, this worker starts no runs."""
        try:
            alive, cancelling = self._send()
        except MatinsError as error:
            log.warning("The heartbeat failed: %s", error)
            self._fenced(self._clock.boot_ms() - self._last > self._lease * 2 // 3)
            return
        if alive:
            self._last = self._clock.boot_ms()
        self._fenced(not alive)
        if cancelling:
            self._cancel(cancelling)

    def _send(self) -> tuple[bool, set[int]]:
        worker = self._worker()
        if not self._store.shared:  # while this engine had lost its lock, another one may have declared it dead
            with self._store.reading() as transaction:
                alive = any(row.id == worker for row in transaction.workers())
                return alive, _cancelling(transaction.started(worker, mine=True))
        with self._store.transaction(self._clock.now_ms()) as transaction:
            alive = transaction.heartbeat(worker) is not None
            return alive, _cancelling(transaction.started(worker, mine=True))

    def _run(self) -> None:
        while not self._stop:
            self._soon.wait(self._every / 1000)
            self._soon.clear()
            self.beat()


def _cancelling(rows: list[StartedRun]) -> set[int]:
    return {row.id for row in rows if row.cancelling}
