"""The event loop of async jobs: that of the program, or one in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

GONE = "the event loop of the program has ended"
_CLEAN_UP_S = 5


class JobLoop:
    """`of_program` is a loop that runs as long as the program wants; it is never stopped here."""

    def __init__(self, of_program: asyncio.AbstractEventLoop | None = None) -> None:
        self._of_program = of_program
        self._own: asyncio.AbstractEventLoop | None = None

    @property
    def is_gone(self) -> bool:
        """Whether the program has closed its loop. What was on it never ends."""
        return self._of_program is not None and self._of_program.is_closed()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call it on the loop soon; never, if the loop is gone."""
        try:
            self._loop().call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            if not self.is_gone:
                raise

    def stop(self) -> None:
        if self._own is not None:
            self._own.call_soon_threadsafe(self._own.stop)
            self._own = None

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._of_program is not None:
            return self._of_program
        if self._own is None:
            self._own = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(self._own,), name="matins-async", daemon=True).start()
        return self._own


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        _cancel_tasks(loop)
        loop.close()


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Let jobs that still run clean up. Their outcome is no longer used."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_CLEAN_UP_S))
