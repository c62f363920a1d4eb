"""An engine in its threads, and jobs that say when they begin."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from matins import Matins
from matins.executors.job_context import JobContext
from matins.runtime.engine import Engine

PATIENCE = 90
HOUR_MS = 3_600_000


class Signal:
    """A job that says how often it has begun, and stands until it is let go."""

    def __init__(self, *, stands: bool = False) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.runs: list[JobContext] = []
        if not stands:
            self.go.set()

    def __call__(self, run: JobContext) -> str:
        self.runs.append(run)
        self.begun.release()
        assert self.go.wait(PATIENCE)
        return "done"

    def wait(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.begun.acquire(timeout=PATIENCE), "it did not begin"


@pytest.fixture(params=["memory", "file"])
def matins(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Matins]:
    made = Matins("sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/matins.db", threads=4)
    yield made
    made.close()


def each_turn(matins: Matins) -> Iterator[Engine]:
    """The running engine, after each of its turns."""
    assert matins._loop is not None
    engine, turned = matins._loop.engine, threading.Semaphore(0)
    turn = engine.turn

    def signalling() -> int:
        try:
            return turn()
        finally:
            turned.release()

    engine.turn = signalling  # type: ignore[method-assign]
    while turned.acquire(timeout=PATIENCE):
        yield engine
    raise AssertionError("the engine stands still")
