"""How an event reaches a subscriber: a request to a webhook, a command, or a call."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Literal

import orjson

from matins.engine.policies import AFTER_RUN
from matins.errors import InvalidInput
from matins.executors.check_executor import printed
from matins.executors.commands import CommandResult, hook_reply, run_command
from matins.executors.secrets import resolve
from matins.model.run import RunRecord
from matins.model.schedule import CommandLine
from matins.net.outbound import AddressRefused, HttpClient, Resolve, Unreachable
from matins.net.signing import sign
from matins.ports import Clock
from matins.runtime.catalog import Known
from matins.runtime.lines import HookRan, Lane, Letter, Sent
from matins.runtime.outbox import Senders

_ARRIVED = Sent()
_GONE = 410


def senders(clock: Clock, workdir: str | None = None) -> Senders:
    return {"webhook": Webhooks(clock), "hook": Hooks(workdir), "function": call}


def call(queue: Lane, delivery: Letter) -> Sent:
    """It has got the event when it returns."""
    answer = queue.target(delivery.cloud_event)
    if inspect.iscoroutine(answer):
        asyncio.run(answer)
    return _ARRIVED


class Webhooks:
    """Standard Webhooks: the CloudEvent as it is, signed."""

    def __init__(self, clock: Clock, resolve: Resolve | None = None) -> None:
        self._clock = clock
        self._resolve = resolve
        self._http_client: tuple[Any, HttpClient] | None = None
        """The one for the hosts that were allowed last."""

    def __call__(self, queue: Lane, delivery: Letter) -> Sent:
        url, body = queue.target["url"], orjson.dumps(delivery.cloud_event)
        try:
            secret = resolve(queue.target["secret"], "the secret")  # a file says where it is, not what it is
            headers = sign(secret, delivery.cloud_event["id"], self._clock.now_ms() // 1000, body)
        except InvalidInput as error:
            return Sent("again", error.message)
        headers["content-type"] = "application/cloudevents+json"
        try:
            answer = self._client_for(queue).send("POST", url, body=body, headers=headers)
        except AddressRefused as error:
            return Sent("refused", error.message)
        except Unreachable as error:
            return Sent("again", error.message)
        if 200 <= answer.status < 300:
            return _ARRIVED
        return Sent("gone" if answer.status == _GONE else "again", f"it answered {answer.status}")

    def _client_for(self, queue: Lane) -> HttpClient:
        allowed = queue.policies.allowed_hosts
        cached = self._http_client
        if cached is None or cached[0] != allowed:
            cached = self._http_client = allowed, HttpClient(allowed, self._resolve)
        return cached[1]


class Hooks:
    """Commands that learn how a run ended. One that ran is done, however it ended: nothing follows from it."""

    def __init__(self, workdir: str | None) -> None:
        self._workdir = workdir

    def __call__(self, queue: Lane, delivery: Letter) -> Sent:
        if delivery.run is None:
            return _ARRIVED  # it is forgotten by now
        ran: list[HookRan] = []
        for kind, command, limit_ms in _commands(queue, delivery.known):
            result = run_command(
                command,
                context=_context(delivery, delivery.run),
                variables=_variables(delivery, delivery.run),
                workdir=self._workdir,
                limit_ms=limit_ms,
            )
            ran.append(HookRan(kind, _failure(result), result.duration_ms, result.exit_code, printed(result)))
        return Sent(ran=tuple(ran))


def _commands(queue: Lane, known: Known | None) -> list[tuple[Literal["file_after", "after"], CommandLine, int]]:
    commands: list[tuple[Literal["file_after", "after"], CommandLine, int]] = []
    if AFTER_RUN in queue.policies.hooks:
        hook = queue.policies.hooks[AFTER_RUN]
        commands.append(("file_after", hook.command, hook.timeout_ms))
    if known is not None and known.definition.after_run is not None:
        commands.append(("after", known.definition.after_run, known.definition.check_timeout_ms))
    return commands


def _failure(result: CommandResult) -> str | None:
    return None if result.exit_code == 0 else hook_reply(result).reason or "it ended badly"


def _context(delivery: Letter, run: RunRecord) -> dict[str, Any]:
    """The words of the hook that comes before a run, and how the run ended."""
    known = delivery.known
    return {
        "event": AFTER_RUN,
        "schedule": run.schedule,
        "schedule_id": str(run.schedule_id),
        "agent": known.agent if known else "",
        "run_id": str(run.id),
        "slot": run.slot,
        "attempt": run.attempt,
        "job": known.definition.job if known else None,
        "payload": known.definition.payload if known else None,
        "state": run.state.label,
        "reason": run.reason,
        "outcome": run.outcome,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "cloudevent": delivery.cloud_event,
    }


def _variables(delivery: Letter, run: RunRecord) -> dict[str, str]:
    return {
        "MATINS_EVENT": AFTER_RUN,
        "MATINS_SCHEDULE": run.schedule,
        "MATINS_AGENT": delivery.known.agent if delivery.known else "",
        "MATINS_RUN_ID": str(run.id),
        "MATINS_SLOT": "" if run.slot is None else str(run.slot),
        "MATINS_STATE": run.state.label,
        "MATINS_REASON": run.reason or "",
    }
