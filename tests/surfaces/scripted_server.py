"""A server that answers as it is told, for tests of clients."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any


class Scripted:
    """Answers one request after the other as it is told, and notes them; b"" hangs up."""

    def __init__(self, *answers: bytes) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        self._answers = list(answers)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self._answers:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # close() woke it
            self.connections += 1
            # A client that closes before it has read its answer resets the connection.
            with suppress(ConnectionError), connection, connection.makefile("rb") as file:
                while self._answers and self._take(file):
                    answer = self._answers.pop(0)
                    connection.sendall(answer)
                    if not answer or b"Connection: close" in answer:
                        break

    def _take(self, file: Any) -> bool:
        line = file.readline().decode().strip()
        if not line:
            return False
        headers = dict(iter(lambda: tuple(file.readline().decode().strip().lower().partition(": ")[::2]), ("", "")))
        self.asked.append((line, headers, file.read(int(headers.get("content-length", 0)))))
        return True

    def close(self) -> None:
        """Woken and gone before its number is: a closed socket's number soon belongs to another test."""
        with suppress(OSError):  # nobody listens any more
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(90)
        self._socket.close()
        assert not self._thread.is_alive()


def said(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)
