"""What an engine elsewhere must do, asked of a real Temporal server; the worker is played by hand. Row B18."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from temporal_server import TemporalServer
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest, PollActivityTaskQueueResponse
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle, Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from matins.errors import InvalidInput
from matins.executors.outside import Ended, Lost, NotStarted, Stopped, Told, Unknown, Unreachable, Where
from matins.temporal import engine as adapter
from matins.temporal.engine import TemporalEngine, answered, server_findings
from matins.temporal.settings import NOT_HERE, OUTPUT, connection_from_url, queues_of
from matins.temporal.workflows import WorkflowEngine

ANY = Where(frozenset(), 60_000, 60_000)
HERE = {"host": "box", "boot": "b", "nonce": "n"}


class Hand:
    """A worker: it takes one order, and does with it what a test says."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    async def take(self, queue: str = "any") -> tuple[PollActivityTaskQueueResponse, AsyncActivityHandle]:
        request = PollActivityTaskQueueRequest(
            namespace="default", task_queue=TaskQueue(name=f"{self._prefix}.{queue}"), identity="hand"
        )
        task = await self._client.workflow_service.poll_activity_task_queue(request, timeout=timedelta(seconds=70))
        return task, self._client.get_async_activity_handle(task_token=task.task_token)


async def _told(engine: TemporalEngine, name: str) -> Told:
    return await asyncio.wait_for(engine.follow(name), 60)


async def _names(engine: TemporalEngine, hand: Hand) -> None:
    """A name is used once: while it runs, when it has ended, and when it was fenced."""
    assert await engine.start("s/1/1", b"order", ANY)
    assert not await engine.start("s/1/1", b"order", ANY), "the answer was lost, and it is asked again"
    assert not await engine.fence("s/1/1")
    task, handle = await hand.take()
    assert await engine_payload(engine, task) == [b"order"]
    await handle.complete(b"outcome")
    assert await _told(engine, "s/1/1") == Ended(b"outcome")
    assert not await engine.start("s/1/1", b"order", ANY)
    assert await _told(engine, "s/2/1") == Unknown()
    assert await engine.fence("s/2/1")
    assert not await engine.start("s/2/1", b"order", ANY), "a late start finds the name taken"
    assert isinstance(await _told(engine, "s/2/1"), Stopped)


async def engine_payload(engine: TemporalEngine, task: PollActivityTaskQueueResponse) -> list[Any]:
    return await (await engine.client()).data_converter.decode(task.input.payloads)


async def _cancels(engine: TemporalEngine, hand: Hand) -> None:
    """Before a worker took it nothing starts; afterwards its next heartbeat says so. The end is the worker's."""
    await engine.start("s/3/1", b"order", ANY)
    await engine.end("s/3/1", "why")
    told = await _told(engine, "s/3/1")
    assert isinstance(told, NotStarted)
    assert told.cancelled
    await engine.end("s/3/1", "it has ended")
    await engine.start("s/4/1", b"order", ANY)
    _, handle = await hand.take()
    await handle.heartbeat(HERE)
    await engine.end("s/4/1", "why")
    with pytest.raises(AsyncActivityCancelledError) as caught:
        await _beat_on(handle)
    assert caught.value.details is not None
    assert caught.value.details.cancel_requested
    await handle.complete(b"cancelled")
    assert await _told(engine, "s/4/1") == Ended(b"cancelled")


async def _beat_on(handle: AsyncActivityHandle) -> None:
    """As a worker does, until a heartbeat is answered by an error."""
    for _ in range(200):
        await handle.heartbeat(HERE)
        await asyncio.sleep(0.05)


async def _losses(engine: TemporalEngine, hand: Hand) -> None:
    """A worker that fell silent is named, and the same epoch is asked about on its machine. It is never repeated."""
    await engine.start("s/5/1", b"order", ANY)
    _, handle = await hand.take()
    assert await engine.output("s/5/1") == {}
    await handle.heartbeat({**HERE, OUTPUT: msgspec.to_builtins({"stdout": (9_000, b"packed")})})
    assert await engine.output("s/5/1") == {"stdout": (9_000, b"packed")}
    assert await engine.output("s/unknown/1") == {}
    assert await _told(engine, "s/5/1") == Lost(HERE)
    with pytest.raises(RPCError) as caught:
        await handle.complete(b"late")
    assert caught.value.status is RPCStatusCode.NOT_FOUND, "a late outcome is refused"
    assert await engine.ask("s/5/1/ask/1", b"order", HERE, ANY)
    task, handle = await hand.take("host.box")
    assert (task.activity_type.name, await engine_payload(engine, task)) == (adapter.ASK, [b"order", HERE])
    await handle.complete(b"found")
    assert await _told(engine, "s/5/1/ask/1") == Ended(b"found")
    await engine.start("s/6/1", b"order", ANY)
    await hand.take()
    assert await _told(engine, "s/6/1") == Lost({}), "without a heartbeat nothing began"
    await engine.start("s/7/1", b"order", ANY._replace(patience_ms=500))
    assert await _told(engine, "s/7/1") == NotStarted(), "nobody took it in time"
    await engine.start("s/8/1", b"order", ANY)
    _, handle = await hand.take()
    await handle.fail(ApplicationError("no gpu", type=NOT_HERE, non_retryable=True))
    assert await _told(engine, "s/8/1") == NotStarted("no gpu")


