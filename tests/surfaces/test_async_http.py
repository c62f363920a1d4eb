"""The async transport against servers that hang up, stay silent, or answer in other forms than ours. Row B19."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from scripted_server import Scripted, said

from matins import AsyncClient, StoreUnavailable
from matins.surfaces.transports import async_http

NOTHING = said(b'{"items": [], "next": null}')
TRUE = said(b"true")


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def make(*answers: bytes) -> Scripted:
        made.append(Scripted(*answers))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_b19_a_cut_off_post_is_asked_again_with_the_same_key(scripted: Callable[..., Scripted]) -> None:
    """B19: and executed once"""
    server = scripted(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntr", TRUE)

    async def main() -> None:
        async with AsyncClient(server.url, "t") as m:
            await m.runs.report_outcome("done")

    asyncio.run(main())
    keys = [headers["idempotency-key"] for _, headers, _ in server.asked]
    assert (len(keys), len(set(keys))) == (3, 1)
    assert {headers["authorization"] for _, headers, _ in server.asked} == {"bearer t"}


def test_b19_an_edit_is_not_repeated_on_a_new_connection(scripted: Callable[..., Scripted]) -> None:
    """B19: it may have been done"""
    server = scripted(b"", said(b"{}"))

    async def main() -> None:
        async with AsyncClient(server.url) as m:
            with pytest.raises(StoreUnavailable, match="No daemon answers"):
                await m.edit("a", retries=1)

    asyncio.run(main())
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"ite\r\n16\r\nms": [], "next": null}\r\n0\r\n\r\n',
        b'HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n{"items": [], "next": null}',
    ],
)
def test_b19_answers_of_proxies(scripted: Callable[..., Scripted], answer: bytes) -> None:
    """B19: in chunks, and without a length"""
    server = scripted(answer, NOTHING)

    async def main() -> None:
        async with AsyncClient(server.url) as m:
            assert await m.list() == []
            assert await m.list() == []

    asyncio.run(main())


def test_b19_a_cancelled_or_late_call_leaves_nothing_to_the_next(
    scripted: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B19: what a server still answers does not reach another call"""
    half = b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"items": ['
    server = scripted(half, half, NOTHING)
    limits: list[asyncio.Timeout] = []

    def limit(seconds: float) -> asyncio.Timeout:
        assert seconds == 7
        limits.append(asyncio.Timeout(None))
        return limits[-1]

    monkeypatch.setattr(async_http.asyncio, "timeout", limit)

    async def main() -> None:
        async with AsyncClient(server.url, timeout=7) as m:
            cancelled = await asked(m, 1)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            late = await asked(m, 2)
            limits[-1].reschedule(0)
            with pytest.raises(StoreUnavailable, match="TimeoutError"):
                await late
            assert await m.list() == []

    async def asked(m: AsyncClient, times: int) -> asyncio.Task[object]:
        call = asyncio.create_task(m.list())
        while len(server.asked) < times:
            await asyncio.sleep(0)
        return call

    asyncio.run(main())
    assert server.connections == 3
