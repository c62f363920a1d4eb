"""Forks wardens for engines, and ends what a dead warden leaves behind. This small process survives its engines.

Run as `python -I -S`, in its own session. It exits when it has neither engine nor warden.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

from matins.executors.processes import proc
from matins.executors.processes.channel import Channel, Message, close_all, try_send
from matins.executors.processes.run_folder import KEEPER, LOCK, LOG, SCRATCH, RunFolder, accept, warden_name
from matins.executors.processes.walls import Walls, close_to_others, probe
from matins.executors.processes.warden import WATCHED_SIGNALS, Warden, signals_as_bytes

READY = b"ready\n"
_TIMEOUT_MS = 10_000
_PAUSE_S = 0.01
_SET_NAME, _SET_SUBREAPER, _SET_NO_NEW_PRIVS = 15, 36, 38


def main(path: str, prevent: str, max_stops: str) -> None:
    """Become the keeper of this folder, unless it has one. Report on stdout when the keeper is reachable.

    `prevent`, `max_stops`: as in `Watching`, in JSON."""
    run_folder = RunFolder(path)
    if os.fork():
        os._exit(0)  # the caller waits for this process only
    os.setsid()
    lock = _acquire_lock(run_folder)
    if lock is not None:
        _prepare_process(run_folder)
        keeper = Keeper(run_folder, lock, prevent=json.loads(prevent), max_stops=json.loads(max_stops))
        _announce_ready()
        keeper.serve()
    else:
        _announce_ready()


def _acquire_lock(run_folder: RunFolder) -> int | None:
    """The lock; None when another keeper has it and answers."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=run_folder.fd)
    for _ in range(round(_TIMEOUT_MS / 1000 / _PAUSE_S)):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(lock, 0)
            os.write(lock, b"%d %d\n" % (os.getpid(), proc.start_of(os.getpid())))
            return lock
        with contextlib.suppress(OSError):
            run_folder.connect(KEEPER).close()
            return None
        time.sleep(_PAUSE_S)  # the other keeper is starting or exiting
    sys.exit("another keeper holds the lock and does not answer")


def _prepare_process(run_folder: RunFolder) -> None:
    """Set up the process: wardens and commands inherit this."""
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600, dir_fd=run_folder.fd)
    os.dup2(log, 2)
    os.close(log)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    be_subreaper("matins-keeper")
    prctl(_SET_NO_NEW_PRIVS, 1)
    close_to_others()
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # the CPU limit of a command briefly applies to its warden
    for name in run_folder.dead_sockets():
        run_folder.remove(name)
    proc.send(run_folder.wardens(), signal.SIGCONT)  # a keeper that is gone may have left stopped ones


def _announce_ready() -> None:
    os.write(1, READY)
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 1)
    os.close(devnull)


def be_subreaper(name: str) -> None:
    prctl(_SET_SUBREAPER, 1)
    prctl(_SET_NAME, name.encode())


