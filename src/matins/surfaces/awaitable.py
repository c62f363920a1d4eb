"""The calls of an `Api`, awaitable: each runs in a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Self

from matins.api.use_case import Noun
from matins.surfaces.client import Client


class AwaitableCalls:
    """The same names, arguments and results: `await calls.add(…)`, `await calls.runs.list()`."""

    def __init__(self, calls: Noun) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._calls, name)
        if isinstance(found, Noun):
            return AwaitableCalls(found)
        return partial(asyncio.to_thread, found) if callable(found) else found

    def __dir__(self) -> list[str]:
        return dir(self._calls)


class AsyncClient(AwaitableCalls):
    """`Client` for programs with an event loop: `async with AsyncClient(url, token) as m: await m.add(…)`."""

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        super().__init__(Client(url, token, timeout=timeout))

    async def close(self) -> None:
        await asyncio.to_thread(self._calls.close)  # type: ignore[attr-defined]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.close()
