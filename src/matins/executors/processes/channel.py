"""Both ends of a socket between engine, keeper and warden: short JSON lines with descriptors."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]
_MAX_BYTES = 65_536
_MAX_FDS = 4


class Channel:
    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._rest = b""
        self._fds: list[int] = []
        """Descriptors arrive with the first byte of a line and are returned with its last."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        self.send_line(encode(message), fds)

    def send_line(self, line: bytes, fds: Sequence[int] = ()) -> None:
        """Send a line. A short line that does not fit has no reader, and raises OSError as for a dead peer."""
        sent = socket.send_fds(self._socket, [line], list(fds)) if fds else self._socket.send(line)
        if sent != len(line):
            raise BrokenPipeError

    def receive(self) -> tuple[list[Message], list[int], bool]:
        """The messages, their descriptors, and whether the peer is still connected."""
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, _MAX_BYTES, _MAX_FDS)
        except BlockingIOError:
            return [], [], True
        except OSError:
            return [], [], False
        for fd in fds:
            os.set_inheritable(fd, False)
        self._fds += fds
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not lines:
            return [], [], bool(data)
        fds, self._fds = self._fds, []
        try:
            return [dict(json.loads(line)) for line in lines], fds, bool(data)
        except (ValueError, TypeError):  # not our protocol
            return [], fds, False

    def close(self) -> None:
        self._socket.close()
        close_all(self._fds)


def encode(message: Message) -> bytes:
    return json.dumps(message).encode("ascii") + b"\n"


def try_send(channel: Channel, message: Message, fds: Sequence[int] = ()) -> bool:
    """Send without waiting. False when the peer does not read."""
    try:
        channel.send(message, fds)
    except OSError:
        return False
    return True


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
