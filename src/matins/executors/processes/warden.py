"""Supervises one run at a time, with or without an engine. A child of the keeper, reused while its engine lives.

A small process with one thread: one poll delivers all its events.
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
from matins.executors.processes.channel import Channel, close_all, try_send
from matins.executors.processes.process_tree import ProcessTree
from matins.executors.processes.run_folder import RunFolder, accept, warden_name
from matins.executors.processes.walls import Walls

_MAX_POLL_MS = 10_000
"""A poll does not count the machine's sleep, so it must be short."""
_RETRY_MS = 1_000


class Warden:
    def __init__(self, run_folder: RunFolder, engine: socket.socket, walls: Walls | None = None) -> None:
        self._run_folder = run_folder
        self._walls = walls
        self._me = [os.getpid(), proc.start_of(os.getpid())]
        self._boot = proc.boot_id()
        self._name = f"{warden_name(*self._me)}.sock"
        self._handlers: dict[int, Callable[[], None]] = {}
        self._poll = select.poll()
        self._engine: Channel | None = Channel(engine)
        self._attached: dict[int, Channel] = {}
        self._run: ProcessTree | None = None
        self._unwritten: tuple[ProcessTree, dict[str, Any]] | None = None
        self._begun = 0
        self._listener = run_folder.listen(self._name)
        self._signals = signals_as_bytes()
        self._register(engine.fileno(), self._on_engine_message)
        self._register(self._listener.fileno(), self._accept)
        self._register(self._signals[0].fileno(), self._on_signals)

    def serve(self) -> None:
        """Serve until there is no engine and no run."""
        self._send_to_engine({"ready": True})
        while self._engine is not None or self._run is not None or self._unwritten is not None:
            for fd, _ in self._poll.poll(self._poll_timeout()):
                if handler := self._handlers.get(fd):
                    handler()
            if self._run is not None and self._run.advance(proc.boot_ms()):
                self._finish(self._run)
            if self._unwritten is not None:
                self._write_last(*self._unwritten)
        self._run_folder.remove(self._name)

    def _poll_timeout(self) -> int:
        if self._unwritten is not None:
            return _RETRY_MS
        check_at = None if self._run is None else self._run.next_check_at()
        return _MAX_POLL_MS if check_at is None else max(0, min(check_at - proc.boot_ms(), _MAX_POLL_MS))

    def _register(self, fd: int, handler: Callable[[], None]) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, select.POLLIN)

    def _unregister(self, fd: int) -> None:
        del self._handlers[fd]
        self._poll.unregister(fd)

    # -- incoming messages

    def _on_engine_message(self) -> None:
        assert self._engine is not None
        messages, fds, connected = self._engine.receive()
        for message in messages:
            if "start" in message:
                self._start(message["start"], fds)
                fds = []
            elif "heartbeat" in message:
                self._send_to_engine(self._answer(message))
            else:
                self._handle(message)
        close_all(fds)
        if not connected:
            self._disconnect_engine()

    def _disconnect_engine(self) -> None:
        if self._engine is not None:
            self._unregister(self._engine.fileno())
            self._engine.close()
            self._engine = None
            if self._run is not None and self._run.attached:
                self._run.end("cancelled")

    def _handle(self, message: dict[str, Any]) -> None:
        if self._run is not None and message.get("end") == self._run.key:
            self._run.end(message.get("for", "cancelled"))
        elif self._run is not None and message.get("renew") == self._run.key:
            self._run.renew(message["at"])

    def _on_signals(self) -> None:
        if signal.SIGTERM in self._signals[0].recv(4096):
            self._disconnect_engine()
            self._unwritten = None
            if self._run is not None:
                self._run.end("cancelled")

    def _accept(self) -> None:
        """Accept another engine, for a run whose own engine is gone."""
        sock = accept(self._listener)
        if sock is not None:
            channel = Channel(sock)
            fd = channel.fileno()
            self._attached[fd] = channel
            self._register(fd, lambda: self._on_attached_message(fd))

    def _on_attached_message(self, fd: int) -> None:
        messages, fds, connected = self._attached[fd].receive()
        close_all(fds)
        for message in messages:
            if "attach" in message:
                connected = self._attach(self._attached[fd], message["attach"]) and connected
            elif "heartbeat" in message:
                connected = try_send(self._attached[fd], self._answer(message)) and connected
            self._handle(message)
        if not connected:
            self._detach(fd)

    def _detach(self, fd: int) -> None:
        self._unregister(fd)
        self._attached.pop(fd).close()

    def _attach(self, channel: Channel, key: str) -> bool:
        """Reply whether this is the requested run. True when it is and the peer got the reply."""
        if self._unwritten is not None and self._unwritten[0].key == key:
            return try_send(channel, {"key": key, "ended": self._unwritten[1]})
        on = self._run is not None and self._run.key == key
        return try_send(channel, {"key": key, "on": on, **self._times(key)}) and on

    def _answer(self, heartbeat: dict[str, Any]) -> dict[str, Any]:
        return {"heartbeat": heartbeat["heartbeat"], **self._times(heartbeat["heartbeat"])}

    def _times(self, key: str) -> dict[str, Any]:
        """The times of the run, for an engine that did not start it, and for one whose launch was read late."""
        if self._run is None or self._run.key != key:
            return {}
        return {"remaining_ms": self._run.remaining_ms(proc.boot_ms()), "grace_ms": self._run.grace_ms}

    def _send_to_engine(self, message: dict[str, Any]) -> None:
        if self._engine is not None and not try_send(self._engine, message):
            self._disconnect_engine()

    # -- a run

    def _start(self, launch: dict[str, Any] | None, fds: list[int]) -> None:
        """Start a launch. One too long for a line comes as a file, before the file of its stdin."""
        stdin = fds[0 if launch else 1 :]
        try:
            whole = launch or json.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))
            self._begin(whole, stdin[0] if stdin else None)
        finally:
            close_all(fds)

    def _begin(self, launch: dict[str, Any], stdin: int | None) -> None:
        if (launch["layout"] is None) != (self._walls is None):  # never without walls that the launch asks for
            self._send_to_engine({"key": launch["key"], "refused": "this warden is of the other kind"})
            return
        try:
            run = ProcessTree(launch, stdin, self._run_folder, self._me, self._walls)
            refused = self._claim(run)
        except OSError as error:
            self._send_to_engine({"key": launch["key"], "refused": str(error), "errno": error.errno})
            return
        if refused is not None:
            self._send_to_engine({"key": run.key, "refused": refused})
            return
        run.begin()
        self._run = run
        for pipe in run.outputs:
            self._register(pipe, lambda pipe=pipe: self._read(run, pipe))
        if run.failed is not None:
            self._finish(run)

    def _claim(self, run: ProcessTree) -> str | None:
        """Why this warden may not run it; None when it may. Raises OSError where that cannot be written."""
        self._begun += 1
        owner = {
            "boot": self._boot,
            "warden": self._me,
            "nth": self._begun,
            "sock": self._name,
            "isolated": self._walls is not None,
            "at": proc.wall_ms(),
        }
        is_ours = False
        try:
            is_ours = run.claim(owner)
        finally:
            if not is_ours:
                run.close()
        return None if is_ours else "another warden runs it"

    def _read(self, run: ProcessTree, pipe: int) -> None:
        if not run.read(pipe):
            self._unregister(pipe)

    def _finish(self, run: ProcessTree) -> None:
        for pipe in run.outputs:
            self._unregister(pipe)
        run.drain()
        self._run = None
        record = run.last_record()
        written = self._write_last(run, record)
        self._send_to_engine({"key": run.key, "ended": record, "free": written})
        for fd, channel in list(self._attached.items()):
            try_send(channel, {"key": run.key, "ended": record})
            self._detach(fd)
        if run.attached and self._engine is None:  # nobody is left who would read them
            self._unwritten = None
            run.delete_files()

    def _write_last(self, run: ProcessTree, record: dict[str, Any]) -> bool:
        """Write the last record. False on a full disk; the write is retried."""
        try:
            run.append(record)
        except OSError:
            self._unwritten = run, record
            return False
        self._unwritten = None
        run.close()
        return True


WATCHED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)


def signals_as_bytes() -> tuple[socket.socket, socket.socket]:
    """A socket that receives the numbers of this process's signals, and its other end. Signals that were blocked until
    now arrive there too."""
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    for number in WATCHED_SIGNALS:
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED_SIGNALS)
    return reading, writing
