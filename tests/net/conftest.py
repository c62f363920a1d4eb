"""Servers for a test."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from sites import CLOSED, PUBLIC, PUBLIC_V6, Site, http_site, serve_one


@pytest.fixture
def site() -> Iterator[Site]:
    with http_site() as site:
        yield site


def _knock(listener: socket.socket) -> None:
    """Lets go of who still waits for the door, which may have given up before it came."""
    socket.create_connection(listener.getsockname()).close()


@pytest.fixture
def say() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Serves one connection with a function of its socket; gives the "host:port" to reach it at."""
    with ExitStack() as stack:

        def serve(talk: Callable[[socket.socket], None]) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=serve_one, args=(listener, talk))
            thread.start()
            stack.callback(thread.join)
            stack.callback(_knock, listener)
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield serve


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were connected to; the public ones are on this machine for once."""
    addresses: list[str] = []
    connect = socket.create_connection

    def dial(address: tuple[str, int], timeout: float) -> socket.socket:
        addresses.append(address[0])
        if address[0] == CLOSED:
            raise ConnectionRefusedError
        return connect(("127.0.0.1" if address[0] in (PUBLIC, PUBLIC_V6) else address[0], address[1]), timeout)

    monkeypatch.setattr(socket, "create_connection", dial)
    return addresses
