"""Heartbeats, to the store and to a URL outside.

Heartbeats from a separate thread, so that no job or slow turn delays them.

The heartbeat to an external monitor: calls a URL while the scheduler is healthy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from matins.engine.policies import NO_POLICIES, Policies
from matins.errors import MatinsError, StoreError
from matins.model.clock import Clock
from matins.model.rows import StartedRun
from matins.net.outbound import HttpClient, check_url
from matins.runtime.attempt import Mark
from matins.runtime.engine import EngineOptions
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
        renew: Callable[[set[Mark], int], None],
        fenced: Callable[[bool], None],
        outdated: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker = worker
        self._every = every_ms
        self._lease = lease_ms
        self._cancel = cancel
        self._renew = renew
        self._fenced = fenced
        self._outdated = outdated
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
        since = self._clock.boot_ms()
        try:
            alive, oldest, started = self._send()
        except Exception as error:  # whatever it is: without heartbeats, other engines take the runs of this one
            log.warning("The heartbeat failed: %s", error, exc_info=not isinstance(error, MatinsError))
            self._fenced(self._clock.boot_ms() - self._last > self._lease * 2 // 3)
            return
        if alive:
            self._last = self._clock.boot_ms()
            self._renew({row.mark for row in started}, since)
        if oldest > self._store.knows:
            self._outdated()
        self._fenced(not alive or oldest > self._store.knows)
        if cancelling := {row.id for row in started if row.cancelling}:
            self._cancel(cancelling)

    def _send(self) -> tuple[bool, int, list[StartedRun]]:
        """Whether the worker is alive, the migration that engines must know, and its started runs."""
        worker = self._worker()
        if not self._store.shared:  # while this engine had lost its lock, another one may have declared it dead
            with self._store.reading() as transaction:
                alive = any(row.id == worker for row in transaction.workers())
                return alive, 0, transaction.started(worker, mine=True)
        with self._store.transaction(self._clock.now_ms()) as transaction:
            transaction.check_store(self._store.store_id)
            alive = transaction.heartbeat(worker) is not None
            return alive, transaction.oldest_migration(), transaction.started(worker, mine=True)

    def _run(self) -> None:
        while not self._stop:
            self._soon.wait(self._every / 1000)
            self._soon.clear()
            self.beat()


MAX_TURN_AGE_MS = 30_000
MAX_LAG_MS = 60_000
_STOP_TIMEOUT_S = 1


class Figures(NamedTuple):
    """The figures that show whether the scheduler is healthy."""

    turn_age_ms: int
    """Time since the engine last completed a turn."""
    reachable: bool
    """Whether the store answers."""
    lag_ms: int
    """How long the oldest due schedule has been due."""


def problems(figures: Figures, max_turn_age_ms: int = MAX_TURN_AGE_MS) -> list[str]:
    """The problems of the scheduler, as text."""
    found: list[str] = []
    if figures.turn_age_ms > max_turn_age_ms:
        found.append(f"the engine has not completed a turn for {figures.turn_age_ms // 1000} s")
    if not figures.reachable:
        found.append("the store does not answer")
    if figures.lag_ms >= MAX_LAG_MS:
        found.append(f"a due schedule has waited for {figures.lag_ms // 1000} s")
    return found


def is_healthy(figures: Figures, max_turn_age_ms: int = MAX_TURN_AGE_MS) -> bool:
    return not problems(figures, max_turn_age_ms)


def check_heartbeat(url: str) -> None:
    """Check the URL. Its host may have any address, because the owner sets it."""
    check_url(url, [urlsplit(url).netloc])


class ExternalHeartbeat:
    """Calls a URL regularly while the scheduler is healthy: the URL of the settings, or the one of the file."""

    def __init__(self, settings: EngineOptions, client: HttpClient | None = None) -> None:
        if settings.heartbeat_url is not None:
            check_heartbeat(settings.heartbeat_url)
        self._url = self._own_url = settings.heartbeat_url
        self._client = client
        self._every_ms = settings.heartbeat_every_ms
        self._max_turn_age_ms = max(MAX_TURN_AGE_MS, 3 * settings.beat_ms)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(
        self,
        store: Store,
        clock: Clock,
        turned_at: Callable[[], int],
        policies: Callable[[], Policies] = lambda: NO_POLICIES,
    ) -> Self:
        """Watch this engine. `turned_at` returns the boot time at which the engine last completed a turn."""
        self._store, self._clock, self._turned_at, self._policies = store, clock, turned_at, policies
        return self

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="matins-deadman", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=_STOP_TIMEOUT_S)

    def beat(self) -> bool:
        """Call the URL if the scheduler is healthy. True when the call succeeded."""
        figures = self.figures()
        if self._own_url is None:
            with suppress(StoreError):  # while the store does not answer, the last known one
                self._url = self._policies().heartbeat_url
        url = self._url
        if url is None:
            return False
        if not is_healthy(figures, self._max_turn_age_ms):
            log.warning("No heartbeat was sent: %s", "; ".join(problems(figures, self._max_turn_age_ms)))
            return False
        try:
            client = self._client or HttpClient([urlsplit(url).netloc])
            answer = client.send("GET", url)
        except MatinsError as error:
            log.warning("The heartbeat did not arrive: %s", error)
            return False
        if not 200 <= answer.status < 300:
            log.warning("The heartbeat did not arrive: the server answered %s.", answer.status)
        return 200 <= answer.status < 300

    def figures(self) -> Figures:
        still = self._clock.boot_ms() - self._turned_at()
        try:
            with self._store.reading() as transaction:
                due = transaction.next_due()
        except StoreError:
            return Figures(still, False, 0)
        return Figures(still, True, 0 if due is None else max(0, self._clock.now_ms() - due))

    def _run(self) -> None:
        while not self._stop.is_set():
            self.beat()
            self._stop.wait(self._every_ms / 1000)
