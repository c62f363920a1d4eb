"""Events as they happen, to any number of listeners: one look at the store for all of them.

A listener reads what it has missed from the store, and is then handed what is new. Whoever cannot keep up goes back to
reading, so nothing is lost and nothing piles up.
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
_MOST_WAITING = 2_000
_TROUBLE_S = 1.0

Read = Callable[[int | None, int, tuple[str, ...]], Awaitable[list[dict[str, Any]]]]
"""Events after a number (None: the newest), so many at the most, of these types."""


class Frame(NamedTuple):
    number: int
    type: str
    text: bytes


class Listener:
    def __init__(self, at: int, types: tuple[str, ...], *, behind: bool) -> None:
        self.at = at
        self.behind = behind
        self.types = frozenset(types)
        self._waiting: list[Frame] = []
        self.woken = asyncio.Event()

    def offer(self, frames: list[Frame]) -> None:
        if not self.behind:
            self._waiting += frames
            if len(self._waiting) > _MOST_WAITING:
                self.behind, self._waiting = True, []
        self.woken.set()

    def take(self) -> list[Frame]:
        frames, self._waiting = self._waiting, []
        self.woken.clear()
        new = [frame for frame in frames if frame.number > self.at]
        if new:
            self.at = new[-1].number
        return [frame for frame in new if not self.types or frame.type in self.types]


class Feed:
    def __init__(self, read: Read, look_s: float = 0.25) -> None:
        self._read = read
        self._look_s = look_s
        self._listeners: set[Listener] = set()
        self._head = 0
        self._soon = asyncio.Event()
        self._opening = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poller: asyncio.Task[None] | None = None
        self.closed = False

    def wake(self) -> None:
        """Something may have happened. From any thread."""
        loop = self._loop
        if loop is not None and self._listeners:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(self._soon.set)

    def close(self) -> None:
        """All listeners go home. From any thread."""
        self.closed = True
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._send_home)

    async def listen(self, after: int | None, types: tuple[str, ...]) -> Listener:
        """From an event on, or from now on."""
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

    async def frames(self, listener: Listener, read: Read, patience_s: float) -> AsyncGenerator[list[Frame]]:
        """What is new, batch by batch; an empty one after `patience_s` in which nothing was."""
        while not self.closed:
            if listener.behind:
                listener.take()
                listener.behind = False  # first: what happens while we read is offered
                page = await read(listener.at, PAGE, tuple(listener.types))
                listener.behind = listener.behind or len(page) == PAGE
                if page:
                    listener.at = int(page[-1]["id"])
                    yield [frame_of(event) for event in page]
                continue
            try:
                async with asyncio.timeout(patience_s):
                    await listener.woken.wait()
            except TimeoutError:
                yield []
                continue
            if frames := listener.take():
                yield frames

    def _send_home(self) -> None:
        self._soon.set()
        for listener in self._listeners:
            listener.woken.set()

    async def _poll(self) -> None:
        while not self.closed:
            try:
                events = await self._read(self._head, PAGE, ())
            except Exception as error:
                log.warning("events cannot be read, and are tried again: %r", error)
                await asyncio.sleep(_TROUBLE_S)
                continue
            if events:
                self._head = int(events[-1]["id"])
                frames = [frame_of(event) for event in events]
                for listener in self._listeners:
                    listener.offer(frames)
            if len(events) < PAGE:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._look_s):
                        await self._soon.wait()
                self._soon.clear()


def frame_of(event: dict[str, Any]) -> Frame:
    text = b"id: %b\nevent: %b\ndata: %b\n\n" % (event["id"].encode(), event["type"].encode(), orjson.dumps(event))
    return Frame(int(event["id"]), event["type"], text)
