"""Senders of events to subscribers: a request to a webhook, a command, or a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import orjson

from matins.delivery.answers import Answers
from matins.delivery.destinations import retry_after_ms
from matins.delivery.notices import Notices, Pings, Tail, no_output, no_url
from matins.delivery.outbox import Senders
from matins.delivery.pipelines import Pipelines
from matins.delivery.run_texts import RunTexts
from matins.delivery.subscribers import DeliveryQueue, DeliveryResult, EventDelivery, HookResult
from matins.engine.answers import answer_text
from matins.engine.inputs import variables_of
from matins.engine.policies import AFTER_RUN, Policies
from matins.engine.reasons import changed_text
from matins.errors import InvalidInput, MatinsError
from matins.executors.check_executor import awaited, printed
from matins.executors.commands import AgentCommands, CommandResult, hook_reply
from matins.executors.registry import JobRegistry
from matins.executors.secrets import resolve
from matins.executors.work_items import named_source, source_of
from matins.model.clock import Clock
from matins.model.run import RunRecord
from matins.model.schedule import CommandLine
from matins.net.outbound import AddressRefused, HttpClient, Resolve, Unreachable
from matins.net.signing import sign
from matins.runtime.approval_requests import UnusedItem
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.command_files import changed_of
from matins.store import Store

_ARRIVED = DeliveryResult()
_GONE = 410


def senders(
    store: Store,
    clock: Clock,
    commands: AgentCommands,
    workdir: str | None = None,
    tail: Tail = no_output,
    base_url: Callable[[], str | None] = no_url,
    jobs: JobRegistry | None = None,
) -> Senders:
    """How each kind of subscription is served. `tail` reads the output of runs; `base_url` is where the page is."""
    return {
        "webhook": Webhooks(clock),
        "hook": Hooks(commands, workdir, clock, jobs or JobRegistry()),
        "function": call,
        "pipeline": Pipelines(store, clock),
        "notice": Notices(store, clock, tail, base_url),
        "answer": Answers(store, clock, base_url),
        "ping": Pings(store, tail),
        "text": RunTexts(store, clock, tail),
    }


def call(queue: DeliveryQueue, delivery: EventDelivery) -> DeliveryResult:
    """Call the subscriber. The event is delivered when the call returns."""
    awaited(queue.target(delivery.cloud_event))
    return _ARRIVED


class Webhooks:
    """Standard Webhooks: sends the CloudEvent unchanged and signed."""

    def __init__(self, clock: Clock, resolve: Resolve | None = None) -> None:
        self._clock = clock
        self._resolve = resolve
        self._http_client: tuple[Any, HttpClient] | None = None
        """The allowed hosts of the client, and the client."""

    def __call__(self, queue: DeliveryQueue, delivery: EventDelivery) -> DeliveryResult:
        url, body = queue.target["url"], orjson.dumps(_with_text(queue, delivery))
        try:
            secret = resolve(queue.target["secret"], "the secret")  # the record holds a reference, not the secret
            headers = sign(secret, delivery.cloud_event["id"], self._clock.now_ms() // 1000, body)
        except InvalidInput as error:
            return DeliveryResult("again", error.message)
        headers["content-type"] = "application/cloudevents+json"
        try:
            answer = self._client_for(queue).send("POST", url, body=body, headers=headers)
        except AddressRefused as error:
            return DeliveryResult("refused", error.message)
        except Unreachable as error:
            return DeliveryResult("again", error.message)
        if 200 <= answer.status < 300:
            return _ARRIVED
        verdict = "gone" if answer.status == _GONE else "again"
        error = f"the subscriber answered {answer.status}"
        return DeliveryResult(verdict, error, after_ms=retry_after_ms(answer))

    def _client_for(self, queue: DeliveryQueue) -> HttpClient:
        allowed = queue.policies.allowed_hosts
        cached = self._http_client
        if cached is None or cached[0] != allowed:
            cached = self._http_client = allowed, HttpClient(allowed, self._resolve)
        return cached[1]


def _with_text(queue: DeliveryQueue, delivery: EventDelivery) -> dict[str, Any]:
    """The event; for a webhook with `text`, that of a success has the answer, which is added here: the log has none."""
    if not queue.target.get("text") or delivery.run is None or delivery.event.type != "run.succeeded":
        return delivery.cloud_event
    data: dict[str, Any] = delivery.cloud_event.get("data") or {}
    return {**delivery.cloud_event, "data": {**data, "text": answer_text(delivery.run.outcome)}}


class Hooks:
    """Runs commands after a run ends. A command that ran counts as delivered with any exit code. Work items whose run
    never started are released first."""

    def __init__(self, commands: AgentCommands, workdir: str | None, clock: Clock, jobs: JobRegistry) -> None:
        self._commands = commands
        self._workdir = workdir
        self._clock = clock
        self._jobs = jobs

    def _give_back(self, item: UnusedItem, policies: Policies) -> None:
        now, workdir = self._clock.now_ms(), self._workdir or "."
        source = source_of(item.compiled.definition, item.compiled.agent, policies, self._jobs, workdir, now)
        if source is None or source.name != item.source:
            if item.source not in policies.work_sources:
                return  # it was deleted, and its items with it
            source = named_source(item.source, policies, workdir)
        source.release(item.id, item.run_key, now)

    def __call__(self, queue: DeliveryQueue, delivery: EventDelivery) -> DeliveryResult:
        if delivery.run is None:
            return _ARRIVED  # the run has been pruned
        try:
            for item in delivery.unused_items:
                self._give_back(item, queue.policies)
        except MatinsError as error:
            return DeliveryResult("again", error.message)
        ran: list[HookResult] = []
        commands = self._commands.of("" if delivery.compiled is None else delivery.compiled.agent, queue.policies)
        for kind, command, limit_ms in _commands(queue, delivery.compiled):
            if changed := changed_of([command], delivery.allowed, queue.policies):  # the run itself may have done it
                reason = f"{changed_text(changed)} It did not run; the next run waits for approval"
                ran.append(HookResult(kind, reason, 0, None, ""))
                continue
            result = commands.run(
                command,
                context=_context(delivery, delivery.run),
                variables=_variables(delivery, delivery.run),
                limit_ms=limit_ms,
                find_first=True,
            )
            ran.append(HookResult(kind, _failure(result), result.duration_ms, result.exit_code, printed(result)))
        return DeliveryResult(hooks=tuple(ran))


def _commands(
    queue: DeliveryQueue, compiled: CompiledSchedule | None
) -> list[tuple[Literal["file_after", "after"], CommandLine, int]]:
    commands: list[tuple[Literal["file_after", "after"], CommandLine, int]] = []
    if AFTER_RUN in queue.policies.hooks:
        hook = queue.policies.hooks[AFTER_RUN]
        commands.append(("file_after", hook.command, hook.timeout_ms))
    if compiled is not None and compiled.definition.after_run is not None:
        commands.append(("after", compiled.definition.after_run, compiled.definition.check_timeout_ms))
    return commands


def _failure(result: CommandResult) -> str | None:
    return None if result.exit_code == 0 else hook_reply(result).reason or "the command failed"


def _context(delivery: EventDelivery, run: RunRecord) -> dict[str, Any]:
    """The context of a hook before the run, plus the outcome."""
    compiled = delivery.compiled
    return {
        "event": AFTER_RUN,
        "schedule": run.schedule,
        "schedule_id": str(run.schedule_id),
        "agent": compiled.agent if compiled else "",
        "run_id": str(run.id),
        "slot": run.slot,
        "attempt": run.attempt,
        "job": compiled.definition.job if compiled else None,
        "payload": compiled.definition.payload if compiled else None,
        "input": compiled.input if compiled else None,
        "state": run.state.label,
        "reason": run.reason,
        "outcome": run.outcome,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "cloudevent": delivery.cloud_event,
    }


def _variables(delivery: EventDelivery, run: RunRecord) -> dict[str, str]:
    return variables_of(delivery.compiled.input if delivery.compiled else None) | {
        "MATINS_EVENT": AFTER_RUN,
        "MATINS_SCHEDULE": run.schedule,
        "MATINS_AGENT": delivery.compiled.agent if delivery.compiled else "",
        "MATINS_RUN_ID": str(run.id),
        "MATINS_SLOT": "" if run.slot is None else str(run.slot),
        "MATINS_STATE": run.state.label,
        "MATINS_REASON": run.reason or "",
    }
