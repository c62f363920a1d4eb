"""An attempt as data: what a worker without a database needs to run it (`Order`), and what comes back (`Outcome`).

`OrderWriter` makes the orders of an engine: it reads the store, claims the work item, and leaves out what no worker
needs. `OrderContexts` answers the executors of a worker from its orders. Secrets are references, which the worker
resolves: `check_references` refuses variables that look like secrets and are none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import orjson

from matins.engine.answers import asks_for_silence
from matins.engine.money import Price
from matins.engine.policies import NO_POLICIES, Policies
from matins.engine.prompts import CallContext, WorkItem
from matins.engine.schedules import encode
from matins.engine.settings import dump_settings, load_settings, loaders_of
from matins.errors import Example, InvalidInput, MatinsError
from matins.executors.agent_checks import needs_of
from matins.executors.conclusions import same_login
from matins.executors.registry import JobRegistry, runners
from matins.executors.runners.protocol import EndpointRunner
from matins.executors.work_items import HeldWorkItem, ItemChanged, claim_item, find_held, source_of
from matins.model.agent import Agent
from matins.model.clock import Clock
from matins.model.run import Message, Outcome, RunState, ThreadAssignment, Usage
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import settings_of
from matins.runtime.approval_requests import shown_item
from matins.runtime.attempt import Attempt, Mark
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.kept_output import KeptOutput, Tails
from matins.runtime.recorder import will_retry
from matins.runtime.run_changes import as_json
from matins.runtime.run_context import ContextLoader, Elsewhere, RunContext
from matins.runtime.spending import SpendingLimit
from matins.store import Store

VERSION = 1
"""It rises when an order needs something of a worker that earlier workers lack."""
OF_DEFINITION = (
    "trigger", "job", "prompt", "command", "stdin", "model", "effort", "prompt_prefix", "on", "payload", "on_unknown",
    "timeout_ms", "provider", "max_cost", "max_tokens", "attach", "keep", "job_prompt",
)  # fmt: skip
"""What executors read of a schedule. The rest stays with the engine: hooks, approvals, addresses that contain keys."""
_SECRET_NAME = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
_AGENT_LOADERS = loaders_of(settings_of(Agent))


class NotHere(MatinsError):  # noqa: N818 - it names where the run cannot be
    """This worker cannot run the order; another one may. Nothing was started, and no attempt is counted."""

    code = "not_here"


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt, complete. Instants are UTC milliseconds, money is in micro-dollars."""

    v: int
    store: str
    """The store and its incarnation: another store may have a run of the same number."""
    run: int
    epoch: int
    key: str
    """A key that is the same for every attempt of the run, and different for every other run."""
    attempt: int
    """1 for the first attempt of the run."""
    slot: int | None = None
    slots: int = 1
    first_slot: int | None = None
    started_at: int
    schedule: int
    name: str
    """Name of the schedule."""
    creator: str | None = None
    """The agent that created the schedule; None if a person did."""
    step: int = 0
    definition: dict[str, Any]
    """The stored form of those settings of the schedule, or of the step, that executors read."""
    input: Any = None
    fenced: tuple[str, ...] = ()
    """The names of inputs that are texts of a principal who may not change the schedule."""
    agent: str
    """Its name; empty for a job without one."""
    settings: dict[str, Any] | None = None
    """The stored form of the agent as the schedule wakes it; None if there is no such agent."""
    call: CallContext | None = None
    """The call that the run belongs to."""
    item: WorkItem | None = None
    """The work item that the run has. Its sender holds it, and reports the outcome."""
    steps: dict[str, Any] = {}
    """The results of the earlier steps of its run, by title."""
    previous_state: RunState | None = None
    assignment: ThreadAssignment | None = None
    """The conversation of the run, with the session of its tool."""
    messages: tuple[Message, ...] = ()
    """The last messages of that conversation, for runners that keep no session themselves."""
    limits: tuple[SpendingLimit, ...] = ()
    """At most so much may the attempt spend, as the budgets were when the order was written."""
    spent: Usage = Usage()
    """What earlier attempts of the run spent."""
    prices: dict[str, Price] = {}
    """Those that differ from the published ones."""
    rates: dict[str, float] = {}
    """Currencies in dollars."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts in the owner's own network that the run may call."""
    lease_ms: int | None = None
    """Its processes end by themselves when the lease is not renewed for so long; None: they go on."""

    @property
    def mark(self) -> Mark:
        return self.run, self.epoch


class _Versioned(msgspec.Struct):
    v: int


class _WithOutput(msgspec.Struct):
    output: dict[str, tuple[int, bytes]] = {}


_decode_version = msgspec.json.Decoder(_Versioned).decode
_decode_order = msgspec.json.Decoder(Order).decode
_decode_outcome = msgspec.json.Decoder(Outcome).decode
_decode_output = msgspec.json.Decoder(_WithOutput).decode


def encode_order(order: Order) -> bytes:
    return orjson.dumps(msgspec.to_builtins(order))


