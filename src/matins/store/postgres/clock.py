"""The database's clock, so that workers on hosts whose clocks differ agree on what is due."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol

from matins.errors import StoreError
from matins.model.clock import Clock

_EVERY_MS = 1_000
_AWAY_MS = 5_000
_STEP_MS = 1_000
_PATIENCE_S = 0.5
"""How long a caller waits for a reading. A server that hangs would stop it for seconds."""


class TimeSource(Protocol):
    def database_time(self) -> int: ...


class DatabaseClock:
    """The host's boot time plus an offset, which is read again at most once a second. A caller waits briefly for the
    reading, and other threads use the present offset meanwhile. If the database hangs or is unreachable, the offset is
    kept: boot time is steady."""

    def __init__(self, store: TimeSource, host: Clock) -> None:
        self._store = store
        self._host = host
        self._reading = threading.Lock()
        low, high = self._bounds()
        self._offset = (low + high + 1) // 2
        self._next = host.boot_ms() + _EVERY_MS

    def now_ms(self) -> int:
        if self._host.boot_ms() >= self._next and self._reading.acquire(blocking=False):
            done = threading.Event()
            threading.Thread(target=self._read_aside, args=(done,), name="matins-clock", daemon=True).start()
            done.wait(_PATIENCE_S)
        return self._host.boot_ms() + self._offset

    def boot_ms(self) -> int:
        return self._host.boot_ms()

    def local_zone(self) -> str:
        return self._host.local_zone()

    def _read_aside(self, done: threading.Event) -> None:
        try:
            self._read_again()
        finally:
            self._reading.release()
            done.set()

    def _read_again(self) -> None:
        """Move the offset no further than necessary, so that a slow reply does not move it. After a step the clock is
        read again immediately, for two readings."""
        wait = _AWAY_MS
        with suppress(StoreError):  # the next use of the store raises it
            low, high = self._bounds()
            before, self._offset = self._offset, min(max(self._offset, low), high)
            wait = 0 if abs(self._offset - before) > _STEP_MS else _EVERY_MS
        self._next = self._host.boot_ms() + wait

    def _bounds(self) -> tuple[int, int]:
        """The bounds of the offset: the server read its clock between the request and the reply."""
        before = self._host.boot_ms()
        now = self._store.database_time()
        return now - self._host.boot_ms() - 1, now - before  # fractions of a millisecond are dropped
