"""Calls of a daemon over HTTP on an event loop, without threads."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import Any

import httptools

from matins.api import codec
from matins.api.use_case import USE_CASES, UseCase
from matins.errors import StoreUnavailable
from matins.surfaces.transports.http_messages import (
    ANSWERING,
    ANSWERING_S,
    CUT_OFF,
    MAX_EVENT_BYTES,
    SILENCE_S,
    STILL_ANSWERING,
    TRIES,
    Daemon,
    Frame,
    FrameReader,
    Patience,
    Request,
    Response,
    error_of,
    items_of,
    never_answered,
    request_of,
    result_of,
    schedule_of,
    wanted_event,
    wanted_fields,
)

MAX_CONNECTIONS = 16
"""More calls at once wait for one of these. Streams of events have their own."""
_READ_BYTES = 1 << 16
_ERRORS = (*CUT_OFF, httptools.HttpParserError)


class _Answer:
    """What the parser has read of an answer."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.has_headers = False
        self.has_length = False
        self.is_complete = False
        self.keeps_connection = False
        self.parser: Any = httptools.HttpResponseParser(self)

    @property
    def status(self) -> int:
        return self.parser.get_status_code()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.has_length = self.has_length or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self.has_headers = True
        self.keeps_connection = self.parser.should_keep_alive()  # the parser forgets it with the end

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


class _Connection:
    """One connection, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader, self._writer, self._host = reader, writer, host
        self.may_be_kept = False

    async def begin(self, request: Request) -> _Answer:
        """Send a request. Returns when the headers of the answer are there."""
        answer = _Answer()
        headers = {"Host": self._host, **request.headers}
        if request.body is not None or request.method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = str(len(request.body or b""))
        head = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join([*head, "", ""]).encode("latin-1") + (request.body or b""))
        await self._writer.drain()
        while not answer.has_headers:
            await self.read_more(answer)
        return answer

    async def read_more(self, answer: _Answer) -> bool:
        """Read a part of the answer. False at its end."""
        if answer.is_complete:
            return False
        data = await self._reader.read(_READ_BYTES)
        if data:
            answer.parser.feed_data(data)
        elif answer.has_length or not answer.has_headers:
            raise ConnectionResetError("the connection was closed")
        return bool(data)  # an answer without a length ends with the connection

    async def exchange(self, request: Request) -> Response:
        answer = await self.begin(request)
        return await self.rest_of(answer)

    async def rest_of(self, answer: _Answer) -> Response:
        while await self.read_more(answer):
            pass
        self.may_be_kept = answer.is_complete and answer.keeps_connection
        return Response(answer.status, bytes(answer.body))

    async def close(self) -> None:
        self._writer.close()
        with suppress(*CUT_OFF):
            await self._writer.wait_closed()


class AsyncHttp:
    """As `Http`, with several connections. A call that is cancelled closes its own."""

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        self._daemon = Daemon(url, token)
        self.url = self._daemon.url
        self._timeout = timeout
        self._idle: list[_Connection] = []
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        return codec.convert(use_case, await self._document(use_case, arguments))

    async def _document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        request = request_of(use_case, arguments)
        request = request._replace(headers=self._daemon.headers(request.headers))
        for _ in range(ANSWERING):
            found = result_of(use_case, request, await self._send(request))
            if found is not STILL_ANSWERING:
                return items_of(use_case, found)
            await asyncio.sleep(ANSWERING_S)
        raise never_answered()

    # -- events

    async def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> AsyncIterator[Any]:
        """Live events, until the daemon is gone. After a reconnect, events from the time without a connection
        follow."""
        wanted = schedule_of(arguments)
        schedule = None if wanted is None else (await self._document(USE_CASES["schedules.get"], wanted))["id"]
        only = wanted_fields(arguments, schedule)
        at = None if arguments.get("after") is None else str(arguments["after"])
        patience, loop = Patience(self._daemon), asyncio.get_running_loop()
        while True:
            failure: Exception | None = None
            try:
                async with aclosing(self._frames(arguments, at)) as frames:
                    async for frame in frames:
                        at = frame.at
                        event = wanted_event(frame, only)
                        if event is not None:
                            (item,) = codec.convert(use_case, [event])
                            yield item
                        patience.heard(loop.time())
            except (*_ERRORS, StoreUnavailable) as error:
                failure = error
            await asyncio.sleep(patience.wait_s(failure, loop.time()))

    async def _frames(self, arguments: Mapping[str, Any], at: str | None) -> AsyncGenerator[Frame]:
        async with asyncio.timeout(SILENCE_S):
            connection = await self._open()
        try:
            async with asyncio.timeout(SILENCE_S):
                answer = await connection.begin(self._daemon.stream(arguments, at))
                if answer.status != 200:
                    raise error_of(await connection.rest_of(answer))
            reader, more = FrameReader(at), True
            while more:
                for frame in _frames_in(answer.body, reader):
                    yield frame
                if len(answer.body) > MAX_EVENT_BYTES:
                    raise ConnectionResetError("an event is too large")
                async with asyncio.timeout(SILENCE_S):  # not around `yield`: the caller may take its time
                    more = await connection.read_more(answer)
        finally:
            await connection.close()

    # -- connections

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _send(self, request: Request) -> Response:
        self._check_loop()
        async with self._free:
            for tries_left in reversed(range(TRIES)):
                kept = bool(self._idle)
                try:
                    async with asyncio.timeout(self._timeout):
                        return await self._exchange(request)
                except _ERRORS as error:
                    if not tries_left or not request.may_repeat(error, kept=kept):
                        raise self._daemon.unreachable(error) from error
        raise AssertionError("the last try raises")

    async def _exchange(self, request: Request) -> Response:
        connection = self._idle.pop() if self._idle else await self._open()
        try:
            response = await connection.exchange(request)
        except BaseException:  # also a cancelled call: what is left of its answer must not reach another
            await connection.close()
            raise
        if connection.may_be_kept:
            self._idle.append(connection)
        else:
            await connection.close()
        return response

    async def _open(self) -> _Connection:
        parts = self._daemon.parts
        secure = ssl.create_default_context() if parts.scheme == "https" else None
        port = parts.port or (80 if secure is None else 443)
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=secure)
        return _Connection(reader, writer, parts.netloc.rpartition("@")[2])

    def _check_loop(self) -> None:
        """Leave connections of another loop, which has ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._idle, self._free = loop, [], asyncio.Semaphore(MAX_CONNECTIONS)


def _frames_in(body: bytearray, reader: FrameReader) -> list[Frame]:
    """The frames whose lines are complete. These lines are taken out of the body."""
    *lines, rest = bytes(body).split(b"\n")
    body[:] = rest
    return [frame for line in lines if (frame := reader.feed(line)) is not None]
