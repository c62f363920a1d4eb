"""The time limit of a request, and the socket that respects it."""

from __future__ import annotations

import io
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol


class Patience(Protocol):
    """How long to wait for the response to a request."""

    def left(self) -> float:
        """Seconds left for the next wait. Raises TimeoutError when there are none."""
        ...

    def ran_out(self) -> None:
        """Called when a wait used all of them."""
        ...

    def holds(self, sock: socket.socket) -> None:
        """Called with the socket in use: shutting it down ends the wait."""
        ...


class Wire:
    """The part of a socket that http.client uses, with a time limit. The caller closes the socket."""

    def __init__(self, sock: socket.socket, patience: Patience, most: int) -> None:
        self._sock = sock
        self._patience = patience
        self._most = most

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._patience.left())
        with _timed(self._patience):
            self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(Incoming(self._sock, self._patience, self._most))

    def close(self) -> None:
        pass


class Incoming(io.RawIOBase):
    """The data of the server, up to a time limit and a size."""

    def __init__(self, sock: socket.socket, patience: Patience, most: int) -> None:
        self._sock = sock
        self._patience = patience
        self._room = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._patience.left())
        with _timed(self._patience):
            count = self._sock.recv_into(buffer)
        self._room -= count
        if self._room < 0:
            raise OSError("the answer is too long")
        return count


@contextmanager
def _timed(patience: Patience) -> Generator[None]:
    try:
        yield
    except TimeoutError:
        patience.ran_out()
        raise
