"""Process trees for an engine: start, follow, end, and find again after a crash."""

from __future__ import annotations

import contextlib
import selectors
import threading
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

from matins.errors import Conflict, MatinsError
from matins.executors.processes import proc, recovery
from matins.executors.processes.channel import Channel, Message, close_all, try_send
from matins.executors.processes.journal import name_of
from matins.executors.processes.launch import EndedBy, Launch, ProcessOutcome, check_launch
from matins.executors.processes.launch_message import LaunchMessage
from matins.executors.processes.listening_thread import ListeningThread
from matins.executors.processes.run_files import RunFiles
from matins.executors.processes.run_folder import LOG
from matins.executors.processes.walls import Probe
from matins.executors.processes.wardens import WardenPool

_MAX_IDLE = 8
_SPARE_S = 10.0
_PROBE_S = 15.0
_STARTING = ""
OnEnd = Callable[[ProcessOutcome], None]


class _Watched:
    """A run that has not ended, and its warden once there is one."""

    __slots__ = ("channel", "ending", "epoch", "grace_ms", "on_end", "run_id")

    def __init__(self, run_id: int, epoch: int, grace_ms: int = 0, on_end: OnEnd | None = None) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.grace_ms = grace_ms
        self.on_end = on_end
        """Gets the outcome of a command that is no run."""
        self.channel: Channel | None = None
        self.ending: EndedBy | None = None
        """Why the run is to end."""