def decode_order(data: bytes) -> Order:
    """The order. Raises NotHere for one of a newer version, and InvalidInput for what is no order."""
    try:
        version = _decode_version(data).v
        if version > VERSION:
            message = f"The order has version {version}, and this worker reads up to {VERSION}."
            raise NotHere(message, hint="Install the Matins of the engine on this machine.")
        return _decode_order(data)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"This is no order: {error}.", field="order") from None


def encode_outcome(outcome: Outcome, output: Tails | None = None) -> bytes:
    """The outcome as JSON, with the result as an engine would store it, and the ends of what it has printed."""
    own = orjson.loads(as_json({"result": outcome.result}))
    if output:
        own["output"] = msgspec.to_builtins(output)
    return orjson.dumps({**msgspec.to_builtins(replace(outcome, result=None)), **own})


def decode_outcome(data: bytes) -> tuple[Outcome, Tails]:
    """The outcome, and the ends of what it has printed. Raises InvalidInput."""
    try:
        return _decode_outcome(data), _decode_output(data).output
    except msgspec.DecodeError as error:
        raise InvalidInput(f"This is no outcome: {error}.", field="outcome") from None


def store_name(store: Store) -> str:
    """The name of a store in its orders."""
    return f"{store.store_id}-{store.incarnation}"


def attempt_of(order: Order) -> Attempt:
    """The attempt of an order, as executors take it."""
    text = orjson.dumps(order.definition).decode()
    compiled = CompiledSchedule(order.schedule, 1, order.name, order.agent, text, creator=order.creator)
    return Attempt(
        order.run, order.epoch, order.attempt, order.slot, order.slots, order.first_slot, order.started_at,
        compiled.with_input(order.input, order.fenced, order.step), order.key,
    )  # fmt: skip


def narrowed(definition: ScheduleDefinition, *, silence: bool) -> dict[str, Any]:
    """The stored form of what executors read of a schedule. `silence`: whether its agent is asked to say that there is
    nothing to report."""
    read = {name: getattr(definition, name) for name in OF_DEFINITION}
    return orjson.loads(encode(ScheduleDefinition(**read, deliver_if="news" if silence else "always")))


def check_references(agent: Agent) -> None:
    """Raise InvalidInput for a variable that looks like a secret and has a value. Orders hold references only."""
    for name, text in agent.environment:
        if _SECRET_NAME.search(name) and not text.startswith(("env:", "file:")):
            message = f"{name} of agent {agent.name} has a value, and values of secrets are not sent to other machines."
            hint = Example({"environment": {name: f"env:{name}"}})
            raise InvalidInput(message, field="environment", hint=hint)


