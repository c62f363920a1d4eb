"""Attempts and executors: the values and the interface between the engine and an executor."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from matins.engine.keys import run_key
from matins.model.run import Outcome
from matins.runtime.catalog import CompiledSchedule

Mark = tuple[int, int]
"""Run and epoch: the identity of an attempt, since a run may return to the same process with a new epoch."""


MAX_LEAD_MS = 20
"""How long before their slots runs may be planned that nothing can stop. A later pause stops the next slot."""


class Attempt(NamedTuple):
    """An attempt of a run that is recorded and is to be started."""

    run_id: int
    epoch: int
    number: int
    """1 for the first attempt of the run. Unlike the epoch, it counts only attempts that ran."""
    slot: int | None
    slots: int
    first_slot: int | None
    started_at: int
    """The executor waits for it when the run was planned ahead."""
    compiled: CompiledSchedule
    stored_key: str | None = None
    """The key of a manual run or of a step; None: it follows from the slot."""
    not_before: int | None = None
    """Of an attempt that is released: when the run may be claimed again; None: now."""

    @property
    def key(self) -> str:
        """A key that is the same for every attempt of a run, and for no other run."""
        if self.stored_key is not None:
            return self.stored_key
        return run_key(self.compiled.uid, self.slot if self.first_slot is None else self.first_slot, None)

    @property
    def mark(self) -> Mark:
        return self.run_id, self.epoch


class AttemptEnd(NamedTuple):
    attempt: Attempt
    outcome: Outcome


class Executor(Protocol):
    def start(self) -> None: ...
    def submit(self, batch: list[Attempt]) -> None:
        """Start these attempts, without blocking."""
        ...

    def adoptable(self, attempt: Attempt) -> bool:
        """Whether the executor can find the outcome of a run that a dead worker on this machine started."""
        ...

    def adopt(self, attempts: list[Attempt]) -> None:
        """Take over these attempts: they end, continue, or are released."""
        ...

    def drain(self) -> list[AttemptEnd]:
        """The attempts that ended since the last call."""
        ...

    def capacity(self, *, for_agents: bool = False) -> int:
        """How many more attempts can start now: of agents, or of jobs."""
        ...

    def offers(self) -> frozenset[str]:
        """What runs may need and find here: `job:NAME`, `runner:NAME`."""
        ...

    def running(self) -> int:
        """The number of attempts that have not ended."""
        ...

    def marks(self) -> set[Mark]:
        """The attempts that have not ended, and those whose end `drain` or `withdraw` has yet to return."""
        ...

    def busy(self) -> bool:
        """Whether attempts are still running."""
        ...

    def withdraw(self, *, everything: bool = False) -> list[Attempt]:
        """Take back attempts that have waited too long for capacity (or all that wait), for other workers."""
        ...

    def overdue(self) -> list[Attempt]:
        """The attempts that exceeded their timeout since the last call and cannot be stopped."""
        ...

    def cancel(self, run_ids: set[int]) -> None: ...
    def interrupt(self) -> int:
        """Stop the attempts that can be stopped, because this process is about to end. Returns their number."""
        ...

    def stop(self) -> None: ...
