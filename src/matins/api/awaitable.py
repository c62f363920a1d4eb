"""Use cases for programs with an event loop: the same names and arguments, and results to await."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

from matins.api.runs import is_settled, looks
from matins.api.use_case import USE_CASES, UseCase

if TYPE_CHECKING:
    from matins.api.arguments import EventTypes, Id, RunId
    from matins.api.results import Event, Run


class AsyncTransport(Protocol):
    """A transport of calls that does not block the event loop."""

    async def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """The typed result."""
        ...

    def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> AsyncIterator[Any]:
        """The items of a collection, including new ones, without an end."""
        ...


class AwaitableNoun:
    """A group of use cases."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport


class AwaitableRunsCalls(AwaitableNoun):
    async def wait(self, run_id: RunId, *, timeout: float | None = None) -> Run:
        """Wait until a run is over, or needs a person, and return it. After `timeout` seconds: as it is then."""
        get, arguments = USE_CASES["runs.get"], {"run_id": run_id}
        run = await self._transport.call(get, arguments)
        for pause in looks(timeout):
            if is_settled(run):
                break
            await asyncio.sleep(pause)
            run = await self._transport.call(get, arguments)
        return run


class AwaitableEventsCalls(AwaitableNoun):
    def follow(
        self,
        *,
        types: EventTypes | None = None,
        after: Id | None = None,
        schedule: str | None = None,
        agent: str | None = None,
        run_id: Id | None = None,
    ) -> AsyncIterator[Event]:
        """Yield events as they happen, without an end: those after an event, or from now on."""
        given = {"types": types, "after": after, "schedule": schedule, "agent": agent, "run_id": run_id}
        return self._transport.follow(
            USE_CASES["events.list"], {name: value for name, value in given.items() if value is not None}
        )


def awaitable(declared: UseCase) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The method of a use case."""

    @wraps(declared.function)
    async def method(self: AwaitableNoun, *values: Any, **named: Any) -> Any:
        transport = self._transport  # pyright: ignore[reportPrivateUsage]
        return await transport.call(declared, declared.bind(values, named))

    return method
