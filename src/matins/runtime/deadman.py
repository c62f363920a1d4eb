"""The heartbeat to an external monitor: calls a URL while the scheduler is healthy."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from matins.engine.policies import NO_POLICIES, Policies
from matins.errors import MatinsError, StoreError
from matins.net.outbound import HttpClient, check_url
from matins.ports import Clock, Store
from matins.runtime.engine import Settings

log = logging.getLogger("matins")
"""The name of the setting."""
MOST_STILL_MS = 30_000
MOST_LAG_MS = 60_000
_PATIENCE_S = 1


class Figures(NamedTuple):
    """The figures that decide whether the scheduler is healthy."""

    still_ms: int
    """Time since the engine last completed a turn."""
    reachable: bool
    """Whether the store answers."""
    lag_ms: int
    """How long the oldest due schedule has been due."""


def ailments(figures: Figures, most_still_ms: int = MOST_STILL_MS) -> list[str]:
    """The problems of the scheduler, as text."""
    found: list[str] = []
    if figures.still_ms > most_still_ms:
        found.append(f"the engine has not completed a turn for {figures.still_ms // 1000} s")
    if not figures.reachable:
        found.append("the store does not answer")
    if figures.lag_ms >= MOST_LAG_MS:
        found.append(f"a due schedule has waited for {figures.lag_ms // 1000} s")
    return found


def well(figures: Figures, most_still_ms: int = MOST_STILL_MS) -> bool:
    return not ailments(figures, most_still_ms)


def check_heartbeat(url: str) -> None:
    """Check the URL. Its host may have any address, because the owner sets it."""
    check_url(url, [urlsplit(url).netloc])


class Deadman:
    """Calls a URL regularly while the scheduler is healthy: the URL of the settings, or the one of the file."""

    def __init__(self, settings: Settings, door: HttpClient | None = None) -> None:
        if settings.heartbeat_url is not None:
            check_heartbeat(settings.heartbeat_url)
        self._url = self._own_url = settings.heartbeat_url
        self._door = door
        self._every_ms = settings.heartbeat_every_ms
        self._most_still_ms = max(MOST_STILL_MS, 3 * settings.beat_ms)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(
        self,
        store: Store,
        clock: Clock,
        turned_at: Callable[[], int],
        policies: Callable[[], Policies] = lambda: NO_POLICIES,
    ) -> Self:
        """`turned_at` returns the boot time at which the engine last completed a turn."""
        self._store, self._clock, self._turned_at, self._policies = store, clock, turned_at, policies
        return self

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="matins-deadman", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=_PATIENCE_S)

    def beat(self) -> bool:
        """Call the URL if the scheduler is healthy. True when the call succeeded."""
        figures, url = self.figures(), self._wanted()
        if url is None:
            return False
        if not well(figures, self._most_still_ms):
            log.warning("No heartbeat was sent: %s", "; ".join(ailments(figures, self._most_still_ms)))
            return False
        try:
            door = self._door or HttpClient([urlsplit(url).netloc])
            answer = door.send("GET", url)
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

    def _wanted(self) -> str | None:
        """The URL to call. While the store does not answer, the last known one."""
        if self._own_url is None:
            with suppress(StoreError):
                self._url = self._policies().heartbeat_url
        return self._url

    def _run(self) -> None:
        while not self._stop.is_set():
            self.beat()
            self._stop.wait(self._every_ms / 1000)
