"""Supervises one run at a time, with or without an engine; a child of the keeper, reused while its engine lives.

A small process of one thread: everything that happens to it comes by one poll.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from matins.executors.processes import proc
from matins.executors.processes.home import Home, accept
from matins.executors.processes.journal import warden_name
from matins.executors.processes.links import Link, close_all, tell
from matins.executors.processes.run import Run

_LONGEST_MS = 10_000
"""A poll sleeps while the machine does, so it must not be long."""
_RETRY_MS = 1_000


class Warden:
    def __init__(self, home: Home, engine: socket.socket) -> None:
        self._home = home
        self._me = [os.getpid(), proc.start_of(os.getpid())]
        self._boot = proc.boot_id()
        self._name = f"{warden_name(*self._me)}.sock"
        self._handlers: dict[int, Callable[[], None]] = {}
        self._poll = select.poll()
        self._engine: Link | None = Link(engine)
        self._attached: dict[int, Link] = {}
        self._run: Run | None = None
        self._unwritten: tuple[Run, dict[str, Any]] | None = None
        self._begun = 0
        self._listener = home.listen(self._name)
        self._signals = signals_as_bytes()
        self._register(engine.fileno(), self._hear_engine)
        self._register(self._listener.fileno(), self._let_in)
        self._register(self._signals[0].fileno(), self._hear_signals)

    def serve(self) -> None:
        """Until there is nobody to serve and nothing to watch."""
        self._tell_engine({"ready": True})
        while self._engine is not None or self._run is not None or self._unwritten is not None:
            for fd, _ in self._poll.poll(self._patience()):
                if handler := self._handlers.get(fd):
                    handler()
            if self._run is not None and self._run.advance(proc.boot_ms()):
                self._finish(self._run)
            if self._unwritten is not None:
                self._write_last(*self._unwritten)
        self._home.remove(self._name)

    def _patience(self) -> int:
        if self._unwritten is not None:
            return _RETRY_MS
        look = None if self._run is None else self._run.next_look()
        return _LONGEST_MS if look is None else max(0, min(look - proc.boot_ms(), _LONGEST_MS))

    def _register(self, fd: int, handler: Callable[[], None]) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, select.POLLIN)

    def _unregister(self, fd: int) -> None:
        del self._handlers[fd]
        self._poll.unregister(fd)

    # -- what comes in

    def _hear_engine(self) -> None:
        assert self._engine is not None
        messages, fds, there = self._engine.receive()
        for message in messages:
            if "start" in message:
                self._start(message["start"], fds)
                fds = []
            else:
                self._obey(message)
        close_all(fds)
        if not there:
            self._leave_engine()

    def _leave_engine(self) -> None:
        if self._engine is not None:
            self._unregister(self._engine.fileno())
            self._engine.close()
            self._engine = None

    def _obey(self, message: dict[str, Any]) -> None:
        if self._run is not None and message.get("end") == self._run.key:
            self._run.end(message.get("for", "asked"))

    def _hear_signals(self) -> None:
        if signal.SIGTERM in self._signals[0].recv(4096):
            self._leave_engine()
            self._unwritten = None
            if self._run is not None:
                self._run.end("asked")

    def _let_in(self) -> None:
        """Another engine, for a run whose own engine is gone."""
        sock = accept(self._listener)
        if sock is not None:
            link = Link(sock)
            fd = link.fileno()
            self._attached[fd] = link
            self._register(fd, lambda: self._hear_attached(fd))

    def _hear_attached(self, fd: int) -> None:
        messages, fds, there = self._attached[fd].receive()
        close_all(fds)
        for message in messages:
            if "attach" in message:
                there = self._attach(self._attached[fd], message["attach"]) and there
            self._obey(message)
        if not there:
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        self._unregister(fd)
        self._attached.pop(fd).close()

    def _attach(self, link: Link, key: str) -> bool:
        """Tell whether this is the run that it asks for; whether it is, and heard it."""
        if self._unwritten is not None and self._unwritten[0].key == key:
            return tell(link, {"key": key, "ended": self._unwritten[1]})
        on = self._run is not None and self._run.key == key
        return tell(link, {"key": key, "on": on}) and on

    def _tell_engine(self, message: dict[str, Any]) -> None:
        if self._engine is not None and not tell(self._engine, message):
            self._leave_engine()

    # -- a run

    def _start(self, launch: dict[str, Any] | None, fds: list[int]) -> None:
        """A launch that is too long for a line comes as a file, before that of its stdin."""
        stdin = fds[0 if launch else 1 :]
        try:
            self._begin(launch or json.loads(_whole(fds[0])), stdin[0] if stdin else None)
        finally:
            close_all(fds)

    def _begin(self, launch: dict[str, Any], stdin: int | None) -> None:
        try:
            run = Run(launch, stdin, self._home, self._me)
        except OSError as error:
            self._tell_engine({"key": launch["key"], "refused": str(error)})
            return
        if (refused := self._claim(run)) is not None:
            run.close()
            self._tell_engine({"key": run.key, "refused": refused})
            return
        run.begin()
        self._run = run
        for pipe in run.outputs:
            self._register(pipe, lambda pipe=pipe: self._read(run, pipe))
        if run.failed is not None:
            self._finish(run)

    def _claim(self, run: Run) -> str | None:
        """Why it is not ours to run."""
        self._begun += 1
        owner = {"boot": self._boot, "warden": self._me, "nth": self._begun, "sock": self._name, "at": proc.wall_ms()}
        try:
            return None if run.claim(owner) else "somebody else was first"
        except OSError as error:
            return str(error)

    def _read(self, run: Run, pipe: int) -> None:
        if not run.read(pipe):
            self._unregister(pipe)

    def _finish(self, run: Run) -> None:
        for pipe in run.outputs:
            self._unregister(pipe)
        run.drain()
        self._run = None
        record = run.last_record()
        written = self._write_last(run, record)
        self._tell_engine({"key": run.key, "ended": record, "free": written})
        for fd, link in list(self._attached.items()):
            tell(link, {"key": run.key, "ended": record})
            self._drop(fd)

    def _write_last(self, run: Run, record: dict[str, Any]) -> bool:
        """Whether it could be: on a full disk it is tried until there is room."""
        try:
            run.append(record)
        except OSError:
            self._unwritten = run, record
            return False
        self._unwritten = None
        run.close()
        return True


def _whole(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def signals_as_bytes() -> tuple[socket.socket, socket.socket]:
    """Where the numbers of the signals come out that this process is sent, and the other end of it."""
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)
    return reading, writing
