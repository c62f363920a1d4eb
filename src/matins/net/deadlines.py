"""The time limit of a request, and the socket that respects it."""

from __future__ import annotations

import io
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol


class Deadline(Protocol):
    """How long to wait for the response to a request."""

    def left(self) -> float:
        """Seconds left for the next wait. Raises TimeoutError when there are none."""
        ...

    def expired(self) -> None:
        """Called when a wait used all the time left."""
        ...

    def attach(self, sock: socket.socket) -> None:
        """Called with the socket in use: shutting it down ends the wait."""
        ...


class DeadlineSocket:
    """The part of a socket that http.client uses, with a time limit. The caller closes the socket."""

    def __init__(self, sock: socket.socket, deadline: Deadline, max_bytes: int) -> None:
        self._sock = sock
        self._deadline = deadline
        self._max_bytes = max_bytes

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._deadline.left())
        with _timed(self._deadline):
            self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(SocketReader(self._sock, self._deadline, self._max_bytes))

    def close(self) -> None:
        pass


class SocketReader(io.RawIOBase):
    """The data of the server, up to a time limit and a size."""

    def __init__(self, sock: socket.socket, deadline: Deadline, max_bytes: int) -> None:
        self._sock = sock
        self._deadline = deadline
        self._bytes_left = max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        with _timed(self._deadline):
            count = self._sock.recv_into(buffer)
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise OSError("the answer is too long")
        return count


@contextmanager
def _timed(deadline: Deadline) -> Generator[None]:
    try:
        yield
    except TimeoutError:
        deadline.expired()
        raise
