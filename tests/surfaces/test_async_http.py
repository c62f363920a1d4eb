"""The async transport against servers that hang up, stay silent, or answer in other forms than ours. Row B19."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable

import pytest
from scripted_server import Scripted, said

from matins import AsyncClient, StoreUnavailable

NOTHING = said(b'{"items": [], "next": null}')
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PATIENCE = 60
LEAVES = """
import asyncio, socket
from matins import AsyncClient

listener = socket.create_server(("127.0.0.1", 0))
listener.setblocking(False)
m = AsyncClient(f"http://127.0.0.1:{listener.getsockname()[1]}")
loop = asyncio.new_event_loop()
calls = [loop.create_task(m.list()), loop.create_task(anext(m.events.follow()))]
reached = [loop.run_until_complete(loop.sock_accept(listener)) for _ in calls]
print("left", flush=True)
"""


HALF = b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"items": ['


def test_b19_a_cancelled_or_late_call_leaves_nothing_to_the_next(scripted: Callable[..., Scripted]) -> None:
    """B19: what a server still answers does not reach another call"""
    server = scripted(HALF, NOTHING, HALF, NOTHING)

    async def main() -> None:
        async with AsyncClient(server.url) as m:
            cancelled = await sent(server, m.list(), 1)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            assert await m.list() == []
        async with AsyncClient(server.url, timeout=0.2) as m:
            with pytest.raises(StoreUnavailable, match="timed out"):
                await m.list()
            assert await m.list() == []

    asyncio.run(main())
    assert server.connections == 4


@pytest.mark.parametrize("answer", [HALF, b"HTTP/1.0 200 OK\r\n\r\n[", STREAM])
def test_b19_a_cancelled_call_ends_its_thread(scripted: Callable[..., Scripted], answer: bytes) -> None:
    """B19: and its connection, although the server says nothing more; so does a stream of events"""
    server = scripted(answer, NOTHING)  # with more to say, it keeps the connection

    async def main() -> None:
        async with AsyncClient(server.url) as m:
            call = anext(m.events.follow()) if answer == STREAM else m.list()
            cancelled = await sent(server, call, 1)
            threads = threads_of_calls()
            assert len(threads) == 1
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            for thread in threads:
                await asyncio.to_thread(thread.join, PATIENCE)
            assert threads_of_calls() == []

    asyncio.run(main())
    assert server.connections == 1, "nothing was asked again"


def test_b19_a_stuck_call_keeps_no_process_alive() -> None:
    """B19: neither a call nor a stream that the program leaves behind"""
    done = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr


async def sent(server: Scripted, call: Awaitable[object], requests: int) -> asyncio.Future[object]:
    """The call as a task, when the server has so many requests."""
    task = asyncio.ensure_future(call)
    while len(server.asked) < requests:
        await asyncio.sleep(0.001)
    return task


def threads_of_calls() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "matins-call"]
