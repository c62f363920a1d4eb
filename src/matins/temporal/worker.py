"""A worker that takes its orders from Temporal.

It polls by itself: the SDK's worker reserves a place for each queue that it polls, and buffers heartbeats. Here a
heartbeat is a call with an answer. The first one is answered before anything starts, each renews the lease of the run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest, PollActivityTaskQueueResponse
from temporalio.client import ActivityExecutionStatus, AsyncActivityCancelledError, AsyncActivityHandle, Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from matins.errors import MatinsError
from matins.executors.orders import Order, decode_order, encode_outcome
from matins.executors.outside import Unreachable
from matins.executors.worker import OrderEnd, OrderRunner, Worker
from matins.runtime.attempt import Mark
from matins.runtime.kept_output import Tails
from matins.temporal.engine import ASK, connect
from matins.temporal.settings import BEAT_S, HOST, NOT_HERE, OUTPUT, TemporalConnection, queues_of

log = logging.getLogger("matins")
_POLL = timedelta(seconds=70)
"""Longer than the server's limit of a poll."""
_STOP_S = 30.0
_PAUSE_S, _MAX_PAUSE_S = 0.5, 15.0
_TICK_S = 1.0
BEAT_BYTES, END_BYTES = 2_048, 65_536
"""Of each stream, what a heartbeat tells and what comes with the outcome."""


def serve_until_signal(connection: TemporalConnection, worker: Worker) -> None:
    """Take orders until SIGTERM or SIGINT. Agents that run then continue; the next worker follows them."""
    asyncio.run(_serve(connection, worker))


async def _serve(connection: TemporalConnection, worker: Worker) -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    client = await _connected(connection, stopping)
    if client is not None:
        await TemporalWorker(client, connection, worker).serve(stopping)


async def _connected(connection: TemporalConnection, stopping: asyncio.Event) -> Client | None:
    """The client, once the server answers. None when the worker is stopped before."""
    pause = _PAUSE_S
    while not stopping.is_set():
        try:
            return await connect(connection)
        except Unreachable as error:
            log.warning("%s It is tried again.", error.message)
        await _wait(stopping, pause)
        pause = min(2 * pause, _MAX_PAUSE_S)
    return None


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(call)


