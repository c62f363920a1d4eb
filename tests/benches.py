"""Benches for the loops: the production engine under a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matins.model.run import Outcome
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.testing import InlineExecutor, ManualClock, Sandbox, iso

START = "2026-03-27T08:00:00Z"


class Stage(InlineExecutor):
    """Runs go on until the test says how they end."""

    on: dict[int, Attempt]

    def start(self) -> None:
        self.on = {}
        self.cancelled: set[int] = set()

    def submit(self, batch: list[Attempt]) -> None:
        self._submitted |= {work.mark for work in batch}
        self.on.update({work.run_id: work for work in batch})

    def cancel(self, run_ids: set[int]) -> None:
        self.cancelled |= run_ids

    def end(self, name: str, *, result: Any = None, error: str | None = None, cancelled: bool = False) -> None:
        """End the oldest run of a schedule."""
        run_id = min(run_id for run_id, work in self.on.items() if work.compiled.name == name)
        outcome = Outcome(error is None and not cancelled, result, error, cancelled=cancelled)
        self._done.append(AttemptEnd(self.on.pop(run_id), outcome))

    def names(self) -> list[str]:
        return sorted(work.compiled.name for work in self.on.values())


class Theatre(Sandbox):
    """A bench on which runs take time."""

    def __init__(self, url: str = "sqlite://", *, clock: ManualClock | None = None, **settings: Any) -> None:
        super().__init__(url, clock=clock or ManualClock(START), **settings)
        self.stage = Stage(self.jobs, self.clock, lambda: None, self._loader, threads=1)
        self.stage.start()
        self.executor = self.engine.executor = self.stage
        self.job("work")(lambda run: None)

    def end(self, name: str, **how: Any) -> None:
        self.stage.end(name, **how)
        self.settle()


@pytest.fixture
def bench() -> Iterator[Sandbox]:
    """Jobs: `work` succeeds, `fail` raises."""
    made = Sandbox(clock=ManualClock(START))
    made.job("work")(lambda run: None)
    made.job("fail")(failing)
    yield made
    made.close()


def failing(run: object) -> None:
    raise ValueError("no luck")


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    made = Theatre()
    yield made
    made.close()


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[..., Theatre]]:
    """A theatre on the same file as the one before, which is dropped as a crash would drop it."""
    opened: list[Theatre] = []

    def open_again(**settings: Any) -> Theatre:
        clock = opened[-1].clock if opened else None
        opened.append(Theatre(f"sqlite:///{tmp_path}/matins.db", clock=clock, **settings))
        return opened[-1]

    yield open_again
    for theatre in opened:
        theatre.close()


@pytest.fixture
def lines() -> Callable[..., list[str]]:
    """A schedule's records, oldest first, each as "08:05 succeeded", with its reason where it has one."""

    def lines_of(bench: Sandbox, name: str) -> list[str]:
        found = []
        for run in reversed(bench.all_runs(name)):
            when = "manual" if run.slot is None else str(iso(run.slot))[11:19].removesuffix(":00")
            found.append(" ".join(filter(None, [when, run.state, run.reason])))
        return found

    return lines_of