class OrderWriter:
    """Writes orders for attempts of this engine, and receives their outcomes. Every call reads the store."""

    def __init__(self, store: Store, loader: ContextLoader, clock: Clock, jobs: JobRegistry, workdir: str) -> None:
        self._store = store
        self._loader = loader
        self._clock = clock
        self._jobs = jobs
        self._workdir = workdir
        self.kept_output = KeptOutput(store, clock)

    def write(self, attempt: Attempt, lease_ms: int | None = None) -> Order | None:
        """The order of an attempt that is to start. None: release it, because it needs an approval again.

        Raises NoWork without a work item, and InvalidInput for an order that must not be written."""
        context = self._loader.run_context(attempt)
        if not context.approved:
            return None
        if context.agent is not None:
            check_references(context.agent)
        held = self._held(attempt, context, claim=True)
        if held and context.approval and shown_item(held.item) != context.approval.request.get("work_item"):
            self._loader.void_approval(attempt, "its work item has changed")
            return None
        return self._order(attempt, context, held, lease_ms)

    def write_again(self, attempt: Attempt, lease_ms: int | None = None) -> Order:
        """The order of an attempt that may have begun, to ask about it."""
        context = self._loader.run_context(attempt)
        return self._order(attempt, context, self._held(attempt, context, claim=False), lease_ms)

    def received(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """The outcome of an order with what only the engine knows: it is reported to the source of the work item, and
        a refused login is that of all agents that share it."""
        context = self._loader.run_context(attempt)
        if outcome.limit is not None and outcome.limit.login is not None and context.agent is not None:
            runner = runners().get(context.agent.runner)
            needs = None if runner is None else needs_of(runner)
            if needs is not None:
                names = same_login(context.agent, needs, context.policies)
                outcome = replace(outcome, limit=outcome.limit._replace(affects=names))
        held = self._held(attempt, context, claim=False)
        if held is None:
            return outcome
        return held.concluded(outcome, self._clock, will_retry=will_retry(attempt, outcome, self._clock.now_ms()))

    def give_back(self, attempt: Attempt) -> None:
        """Release the work item of an attempt that is not started."""
        self.received(attempt, Outcome(False, cancelled=True))

    def _held(self, attempt: Attempt, context: RunContext, *, claim: bool) -> HeldWorkItem | None:
        compiled = attempt.compiled
        source = source_of(
            compiled.definition, compiled.agent, context.policies, self._jobs, self._workdir, attempt.started_at
        )
        if source is None:
            return None
        return (claim_item if claim else find_held)(source, attempt.key, self._clock)

    def _order(self, attempt: Attempt, context: RunContext, held: HeldWorkItem | None, lease_ms: int | None) -> Order:
        compiled, policies = attempt.compiled, context.policies
        agent, assignment = context.agent, context.assignment
        known = NO_POLICIES.prices
        silence = asks_for_silence(compiled.definition, compiled.agent, policies)
        return Order(
            v=VERSION,
            store=store_name(self._store),
            run=attempt.run_id,
            epoch=attempt.epoch,
            key=attempt.key,
            attempt=attempt.number,
            slot=attempt.nominal_slot,
            slots=attempt.slots,
            first_slot=attempt.first_slot,
            started_at=attempt.started_at,
            schedule=compiled.schedule_id,
            name=compiled.name,
            creator=compiled.creator,
            step=compiled.step,
            definition=narrowed(compiled.definition, silence=silence),
            input=compiled.input,
            fenced=() if compiled.given is None else compiled.given.fenced,
            agent=compiled.agent,
            settings=None if agent is None else dump_settings(agent),
            call=context.call,
            item=None if held is None else held.item,
            steps=dict(context.steps),
            previous_state=context.previous_state,
            assignment=assignment,
            messages=self._messages(attempt, context),
            limits=tuple(self._loader.spending_limits(attempt)),
            spent=self._loader.spent_before(attempt),
            prices={name: price for name, price in policies.prices.items() if known.get(name) != price},
            rates=dict(policies.rates),
            allowed_hosts=policies.allowed_hosts,
            lease_ms=lease_ms,
        )

    def _messages(self, attempt: Attempt, context: RunContext) -> tuple[Message, ...]:
        """Tools that keep a session have their messages there."""
        if context.assignment is None or context.agent is None:
            return ()
        runner = runners().get(context.agent.runner)
        if runner is not None and not isinstance(runner, EndpointRunner):
            return ()
        return tuple(self._loader.earlier_messages(attempt, context.assignment.thread.id))


class OrderContexts:
    """The context of attempts by their orders, for executors without a store."""

    kept_output: KeptOutput | None = None  # the end of the output goes with the outcome

    def __init__(self) -> None:
        self.orders: dict[Mark, Order] = {}
        self.senders: dict[Mark, dict[str, Any]] = {}
        """The worker that was to start an attempt that is asked about: its `boot` and `nonce`."""

    def worker_of(self, attempt: Attempt) -> dict[str, Any]:
        return self.senders.get(attempt.mark, {})

    def elsewhere(self, attempt: Attempt) -> Elsewhere:
        return Elsewhere("", {}, may_start=True)  # what is missing here may be elsewhere

    def run_token(self, attempt: Attempt) -> str:
        raise NotHere("A run on a worker has no token: the worker has no API.")

    def reported(self, attempt: Attempt) -> tuple[str, str | None] | None:
        return None  # without a token, no agent reports

    def run_context(self, attempt: Attempt) -> RunContext:
        order = self.orders[attempt.mark]
        return RunContext(
            _agent_of(order), order.assignment, order.previous_state, self.policies(attempt), order.call,
            steps=order.steps, item=order.item, sent=True, lease_ms=order.lease_ms,
        )  # fmt: skip

    def void_approval(self, attempt: Attempt, why: str) -> None:
        raise ItemChanged  # approvals stay with the sender, who compares the item before it writes the order

    def step_results(self, attempt: Attempt) -> dict[str, Any]:
        return self.orders[attempt.mark].steps

    def earlier_messages(self, attempt: Attempt, thread: int) -> Sequence[Message]:
        return self.orders[attempt.mark].messages

    def emit(self, attempt: Attempt, kind: str, data: dict[str, Any]) -> None:
        message = f'A job on a worker cannot write the event "{kind}": the worker has no store.'
        raise InvalidInput(message, value=kind, hint="Return it as the result, or run the job on a node.")

    def policies(self, attempt: Attempt) -> Policies:
        order, agent = self.orders[attempt.mark], _agent_of(self.orders[attempt.mark])
        return replace(
            NO_POLICIES,
            prices={**NO_POLICIES.prices, **order.prices},
            rates={**NO_POLICIES.rates, **order.rates},
            allowed_hosts=order.allowed_hosts,
            agents={} if agent is None else {agent.name: agent},
        )

    def previous_state(self, attempt: Attempt) -> RunState | None:
        return self.orders[attempt.mark].previous_state

    def call(self, attempt: Attempt) -> CallContext | None:
        return self.orders[attempt.mark].call

    def spent_before(self, attempt: Attempt) -> Usage:
        return self.orders[attempt.mark].spent

    def spending_limits(self, attempt: Attempt) -> Sequence[SpendingLimit]:
        return self.orders[attempt.mark].limits


def _agent_of(order: Order) -> Agent | None:
    """The agent as the schedule wakes it."""
    return None if order.settings is None else Agent(order.agent, **load_settings(_AGENT_LOADERS, order.settings))
