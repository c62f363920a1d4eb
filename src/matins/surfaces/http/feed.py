"""The live event feed, for any number of listeners: the store is read once for all of them.

A listener reads missed events from the store, then receives new ones. A listener that cannot keep up reads from the
store again, so no event is lost and memory is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

log = logging.getLogger("matins")
PAGE = 500
_MAX_WAITING = 2_000
_RETRY_S = 1.0
_REVOCATIONS = frozenset({"token.revoked", "session.ended"})

Read = Callable[[int | None, int, tuple[str, ...]], Awaitable[list[dict[str, Any]]]]
"""Reads events after a number (None: the newest), at most a given number of them, of these types."""


class EventFrame(NamedTuple):
    number: int
    type: str
    text: bytes
    schedule_id: str | None
    run_id: str | None


class Listener:
    def __init__(self, at: int, types: tuple[str, ...], *, behind: bool) -> None:
        self.at = at
        self.behind = behind
        self.types = frozenset(types)
        self._waiting: list[EventFrame] = []
        self.woken = asyncio.Event()
        self.doubted = False
        """Whether the right to listen may have ended."""

    def offer(self, frames: list[EventFrame]) -> None:
        self.doubted = self.doubted or any(frame.type in _REVOCATIONS for frame in frames)
        if not self.behind:
            self._waiting += frames
            if len(self._waiting) > _MAX_WAITING:
                self.behind, self._waiting = True, []
        self.woken.set()

    def take(self) -> list[EventFrame]:
        frames, self._waiting = self._waiting, []
        self.woken.clear()
        new = [frame for frame in frames if frame.number > self.at]
        if new:
            self.at = new[-1].number
        return [frame for frame in new if not self.types or frame.type in self.types]


class Feed:
    def __init__(self, read: Read, poll_s: float = 0.25) -> None:
        self._read = read
        self._poll_s = poll_s
        self._listeners: set[Listener] = set()
        self._head = 0
        self._wake = asyncio.Event()
        self._opening = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poller: asyncio.Task[None] | None = None
        self.closed = False

    def wake(self) -> None:
        """Read new events now. Any thread may call this."""
        loop = self._loop
        if loop is not None and self._listeners:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        """End all listeners. Any thread may call this."""
        self.closed = True
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._end_all)

    async def listen(self, after: int | None, types: tuple[str, ...]) -> Listener:
        """A listener for the events after the given one, or for new events."""
        self._loop = asyncio.get_running_loop()
        async with self._opening:
            if self._poller is None:
                newest = await self._read(None, 1, ())
                self._head = int(newest[-1]["id"]) if newest else 0
                self._poller = self._loop.create_task(self._poll())
        listener = Listener(self._head if after is None else after, types, behind=after is not None)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._poller is not None:
            self._poller.cancel()
            self._poller = None

    async def frames(self, listener: Listener, read: Read, timeout_s: float) -> AsyncGenerator[list[EventFrame]]:
        """New events in batches; an empty batch after `timeout_s` without events, and before what follows a
        revocation."""
        while not self.closed:
            if listener.doubted:
                listener.doubted = False
                yield []
            elif listener.behind:
                listener.take()
                listener.behind = False  # first: events during the read are offered
                page = await read(listener.at, PAGE, tuple(listener.types))
                listener.behind = listener.behind or len(page) == PAGE
                if page:
                    listener.at = int(page[-1]["id"])
                    yield [event_frame(event) for event in page]
            elif await _woken(listener, timeout_s):
                if not listener.doubted and (frames := listener.take()):
                    yield frames
            else:
                yield []

    def _end_all(self) -> None:
        self._wake.set()
        for listener in self._listeners:
            listener.woken.set()

    async def _poll(self) -> None:
        while not self.closed:
            try:
                events = await self._read(self._head, PAGE, ())
            except Exception as error:
                log.warning("reading events failed, and is retried: %r", error)
                await asyncio.sleep(_RETRY_S)
                continue
            if events:
                self._head = int(events[-1]["id"])
                frames = [event_frame(event) for event in events]
                for listener in self._listeners:
                    listener.offer(frames)
            if len(events) < PAGE:
                await self._sleep()

    async def _sleep(self) -> None:
        """Until there may be new events."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_s):
                await self._wake.wait()
        self._wake.clear()


async def _woken(listener: Listener, timeout_s: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await listener.woken.wait()
            return True
    return False


def event_frame(event: dict[str, Any]) -> EventFrame:
    text = b"id: %b\nevent: %b\ndata: %b\n\n" % (event["id"].encode(), event["type"].encode(), orjson.dumps(event))
    return EventFrame(int(event["id"]), event["type"], text, event.get("schedule_id"), event.get("run_id"))
