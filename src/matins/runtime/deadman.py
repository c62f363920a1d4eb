"""A dead-man heartbeat: a URL outside is called while the scheduler is well, and its silence can be noticed there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from matins.errors import MatinsError, StoreError
from matins.net.client import Door, check_url
from matins.ports import Clock, Store
from matins.runtime.engine import Settings

log = logging.getLogger("matins")
MOST_STILL_MS = 30_000
MOST_LAG_MS = 60_000
_PATIENCE_S = 1


class Figures(NamedTuple):
    """What is looked at."""

    still_ms: int
    """Since the engine last completed a turn."""
    reachable: bool
    """Whether the store answers."""
    lag_ms: int
    """How long what is due next has been due."""


def ailments(figures: Figures, most_still_ms: int = MOST_STILL_MS) -> list[str]:
    """What is wrong with the scheduler, in words."""
    found: list[str] = []
    if figures.still_ms > most_still_ms:
        found.append(f"the engine has not turned for {figures.still_ms // 1000} s")
    if not figures.reachable:
        found.append("the store does not answer")
    if figures.lag_ms >= MOST_LAG_MS:
        found.append(f"what is due has waited for {figures.lag_ms // 1000} s")
    return found


def well(figures: Figures, most_still_ms: int = MOST_STILL_MS) -> bool:
    return not ailments(figures, most_still_ms)


class Deadman:
    """Calls a URL every so often while all is well. Its host may have any address: the owner named it."""

    def __init__(self, settings: Settings, clock: Clock, door: Door | None = None) -> None:
        self._url = settings.heartbeat_url or ""
        host = urlsplit(self._url).netloc
        check_url(self._url, [host])
        self._door = door or Door([host])
        self._clock = clock
        self._every_ms = settings.heartbeat_every_ms
        self._most_still_ms = max(MOST_STILL_MS, 3 * settings.beat_ms)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, store: Store, turned_at: Callable[[], int]) -> Self:
        """`turned_at` says when the engine last completed a turn, by boot time."""
        self._store, self._turned_at = store, turned_at
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
        """One look, and a call if all is well; whether it was made and answered."""
        figures = self.figures()
        if not well(figures, self._most_still_ms):
            log.warning("no heartbeat: %s", "; ".join(ailments(figures, self._most_still_ms)))
            return False
        try:
            answer = self._door.send("GET", self._url)
        except MatinsError as error:
            log.warning("the heartbeat did not arrive: %s", error)
            return False
        if not 200 <= answer.status < 300:
            log.warning("the heartbeat did not arrive: it was answered with %s", answer.status)
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