class TemporalWorker:
    def __init__(self, client: Client, connection: TemporalConnection, worker: Worker) -> None:
        self._client = client
        self._connection = connection
        self._worker = worker
        self._name = worker.node.name
        self._taken: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._ends: dict[tuple[str, Mark], asyncio.Future[OrderEnd]] = {}
        """The ends of orders that run here, or that Temporal does not have yet."""

    async def serve(self, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        self._worker.wake = partial(_call_soon, loop, self._collect)
        queues = queues_of(self._connection.prefix, self._name, self._worker.node.labels)
        polls = [asyncio.create_task(self._poll(queue)) for queue in queues]
        ticks = asyncio.create_task(self._tick())
        log.info("Worker %s waits for orders at %s, namespace %s.", self._name, self._connection.address,
                 self._connection.namespace)  # fmt: skip
        await stopping.wait()
        log.info("Stopping. Runs have %d s to finish; agents continue, and the next worker follows them.", _STOP_S)
        for poll in polls:
            poll.cancel()
        if self._taken:
            await asyncio.wait(self._taken, timeout=_STOP_S)
        for task in (ticks, *self._taken):
            task.cancel()

    async def _poll(self, queue: str) -> None:
        request = PollActivityTaskQueueRequest(
            namespace=self._connection.namespace,
            task_queue=TaskQueue(name=queue),
            identity=f"{self._name}@{os.getpid()}",
        )
        pause = _PAUSE_S
        while True:
            while len(self._taken) >= self._worker.max_runs:
                self._changed.clear()
                await self._changed.wait()
            try:
                task = await self._client.workflow_service.poll_activity_task_queue(request, timeout=_POLL)
            except RPCError as error:
                if error.status is not RPCStatusCode.DEADLINE_EXCEEDED:
                    log.warning("Temporal gives no orders now: %s", error.message)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _MAX_PAUSE_S)
                continue
            pause = _PAUSE_S
            if task.task_token:
                taken = asyncio.create_task(self._take(task))
                self._taken.add(taken)
                taken.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._taken.discard(task)
        self._changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("An order of Temporal failed", exc_info=error)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._collect()

    def _collect(self) -> None:
        for end in self._worker.ended():
            found = self._ends.setdefault((end.store, end.mark), asyncio.get_running_loop().create_future())
            if not found.done():
                found.set_result(end)

    async def _take(self, task: PollActivityTaskQueueResponse) -> None:
        handle = self._client.get_async_activity_handle(task_token=task.task_token)
        arguments = await self._client.data_converter.decode(task.input.payloads)
        try:
            order = decode_order(arguments[0])
            runner = await asyncio.to_thread(self._worker.runner, order.store)
            evidence = await asyncio.to_thread(lambda: runner.evidence)
        except MatinsError as error:
            await self._tell(handle, None, error.message)
            return
        details = {HOST: self._name, **evidence}
        since = self._worker.clock.boot_ms()
        try:
            await handle.heartbeat(details)  # only when it is answered, something may start
        except RPCError as error:
            log.warning("run %s is not started: %s", order.run, error.message)
            return
        except AsyncActivityCancelledError:
            await self._tell(handle, None, "it was cancelled before it started", cancelled=True)
            return
        key = order.store, order.mark
        self._ends.setdefault(key, asyncio.get_running_loop().create_future())
        try:
            if task.activity_type.name != ASK:
                runner.submit(order, since)
            elif not self._ends[key].done():
                runner.ask(order, dict(arguments[1]), since)
        except MatinsError as error:
            del self._ends[key]
            await self._tell(handle, None, error.message)
            return
        await self._follow(task.activity_id, handle, runner, order, details)

    async def _follow(
        self, name: str, handle: AsyncActivityHandle, runner: OrderRunner, order: Order, details: Mapping[str, Any]
    ) -> None:
        """Renew the lease of an order until it ends, and report its end."""
        key, ending = (order.store, order.mark), False
        end = self._ends[key]
        while not (await asyncio.wait([end], timeout=BEAT_S))[0]:
            since = self._worker.clock.boot_ms()
            output = await asyncio.to_thread(runner.output, order.mark, BEAT_BYTES)
            try:
                await handle.heartbeat({**details, OUTPUT: msgspec.to_builtins(output)})
            except AsyncActivityCancelledError as error:  # also when people pause or reset it: then it continues
                if error.details is not None and error.details.cancel_requested and not ending:
                    runner.cancel(order.mark)
                    ending = True
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    continue  # no answer, no renewal
                if not await self._was_ended(name):
                    return  # Temporal gave this worker up, and Matins asks it again
                log.warning("run %s was ended in Temporal", order.run)
                runner.cancel(order.mark)
                await end
                del self._ends[key]
                return
            runner.renew(order.mark, since)
        found = end.result()
        output = await asyncio.to_thread(runner.output, order.mark, END_BYTES)
        if await self._tell(handle, found, found.reason or "", output=output):
            self._ends.pop(key, None)

    async def _was_ended(self, name: str) -> bool:
        """Whether people ended an activity that is not open any more. Otherwise it was given up, or forgotten."""
        try:
            found = await self._client.get_activity_handle(name).describe()
        except RPCError:
            return False
        return found.status in (ActivityExecutionStatus.TERMINATED, ActivityExecutionStatus.CANCELED)

    async def _tell(
        self, handle: AsyncActivityHandle, end: OrderEnd | None, reason: str, *, cancelled: bool = False,
        output: Tails | None = None,
    ) -> bool:  # fmt: skip
        """Tell Temporal the end of an order, however often it must be tried. False: it does not want to know."""
        pause = _PAUSE_S
        while True:
            try:
                if end is not None and end.outcome is not None:
                    await handle.complete(encode_outcome(end.outcome, output))
                elif cancelled:
                    await handle.report_cancellation()
                else:
                    await handle.fail(ApplicationError(reason, type=NOT_HERE, non_retryable=True))
                return True
            except RPCError as error:
                if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                    return False
                log.warning("Temporal does not take the end of a run now: %s", error.message)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_S)
