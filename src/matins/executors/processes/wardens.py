"""Gets wardens for an engine from the keeper, which is started when there is none."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from matins.executors.processes import proc
from matins.executors.processes.channel import Channel, Message, close_all, try_send
from matins.executors.processes.keeper import READY
from matins.executors.processes.run_folder import KEEPER, LOCK, RunFolder
from matins.executors.processes.walls import Probe
from matins.executors.processes.watching import SeenTime, Silence, Watching

log = logging.getLogger("matins")
_MAX_LOSSES = 3
_MAX_ROUNDS = 50
_SOURCE = str(Path(__file__).parents[3])
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from matins.executors.processes.keeper import main; main(*sys.argv[2:])"
)
_KEEPER_VARIABLES = ("LD_LIBRARY_PATH", "PATH", "TZ")
"""Variables that the keeper inherits. The others are dropped: commands bring their own."""


Identity = tuple[int, int]
"""Pid and start time."""


class WardenPool:
    """Requests wardens. Only the supervisor's thread uses it."""

    def __init__(
        self,
        run_folder: RunFolder,
        selector: selectors.BaseSelector,
        on_warden: Callable[[Channel, Identity, bool], None],
        on_failure: Callable[[str], None],
        on_probe: Callable[[Probe], None],
        on_stopped: Callable[[Identity, bool], None],
        watching: Watching,
        time: SeenTime,
    ) -> None:
        self._run_folder = run_folder
        self._selector = selector
        self._on_warden = on_warden
        self._on_failure = on_failure
        self._on_probe = on_probe
        self._on_stopped = on_stopped
        self._watching = watching
        self._time = time
        self._silence = Silence(time.at)
        """Silence of the keeper, from the moment at which one is needed."""
        self._starting: subprocess.Popen[bytes] | None = None
        self._keeper: Channel | None = None
        self._requested = Counter[bool]()
        """Wardens that are on their way: without walls, and with them."""
        self._losses = 0
        self._was_ended = False
        """Whether the keeper that is starting was ended from here."""

    def ensure(self, count: int, *, walled: bool) -> None:
        """Request wardens until `count` are on their way."""
        if self._requested[walled] < count:
            self.reach()
        while self._keeper is not None and self._requested[walled] < count:
            if not try_send(self._keeper, {"warden": 1, "walled": walled}):
                return  # the keeper is exiting; the selector reports its end
            self._requested[walled] += 1
            self._ask()

    def reach(self) -> None:
        """Connect to the keeper, or start one. A new one is reached by a later call."""
        if self._keeper is not None or self._starting is not None:
            return
        self._silence.ask(self._time.at)  # a keeper says something as soon as it is reached
        try:
            if not self._connect():
                self._start()
        except BlockingIOError:
            return  # the keeper accepts no connection now; the next turn tries again, and the keeper is watched
        except OSError as error:
            self._on_failure(f"no keeper could be started or reached: {error}")

    def check(self) -> None:
        """Send the keeper a heartbeat. Continue one that does not answer, and then end it: the next one is started when
        it is needed, and wardens go on without."""
        at, watching = self._time.at, self._watching
        if self._silence.is_due(at, watching.heartbeat_ms):
            self._ask()
        if not self._silence.is_to_be_continued(at, watching.keeper_continue_ms):
            return
        self.read()  # this thread may be late itself
        keeper = self._living_keeper()
        if keeper is None or not self._silence.is_to_be_continued(at, watching.keeper_continue_ms):
            return
        if self._silence.lasts(at) >= watching.keeper_stopped_ms:
            self._end_keeper(keeper)
        else:
            self._silence.note_continued(at)
            proc.send([keeper], signal.SIGCONT)
            log.warning("The keeper does not answer; it was continued.")

    def read(self) -> None:
        """Handle the messages of the keeper that are there."""
        if self._keeper is not None:
            self._on_message()

    def _ask(self) -> None:
        if self._keeper is not None and try_send(self._keeper, {"heartbeat": ""}):
            self._silence.ask(self._time.at)

    def _living_keeper(self) -> proc.Process | None:
        """The process that has the lock, by pid and start time."""
        with contextlib.suppress(FileNotFoundError, ValueError):  # it is being written
            file = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._run_folder.fd)
            try:
                pid, start = map(int, os.read(file, 64).split())
                return proc.find(pid, start)
            finally:
                os.close(file)
        return None

    def _end_keeper(self, keeper: proc.Process) -> None:
        """End a keeper. First end what a dead warden left to it: without the keeper those processes cannot be found."""
        proc.send([keeper], signal.SIGSTOP)
        wardens = {process.pid for process in self._run_folder.wardens()}
        proc.kill_all(lambda: proc.descendants(keeper.pid, sparing=wardens), _MAX_ROUNDS)
        proc.send([keeper], signal.SIGKILL)
        self._silence = Silence(self._time.at)
        self._was_ended = self._starting is not None
        log.warning("The keeper does not answer; it was ended.")

    def close(self) -> None:
        self._disconnect()
        if self._watching.take_over and (keeper := self._living_keeper()) is not None:
            proc.send([keeper], signal.SIGCONT)  # one that was stopped last would stay
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
        layers = [json.dumps(self._watching.prevent), json.dumps(self._watching.max_stops)]
        self._starting = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, _SOURCE, self._run_folder.path, *layers],
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
        was_ended, self._was_ended = self._was_ended, False
        if output.startswith(READY):
            return
        keeper = self._living_keeper()
        replaced = was_ended or (keeper is not None and self._watching.take_over)
        if replaced and self._losses < _MAX_LOSSES:
            self._losses += 1  # the next one is started when it is needed
            if keeper is not None:
                self._end_keeper(keeper)  # it has the lock, and the new one could not reach it
        else:
            self._on_failure(f"no keeper could be started: {output.decode(errors='replace').strip()[-500:]}")

    def _on_message(self) -> None:
        if self._keeper is None:
            return  # it was read and lost before, in the same turn
        messages, fds, connected = self._keeper.receive()
        for message in messages:
            self._silence.hear(self._time.at)
            self._handle(message, fds)
        close_all(fds)
        if not connected:
            self._on_lost()

    def _handle(self, message: Message, fds: list[int]) -> None:
        if "probe" in message:
            self._on_probe(Probe(*message["probe"]))
        elif "stopped" in message:
            pid, start = message["stopped"]
            self._on_stopped((pid, start), message["ended"])
        elif "warden" in message:
            pid, start = message["warden"]
            self._requested[message["walled"]] -= 1
            self._losses = 0
            self._on_warden(Channel(socket.socket(fileno=fds.pop(0))), (pid, start), message["walled"])
        elif "error" in message:
            self._requested[message["walled"]] -= 1
            self._on_failure(str(message["error"]))

    def _on_lost(self) -> None:
        """The keeper is gone. The next one is started when it is needed."""
        self._disconnect()
        self._losses += 1
        if self._losses > _MAX_LOSSES:
            self._losses = 0
            self._on_failure("the keeper ends at its start")

    def _disconnect(self) -> None:
        self._requested.clear()
        self._silence = Silence(self._time.at)
        if self._keeper is not None:
            self._selector.unregister(self._keeper)
            self._keeper.close()
            self._keeper = None
