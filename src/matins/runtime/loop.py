"""The engine in a thread. It sleeps until the next event, or until something changes."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from matins.errors import SchedulerShutdownError
from matins.runtime.attempt import MAX_LEAD_MS, Executor
from matins.runtime.checks import Checks
from matins.runtime.clock import seconds_left
from matins.runtime.engine import Engine
from matins.runtime.heartbeat import Heartbeat
from matins.runtime.recorder import IsGone

log = logging.getLogger("matins")
_FLUSH_MS = 2
_STOP_POLL_S = 0.05
_MAX_TURN_MS = 60_000
_INTERRUPT_MS = 15_000
"""More than the grace of a run, and than the time after which its engine ends the run itself."""


class Loop:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._inbox: SimpleQueue[None] = SimpleQueue()
        self._awake = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._turned_at = engine.clock.boot_ms()
        settings = engine.settings
        self._heartbeat = Heartbeat(
            engine.store,
            engine.clock,
            worker=lambda: engine.worker,
            every_ms=settings.beat_ms,
            lease_ms=settings.lease_ms,
            cancel=lambda runs: engine.executor.cancel(runs),
            renew=lambda marks, since: engine.executor.renew(marks, since),
            fenced=self._fence,
            outdated=self._outdated,
        )

    def wake(self) -> None:
        """Start a turn now, because something changed."""
        if not self._awake:
            self._awake = True
            self._inbox.put(None)

    def changed(self) -> None:
        """Start a turn after a use case: runs may have to be cancelled."""
        self.wake()
        self._heartbeat.beat_now()

    def is_turning(self) -> bool:
        """Whether the loop does turns, also ones that fail because the store is gone: a restart would not help."""
        return self.engine.clock.boot_ms() - self._turned_at <= _MAX_TURN_MS

    def start(
        self,
        executor: Executor,
        checks: Checks,
        evidence: Mapping[str, Any] | None = None,
        is_gone: IsGone | None = None,
    ) -> None:
        """`evidence` identifies this process, and what journals depend on: this boot of the machine, and their folder.
        `is_gone` compares the evidence of other workers with it."""
        identity = {"host": socket.gethostname(), "pid": os.getpid(), **(evidence or {})}
        self.engine.open(executor, identity, checks, is_gone)
        executor.start()
        self.engine.lead_ms = MAX_LEAD_MS
        self.engine.store.listen(self.wake)
        self._heartbeat.start()
        self._thread = threading.Thread(target=self._run, name="matins-engine", daemon=True)
        self._thread.start()

    def stop(self, *, wait: bool, timeout_ms: int, leave: bool = False) -> None:
        """Start no new runs, and wait for running ones. Then stop those that can be stopped; with `leave` they
        continue, to be taken over later. Raises SchedulerShutdownError when runs are left after the timeout."""
        engine = self.engine
        engine.accepting = False
        deadline = engine.clock.boot_ms() + timeout_ms
        self._stopping.set()
        self.wake()
        if self._thread is not None:
            self._thread.join()  # first: the present turn may still start a run
        if wait:
            self._wind_up(deadline)
        engine.release_unstarted()
        engine.run_once()
        left = engine.executor.running()
        if left and not leave:
            unresponsive = left - engine.executor.interrupt()
            self._wind_up(engine.clock.boot_ms() + _INTERRUPT_MS, unresponsive)
        self._heartbeat.stop()
        engine.executor.stop()
        engine.checks.stop()
        engine.close()
        if wait and left:
            raise SchedulerShutdownError(timeout_ms, left)

    def abandon(self) -> None:
        """Stop what a failed start has started, without a turn."""
        self._stopping.set()
        self.wake()
        if self._thread is not None:
            self._thread.join()
        self._heartbeat.stop()
        self.engine.executor.stop()
        self.engine.checks.stop()

    def _wind_up(self, deadline: int, unresponsive: int = 0) -> None:
        """Do turns until only `unresponsive` runs are unfinished, or the deadline has passed."""
        engine = self.engine
        while engine.unfinished() > unresponsive and engine.clock.boot_ms() < deadline:
            self._awake = False
            delay = engine.run_once()
            if engine.unfinished() > unresponsive:
                # Without a store each turn fails, and says so: then it is tried as seldom as while running.
                pause = min(delay, max(0, deadline - engine.clock.boot_ms())) / 1000 if engine.is_failing else 0
                with suppress(Empty):
                    self._inbox.get(timeout=max(pause, _STOP_POLL_S))

    def _outdated(self) -> None:
        if not self.engine.outdated:
            self.engine.outdated = True
            log.error("The store was upgraded by a newer Matins. This engine starts no more runs: upgrade it.")

    def _fence(self, fenced: bool) -> None:
        changed = fenced != self.engine.fenced
        self.engine.fenced = fenced
        if changed:
            self.wake()

    def _run(self) -> None:
        clock = self.engine.clock
        while not self._stopping.is_set():
            self._awake = False  # before the turn, so that no change is missed
            delay = self.engine.run_once()
            self._turned_at = clock.boot_ms()
            if delay <= 0 or self._stopping.is_set():
                continue
            next_at = clock.boot_ms() + delay
            try:
                self._inbox.get(timeout=seconds_left(clock, delay))
            except Empty:
                continue
            # While jobs end one after the other, wait briefly, so that their ends are written together.
            left = next_at - clock.boot_ms()
            if left > _FLUSH_MS and self.engine.executor.busy() and not self._stopping.is_set():
                time.sleep(_FLUSH_MS / 1000)
