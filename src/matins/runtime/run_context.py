"""The context of a run, which executors read when they need it (`RunContexts`).

An engine reads it from the store (`ContextLoader`), and not when the attempt is claimed: an agent may change before it
starts, other runs use the same budgets, and most Python jobs need none of it. A worker has no store: it finds the
context in the order that it was sent (`matins.executors.orders`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

import orjson

from matins.engine.events import EVENTS
from matins.engine.jobs import as_scheduled, retries_unknown
from matins.engine.placement import lacking
from matins.engine.policies import Policies
from matins.engine.prompts import CallContext, WorkItem
from matins.engine.schedules import decode
from matins.errors import InvalidInput
from matins.model.agent import Agent
from matins.model.clock import Clock
from matins.model.policies import Approval
from matins.model.rows import NewEvent
from matins.model.run import Message, RunState, ThreadAssignment, Usage
from matins.runtime.approval_requests import needs_none, used_approval, void_run
from matins.runtime.attempt import Attempt
from matins.runtime.capacity import run_needs
from matins.runtime.catalog import Catalog, call_context, run_record
from matins.runtime.kept_output import KeptOutput
from matins.runtime.spending import SpendingLimit, spending_limits
from matins.runtime.tokens import run_token
from matins.store import Store
from matins.store.transaction import Transaction

_MAX_EARLIER_MESSAGES = 100


def trace_id(incarnation: str, run_id: int | str) -> str:
    """The id of the trace of a whole run, for OpenTelemetry."""
    return sha256(f"{incarnation} {run_id}".encode()).hexdigest()[:32]


def span_id(incarnation: str, run_id: int | str, attempt: int = 0) -> str:
    """The id of the span of a run, of a step's run, or of an attempt of it."""
    return sha256(f"{incarnation} {run_id} {attempt}".encode()).hexdigest()[:16]


def traceparent(store: Store, transaction: Transaction, attempt: Attempt) -> str:
    """The span of an attempt, as W3C's Trace Context writes it."""
    row = transaction.run(attempt.run_id)
    whole = None if row is None else run_record(row).parent
    span = span_id(store.incarnation, attempt.run_id, attempt.number)
    return f"00-{trace_id(store.incarnation, whole or attempt.run_id)}-{span}-01"


class RunContext(NamedTuple):
    """The stored context of an agent's run that is about to start or to continue."""

    agent: Agent | None
    """The agent that the schedule wakes."""
    assignment: ThreadAssignment | None
    previous_state: RunState | None
    policies: Policies
    call: CallContext | None = None
    """The call that the run belongs to."""
    approved: bool = True
    """Whether the run needs no approval, or its approval is for the agent as it is now."""
    approval: Approval | None = None
    """The approval that the run starts with, if it needed one."""
    steps: Mapping[str, Any] = {}
    """The results of the earlier steps of its run, by title."""
    item: WorkItem | None = None
    """The work item that the sender of the order claimed for the run."""
    sent: bool = False
    """Whether the run came as an order: its sender claims the work item, and reports the outcome to its source."""
    lease_ms: int | None = None
    """How long its processes go on when the engine does not renew their lease; None: to their end."""
    trace: str | None = None
    """Its span, as a W3C `traceparent`; None where no spans are sent."""


class Elsewhere(NamedTuple):
    """The other nodes, as seen by one that cannot run an attempt."""

    node: str
    """This node."""
    tried: Mapping[str, str]
    """The nodes that turned the run away, and why."""
    may_start: bool
    """Whether another node offers what the run needs, and has not turned it away."""


