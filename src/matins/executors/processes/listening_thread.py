"""A thread that waits for messages."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger("matins")


class ListeningThread:
    """Calls what is registered with the selector, then the tasks of other threads, then `duties`, whenever it wakes.

    `pause` returns the longest wait in seconds; None: until something happens."""

    def __init__(self, name: str, *duties: Callable[[], None], pause: Callable[[], float | None]) -> None:
        self.selector = selectors.DefaultSelector()
        """The data of a key is called when its file can be read."""
        self._duties = duties
        self._pause = pause
        self._tasks: deque[Callable[[], None]] = deque()
        self._stopped = False
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self.selector.register(self._receiver, selectors.EVENT_READ, lambda: self._receiver.recv(4096))
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the thread is woken already
            self._sender.send(b"\0")

    def call(self, task: Callable[[], None]) -> None:
        """Have the thread do this."""
        self._tasks.append(task)
        self.wake()

    def stop(self) -> None:
        """End the thread. The selector can still be used."""
        self._stopped = True
        self.wake()
        self._thread.join()

    def close(self) -> None:
        for end in (self.selector, self._receiver, self._sender):
            end.close()

    def _listen(self) -> None:
        while not self._stopped:
            for selected, _ in self.selector.select(self._pause()):
                _safely(selected.data)
            while self._tasks:
                _safely(self._tasks.popleft())
            for duty in self._duties:
                _safely(duty)


def _safely(task: Callable[[], None]) -> None:
    try:
        task()
    except Exception:  # one failing run must not affect others
        log.exception("the supervisor of processes continues after an error")
