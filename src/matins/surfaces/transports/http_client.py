"""Calls of a daemon over HTTP. It loads quickly, since every command uses it."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, cast

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


class AbortedError(Exception):
    """The call was given up by another thread."""


class Http:
    """Keeps its connection, and repeats a request that was cut off. Each POST has a key, so it is executed once."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is called for every new connection before a token is sent. It raises where another program may
        listen."""
        self._daemon = Daemon(url, token)
        self.check = check
        self.url = self._daemon.url
        self.described = f"the daemon at {self.url}"
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self._newest: socket.socket | None = None
        """The socket that was connected last."""
        self.aborted = False

    def call(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        from matins.api import codec  # commands print documents, and load neither types nor codec

        return codec.convert(use_case, self.document(use_case, arguments))

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """The result as JSON data; for a collection, the items of one page."""
        return items_of(use_case, self._fetch(use_case, arguments))

    def pages(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[list[Any]]:
        """A whole collection as documents, page by page."""
        while True:
            found = self._fetch(use_case, arguments)
            yield items_of(use_case, found)
            if found["next"] is None:
                return
            arguments = {**arguments, "cursor": found["next"]}
            if use_case.page is not None:
                arguments.pop(use_case.page[0], None)

    def _fetch(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        request = request_of(use_case, arguments)
        for _ in range(ANSWERING):
            found = result_of(use_case, request, self._send(request))
            if found is not STILL_ANSWERING:
                return found
            time.sleep(ANSWERING_S)
        raise never_answered()

    # -- events

    def follow(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Iterator[Any]:
        from matins.api import codec

        with closing(self.follow_documents(arguments)) as events:
            for event in events:
                yield from codec.convert(use_case, [event])

    def follow_documents(self, arguments: Mapping[str, Any]) -> Generator[dict[str, Any]]:
        """Live events, until the daemon is gone. After a reconnect, events from the time without a connection
        follow."""
        wanted = schedule_of(arguments)
        schedule = None if wanted is None else self.document(USE_CASES["schedules.get"], wanted)["id"]
        only = wanted_fields(arguments, schedule)
        at = None if arguments.get("after") is None else str(arguments["after"])
        patience = Patience(self._daemon)
        while True:
            failure: Exception | None = None
            connection = self._new(SILENCE_S)
            try:
                self._connect(connection)
                for frame in self._frames(connection, arguments, at):
                    at = frame.at
                    event = wanted_event(frame, only)
                    if event is not None:
                        yield event
                    patience.heard(time.monotonic())  # after `yield`: the caller may take its time
            except (*CUT_OFF, StoreUnavailable) as error:
                failure = error
            finally:
                connection.close()
            time.sleep(patience.wait_s(failure, time.monotonic()))

    def _frames(
        self, connection: http.client.HTTPConnection, arguments: Mapping[str, Any], at: str | None
    ) -> Iterator[Frame]:
        request = self._daemon.stream(arguments, at)
        connection.request(request.method, request.path, headers=dict(request.headers))
        response = connection.getresponse()
        if response.status != 200:
            raise error_of(Response(response.status, response.read()))
        reader = FrameReader(at)
        while line := response.readline(MAX_EVENT_BYTES):
            frame = reader.feed(line)
            if frame is not None:
                yield frame

    # -- the connection

    def close(self) -> None:
        with self._lock:
            self._hang_up()

    def abort(self) -> None:
        """Give up the call or stream of another thread, and make no other. This does not wait for that thread."""
        self.aborted = True
        if self._newest is not None:
            with suppress(OSError):  # closed already
                socket.socket.shutdown(self._newest, socket.SHUT_RDWR)  # not that of TLS, which the other thread uses
        if self._lock.acquire(blocking=False):  # otherwise the other thread hangs up
            self._hang_up()
            self._lock.release()

    def _send(self, request: Request) -> Response:
        try:
            with self._lock:
                return self._send_repeatedly(request)
        finally:
            if self.aborted:
                self.close()

    def _send_repeatedly(self, request: Request) -> Response:
        for tries_left in reversed(range(TRIES)):
            kept = self._connection is not None
            try:
                return self._exchange(request)
            except CUT_OFF as error:
                self._hang_up()
                if not tries_left or not request.may_repeat(error, kept=kept):
                    raise self._daemon.unreachable(error) from error
        raise AssertionError("the last try raises")

    def _exchange(self, request: Request) -> Response:
        if self._connection is None:
            self._connection = self._new(self._timeout)
            self._connect(self._connection)
        headers = self._daemon.headers(request.headers)
        self._connection.request(request.method, request.path, request.body, headers)
        response = self._connection.getresponse()
        answer = Response(response.status, response.read())
        if response.will_close:
            self._hang_up()
        return answer

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        """Connect, then check: a daemon that lives now has had its port when the connection was made."""
        self._check_aborted()
        connection.connect()
        self._newest = connection.sock
        connection.auto_open = 0  # otherwise it would connect again without the check
        self._check_aborted()  # again: it may have been aborted before there was a socket
        self.check()

    def _check_aborted(self) -> None:
        if self.aborted:
            raise AbortedError

    def _new(self, timeout: float) -> http.client.HTTPConnection:
        parts = self._daemon.parts
        host, port = cast("str", parts.hostname), parts.port
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _hang_up(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None
