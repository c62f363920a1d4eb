"""Watches runs with a spending limit: one thread reads the output of all of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from matins.errors import StoreUnavailable
from matins.executors.processes.supervisor import Supervisor
from matins.executors.runners.protocol import Metered, Reader, RunnerResult
from matins.model.run import Usage
from matins.runtime.attempt import Attempt, Mark
from matins.runtime.spending import SpendingLimit

log = logging.getLogger("matins")
_CHUNK = 1 << 20
_MAX_LINE_BYTES = 8 * 1024 * 1024


class SpendingWatch:
    """Ends runs that exceed their limit. The thread lives while a run is watched, and checks four times a second."""

    def __init__(
        self,
        supervisor: Callable[[], Supervisor],
        bounds: Callable[[Attempt], list[SpendingLimit]],
        *,
        every_s: float = 0.25,
    ) -> None:
        self._supervisor = supervisor
        self._bounds = bounds
        self._every_s = every_s
        self._watches: dict[Mark, _Watch] = {}
        self._reasons: dict[Mark, str] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, attempt: Attempt, reader: Reader, usage: Callable[[RunnerResult], Usage]) -> None:
        """Watch an attempt from its first line, also of another engine. Attempts without limits are ignored.

        `usage` converts the reported tokens and cost to the usage of this run.
        """
        if not isinstance(reader, Metered) or not self._bounds(attempt):
            return
        with self._changed:
            self._watches[attempt.mark] = _Watch(attempt, reader, usage)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="matins-meter", daemon=True)
                self._thread.start()

    def unwatch(self, mark: Mark) -> str | None:
        """Stop watching. Returns why the watch ended the run, if it did."""
        with self._changed:
            self._watches.pop(mark, None)
            self._changed.notify()
            return self._reasons.pop(mark, None)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._watches.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._wait():
            for mark, watch in list(self._watches.items()):
                try:
                    self._check(mark, watch)
                except StoreUnavailable as error:
                    watch.check_again()
                    log.warning("the spending of run %s is not checked now: %s", mark[0], error)
                except Exception:  # one failing run must not affect others
                    log.exception("the spending of run %s cannot be read", mark[0])

    def _wait(self) -> bool:
        with self._changed:
            if self._changed.wait_for(lambda: not self._watches, self._every_s):
                self._thread = None
                return False
            return True

    def _check(self, mark: Mark, watch: _Watch) -> None:
        usage = watch.read(self._supervisor())
        if usage is None or (reason := self._exceeded(watch, usage)) is None:
            return
        with self._changed:
            if self._watches.pop(mark, None) is None:
                return  # the run has ended meanwhile
            self._reasons[mark] = reason
        self._supervisor().end(*mark, "budget")

    def _exceeded(self, watch: _Watch, usage: Usage) -> str | None:
        """Why the run must end. The limits are read again: other runs spend too."""
        return next((reason for bound in self._bounds(watch.attempt) if (reason := bound.passed(usage))), None)


class _Watch:
    """The reading position of one run."""

    def __init__(self, attempt: Attempt, reader: Metered, usage: Callable[[RunnerResult], Usage]) -> None:
        self.attempt = attempt
        self._usage = usage
        self._reader = reader
        self._offset = 0
        self._rest = b""
        self._skipping = False
        """Skip to the end of a line that is too long, or whose start was missed."""
        self._executed = False
        self._last_usage: Usage | None = None

    def read(self, supervisor: Supervisor) -> Usage | None:
        """The usage so far, if it changed. The final event is no reason to end a run: its cost is already spent."""
        data, at, _ = supervisor.files.read_after(*self.attempt.mark, self._offset, _CHUNK)
        for line in self._lines(data, missed=at > self._offset) if data else ():
            self._reader.feed(line)
        self._offset = at + len(data) if data else self._offset
        result = self._reader.so_far()
        ended, self._executed = result.executed and not self._executed, result.executed
        before, self._last_usage = self._last_usage, self._usage(result)
        return None if ended or self._last_usage == before else self._last_usage

    def check_again(self) -> None:
        """Let the next reading count as a change: this one could not be compared with the limits."""
        self._last_usage = None

    def _lines(self, data: bytes, *, missed: bool) -> list[bytes]:
        if missed:
            self._rest, self._skipping = b"", True
        *lines, rest = (self._rest + data).split(b"\n")
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        self._skipping = self._skipping or len(rest) > _MAX_LINE_BYTES
        self._rest = b"" if self._skipping else rest
        return lines
