"""A desk for each test, and the certainty that nothing of it is left."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from process_harness import Gate, Harness, Held, Marks, gone

from matins.executors.processes import proc


@pytest.fixture
def harness(desks: Callable[..., Harness]) -> Harness:
    return desks()


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Several of them share a folder, as engines do that follow each other."""
    made: list[Harness] = []
    folder = tmp_path / "processes"
    numbers = itertools.count(1)

    def make(**given: Any) -> Harness:
        made.append(Harness(folder, numbers, **given))
        return made[-1]

    yield make
    for harness in made:
        harness.supervisor.close(leave_running=False)
    lock = folder / "keeper.lock"
    keeper = proc.find(*map(int, lock.read_text().split())) if lock.exists() else None
    assert keeper is None or gone(keeper), "the keeper stays"
    assert not sorted(folder.glob("*.sock"))
    log = folder / "keeper.log"
    assert not log.exists() or log.read_text() == ""


@pytest.fixture
def said(tmp_path: Path) -> Iterator[Marks]:
    with contextlib.closing(Marks(tmp_path / "said")) as said:
        yield said


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with contextlib.closing(Gate(tmp_path / "gate")) as gate:
        yield gate


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with contextlib.closing(Held(tmp_path / "held")) as held:
        yield held
