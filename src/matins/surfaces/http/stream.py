"""`GET /v1/events/stream`: server-sent events, from the last one that the listener has had."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from matins.errors import InvalidInput
from matins.model.principal import OWNER, Principal
from matins.service.documents import event_types
from matins.surfaces.door import Caller, answer
from matins.surfaces.http.feed import Feed, Frame, Listener, Read
from matins.surfaces.http.identity import Identity, header
from matins.surfaces.http.problems import Refused, problem

HEARTBEAT_S = 15.0
_SLOW_S = 30.0
_MOST_LISTENERS = 500
_BEGIN = b"id: %d\nretry: 1000\n\n"
"""Where it stands, so that a listener that is cut off before the first event misses none either."""
_HEARTBEAT = b": still here\n\n"
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class Stream:
    """An ASGI application. Who it speaks to is asked again after each heartbeat: a token may be revoked meanwhile."""

    def __init__(self, caller: Caller, identity: Identity, pool: Executor, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._caller = caller
        self._identity = identity
        self._pool = pool
        self._heartbeat_s = heartbeat_s
        self._count = 0
        self.feed = Feed(self._reader(OWNER))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = await self._who(scope)
            after, types = _asked(scope)
            if self._count >= _MOST_LISTENERS or self.feed.closed:
                raise Refused(503, "too_many_listeners", "As many listen as may", headers={"Retry-After": "5"})
            reader = self._reader(principal)
            await reader(0, 1, ())  # whoever may not is told so before it begins
            listener = await self.feed.listen(after, types)
        except Exception as error:
            await problem(error, scope["path"])(scope, receive, send)
            return
        self._count += 1
        try:
            await self._speak(scope, receive, send, listener, reader)
        finally:
            self._count -= 1
            self.feed.leave(listener)

    async def _speak(self, scope: Scope, receive: Receive, send: Send, listener: Listener, reader: Read) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        gone = asyncio.create_task(_gone(receive))
        telling = asyncio.create_task(self._tell(scope, send, listener, reader))
        try:
            await asyncio.wait([gone, telling], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, telling):
                task.cancel()
            await asyncio.gather(gone, telling, return_exceptions=True)

    async def _tell(self, scope: Scope, send: Send, listener: Listener, reader: Read) -> None:
        await _send(send, _BEGIN % listener.at)
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        async for frames in self.feed.frames(listener, reader, self._heartbeat_s):
            if not frames or loop.time() - asked_at >= self._heartbeat_s:
                await self._who(scope)
                asked_at = loop.time()
            await _send(send, _text(frames))
        await send({"type": "http.response.body", "body": b""})

    async def _who(self, scope: Scope) -> Principal:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._identity.of, scope)

    def _reader(self, principal: Principal) -> Read:
        async def read(after: int | None, limit: int, types: tuple[str, ...]) -> list[dict[str, Any]]:
            arguments = {"after": after, "limit": limit, "types": types or None}
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, answer, self._caller, principal, "events", arguments)

        return read


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: bytes) -> None:
    """Whoever takes none of it for half a minute is left; it may come back and go on where it stood."""
    async with asyncio.timeout(_SLOW_S):
        await send({"type": "http.response.body", "body": text, "more_body": True})


def _text(frames: list[Frame]) -> bytes:
    return b"".join(frame.text for frame in frames) or _HEARTBEAT


def _asked(scope: Scope) -> tuple[int | None, tuple[str, ...]]:
    """The event that it goes on after, and the types that are wanted."""
    query = parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
    unknown = [name for name, _ in query if name not in ("after", "types")]
    if unknown:
        raise InvalidInput(
            f'There is no parameter "{unknown[0]}" here', field=unknown[0][:60], hint="known: after, types"
        )
    said = header(scope, b"last-event-id") or dict(query).get("after")
    wanted = [name for key, value in query if key == "types" for name in value.split(",")]
    if not said:
        return None, event_types(wanted or None)
    if not (said.isascii() and said.isdigit() and len(said) <= 18):
        raise InvalidInput(f'"{said[:60]}" is not the id of an event', value=said[:60], field="after", hint="a number")
    return int(said), event_types(wanted or None)
