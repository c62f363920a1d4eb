"""What the loops pass to an executor, and what it returns."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from matins.model.run import Outcome
from matins.runtime.catalog import Known


class Work(NamedTuple):
    """An attempt that is recorded and is to be started."""

    run_id: int
    epoch: int
    attempt: int
    slot: int | None
    slots: int
    first_slot: int | None
    started_at: int
    known: Known

    @property
    def mark(self) -> tuple[int, int]:
        """The identity of the attempt: a run may return to the same process with a new epoch."""
        return self.run_id, self.epoch


class Ended(NamedTuple):
    work: Work
    outcome: Outcome


class Executor(Protocol):
    def start(self) -> None: ...
    def submit(self, batch: list[Work]) -> None:
        """Start these attempts, without blocking."""
        ...

    def adoptable(self, work: Work) -> bool:
        """Whether it knows the fate of a run that a dead worker on this machine started."""
        ...

    def adopt(self, works: list[Work]) -> None:
        """Take over these attempts: they end, continue, or are released."""
        ...

    def drain(self) -> list[Ended]:
        """The attempts that ended since the last call."""
        ...

    def room(self, *, talks: bool = False) -> int:
        """How many more attempts can start now: of agents, or of jobs."""
        ...

    def running(self) -> int:
        """The number of attempts that have not ended."""
        ...

    def busy(self) -> bool:
        """Whether attempts are still running."""
        ...

    def withdraw(self, *, everything: bool = False) -> list[Work]:
        """Take back attempts that have waited too long for capacity (or all that wait), for other workers."""
        ...

    def overdue(self) -> list[Work]:
        """The attempts that exceeded their timeout since the last call and cannot be stopped."""
        ...

    def cancel(self, run_ids: set[int]) -> None: ...
    def interrupt(self) -> int:
        """Stop the attempts that can be stopped, because this process is about to end. Returns their number."""
        ...

    def stop(self) -> None: ...