class RunContexts(Protocol):
    """What executors ask about an attempt."""

    kept_output: KeptOutput | None
    """Where other machines read the output of runs; None where it stays with its files."""

    def worker_of(self, attempt: Attempt) -> Mapping[str, Any]:
        """The identity of the worker that started the attempt."""
        ...

    def elsewhere(self, attempt: Attempt) -> Elsewhere:
        """Whether other nodes may run what this one cannot."""
        ...

    def run_token(self, attempt: Attempt) -> str:
        """The token with which the processes of this attempt call Matins."""
        ...

    def reported(self, attempt: Attempt) -> tuple[str, str | None] | None:
        """The outcome that the agent reported while the attempt ran, and its reason."""
        ...

    def run_context(self, attempt: Attempt) -> RunContext:
        """What the start of an agent needs."""
        ...

    def void_approval(self, attempt: Attempt, why: str) -> None:
        """Void the approval of a run that has not started, because its subject has changed."""
        ...

    def step_results(self, attempt: Attempt) -> Mapping[str, Any]:
        """The results of the earlier steps of a step's run, by title."""
        ...

    def earlier_messages(self, attempt: Attempt, thread: int) -> Sequence[Message]:
        """The last messages of the attempt's thread, for agents that keep no session themselves."""
        ...

    def emit(self, attempt: Attempt, kind: str, data: dict[str, Any]) -> None:
        """Write an event of this run: one that jobs may write."""
        ...

    def policies(self, attempt: Attempt) -> Policies:
        """The policies in force for the attempt."""
        ...

    def previous_state(self, attempt: Attempt) -> RunState | None:
        """The state of the previous run, which may end while this one runs."""
        ...

    def call(self, attempt: Attempt) -> CallContext | None:
        """The call that the run belongs to."""
        ...

    def spent_before(self, attempt: Attempt) -> Usage:
        """The spending of earlier attempts of the run."""
        ...

    def spending_limits(self, attempt: Attempt) -> Sequence[SpendingLimit]:
        """The amounts that the run may still spend."""
        ...


