"""One Temporal server for all tests of this process; each test has queues and a store of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporal_server import TemporalServer, WorkerProcess

from matins import Matins

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    server = TemporalServer(tmp_path_factory.mktemp("temporal"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def prefix() -> str:
    return f"test{next(_numbers)}"


@pytest.fixture
def workers(temporal: TemporalServer, prefix: str, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Start workers; those with the same home are on the same machine."""
    made: list[WorkerProcess] = []

    def start(*options: str, home: str = "there", **given: Any) -> WorkerProcess:
        made.append(WorkerProcess(temporal, prefix, tmp_path / home, *options, **given))
        return made[-1]

    yield start
    for worker in made:
        if worker.process.poll() is None:
            worker.kill()


@pytest.fixture
def matins(temporal: TemporalServer, prefix: str, tmp_path: Path) -> Iterator[Matins]:
    made = Matins(f"sqlite:///{tmp_path}/matins.db")
    made.temporal.set("main", address=temporal.address, prefix=prefix)  # type: ignore[attr-defined]
    yield made
    made.close()
