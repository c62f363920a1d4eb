"""Signal handling that works in every thread."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self


class Signals:
    """Calls `handle` with each of these signals, in a separate thread. Python's own handlers run only in the main
    thread, which does not notice a signal to another thread while it waits for a lock."""

    def __init__(self, numbers: tuple[signal.Signals, ...], handle: Callable[[int], None]) -> None:
        self._numbers = numbers
        self._handle = handle

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in self._numbers}
        self._thread = threading.Thread(target=self._listen, name="matins-signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(self._fd)
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def _listen(self) -> None:
        while numbers := self._reader.recv(64):
            for number in numbers:
                if number in self._numbers:
                    self._handle(number)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing. Without a handler, the default action would happen."""