class ContextLoader:
    """Loads the context of an attempt. Every method reads the store as it is now."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        clock: Clock,
        lease_ms: int,
        run_lease_ms: int,
        output_url: str | None = None,
        *,
        traced: bool = False,
    ) -> None:
        self._store = store
        self._lease = lease_ms
        self._traced = traced
        self._run_lease = run_lease_ms if store.shared else None
        self._catalog = catalog
        self._clock = clock
        self.kept_output = KeptOutput(store, clock, output_url) if store.shared else None

    def worker_of(self, attempt: Attempt) -> dict[str, Any]:
        """The identity of the worker that started the attempt."""
        with self._store.reading() as transaction:
            return orjson.loads(transaction.worker_of(*attempt.mark) or "{}")

    def elsewhere(self, attempt: Attempt) -> Elsewhere:
        """Whether other nodes may run what this one cannot, and those that cannot either."""
        with self._store.reading() as transaction:
            own = transaction.worker_of(*attempt.mark)
            needs, tried = run_needs(transaction, attempt.run_id), dict(transaction.turned_away(attempt.run_id))
        engines = self._store.engines(self._lease)
        node = next((engine.node for engine in engines if engine.identity == own), "")
        others = any(engine.node != node and not lacking(needs, engine.offered) for engine in engines)
        return Elsewhere(node, tried, may_start=others)

    def run_token(self, attempt: Attempt) -> str:
        """The token with which the processes of this attempt call Matins."""
        return run_token(self._store, attempt.run_id, attempt.epoch)

    def reported(self, attempt: Attempt) -> tuple[str, str | None] | None:
        """The outcome that the agent reported while the attempt ran, and its reason."""
        with self._store.reading() as transaction:
            said = transaction.reported_outcome(*attempt.mark)
        found = orjson.loads(said) if said else None
        return None if found is None else (found["outcome"], found["reason"])

    def run_context(self, attempt: Attempt) -> RunContext:
        """The context as it is now. An agent that changed after the claim needs approval again. The agent of a run that
        is taken over may be missing until the run ends."""
        compiled, run_id = attempt.compiled, attempt.run_id
        with self._store.reading() as transaction:
            policies = self._catalog.policies(transaction)
            approval = used_approval(transaction, compiled, policies, run_id)
            agent = policies.agents.get(compiled.agent)
            return RunContext(
                None if agent is None else as_scheduled(agent, compiled.definition),
                transaction.thread_assignment(run_id),
                previous_state(transaction, attempt),
                policies,
                call_context(transaction, run_id) if compiled.definition.on else None,
                approval is not None or needs_none(transaction, compiled, policies),
                approval,
                step_results(transaction, attempt),
                lease_ms=self._run_lease if self._run_lease and retries_unknown(compiled.definition) else None,
                trace=traceparent(self._store, transaction, attempt) if self._traced else None,
            )

    def void_approval(self, attempt: Attempt, why: str) -> None:
        """Void the approval of a run that has not started, because its subject has changed."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            transaction.lock_due([attempt.compiled.schedule_id])
            void_run(transaction, attempt.run_id, now, why, ("pending", "approved", "used"))

    def step_results(self, attempt: Attempt) -> Mapping[str, Any]:
        """The results of the earlier steps of a step's run, by title."""
        with self._store.reading() as transaction:
            return step_results(transaction, attempt)

    def earlier_messages(self, attempt: Attempt, thread: int) -> list[Message]:
        """The last messages of the attempt's thread, for agents that keep no session themselves."""
        with self._store.reading() as transaction:
            return transaction.last_messages(thread, _MAX_EARLIER_MESSAGES)

    def emit(self, attempt: Attempt, kind: str, data: dict[str, Any]) -> None:
        """Write an event of this run: one that jobs may write."""
        if kind not in EVENTS or not EVENTS[kind].of_jobs:
            allowed = ", ".join(sorted(name for name, event in EVENTS.items() if event.of_jobs))
            hint = "To tell people something, return it, or use `job: message`."
            raise InvalidInput(f'A job cannot write the event "{kind}".', value=kind, allowed=allowed, hint=hint)
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            transaction.events.append(NewEvent(now, kind, attempt.compiled.schedule_id, attempt.run_id, data))

    def policies(self, attempt: Attempt | None = None) -> Policies:
        with self._store.reading() as transaction:
            return self._catalog.policies(transaction)

    def previous_state(self, attempt: Attempt) -> RunState | None:
        """The state of the previous run, which may end while this one runs."""
        with self._store.reading() as transaction:
            return previous_state(transaction, attempt)

    def call(self, attempt: Attempt) -> CallContext | None:
        """The call that the run belongs to."""
        with self._store.reading() as transaction:
            return call_context(transaction, attempt.run_id)

    def spent_before(self, attempt: Attempt) -> Usage:
        """The spending of earlier attempts of the run."""
        with self._store.reading() as transaction:
            return transaction.spend_of(attempt.run_id) or Usage()

    def spending_limits(self, attempt: Attempt) -> list[SpendingLimit]:
        """The amounts that the run may still spend. Other runs use the same budgets, so the amounts change."""
        with self._store.reading() as transaction:
            policies = self._catalog.policies(transaction)
            return spending_limits(transaction, policies, attempt.compiled, attempt.run_id, self._clock.now_ms())


def step_results(transaction: Transaction, attempt: Attempt) -> dict[str, Any]:
    """The results of the steps that have succeeded before this one, by title."""
    compiled = attempt.compiled
    if not compiled.step:
        return {}
    (parent,) = transaction.parents_of([attempt.run_id])
    (definition,) = transaction.definitions([(compiled.schedule_id, compiled.rev)])
    titles = {number: step.title for number, step in enumerate(decode(definition.definition).steps, 1)}
    done = [row for row in transaction.steps_of(parent) if row.state == RunState.SUCCEEDED]
    outcomes: dict[str, Any] = {titles[row.step]: run_record(row).outcome for row in done}
    return {title: outcome.get("result") if outcome else None for title, outcome in outcomes.items()}


def previous_state(transaction: Transaction, attempt: Attempt) -> RunState | None:
    state = transaction.previous_state(attempt.compiled.schedule_id, attempt.run_id)
    return None if state is None else RunState(state)
