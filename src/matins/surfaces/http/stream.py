"""`GET /v1/events/stream`: server-sent events after the last one that the listener received.

The live event feed, for any number of listeners: the store is read once for all of them.

A listener reads missed events from the store, then receives new ones. A listener that cannot keep up reads from the
store again, so no event is lost and memory is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson
from starlette.types import Receive, Scope, Send

from matins.api import codec
from matins.api.use_case import USE_CASES, Caller
from matins.engine.events import canonical_types
from matins.errors import InvalidInput
from matins.model.access import OWNER, Principal
from matins.surfaces.http.authentication import Authenticator, header
from matins.surfaces.http.problem_json import HttpError, problem

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
        self.server_leaves: Callable[[], bool] = lambda: False
        """Whether the server of another program stops, which waits for open responses and tells nobody."""

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
            if self.server_leaves():
                self.close()
            if len(events) < PAGE:
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


HEARTBEAT_S = 15.0
_SEND_TIMEOUT_S = 30.0
_MAX_LISTENERS = 500
_BEGIN = b"id: %d\nretry: 1000\n\n"
"""The position of the stream: a listener that is cut off before the first event misses none."""
_HEARTBEAT = b": still here\n\n"
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class Manner(NamedTuple):
    """How a stream writes events: their text (a heartbeat when there are none), and how long they are gathered."""

    text: Callable[[list[EventFrame]], bytes]
    heartbeat_s: float
    gather_s: float = 0.0


class Stream:
    """An ASGI application. The token is verified again when one is revoked, and after each heartbeat."""

    def __init__(
        self,
        caller: Caller,
        authenticator: Authenticator,
        pool: Executor,
        max_per_token: int,
        *,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._caller = caller
        self._authenticator = authenticator
        self._pool = pool
        self._heartbeat_s = heartbeat_s
        self._max_per_token = max_per_token
        self._counts: Counter[str] = Counter()
        """Listeners by token."""
        self.feed = Feed(self._reader(OWNER))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.serve(scope, receive, send, Manner(_text, self._heartbeat_s))

    async def serve(self, scope: Scope, receive: Receive, send: Send, manner: Manner) -> None:
        try:
            principal = await self._principal(scope)
            if principal.role == "agent":  # all listeners share the frames, and an agent does not see all content
                message, hint = "Agents cannot follow events.", "List them: GET /v1/events."
                raise HttpError(403, "not_allowed", message, field="principal", hint=hint)
            after, types = _read_query(scope)
            self._check_count(key := _key(principal))
            reader = self._reader(principal)
            await reader(0, 1, ())  # checks the right before the stream begins
            listener = await self.feed.listen(after, types)
            self._check_count(key)  # others came meanwhile
        except Exception as error:
            await problem(error, scope)(scope, receive, send)
            return
        self._counts[key] += 1
        try:
            await self._serve(scope, receive, send, listener, reader, manner)
        finally:
            self._counts -= Counter([key])
            self.feed.leave(listener)

    def _check_count(self, key: str) -> None:
        if self._counts[key] >= self._max_per_token:
            message = f"This token follows {self._max_per_token} streams, and may not follow more."
            hint = "End one, use another token, or raise max_streams_per_token: matins http-server edit."
            raise HttpError(429, "too_many_streams", message, hint=hint, headers={"Retry-After": "5"})
        if self._counts.total() >= _MAX_LISTENERS or self.feed.closed:
            message, hint = f"At most {_MAX_LISTENERS} clients can listen.", "Try again later."
            raise HttpError(503, "too_many_listeners", message, hint=hint, headers={"Retry-After": "5"})

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, listener: Listener, reader: Read, manner: Manner
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        leaving = asyncio.create_task(_disconnected(receive))
        sending = asyncio.create_task(self._send_events(scope, send, listener, reader, manner))
        try:
            await asyncio.wait([leaving, sending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)

    async def _send_events(self, scope: Scope, send: Send, listener: Listener, reader: Read, manner: Manner) -> None:
        await _send(send, _BEGIN % listener.at)
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        async for frames in self.feed.frames(listener, reader, manner.heartbeat_s):
            if not frames or loop.time() - checked_at >= manner.heartbeat_s:
                await self._principal(scope)
                checked_at = loop.time()
            if frames and manner.gather_s:
                await asyncio.sleep(manner.gather_s)
                frames += listener.take()
            await _send(send, manner.text(frames))
        await send({"type": "http.response.body", "body": b""})

    async def _principal(self, scope: Scope) -> Principal:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._authenticator.principal_of, scope)

    def _events(self, principal: Principal, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        return codec.to_document(self._caller.invoke(principal, USE_CASES["events.list"], arguments))

    def _reader(self, principal: Principal) -> Read:
        async def read(after: int | None, limit: int, types: tuple[str, ...]) -> list[dict[str, Any]]:
            arguments = {"after": after, "limit": limit, "types": types or None}
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, self._events, principal, arguments)

        return read


def _key(principal: Principal) -> str:
    """What streams are counted by: the token, or the principal of a session that came from none."""
    return principal.who


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: bytes) -> None:
    """Send the text. A listener that reads nothing for half a minute is cut off; it may reconnect and continue."""
    async with asyncio.timeout(_SEND_TIMEOUT_S):
        await send({"type": "http.response.body", "body": text, "more_body": True})


def _text(frames: list[EventFrame]) -> bytes:
    return b"".join(frame.text for frame in frames) or _HEARTBEAT


def _read_query(scope: Scope) -> tuple[int | None, tuple[str, ...]]:
    """The event to continue after, and the wanted types."""
    query = parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
    unknown = [name[:60] for name, _ in query if name not in ("after", "types")]
    if unknown:
        message, hint = f'There is no parameter "{unknown[0]}" here.', "Known: after, types."
        raise InvalidInput(message, field=unknown[0], hint=hint)
    after = header(scope, b"last-event-id") or dict(query).get("after")
    types = [name for key, value in query if key == "types" for name in value.split(",")]
    if not after:
        return None, canonical_types(types or None)
    if not (after.isascii() and after.isdigit() and len(after) <= 18):
        message = f'"{after[:60]}" is not the id of an event.'
        raise InvalidInput(message, value=after[:60], field="after", hint="Use a number.")
    return int(after), canonical_types(types or None)
