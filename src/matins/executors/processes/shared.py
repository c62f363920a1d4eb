"""The one supervisor of an engine, for its agents and its commands."""

from __future__ import annotations

import threading
from collections.abc import Callable

from matins.executors.processes.supervisor import Supervisor


class SharedSupervisor:
    """Creates the supervisor on first use: an engine without agents and commands needs none."""

    def __init__(self, make: Callable[[], Supervisor]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.started: Supervisor | None = None

    def __call__(self) -> Supervisor:
        with self._lock:
            if self.started is None:
                self.started = self._make()
            return self.started

    def close(self) -> None:
        """Runs continue; commands end. The next use creates another supervisor."""
        with self._lock:
            supervisor, self.started = self.started, None
        if supervisor is not None:
            supervisor.close(leave_running=True)
