"""The two ends of a wait: how long it may take, and the socket that it is on."""

from __future__ import annotations

import io
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol


class Patience(Protocol):
    """How long the answer to a request is waited for."""

    def left(self) -> float:
        """Seconds for the next wait; TimeoutError when there are none."""
        ...

    def ran_out(self) -> None:
        """The wait took all of them."""
        ...

    def holds(self, sock: socket.socket) -> None:
        """On this one it waits from now on: whoever shuts it down ends the wait."""
        ...


class Wire:
    """The part of a socket that http.client uses, held to the time there is. Who opened the socket closes it."""

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
    """What the other side says, as long as we wait and up to a size, however it doles it out."""

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
            raise OSError("the answer does not end")
        return count


@contextmanager
def _timed(patience: Patience) -> Generator[None]:
    try:
        yield
    except TimeoutError:
        patience.ran_out()
        raise
