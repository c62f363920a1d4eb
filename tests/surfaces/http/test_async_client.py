"""`AsyncClient` against a real server: calls, events, errors, many at once, and calls that are cancelled. Row B19."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from http_server import YEARLY, HttpServer

from matins import AsyncClient, InvalidInput, NotFound, StoreUnavailable
from matins.surfaces.async_client import MAX_CONNECTIONS

PATIENCE = 60


def with_client(server: HttpServer, use: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with AsyncClient(server.url, server.token) as client:
            await asyncio.wait_for(use(client), PATIENCE)

    asyncio.run(main())


def test_b19_calls_and_their_results(server: HttpServer) -> None:
    """B19: the same as those of the plain client"""

    async def use(m: AsyncClient) -> None:
        added = await m.add("a", when="every day at 9am", job="work", retries=2)
        assert added == server.client.get("a")
        run = await m.run("a", key="k")
        assert (await m.run("a", key="k")).id == run.id
        assert (await m.runs.wait(run.id, timeout=PATIENCE)).state == "succeeded"
        assert await m.runs.list(schedule="a") == server.client.runs.list(schedule="a")
        assert (await m.edit("a", retries=None)).rev == 2
        assert (await m.limits.set("global", size=3)).size == 3
        assert (await m.delete("a"), await m.delete("a")) == (True, False)
        assert await m.list() == []

    with_client(server, use)


def test_b19_many_calls_at_once(server: HttpServer) -> None:
    """B19: on a bounded number of connections, which are used again; the loop goes on"""

    async def use(m: AsyncClient) -> None:
        names = [f"s{number}" for number in range(60)]
        added = await asyncio.gather(*(m.add(name, when=YEARLY, job="work") for name in names))
        assert [schedule.name for schedule in added] == names
        found = await asyncio.gather(*(m.get(name) for name in names))
        assert [schedule.name for schedule in found] == names
        assert 1 <= len(m._calls._idle) <= MAX_CONNECTIONS

    with_client(server, use)


def test_b19_a_call_that_is_cancelled(server: HttpServer) -> None:
    """B19: also while it waits for a run; the client goes on"""

    async def use(m: AsyncClient) -> None:
        await m.add("slow", when=YEARLY, job="block")
        run = await m.run("slow")
        await asyncio.to_thread(server.begun.wait, PATIENCE)
        assert (await m.runs.wait(run.id, timeout=0.05)).state == "running"
        waiting = asyncio.create_task(m.runs.wait(run.id))
        listing = asyncio.create_task(m.list())
        await asyncio.sleep(0)
        waiting.cancel()
        listing.cancel()
        for cancelled in (waiting, listing):
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        server.go_on.set()
        assert (await m.runs.wait(run.id, timeout=PATIENCE)).state == "succeeded"

    with_client(server, use)


def test_b19_events_are_followed(server: HttpServer) -> None:
    """B19: of one schedule, from an event on, while other calls go on"""

    async def use(m: AsyncClient) -> None:
        await m.add("a", when=YEARLY, job="work")
        await m.add("b", when=YEARLY, job="work")
        start = (await m.events.list())[-1].id
        for name in ("b", "a"):
            await m.runs.wait((await m.run(name)).id, timeout=PATIENCE)
        seen: list[tuple[str, str | None]] = []
        async for event in m.events.follow(schedule="a", after=start):
            seen.append((event.type, event.schedule))
            if event.type == "run.succeeded":
                break
        assert seen[-1] == ("run.succeeded", "a")
        assert {schedule for _, schedule in seen} == {"a"}
        with pytest.raises(NotFound):
            await anext(m.events.follow(schedule="nothing"))

    with_client(server, use)


def test_b19_a_client_in_one_loop_after_the_other(server: HttpServer) -> None:
    """B19: each program of `asyncio.run` has connections of its own"""
    client = AsyncClient(server.url, server.token)

    async def look() -> str:
        name = (await client.system.whoami()).name
        await client.close()
        return name

    assert asyncio.run(look()) == asyncio.run(look())


def test_b19_nobody_there() -> None:
    """B19: as the plain client says it"""

    async def main() -> None:
        async with AsyncClient("http://127.0.0.1:1", timeout=5) as m:
            with pytest.raises(StoreUnavailable, match="No daemon answers at") as caught:
                await m.list()
            assert caught.value.hint == "Start it: matins up"
            with pytest.raises(StoreUnavailable, match="No daemon answers at"):
                await anext(m.events.follow())

    asyncio.run(main())
    with pytest.raises(InvalidInput, match="is not a URL of a daemon"):
        AsyncClient("127.0.0.1:7411")
