"""What the engine hands to an executor (`Attempt`), what comes back (`AttemptEnd`), and what an executor is.

`run_key`: the key by which jobs and tools recognise a repeated attempt. Mostly it follows from the slot, and the store
is not asked.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from operator import itemgetter
from typing import NamedTuple, Protocol

from matins.engine.policies import Policies
from matins.model.run import Outcome
from matins.runtime.catalog import CompiledSchedule
from matins.store.transaction import Transaction


def run_key(schedule: str, slot: int | None, request_key: str | None, step: int = 0) -> str:
    """Of the identity of the schedule, and the first slot or the request: a store that was set back to an older copy
    gives its run ids to other slots, but the same slot keeps its key. A run may lose its last slots when the clock is
    set back, but keeps its first."""
    part = str(slot) if slot is not None else sha256((request_key or "").encode()).hexdigest()[:16]
    return f"{schedule}-{part}-{step}" if step else f"{schedule}-{part}"


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
    """When the run of a released attempt may be claimed again; None: now."""
    for_slot: int | None = None
    """The past slot that a run without a slot makes up for."""
    not_here: str | None = None
    """What this node lacks for a released attempt, so that only others claim its run again."""

    @property
    def nominal_slot(self) -> int | None:
        """The slot that the job gets."""
        return self.for_slot if self.slot is None else self.slot

    @property
    def key(self) -> str:
        """A key that is the same for every attempt of a run, and for no other run."""
        if self.stored_key is not None:
            return self.stored_key
        return run_key(self.compiled.uid, self.slot if self.first_slot is None else self.first_slot, None)

    @property
    def mark(self) -> Mark:
        return self.run_id, self.epoch


mark_of: Callable[[Attempt], Mark] = itemgetter(slice(2))
"""Reads the mark of an attempt, without the call of a property."""


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

    def follows(self, item: CompiledSchedule) -> bool:
        """Whether runs of a schedule are in an engine elsewhere: any engine of the store finds their outcome."""
        ...

    def use(self, policies: Policies) -> None:
        """Use these policies from now on."""
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
    def renew(self, marks: set[Mark], since: int) -> None:
        """Renew the leases of these attempts, which belonged to this engine at `since`, in boot time."""
        ...

    def interrupt(self) -> int:
        """Stop the attempts that can be stopped, because this process is about to end. Returns their number."""
        ...

    def accept(self) -> None:
        """Start attempts again after `interrupt`: the process continues."""
        ...

    def stop(self) -> None: ...


def key_at_claim(transaction: Transaction, compiled: CompiledSchedule, run_id: int, slot: int | None) -> str | None:
    """The key of a manual run or of a step, read while the store is there; None when it follows from the slot."""
    return stored_run_key(transaction, compiled, run_id) if slot is None or compiled.step else None


def stored_run_key(transaction: Transaction, compiled: CompiledSchedule, run_id: int) -> str:
    """The key of a run. That of a step is the key of the whole run with the step's number."""
    whole = next(iter(transaction.parents_of([run_id])), run_id) if compiled.step else run_id
    run = transaction.run(whole)
    if run is None:
        return run_key(compiled.uid, None, None, compiled.step)
    first = run.slot if run.first_slot is None else run.first_slot
    return run_key(compiled.uid, first, run.request_key, compiled.step)
