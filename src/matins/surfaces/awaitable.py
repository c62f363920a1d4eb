"""`AsyncClient`, and the calls of a `Matins` for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

from matins.api._awaitable import AwaitableApi
from matins.api.use_case import Transport, UseCase
from matins.surfaces.transports.async_http import AsyncHttp
from matins.surfaces.transports.in_process import POLL_S, after_last, first_arguments


class InThreads:
    """Calls a transport in threads of the loop's default executor, so that the loop goes on."""

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


class AsyncClient(AwaitableApi):
    """`Client` for programs with an event loop: `async with AsyncClient(url, token) as m: await m.add(…)`.

    It has no threads. Up to 16 calls travel at once, and more wait for them; a cancelled call gives its connection up.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        self._http = AsyncHttp(url, token, timeout=timeout)
        super().__init__(self._http)

    @property
    def url(self) -> str:
        return self._http.url

    async def close(self) -> None:
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.close()
