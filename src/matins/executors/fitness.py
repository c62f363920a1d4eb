"""Whether this machine can start agents. If it cannot, the engine says so and leaves them to other engines."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable

from matins.executors.processes.recovery import machine_error
from matins.model.clock import Clock
from matins.runtime.placement import TROUBLE

log = logging.getLogger("matins")
_FIRST_TEST_MS, _MAX_TEST_MS = 5_000, 300_000
_TEST_BYTES = 1 << 16
_TEST_S = 30


class Fitness:
    """After a start failed for a reason of the machine, no agents start until a test passes: a file can be written
    where it failed, and a process started. The delay between tests doubles, up to five minutes."""

    def __init__(self, clock: Clock, test: Callable[[Iterable[str]], str | None] | None = None) -> None:
        self._clock = clock
        self._test = test or reason_now
        self._lock = threading.Lock()
        self._folders: set[str] = set()
        self._test_at = 0
        self._delay = _FIRST_TEST_MS
        self._testing = False
        self.reason: str | None = None
        """Why no agent can be started; None if they can."""

    def fail(self, reason: str, folders: Iterable[str]) -> None:
        """A start in these folders has failed."""
        with self._lock:
            if self.reason is None:
                log.error("This machine cannot start agents now; they are left to other engines: %s", reason)
                self._folders, self._delay = set(), _FIRST_TEST_MS
                self._test_at = self._clock.boot_ms() + self._delay
            self.reason = reason
            self._folders.update(folders)

    def is_test_due(self) -> bool:
        """Whether `test` is to be called now. True for one caller only."""
        with self._lock:
            due = self.reason is not None and not self._testing and self._clock.boot_ms() >= self._test_at
            self._testing |= due
            return due

    def test(self) -> None:
        reason = self._test(tuple(self._folders))
        with self._lock:
            self._testing = False
            if reason is None:
                log.warning("This machine starts agents again.")
                self.reason = None
                return
            self.reason = reason
            self._delay = min(2 * self._delay, _MAX_TEST_MS)
            self._test_at = self._clock.boot_ms() + self._delay

    def offers(self) -> frozenset[str]:
        """What this engine announces to other engines and to people."""
        reason = self.reason
        return frozenset() if reason is None else frozenset([f"{TROUBLE}{reason}"])


def reason_now(folders: Iterable[str]) -> str | None:
    """Why a run could not be started now in one of these folders; None if it could."""
    try:
        for folder in folders:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(_TEST_BYTES))
                file.flush()
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True, timeout=_TEST_S, capture_output=True)
    except OSError as error:  # a folder that is closed to Matins says nothing about the machine
        return machine_error(error.errno)
    except subprocess.SubprocessError as error:
        return str(error)
    return None
