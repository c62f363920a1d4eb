"""A desk for each test, and the certainty that nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from process_desk import Desk, Fifo, Held, gone

from matins.executors.processes import proc


@pytest.fixture
def desk(desks: Callable[..., Desk]) -> Desk:
    return desks()


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Several of them share a folder, as engines do that follow each other."""
    made: list[Desk] = []
    folder = tmp_path / "processes"

    def make(**given: Any) -> Desk:
        made.append(Desk(folder, **given))
        return made[-1]

    yield make
    lock = folder / "keeper.lock"
    keeper = proc.find(*map(int, lock.read_text().split())) if lock.exists() else None
    for desk in made:
        desk.supervisor.close(leave=False)
    assert keeper is None or gone(keeper), "the keeper stays"
    assert not sorted(folder.glob("*.sock"))
    log = folder / "keeper.log"
    assert not log.exists() or log.read_text() == ""


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    fifo = Fifo(tmp_path / "fifo")
    yield fifo
    fifo.close()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    held = Held(tmp_path / "held")
    yield held
    held.close()