async def _operators(engine: TemporalEngine, hand: Hand) -> None:
    """People who terminate end the run; people who pause do not."""
    client = await engine.client()
    await engine.start("s/9/1", b"order", ANY)
    _, handle = await hand.take()
    await handle.heartbeat(HERE)
    if not isinstance(engine, WorkflowEngine):
        await client.get_activity_handle("s/9/1").pause(reason="lunch")
        with pytest.raises(AsyncActivityCancelledError) as caught:
            await handle.heartbeat(HERE)
        assert caught.value.details is not None
        assert not caught.value.details.cancel_requested
    await handle.complete(b"on")
    assert await _told(engine, "s/9/1") == Ended(b"on")
    await engine.start("s/10/1", b"order", ANY)
    _, handle = await hand.take()
    await engine.terminate("s/10/1", "enough")
    assert await _told(engine, "s/10/1") == Stopped("enough")
    with pytest.raises(RPCError) as refused:
        await handle.heartbeat(HERE)
    assert refused.value.status is RPCStatusCode.NOT_FOUND


@pytest.mark.parametrize("kind", [TemporalEngine, WorkflowEngine])
def test_b18_what_an_engine_elsewhere_must_do(
    temporal: TemporalServer, prefix: str, monkeypatch: pytest.MonkeyPatch, kind: type[TemporalEngine]
) -> None:
    """B18: start twice, a lost answer, fence then start, cancel before and after the begin, a lost worker, a late end,
    nobody there, a worker that lacks something, people who pause or terminate"""
    monkeypatch.setattr(adapter, "HEARTBEAT_MS", 2_000)

    async def all_of_them() -> None:
        engine = kind(temporal.connection(prefix))
        hand = Hand(await engine.client(), prefix)
        try:
            for duty in (_names, _cancels, _losses, _operators):
                await duty(engine, hand)
            assert await engine.takers(frozenset()) == ["hand"]
            assert await engine.takers(frozenset(["gpu"])) == []
        finally:
            if isinstance(engine, WorkflowEngine):
                await engine.close()

    asyncio.run(all_of_them())


@pytest.mark.parametrize("status", [RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNAVAILABLE])
def test_b18_a_call_that_a_busy_server_refuses_is_tried_again(status: RPCStatusCode) -> None:
    """B18: polls for results are refused under load; what is not allowed is not tried again"""

    async def refused(with_status: RPCStatusCode) -> None:
        raise RPCError("namespace count limit exceeded", with_status, b"")

    with pytest.raises(Unreachable):
        asyncio.run(answered(refused(status), "tell results"))
    with pytest.raises(RPCError):
        asyncio.run(answered(refused(RPCStatusCode.PERMISSION_DENIED), "tell results"))


def test_b18_a_server_that_cannot_do_it_is_found_before_a_run_needs_it(temporal: TemporalServer) -> None:
    """B18: too old, a retention below a day, no worker, no answer; each says what to do"""
    connection = temporal.connection("nobody")
    found = server_findings("1.30.4", timedelta(hours=1), [], connection)
    assert [ok for ok, _, _ in found] == [False] * 3
    assert "is 1.30.4, and runs need 1.31" in found[0][1]
    assert 'The namespace "default" keeps what has ended for 1:00:00, and runs need a day' in found[1][1]
    assert found[2][2] == f"matins worker --from temporal://{temporal.address}/default"
    assert server_findings("1.32.0", timedelta(days=1), ["box@1"], connection)[0][0]
    from matins.temporal import check

    ((ok, sentence, _),) = check("gone", {"address": "127.0.0.1:1"})
    assert not ok
    assert sentence.startswith("Temporal at 127.0.0.1:1 does not answer")


def test_b18_urls_and_queues_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """B18: a worker waits in a queue for each set of its labels, and in its own"""
    assert queues_of("m", "box", ["gpu", "eu"]) == [
        "m.host.box", "m.any", "m.labels.eu", "m.labels.gpu", "m.labels.eu+gpu",
    ]  # fmt: skip
    monkeypatch.setenv("TEMPORAL_API_KEY", "k")
    found = connection_from_url("temporal://temporal.example/team")
    assert (found.address, found.namespace, found.api_key) == ("temporal.example:7233", "team", "env:TEMPORAL_API_KEY")
    for bad in ("temporal://", "temporal://ana:key@host:7233/x", "temporal://host/x?key=1"):
        with pytest.raises(InvalidInput, match="not the URL of a Temporal server"):
            connection_from_url(bad)
