"""The database's clock, so that workers on hosts whose clocks differ agree on what is due."""

from __future__ import annotations

import threading
from typing import Protocol

from matins.errors import StoreUnavailable
from matins.ports import Clock

_EVERY_MS = 1_000


class Timed(Protocol):
    def database_time(self) -> int: ...


class DatabaseClock:
    """Boot time plus an offset that is read again at most once a second. While the database does not answer, the last
    offset holds: boot time is steady."""

    def __init__(self, store: Timed, local: Clock) -> None:
        self._store = store
        self._local = local
        self._reading = threading.Lock()
        self._offset = self._read()
        self._next = local.boot_ms() + _EVERY_MS

    def now_ms(self) -> int:
        boot = self._local.boot_ms()
        if boot >= self._next and self._reading.acquire(blocking=False):
            try:
                self._next = boot + _EVERY_MS
                self._offset = self._read()
            except StoreUnavailable:
                pass  # whoever uses the store hears of it
            finally:
                self._reading.release()
        return self._local.boot_ms() + self._offset

    def boot_ms(self) -> int:
        return self._local.boot_ms()

    def local_zone(self) -> str:
        return self._local.local_zone()

    def _read(self) -> int:
        """Half of the round trip has passed since the server looked at its clock."""
        before = self._local.boot_ms()
        now = self._store.database_time()
        return now - (before + self._local.boot_ms()) // 2
