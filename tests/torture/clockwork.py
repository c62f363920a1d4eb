"""A clock that steps an hour and a year, either way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from stage import Orders
from theatre import Theatre

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
_EVERY_S = 2.5


class Clockwork:
    """Moves the clock of a stage; after each step new schedules begin at the time that it shows."""

    def __init__(self, theatre: Theatre, seed: str) -> None:
        self._theatre = theatre
        self._rng = Random(seed)
        self._left: list[int] = []
        self._offset = 0
        self._next = time.monotonic() + _EVERY_S
        self.steps = 0

    def step(self) -> None:
        if time.monotonic() >= self._next:
            self.leap()

    def leap(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """A step of the clock; then schedules are added that begin at the time that it shows."""
        if not self._left:
            self._left = [HOUR_MS, -HOUR_MS, YEAR_MS, -YEAR_MS]
            self._rng.shuffle(self._left)
        self._offset += self._left.pop()
        now = time.time_ns() // 1_000_000 + self._offset
        self._theatre.lines.append({"kind": "stepped", "at": now})
        _write(self._theatre.stage.offset, self._offset)
        self.steps += 1
        meanwhile()
        self._theatre.run_through(Orders("newcomers", str(self.steps)))
        self._next = time.monotonic() + _EVERY_S


def _write(path: Path, offset: int) -> None:
    """In one write of a fixed length, so that no reader sees half of a number."""
    with path.open("r+b", buffering=0) as file:
        file.write(f"{offset:<24}".encode())
