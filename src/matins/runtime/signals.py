"""Signals of the operating system, handled in a thread (`Signals`), and what else threads share (`drained`).

`Standby` waits while another process has the engine of a store, and takes over when that ends.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Self, TypeVar

from matins.errors import StoreBusy, StoreError, StoreMoved
from matins.store import Store


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


T = TypeVar("T")


def drained(queue: SimpleQueue[T]) -> list[T]:
    """What is in the queue now. Nothing is waited for."""
    found: list[T] = []
    try:
        while True:
            found.append(queue.get_nowait())
    except Empty:
        return found


log = logging.getLogger("matins")
_POLL_S = 0.5


class Standby:
    """Calls `start` until it returns True: no other engine is running any more."""

    def __init__(self, start: Callable[[], bool]) -> None:
        self._start = start
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="matins-standby", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _wait(self) -> None:
        while not self._ended.wait(_POLL_S):
            try:
                if self._start():
                    log.info("The other engine has ended. This one has taken over.")
                    return
            except StoreMoved as error:
                log.error("This engine stands by no more: %s %s", error.message, error.hint)
                return
            except StoreError as error:
                log.warning("Taking over failed, and is tried again: %s", error)


def engine_running(store: Store) -> StoreBusy:
    pid = store.owner_pid()
    who, stop = ("", "") if pid is None else (f" (process {pid})", f": kill {pid}")
    message = f"Another engine is running on this store{who}. A SQLite file can have only one."
    return StoreBusy(message, hint=f"Use that engine, or stop it{stop}.")
