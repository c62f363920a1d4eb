"""An HTTP server in a separate thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol, cast

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from matins.errors import StoreUnavailable

_BACKLOG = 1024
_LEAVE_S = 5
_MAX_HEAD_BYTES = 1 << 16
_HEAD_S = 20.0


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


class ServedApp(Protocol):
    """An ASGI application that ends its open responses before the server stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    @property
    def close(self) -> Callable[[], None]: ...


class Server:
    """The server. `failed` is called in its thread when it ends unexpectedly."""

    def __init__(self, app: ServedApp, listening: socket.socket, failed: Callable[[], None] = lambda: None) -> None:
        self._app = app
        self._socket = listening
        self._failed = failed
        config = uvicorn.Config(
            app,
            http=_Protocol,
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


class _Protocol(HttpToolsProtocol):
    """Sends the head of a response with its body: one packet less, and one wait less for the interpreter's lock. The
    head of a request has a maximum size and a timeout."""

    head_s = _HEAD_S
    _head: int | None = 0
    """Bytes of the head so far; None while the body is read."""
    _timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _BufferedTransport(transport, self.loop)))
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        if self._head is not None and self._head > _MAX_HEAD_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        self._start_timeout()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_timeout()
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head = 0
        super().on_message_complete()

    def _start_timeout(self) -> None:
        self._end_timeout()
        self._timeout = self.loop.call_later(self.head_s, self.transport.close)

    def _end_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None


class _BufferedTransport:
    """A transport that buffers writes until the next turn of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

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
