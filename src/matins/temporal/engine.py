"""Temporal as an engine elsewhere: an attempt is a standalone activity with one attempt of its own, and a worker of
Matins takes it.

What Temporal calls an activity id is the name of the attempt. A finished activity keeps its id for the retention of
the namespace, so that a second start of it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    GetSystemInfoRequest,
)
from temporalio.client import ActivityFailureError, Client
from temporalio.common import ActivityIDConflictPolicy, ActivityIDReusePolicy, RetryPolicy
from temporalio.exceptions import (
    ActivityAlreadyStartedError,
    ApplicationError,
    CancelledError,
    TerminatedError,
    TimeoutType,
)
from temporalio.exceptions import TimeoutError as ActivityTimeoutError
from temporalio.service import RPCError, RPCStatusCode

from matins.engine.placement import Labels
from matins.executors.outside import Ended, Lost, NotStarted, Stopped, Told, Unknown, Unreachable, Where
from matins.runtime.kept_output import Tails
from matins.temporal.settings import (
    FENCE,
    HEARTBEAT_MS,
    HOST,
    NOT_HERE,
    OUTPUT,
    TemporalConnection,
    host_queue,
    queue_of,
    resolved_key,
)

RUN, ASK = "matins.run", "matins.ask"
MIN_VERSION = (1, 31)
"""Oldest version of the server: it has standalone activities."""
MIN_RETENTION = timedelta(days=1)
"""A finished activity keeps its id, and its result for an engine that was away, for so long."""
_AGAIN = (
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.ABORTED,
    RPCStatusCode.INTERNAL,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.UNKNOWN,
)
_FENCE_S = 60
T = TypeVar("T")


async def connect(connection: TemporalConnection) -> Client:
    """A client of the server. Raises Unreachable when it does not answer."""
    key = resolved_key(connection)
    try:
        return await Client.connect(
            connection.address, namespace=connection.namespace, api_key=key, tls=connection.tls or key is not None
        )
    except RuntimeError as error:  # what the SDK raises when the first call fails
        raise Unreachable(f"Temporal at {connection.address} does not answer: {error}.") from error


async def answered(call: Awaitable[T], what: str) -> T:
    """The answer of a call. Raises Unreachable for an error that may pass."""
    try:
        return await call
    except RPCError as error:
        if error.status in _AGAIN:
            raise Unreachable(f"Temporal does not {what} now: {error.message}.") from error
        raise


class TemporalEngine:
    """The six duties of an engine elsewhere, by standalone activities."""

    def __init__(self, connection: TemporalConnection) -> None:
        self._connection = connection
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def client(self) -> Client:
        async with self._connecting:
            if self._client is None:
                self._client = await connect(self._connection)
            return self._client

    async def start(self, name: str, order: bytes, where: Where) -> bool:
        return await self._start(RUN, name, [order], queue_of(self._connection.prefix, where.labels), where)

    async def follow(self, name: str) -> Told:
        client = await self.client()
        try:
            result = client.get_activity_handle(name, result_type=bytes).result()
            return Ended(await answered(result, "tell results"))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return Unknown()
            raise
        except ActivityFailureError as error:
            return told(error.cause)

    async def ask(self, name: str, order: bytes, worker: Mapping[str, Any], where: Where) -> bool:
        queue = host_queue(self._connection.prefix, worker[HOST])
        return await self._start(ASK, name, [order, dict(worker)], queue, where)

    async def end(self, name: str, reason: str) -> None:
        client = await self.client()
        try:
            await answered(client.get_activity_handle(name).cancel(reason=reason), "cancel")
        except RPCError as error:
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION):  # it has ended
                raise

    async def fence(self, name: str) -> bool:
        where = Where(frozenset(), _FENCE_S * 1000, _FENCE_S * 1000)
        if not await self._start(RUN, name, [b""], f"{self._connection.prefix}.{FENCE}", where):
            return False
        await self.terminate(name, "fenced by Matins")
        return True

    async def terminate(self, name: str, reason: str) -> None:
        """End it at once, as people can."""
        client = await self.client()
        await answered(client.get_activity_handle(name).terminate(reason=reason), "terminate")

    async def output(self, name: str) -> Tails:
        client = await self.client()
        try:
            call = client.get_activity_handle(name).describe(include_heartbeat_details=True)
            found = await answered(call, "describe runs")
        except RPCError as error:
            return unknown_run(error)
        return await self._tails(found.raw_info.heartbeat_details.payloads)

    async def _tails(self, payloads: Sequence[Payload]) -> Tails:
        """The output that the last heartbeat told."""
        if not payloads:
            return {}
        (details, *_) = await (await self.client()).data_converter.decode(payloads)
        return msgspec.convert(details.get(OUTPUT, {}), dict[str, tuple[int, bytes]])

    async def takers(self, labels: Labels) -> list[str]:
        client = await self.client()
        request = DescribeTaskQueueRequest(
            namespace=self._connection.namespace,
            task_queue=TaskQueue(name=queue_of(self._connection.prefix, labels)),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        )
        found = await answered(client.workflow_service.describe_task_queue(request), "describe queues")
        return sorted({poller.identity for poller in found.pollers})

    async def findings(self) -> list[tuple[bool, str, str | None]]:
        """What `doctor` finds out about the server."""
        client = await self.client()
        info = await answered(client.workflow_service.get_system_info(GetSystemInfoRequest()), "describe itself")
        request = DescribeNamespaceRequest(namespace=self._connection.namespace)
        namespace = await answered(client.workflow_service.describe_namespace(request), "describe namespaces")
        retention = namespace.config.workflow_execution_retention_ttl.ToTimedelta()
        takers = await self.takers(frozenset())
        return server_findings(info.server_version, retention, takers, self._connection)

    async def _start(self, kind: str, name: str, arguments: list[Any], queue: str, where: Where) -> bool:
        client = await self.client()
        start = client.start_activity(
            kind,
            args=arguments,
            id=name,
            task_queue=queue,
            start_to_close_timeout=timedelta(milliseconds=where.timeout_ms),
            schedule_to_start_timeout=timedelta(milliseconds=where.patience_ms),
            heartbeat_timeout=timedelta(milliseconds=HEARTBEAT_MS),
            retry_policy=RetryPolicy(maximum_attempts=1),
            id_reuse_policy=ActivityIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=ActivityIDConflictPolicy.FAIL,
        )
        try:
            await answered(start, "start runs")
        except ActivityAlreadyStartedError:
            return False
        return True


def unknown_run(error: RPCError) -> Tails:
    """No output, for a run that the server does not know. Raises every other error."""
    if error.status is RPCStatusCode.NOT_FOUND:
        return {}
    raise error


def told(cause: BaseException | None) -> Told:
    """What the failure of an activity means."""
    if isinstance(cause, ActivityTimeoutError):
        if cause.type is TimeoutType.SCHEDULE_TO_START:
            return NotStarted()
        details = cause.last_heartbeat_details
        worker = cast("dict[str, Any]", details[0]) if details and isinstance(details[0], dict) else {}
        return Lost({name: value for name, value in worker.items() if name != OUTPUT})
    if isinstance(cause, CancelledError):
        return NotStarted("it was cancelled before a worker took it", cancelled=True)
    if isinstance(cause, TerminatedError):
        return Stopped(cause.message or "terminated")
    if isinstance(cause, ApplicationError) and cause.type == NOT_HERE:
        return NotStarted(cause.message)
    return Stopped(str(cause))


def server_findings(
    version: str, retention: timedelta, takers: list[str], connection: TemporalConnection
) -> list[tuple[bool, str, str | None]]:
    """What is right or wrong with a server of this version, retention, and pollers."""
    found: list[tuple[bool, str, str | None]] = []
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    needed = ".".join(map(str, MIN_VERSION))
    if numbers < MIN_VERSION:
        found.append((False, f"Temporal at {connection.address} is {version}, and runs need {needed}", "Upgrade it."))
    if retention < MIN_RETENTION:
        sentence = f'The namespace "{connection.namespace}" keeps what has ended for {retention}, and runs need a day'
        fix = f"temporal operator namespace update --retention 24h -n {connection.namespace}"
        found.append((False, sentence, fix))
    if not takers:
        sentence = f"No worker waits for orders at {connection.address}, namespace {connection.namespace}"
        found.append((False, sentence, f"matins worker --from temporal://{connection.address}/{connection.namespace}"))
    if not found:
        sentence = f"Temporal {version} at {connection.address} answers; workers: {', '.join(takers)}"
        found.append((True, sentence, None))
    return found
