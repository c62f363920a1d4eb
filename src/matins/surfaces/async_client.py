"""`AsyncClient`, and the calls of a `Matins` for programs with an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Self, TypeVar

from matins.api._awaitable import AwaitableApi
from matins.api.use_case import Transport, UseCase
from matins.surfaces.transports.http_client import Http
from matins.surfaces.transports.in_process import POLL_S, after_last, first_arguments

MAX_CONNECTIONS = 16
"""More calls at once wait for one of these. Streams of events have their own."""
T = TypeVar("T")


class InThreads:
    """Calls a transport in threads of the loop's default executor, so that the loop is not blocked."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        return await asyncio.to_thread(self._transport.call, use_case, arguments)

    async def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> AsyncIterator[Any]:
        """New items, by listing repeatedly."""
        given = first_arguments(use_case, arguments)
        if given is None:
            given = after_last(use_case, arguments, await self.call(use_case, {"limit": 1}))
        while True:
            items = await self.call(use_case, given)
            for item in items:
                yield item
            if items:
                given = after_last(use_case, given, items)
            else:
                await asyncio.sleep(POLL_S)


class HttpInThreads:
    """Calls a daemon, each call in a thread and on a connection of its own. Connections are used again."""

    def __init__(self, connect: Callable[[], Http]) -> None:
        self._connect = connect
        self._idle: list[Http] = []
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # calls of another loop, which has ended, hold none of these
            self._loop, self._free = loop, asyncio.Semaphore(MAX_CONNECTIONS)
        async with self._free:
            http = self._idle.pop() if self._idle else self._connect()
            try:
                return await _in_thread(partial(http.call, use_case, arguments))
            except asyncio.CancelledError:
                http.abort()  # what is left of its answer must not reach another call
                raise
            finally:
                if not http.aborted:
                    self._idle.append(http)

    async def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> AsyncIterator[Any]:
        """Live events, as the daemon sends them."""
        http = self._connect()
        events = http.follow(use_case, arguments)
        try:
            while True:
                yield await _in_thread(partial(next, events))
        finally:
            http.abort()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


async def _in_thread(work: Callable[[], T]) -> T:
    """The result of work that blocks. A process that ends does not wait for the thread, as it would for an executor."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # from now on nobody but the thread sets it

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="matins-call", daemon=True).start()
    return await asyncio.wrap_future(outcome)


class AsyncClient(AwaitableApi):
    """`Client` for programs with an event loop: `async with AsyncClient(url, token) as m: await m.add(…)`.

    Each call in flight has a thread. Up to 16 calls travel at once, and more wait for them; a cancelled call gives its
    connection up.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        connect = partial(Http, url, token, timeout=timeout)
        self._url = connect().url
        self._calls = HttpInThreads(connect)
        super().__init__(self._calls)

    @property
    def url(self) -> str:
        return self._url

    async def close(self) -> None:
        self._calls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.close()
