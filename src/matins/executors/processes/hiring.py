"""Where an engine gets its wardens: from the keeper, which is started when there is none."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from matins.executors.processes.home import KEEPER, Home
from matins.executors.processes.keeper import READY
from matins.executors.processes.links import Link, tell

_MOST_LOSSES = 3
_SOURCE = str(Path(__file__).parents[3])
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from matins.executors.processes.keeper import main; main(sys.argv[2])"
)
_NEEDED = ("LD_LIBRARY_PATH", "PATH", "TZ")
"""Of our own environment; what is in the rest is nobody's business, and commands bring their own."""


class Hiring:
    """Driven by the supervisor's thread, and by nobody else."""

    def __init__(
        self,
        home: Home,
        selector: selectors.BaseSelector,
        hired: Callable[[Link], None],
        failed: Callable[[str], None],
    ) -> None:
        self._home = home
        self._selector = selector
        self._hired = hired
        self._failed = failed
        self._starting: subprocess.Popen[bytes] | None = None
        self._keeper: Link | None = None
        self._asked = 0
        self._losses = 0

    def want(self, count: int) -> None:
        """See to it that so many are on their way."""
        if self._asked >= count or self._starting is not None:
            return
        try:
            if self._keeper is None and not self._connect():
                self._start()
        except OSError as error:
            self._failed(f"no keeper could be started or reached: {error}")
        while self._keeper is not None and self._asked < count:
            if not tell(self._keeper, {"warden": 1}):
                return  # it is going, and its end will be heard
            self._asked += 1

    def close(self) -> None:
        self._forget()
        if self._starting is not None:
            self._heard_start()
            with contextlib.suppress(OSError):
                self._home.connect(KEEPER).close()  # it waits for whoever had it started

    def _connect(self) -> bool:
        """Whether there is one."""
        try:
            self._keeper = Link(self._home.connect(KEEPER))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        self._selector.register(self._keeper, selectors.EVENT_READ, self._hear)
        return True

    def _start(self) -> None:
        """In a process that goes as soon as the keeper is on its own, so that it is nobody's child."""
        self._starting = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, _SOURCE, self._home.path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={name: os.environ[name] for name in _NEEDED if name in os.environ},
            cwd="/",
        )
        assert self._starting.stdout is not None
        self._selector.register(self._starting.stdout, selectors.EVENT_READ, self._heard_start)

    def _heard_start(self) -> None:
        assert self._starting is not None
        assert self._starting.stdout is not None
        with self._starting, self._starting.stdout as pipe:
            said = pipe.read()
            self._selector.unregister(pipe)
        self._starting = None
        if not said.startswith(READY):
            self._failed(f"no keeper could be started: {said.decode(errors='replace').strip()[-500:]}")

    def _hear(self) -> None:
        assert self._keeper is not None
        messages, fds, there = self._keeper.receive()
        for message in messages:
            self._asked -= 1
            if "warden" in message:
                self._losses = 0
                self._hired(Link(socket.socket(fileno=fds.pop(0))))
            else:
                self._failed(str(message.get("error")))
        if not there:
            self._lose()

    def _lose(self) -> None:
        """It has gone, or was killed: the next one is started when there is need of it."""
        self._forget()
        self._losses += 1
        if self._losses > _MOST_LOSSES:
            self._losses = 0
            self._failed("the keeper ends as soon as it has begun")

    def _forget(self) -> None:
        self._asked = 0
        if self._keeper is not None:
            self._selector.unregister(self._keeper)
            self._keeper.close()
            self._keeper = None