def prctl(option: int, value: int | bytes) -> None:
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Keeper:
    def __init__(self, run_folder: RunFolder, lock: int, *, prevent: bool, max_stops: int | None) -> None:
        self._run_folder = run_folder
        self._lock = lock
        self._prevent = prevent
        self._max_stops = max_stops
        self._listener = run_folder.listen(KEEPER)
        self._signals = signals_as_bytes()
        self._scratch = run_folder.make(SCRATCH)
        self._probe = probe(self._scratch)
        """Whether agents can be isolated here. It holds as long as this keeper: no run decides by itself."""
        self._engines: dict[int, Channel] = {}
        self._wardens: dict[int, int] = {}
        """Start time by pid."""
        self._stops = Counter[int]()
        """Stops of each warden, by pid. A warden that was stopped gets no other run, so they belong to one run."""
        self._expecting = True
        """Whether the engine that started the keeper has yet to connect."""
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._signals[0], select.POLLIN)

    def serve(self) -> None:
        gc.freeze()  # a warden's garbage collector must not touch, and so copy, shared memory
        handlers: dict[int, Callable[[], None]] = {
            self._listener.fileno(): self._accept,
            self._signals[0].fileno(): self._on_signals,
        }
        while self._engines or self._wardens or self._expecting:
            ready = self._poll.poll(_TIMEOUT_MS)
            self._expecting = self._expecting and bool(ready)
            for fd, _ in ready:
                if fd in handlers:
                    handlers[fd]()
                elif fd in self._engines:
                    self._on_engine_message(fd)
        self._run_folder.remove(KEEPER)
        signal.set_wakeup_fd(-1)  # the interpreter closes its socket before a last SIGCHLD may arrive

    def _accept(self) -> None:
        sock = accept(self._listener)
        if sock is not None:
            self._expecting = False
            channel = self._engines[sock.fileno()] = Channel(sock)
            self._poll.register(sock, select.POLLIN)
            try_send(channel, {"probe": self._probe})

    def _on_engine_message(self, fd: int) -> None:
        messages, fds, connected = self._engines[fd].receive()
        close_all(fds)
        for message in messages:
            connected = self._handle(self._engines[fd], message) and connected
        if not connected:
            self._poll.unregister(fd)
            self._engines.pop(fd).close()

    def _handle(self, engine: Channel, message: Message) -> bool:
        """False when the engine is gone, or when the client is no engine."""
        if "heartbeat" in message:
            return try_send(engine, message)
        return "warden" in message and self._provide(engine, message["walled"])

    def _provide(self, engine: Channel, walled: bool) -> bool:
        """Fork one more warden. False when the engine is gone."""
        try:
            pid, theirs = self._fork(walled)
            with theirs:
                return try_send(engine, {"warden": [pid, self._wardens[pid]], "walled": walled}, [theirs.fileno()])
        except OSError as error:
            return try_send(engine, {"error": f"no warden could be started: {error.strerror}", "walled": walled})

    def _fork(self, walled: bool) -> tuple[int, socket.socket]:
        """Fork a warden and return its pid, and the engine's end of its socket."""
        theirs, ours = socket.socketpair()
        with contextlib.ExitStack() as unless_forked, ours:
            unless_forked.callback(theirs.close)
            # The warden must not receive a signal while it still has the keeper's socket for them.
            signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
            try:
                pid = os.fork()
                if pid == 0:
                    theirs.close()
                    self._become_warden(ours, walled)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED_SIGNALS)
            self._wardens[pid] = proc.start_of(pid)
            unless_forked.pop_all()
        return pid, theirs

    def _become_warden(self, engine: socket.socket, walled: bool) -> None:
        """Serve as a warden. Never returns."""
        code = 1
        try:
            for end in (self._listener, *self._signals, *self._engines.values()):
                end.close()
            os.close(self._lock)
            be_subreaper("matins-warden")
            Warden(self._run_folder, engine, Walls(self._scratch, prevent=self._prevent) if walled else None).serve()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _on_signals(self) -> None:
        if signal.SIGTERM in self._signals[0].recv(4096):
            for pid in self._wardens:
                os.kill(pid, signal.SIGTERM)
        clean = True
        with contextlib.suppress(ChildProcessError):
            while (changed := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0]:
                if os.WIFSTOPPED(changed[1]):
                    self._on_stopped(changed[0])
                else:
                    clean = self._forget_warden(*changed) and clean
        if not clean:
            proc.kill_all(lambda: proc.descendants(os.getpid(), sparing=self._wardens))

    def _on_stopped(self, pid: int) -> None:
        """Continue a stopped warden: only its own run has a reason to stop it. A run that does so often is ended."""
        if pid not in self._wardens or self._max_stops is None:
            return
        self._stops[pid] += 1
        ended = self._stops[pid] > self._max_stops
        if ended:
            proc.kill_all(lambda: proc.descendants(pid))
        for engine in self._engines.values():  # before the KILL, so that an engine that sees the end knows the reason
            try_send(engine, {"stopped": [pid, self._wardens[pid]], "ended": ended})
        os.kill(pid, signal.SIGKILL if ended else signal.SIGCONT)

    def _forget_warden(self, pid: int, status: int) -> bool:
        """Whether a warden ended cleanly. Otherwise its descendants are now the keeper's, and must be killed."""
        start = self._wardens.pop(pid, None)
        self._stops.pop(pid, None)
        if start is not None and status != 0:
            self._run_folder.remove(f"{warden_name(pid, start)}.sock")
        return start is not None and status == 0
