"""The same duties by a workflow of one activity, for servers without standalone activities, which are a preview.

The engine answers for the workflow itself: it has no code that changes, so no versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from matins.executors.outside import Ended, Told, Unknown, Where
from matins.runtime.kept_output import Tails
from matins.temporal import engine as standalone
from matins.temporal.engine import TemporalEngine, answered, told, unknown_run

FLOW = "matins.flow"


@workflow.defn(name=FLOW)
class Flow:
    @workflow.run
    async def run(self, kind: str, queue: str, times: list[int], arguments: list[Any]) -> Any:
        """Hand one order to a worker, once."""
        timeout_ms, patience_ms, heartbeat_ms = times
        order = [arguments[0].encode("latin-1"), *arguments[1:]]
        return await workflow.execute_activity(
            kind,
            args=order,
            task_queue=queue,
            start_to_close_timeout=timedelta(milliseconds=timeout_ms),
            schedule_to_start_timeout=timedelta(milliseconds=patience_ms),
            heartbeat_timeout=timedelta(milliseconds=heartbeat_ms),
            retry_policy=RetryPolicy(maximum_attempts=1),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            result_type=bytes,
        )


class WorkflowEngine(TemporalEngine):
    """A `TemporalEngine` that uses the name of an attempt as the id of a workflow."""

    _flows: asyncio.Task[None] | None = None

    async def client(self) -> Client:
        client = await super().client()
        if self._flows is None:
            worker = Worker(
                client, task_queue=self._flow_queue, workflows=[Flow], workflow_runner=UnsandboxedWorkflowRunner()
            )
            self._flows = asyncio.create_task(worker.run())
        return client

    async def close(self) -> None:
        """Answer for workflows no more."""
        if self._flows is not None:
            self._flows.cancel()
            await asyncio.gather(self._flows, return_exceptions=True)

    async def follow(self, name: str) -> Told:
        client = await self.client()
        try:
            found: bytes = await answered(client.get_workflow_handle(name, result_type=bytes).result(), "tell results")
            return Ended(found)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return Unknown()
            raise
        except WorkflowFailureError as error:
            cause = error.cause
            return told(cause.cause if isinstance(cause, ActivityError) else cause)

    async def output(self, name: str) -> Tails:
        client = await self.client()
        try:
            found = await answered(client.get_workflow_handle(name).describe(), "describe runs")
        except RPCError as error:
            return unknown_run(error)
        pending = found.raw_description.pending_activities
        return await self._tails(pending[0].heartbeat_details.payloads) if pending else {}

    async def end(self, name: str, reason: str) -> None:
        client = await self.client()
        try:
            await answered(client.get_workflow_handle(name).cancel(reason=reason), "cancel")
        except RPCError as error:
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION):  # it has ended
                raise

    async def terminate(self, name: str, reason: str) -> None:
        client = await self.client()
        await answered(client.get_workflow_handle(name).terminate(reason=reason), "terminate")

    @property
    def _flow_queue(self) -> str:
        return f"{self._connection.prefix}.flows"

    async def _start(self, kind: str, name: str, arguments: list[Any], queue: str, where: Where) -> bool:
        client = await self.client()
        times = [where.timeout_ms, where.patience_ms, standalone.HEARTBEAT_MS]
        given: list[str | Mapping[str, Any]] = [arguments[0].decode("latin-1"), *arguments[1:]]
        start = client.start_workflow(
            FLOW,
            args=[kind, queue, times, given],
            id=name,
            task_queue=self._flow_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        )
        try:
            await answered(start, "start runs")
        except WorkflowAlreadyStartedError:
            return False
        return True
