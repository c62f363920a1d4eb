"""Reads that take turns: threads that share the interpreter take more time together than one after the other."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

_PATIENCE_S = 0.05


class Turns:
    """`needed` is False where a read waits for another machine: others go on meanwhile."""

    def __init__(self, *, needed: bool, patience_s: float = _PATIENCE_S) -> None:
        self._needed = needed
        self._patience_s = patience_s
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Generator[None]:
        """One at a time. A long read delays each of the others by the patience at most."""
        taken = self._needed and self._lock.acquire(timeout=self._patience_s)
        try:
            yield
        finally:
            if taken:
                self._lock.release()
