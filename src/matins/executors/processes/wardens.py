"""Gets wardens for an engine from the keeper, which is started when there is none."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from matins.executors.processes.channel import Channel, try_send
from matins.executors.processes.keeper import READY
from matins.executors.processes.run_folder import KEEPER, RunFolder
from matins.executors.processes.walls import Probe

_MAX_LOSSES = 3
_SOURCE = str(Path(__file__).parents[3])
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from matins.executors.processes.keeper import main; main(sys.argv[2])"
)
_KEEPER_VARIABLES = ("LD_LIBRARY_PATH", "PATH", "TZ")
"""Variables that the keeper inherits. The others are dropped: commands bring their own."""


class WardenPool:
    """Requests wardens. Only the supervisor's thread uses it."""

    def __init__(
        self,
        run_folder: RunFolder,
        selector: selectors.BaseSelector,
        on_warden: Callable[[Channel, bool], None],
        on_failure: Callable[[str], None],
        on_probe: Callable[[Probe], None],
    ) -> None:
        self._run_folder = run_folder
        self._selector = selector
        self._on_warden = on_warden
        self._on_failure = on_failure
        self._on_probe = on_probe
        self._starting: subprocess.Popen[bytes] | None = None
        self._keeper: Channel | None = None
        self._requested = Counter[bool]()
        """Wardens that are on their way: without walls, and with them."""
        self._losses = 0

    def ensure(self, count: int, *, walled: bool) -> None:
        """Request wardens until `count` are on their way."""
        if self._requested[walled] < count:
            self.reach()
        while self._keeper is not None and self._requested[walled] < count:
            if not try_send(self._keeper, {"warden": 1, "walled": walled}):
                return  # the keeper is exiting; the selector reports its end
            self._requested[walled] += 1

    def reach(self) -> None:
        """Connect to the keeper, or start one. A new one is reached by a later call."""
        if self._keeper is not None or self._starting is not None:
            return
        try:
            if not self._connect():
                self._start()
        except OSError as error:
            self._on_failure(f"no keeper could be started or reached: {error}")

    def close(self) -> None:
        self._disconnect()
        if self._starting is not None:
            self._on_started()
            with contextlib.suppress(OSError):
                self._run_folder.connect(KEEPER).close()  # the new keeper waits for this connection

    def _connect(self) -> bool:
        """Connect to the keeper. False when there is none."""
        try:
            self._keeper = Channel(self._run_folder.connect(KEEPER))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        self._selector.register(self._keeper, selectors.EVENT_READ, self._on_message)
        return True

    def _start(self) -> None:
        """Start the keeper through a process that exits at once: the keeper is then no child of the engine."""
        self._starting = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, _SOURCE, self._run_folder.path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={name: os.environ[name] for name in _KEEPER_VARIABLES if name in os.environ},
            cwd="/",
        )
        assert self._starting.stdout is not None
        self._selector.register(self._starting.stdout, selectors.EVENT_READ, self._on_started)

    def _on_started(self) -> None:
        assert self._starting is not None
        assert self._starting.stdout is not None
        with self._starting, self._starting.stdout as pipe:
            output = pipe.read()
            self._selector.unregister(pipe)
        self._starting = None
        if not output.startswith(READY):
            self._on_failure(f"no keeper could be started: {output.decode(errors='replace').strip()[-500:]}")

    def _on_message(self) -> None:
        assert self._keeper is not None
        messages, fds, connected = self._keeper.receive()
        for message in messages:
            if "probe" in message:
                self._on_probe(Probe(*message["probe"]))
                continue
            self._requested[message["walled"]] -= 1
            if "warden" in message:
                self._losses = 0
                self._on_warden(Channel(socket.socket(fileno=fds.pop(0))), message["walled"])
            else:
                self._on_failure(str(message.get("error")))
        if not connected:
            self._on_lost()

    def _on_lost(self) -> None:
        """The keeper is gone. The next one is started when it is needed."""
        self._disconnect()
        self._losses += 1
        if self._losses > _MAX_LOSSES:
            self._losses = 0
            self._on_failure("the keeper ends at its start")

    def _disconnect(self) -> None:
        self._requested.clear()
        if self._keeper is not None:
            self._selector.unregister(self._keeper)
            self._keeper.close()
            self._keeper = None