class Supervisor:
    """Forks only the keeper. A thread receives the messages of wardens; `wake` is called when a run ends."""

    def __init__(
        self,
        folder: Path,
        wake: Callable[[], None],
        *,
        incarnation: Callable[[], str] = lambda: "",
        fsync: bool = False,
    ) -> None:
        self._run_folder = recovery.open_private(folder)
        self.boot = proc.kernel_boot_id()
        """Identifies this boot of the machine. A caller stores it with an attempt and passes it to `reap`."""
        self.nonce = self._run_folder.nonce
        """Identifies the folder, likewise."""
        self._incarnation = incarnation
        self._names: dict[tuple[int, int], str] = {}
        """Of runs that were started under an earlier incarnation."""
        self.files = RunFiles(self._run_folder, self._name)
        self._wake = wake
        self._fsync = fsync
        self._lock = threading.Lock()
        self._run_ended = threading.Condition(self._lock)
        self._probed = threading.Condition(self._lock)
        self._watched: dict[str, _Watched] = {}
        self._waiting: dict[str, LaunchMessage] = {}
        """Launches without a warden, in order."""
        self._idle: dict[bool, list[Channel]] = {False: [], True: []}
        """Wardens without a run: without walls, and with them."""
        self._walled: set[Channel] = set()
        """The wardens with walls."""
        self._probe: Probe | None = None
        self._probe_wanted = False
        self._wardens: dict[Channel, str | None] = {}
        """The run of each warden; _STARTING until the warden is ready."""
        self._ended: list[tuple[int, int, ProcessOutcome]] = []
        self._closed = False
        self._thread = ListeningThread("matins-processes", self._reach_keeper, self._request_wardens)
        self._warden_pool = WardenPool(
            self._run_folder, self._thread.selector, self._on_warden, self._on_no_warden, self._on_probe
        )
        self._thread.start()

    def start(self, launch: Launch, on_end: OnEnd | None = None) -> None:
        """Start now when a warden is idle, otherwise as soon as there is one. `ended` returns the outcome of a run;
        that of a named command goes to `on_end`."""
        check_launch(launch)
        key = launch.name or self._name(launch.run_id, launch.epoch)
        with self._lock:
            if self._closed:
                raise MatinsError("The supervisor is closed.", hint="Create another one.")
            if key in self._watched:
                raise Conflict(f"Run {launch.run_id} was already started with epoch {launch.epoch}.", value=key)
            self._waiting[key] = LaunchMessage(key, launch, fsync=self._fsync or launch.durable)
            self._watched[key] = _Watched(launch.run_id, launch.epoch, launch.limits.grace_ms, on_end)
            self._assign_wardens()
            short = bool(self._waiting)
        if short:
            self._thread.wake()

    def probe(self) -> Probe:
        """Whether agents can be isolated on this machine, as the keeper found it. Starts the keeper if need be."""
        with self._probed:
            if self._probe is None:
                self._probe_wanted = True
                self._thread.wake()
                self._probed.wait_for(lambda: not self._probe_wanted, _PROBE_S)
            return self._probe or Probe(False, "no keeper could be started", "keeper")

    def ended(self) -> list[tuple[int, int, ProcessOutcome]]:
        """(run, epoch, outcome) of the runs that ended since the last call."""
        with self._lock:
            ended, self._ended = self._ended, []
        return ended

    def end(self, run_id: int, epoch: int, ended_by: EndedBy = "cancelled") -> None:
        """Send TERM, then KILL, to the whole tree, also of another engine. `ended` returns the outcome."""
        key = self._name(run_id, epoch)
        if not self._request_end(key, ended_by):
            with self._lock:
                self._watched[key] = _Watched(run_id, epoch)
                self._watched[key].ending = ended_by
            self._resolve(key)

    def end_command(self, name: str, ended_by: EndedBy = "cancelled") -> None:
        """Likewise, for a named command."""
        self._request_end(name, ended_by)

    def _request_end(self, key: str, ended_by: EndedBy) -> bool:
        """Whether the run is known."""
        with self._lock:
            watched, launch_message = self._watched.get(key), self._waiting.pop(key, None)
            if watched is None:
                return False
            watched.ending = ended_by
            if watched.channel is not None:
                try_send(watched.channel, {"end": key, "for": ended_by})
        if launch_message is not None:
            launch_message.close()
            self._resolve(key)
        return True

    def reap(
        self,
        run_id: int,
        epoch: int,
        *,
        boot: str | None = None,
        nonce: str | None = None,
        incarnation: str | None = None,
    ) -> ProcessOutcome:
        """The outcome of a run whose engine is gone. A running run is followed from here; `ended` returns its outcome.

        A run that was not started can never start afterwards. `boot` and `nonce` are those under which it was to start
        (default: the present ones). Under others, a missing journal proves nothing: the outcome is unknown.
        """
        if incarnation is not None:
            self._names[run_id, epoch] = name_of(run_id, epoch, incarnation)
        key = self._name(run_id, epoch)
        evident = boot in (None, self.boot) and nonce in (None, self.nonce)
        with self._lock:
            if key in self._watched:
                return recovery.with_paths(self._run_folder, key, ProcessOutcome("running"))
        outcome, channel = recovery.find_outcome(self._run_folder, key, evident=evident)
        if channel is not None:
            with self._lock:
                self._watched[key] = _Watched(run_id, epoch)
            self._follow(key, channel)
        return outcome

    def running(self) -> int:
        return len(self._watched)

    def _name(self, run_id: int, epoch: int) -> str:
        return self._names.get((run_id, epoch)) or name_of(run_id, epoch, self._incarnation())

    def close(self, *, leave_running: bool) -> None:
        """With `leave_running`, runs continue and another supervisor can reap them. Otherwise all end first; named
        commands always do."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for key in self._stop_waiting():
            self._resolve(key)
        self._end_all([key for key, watched in self._watched.items() if watched.on_end or not leave_running])
        self._thread.stop()
        for end in (*self._wardens, self._warden_pool, self._thread, self._run_folder):
            end.close()

    def _end_all(self, keys: Collection[str]) -> None:
        for key in keys:
            self._request_end(key, "cancelled")
        with self._run_ended:
            ending = [watched for key in keys if (watched := self._watched.get(key)) is not None]
            timeout = max((watched.grace_ms for watched in ending), default=0) / 1000 + _SPARE_S
            self._run_ended.wait_for(lambda: self._watched.keys().isdisjoint(keys), timeout)

    # -- under the lock

    def _assign_wardens(self) -> None:
        for key, launch_message in list(self._waiting.items()):
            idle = self._idle[launch_message.walled]
            if not idle:
                continue
            channel = idle.pop()
            with contextlib.suppress(OSError):  # the selector reports a dead warden
                channel.send_line(launch_message.line, launch_message.files)
                self._wardens[channel] = key
                self._watched[key].channel = channel
                self._waiting.pop(key).close()

    # -- in the thread

    def _reach_keeper(self) -> None:
        if self._probe_wanted:
            self._warden_pool.reach()

    def _request_wardens(self) -> None:
        if not self._waiting:
            return
        with self._lock:
            waiting = Counter(launch_message.walled for launch_message in self._waiting.values())
            starting = [channel for channel, key in self._wardens.items() if key == _STARTING]
        for walled, count in waiting.items():
            self._warden_pool.ensure(
                count - sum((channel in self._walled) == walled for channel in starting), walled=walled
            )

    def _on_probe(self, probe: Probe | None) -> None:
        with self._probed:
            self._probe = probe or self._probe
            self._probe_wanted = False
            self._probed.notify_all()

    def _on_warden(self, channel: Channel, walled: bool) -> None:
        self._wardens[channel] = _STARTING
        if walled:
            self._walled.add(channel)
        self._register(channel)

    def _on_no_warden(self, reason: str) -> None:
        self._on_probe(None)
        for key in self._stop_waiting():
            self._resolve(key, reason)

    def _stop_waiting(self) -> list[str]:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for launch_message in waiting.values():
            launch_message.close()
        return list(waiting)

    def _on_message(self, channel: Channel) -> None:
        messages, fds, connected = channel.receive()
        close_all(fds)
        for message in messages:
            self._handle(channel, message)
        if not connected and channel in self._wardens:
            self._on_lost(channel)

    def _handle(self, channel: Channel, message: Message) -> None:
        if "ready" in message:
            self._free(channel)
            return
        key = message["key"]
        if "ended" in message:
            if message.get("free"):
                self._free(channel)
            else:
                self._discard(channel)
            self._finish(key, recovery.outcome_from_last(self._run_folder, key, message["ended"]))
        elif "refused" in message:
            self._free(channel)
            self._resolve(key, message["refused"])

    def _free(self, channel: Channel) -> None:
        with self._lock:
            self._wardens[channel] = None
            idle = self._idle[channel in self._walled]
            idle.append(channel)
            self._assign_wardens()
            surplus = idle.pop(0) if len(idle) > _MAX_IDLE else None
        if surplus is not None:
            self._discard(surplus)

    def _discard(self, channel: Channel) -> str | None:
        """Close the channel and return its run."""
        self._thread.selector.unregister(channel)
        channel.close()
        with self._lock:
            idle = self._idle[channel in self._walled]
            if channel in idle:
                idle.remove(channel)
            self._walled.discard(channel)
            return self._wardens.pop(channel)

    def _on_lost(self, channel: Channel) -> None:
        key = self._discard(channel)
        if key == _STARTING:
            self._on_no_warden(f"a warden ended at its start; the reason is in {self._run_folder.path}/{LOG}")
        elif key and (watched := self._watched.get(key)) is not None:
            watched.channel = None
            self._resolve(key)

    # -- in any thread

    def _finish(self, key: str, outcome: ProcessOutcome) -> None:
        with self._lock:
            watched = self._watched.pop(key, None)
            if watched is None:
                return
            if watched.on_end is None:
                self._ended.append((watched.run_id, watched.epoch, outcome))
            self._run_ended.notify_all()
        if watched.on_end is not None:
            watched.on_end(outcome)
        else:
            self._wake()

    def _resolve(self, key: str, start_error: str | None = None) -> None:
        """Find the outcome of a run without a known warden. `start_error`: why it was not started."""
        try:
            outcome, channel = recovery.find_outcome(self._run_folder, key)
        except OSError as error:  # not even a fence can be written
            outcome, channel = ProcessOutcome("never_started" if start_error else "unknown", error=str(error)), None
        if channel is not None:
            self._follow(key, channel)
            return
        if outcome.kind == "orphaned":
            recovery.end_orphans(self._run_folder, key)
            outcome = outcome._replace(kind="unknown")
        if outcome.kind == "never_started" and start_error:
            outcome = outcome._replace(error=start_error)
        self._finish(key, outcome)

    def _follow(self, key: str, channel: Channel) -> None:
        with self._lock:
            self._wardens[channel] = key
            if (watched := self._watched.get(key)) is not None:
                watched.channel = channel
                if watched.ending is not None:
                    try_send(channel, {"end": key, "for": watched.ending})
        self._thread.call(lambda: self._register(channel))

    def _register(self, channel: Channel) -> None:
        self._thread.selector.register(channel, selectors.EVENT_READ, lambda: self._on_message(channel))
