"""What executors read from the store about a run.

It is read when it is needed, not when the attempt is claimed: an agent may change before it starts, budgets are used by
other runs, and most Python jobs ask for nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from matins.engine.policies import Policies
from matins.model.agent import Agent
from matins.model.run import RunState, Usage
from matins.model.thread import Message, ThreadAssignment
from matins.ports import Clock, RunRows, Store
from matins.runtime.approval_requests import still_approved
from matins.runtime.attempt import Attempt
from matins.runtime.catalog import Catalog
from matins.runtime.spending import SpendingLimit, spending_limits

_MAX_EARLIER_MESSAGES = 100


class RunContext(NamedTuple):
    """What the store says about a run that an agent is about to start or to continue."""

    agent: Agent | None
    assignment: ThreadAssignment | None
    previous_state: RunState | None
    policies: Policies
    approved: bool = True
    """Whether the run needs no approval, or its approval is for the agent as it is now."""


class ContextLoader:
    """Loads what an executor asks about an attempt. Every method reads the store as it is now."""

    def __init__(self, store: Store, catalog: Catalog, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock

    def run_key(self, attempt: Attempt) -> str:
        """The same for every attempt of a run, and for no other run."""
        return f"{self._store.store_id}-{attempt.run_id}"

    def run_context(self, attempt: Attempt) -> RunContext:
        """Not read at the claim: an agent that changes before the start needs approval again, and the agent of a run
        that is taken over may be missing until the run ends."""
        compiled, run_id = attempt.compiled, attempt.run_id
        with self._store.reading() as transaction:
            policies = self._catalog.policies(transaction)
            return RunContext(
                policies.agents.get(compiled.agent),
                transaction.thread_assignment(run_id),
                previous_state(transaction, attempt),
                policies,
                still_approved(transaction, compiled, policies, run_id),
            )

    def earlier_messages(self, thread: int) -> list[Message]:
        """The last messages of a thread, for agents that keep no session themselves."""
        with self._store.reading() as transaction:
            return transaction.last_messages(thread, _MAX_EARLIER_MESSAGES)

    def policies(self) -> Policies:
        with self._store.reading() as transaction:
            return self._catalog.policies(transaction)

    def previous_state(self, attempt: Attempt) -> RunState | None:
        """How the run before this one ended. It may end while this one runs."""
        with self._store.reading() as transaction:
            return previous_state(transaction, attempt)

    def spent_before(self, attempt: Attempt) -> Usage:
        """What earlier attempts of the run have spent."""
        with self._store.reading() as transaction:
            return transaction.spend_of(attempt.run_id) or Usage()

    def spending_limits(self, attempt: Attempt) -> list[SpendingLimit]:
        """What the run may still spend. Other runs use the same budgets, so this changes while it runs."""
        with self._store.reading() as transaction:
            policies = self._catalog.policies(transaction)
            return spending_limits(transaction, policies, attempt.compiled, attempt.run_id, self._clock.now_ms())


def previous_state(transaction: RunRows, attempt: Attempt) -> RunState | None:
    state = transaction.previous_state(attempt.compiled.schedule_id, attempt.run_id)
    return None if state is None else RunState(state)
