"""Benches for the use cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from matins.testing import ManualClock, Sandbox, iso


@pytest.fixture
def bench() -> Iterator[Sandbox]:
    made = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z", zone="Asia/Tokyo"))
    made.job("work")(lambda run: None)
    yield made
    made.close()


@pytest.fixture
def rows(bench: Sandbox) -> Callable[[], list[Any]]:
    """Everything that a look or a refusal must not touch."""
    connection = bench._store._connection  # type: ignore[attr-defined]
    tables = ("schedules", "revisions", "due", "runs", "events")
    return lambda: [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


@pytest.fixture
def slots(bench: Sandbox) -> Callable[..., list[str]]:
    """A schedule's records, oldest first, as "08:05 succeeded"."""

    def slots_of(name: str = "s") -> list[str]:
        return [f"{str(iso(run.slot))[11:16]} {run.state}" for run in reversed(bench.runs.list(schedule=name))]

    return slots_of
