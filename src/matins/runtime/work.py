"""What the loops hand to an executor, and what it hands back."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from matins.model.run import Outcome
from matins.runtime.catalog import Known


class Work(NamedTuple):
    """An attempt that is durable and shall start."""

    run_id: int
    epoch: int
    attempt: int
    slot: int | None
    covered: int
    covered_from: int | None
    started_at: int
    known: Known

    @property
    def mark(self) -> tuple[int, int]:
        """Which attempt this is: a run may come back to the same process under a new epoch."""
        return self.run_id, self.epoch


class Ended(NamedTuple):
    work: Work
    outcome: Outcome


class Executor(Protocol):
    def start(self) -> None: ...
    def submit(self, batch: list[Work]) -> None:
        """Take these; never blocks."""
        ...

    def adoptable(self, work: Work) -> bool:
        """Whether it can say what became of a run that a worker on this machine had started before it died."""
        ...

    def adopt(self, works: list[Work]) -> None:
        """Take these up: they end, go on, or are given back."""
        ...

    def drain(self) -> list[Ended]:
        """What has ended since the last time."""
        ...

    def room(self, *, talks: bool = False) -> int:
        """How many more it would take now: runs that are told to an agent, or others."""
        ...

    def running(self) -> int:
        """How many it has taken that have not ended."""
        ...

    def busy(self) -> bool:
        """Whether some of them still run."""
        ...

    def withdraw(self, *, everything: bool = False) -> list[Work]:
        """Take back what has waited too long for a place (or all that waits), so that others may have it."""
        ...

    def overdue(self) -> list[Work]:
        """What has run past its limit since the last time and cannot be ended."""
        ...

    def cancel(self, run_ids: set[int]) -> None: ...
    def interrupt(self) -> int:
        """End what can be ended, since this process is about to end; how many that are."""
        ...

    def stop(self) -> None: ...
