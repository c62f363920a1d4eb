"""An HTTP server in a separate thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol, cast

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from matins.errors import InvalidInput, StoreUnavailable
from matins.records.file_settings import HttpServer
from matins.surfaces.http.connections import ARRIVED, Connections, LimitedListener, limited

_BACKLOG = 128
"""Connections that wait to be accepted."""
_LEAVE_S = 5
_MAX_HEAD_BYTES = 1 << 16
_LINGER_S = 5.0
_UNREAD_S = 20.0
"""A client that reads nothing of a response for this long, while more waits to be sent, is disconnected."""
_MAX_FRAMING = 8
"""Bytes around each byte of a body: a chunk of one byte has 5. A head's worth more may be extensions and trailers."""
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; `port` 0 takes a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle on
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def listen(host: str, port: int) -> socket.socket:
    """The same, for an address that a person chose."""
    try:
        return bind(host, port)
    except OSError as error:
        message = f"Matins cannot listen on {host}:{port}: {error.strerror}."
        hint = "Use another port. Port 0 takes any free one."
        raise InvalidInput(message, value=port, field="port", hint=hint) from error


_LOCAL = ("127.0.0.1", "localhost", "[::1]")


def url_of(host: str, listening: socket.socket) -> str:
    return f"http://{_host_in_url(host)}:{listening.getsockname()[1]}"


def hosts_of(host: str, listening: socket.socket) -> list[str]:
    """The hosts by which a browser on this machine, or at that address, asks for the server."""
    port = listening.getsockname()[1]
    return [f"{name}:{port}" for name in (*_LOCAL, _host_in_url(host))]


def _host_in_url(host: str) -> str:
    """The host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


class ServedApp(Protocol):
    """An ASGI application that ends its open responses before the server stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    @property
    def close(self) -> Callable[[], None]: ...


class Server:
    """The server. `failed` is called in its thread when it ends unexpectedly."""

    def __init__(
        self,
        app: ServedApp,
        listening: socket.socket,
        failed: Callable[[], None] = lambda: None,
        connections: Connections | None = None,
    ) -> None:
        connections = connections or Connections(HttpServer())
        self._app = app
        self._socket = limited(listening, connections)
        self._failed = failed
        config = uvicorn.Config(
            app,
            http=cast("Any", partial(_Protocol, self._socket)),
            backlog=_BACKLOG,
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_LEAVE_S,
        )
        self._server = _EmbeddedServer(config)
        self._thread = threading.Thread(target=self._run, name="matins-http", daemon=True)
        self._stopping = False

    def start(self) -> None:
        self._thread.start()
        self._server.ready.wait()
        if not self._server.started:
            raise StoreUnavailable("The HTTP server did not start.", hint="See the log.")

    def stop(self) -> None:
        self._stopping = True
        self._app.close()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._server.ready.set()
            if not self._stopping:
                self._failed()


class Served:
    """A server of a program, in a thread."""

    def __init__(self, url: str, server: Server, sign_in: Callable[[], str | None]) -> None:
        self.url = url
        self.stop = server.stop
        """Stop it. `Matins.close` does that too."""
        self._sign_in = sign_in

    def link(self) -> str:
        """A link that signs a browser in as the owner. It works once, for 10 minutes."""
        return f"{self.url}{self._sign_in()}"


class _Protocol(HttpToolsProtocol):
    """Sends the head of a response with its body: one packet less, and one wait less for the interpreter's lock. The
    head of a request, and what surrounds its body, have a maximum size; the head, the rest of an unread body,
    and a response that the client does not read have a timeout."""

    def __init__(self, listener: LimitedListener, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._connections = listener.connections
        self._accepted = listener.accepted
        self._head: int | None = 0
        """Bytes of the head so far; None while the body is read."""
        self._head_bytes = 0
        """Bytes of the head as it was parsed."""
        self._framing_left = 0
        """Bytes that may arrive around the body: extensions of chunks, and trailers."""
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._connection = self._accepted.pop(transport.get_extra_info("socket").fileno())
        self._buffered = _BufferedTransport(transport, self.loop)
        super().connection_made(cast("asyncio.Transport", self._buffered))
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._buffered.unwatch()
        self._connections.close(self._connection)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._buffered.watch()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._buffered.unwatch()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._refused or self._connection.closed:  # it made room: a change would be made without an answer
            return
        if self._head is not None:
            self._head += len(data)
        else:
            self._framing_left -= len(data)
        super().data_received(data)
        if self._head is None and self._framing_left < 0:
            if self.cycle.response_started:
                self._refused = True
                self.transport.close()
            else:
                self._refuse_head()
        elif self._head is not None and self._head > _MAX_HEAD_BYTES:
            self._refuse_head()

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._connections.begin(self._connection)
        self._expect_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is None:
            return  # a trailer: it would look like a header that was there when the request was checked
        self._head_bytes += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        if self._refused or self._head_bytes > _MAX_HEAD_BYTES:  # it may arrive at once
            self._refuse_head()
            return
        self._head, self._framing_left = None, _MAX_HEAD_BYTES
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            self._framing_left += (1 + _MAX_FRAMING) * len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._refused:
            return
        self._head = 0
        self._connections.complete(self._connection)
        self.scope[ARRIVED] = True  # type: ignore[typeddict-unknown-key]
        super().on_message_complete()
        if self.cycle.response_complete:
            self._connections.rest(self._connection)
            self._expect_head()

    def on_response_complete(self) -> None:
        if self._head is None and self.cycle.response_complete:
            self._start_timer(_LINGER_S)  # a client that still sends may not have read the response
        super().on_response_complete()
        if self.cycle.response_complete:  # otherwise the next request had arrived already
            self._connections.rest(self._connection)

    def _expect_head(self) -> None:
        self._start_timer(self._connections.settings.header_timeout_ms / 1000)

    def _refuse_head(self) -> None:
        if not self._refused:
            self._refused = True
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _BufferedTransport:
    """A transport that buffers writes until the next turn of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._watcher: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()
        self.watch()

    def watch(self, before: int | None = None) -> None:
        """Disconnect a client that has read nothing since the last look: what it was sent would be kept forever."""
        self.unwatch()
        left = self._transport.get_write_buffer_size()
        if left and left == before:
            self._transport.abort()
        elif left:
            self._watcher = self._loop.call_later(_UNREAD_S, self.watch, left)

    def unwatch(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def _flush(self) -> None:
        if self._parts and not self._transport.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _EmbeddedServer(uvicorn.Server):
    """A server that leaves signals to the process, and sets `ready` when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    def capture_signals(self) -> Any:
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()
