"""Process trees for an engine: start, follow, end, and find again after a crash.

The one supervisor of an engine, for its agents and its commands.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection
from pathlib import Path

from matins.errors import Conflict, MatinsError
from matins.executors.processes import proc, recovery
from matins.executors.processes.channel import Channel, Message, close_all, try_send
from matins.executors.processes.launch import EndedBy, Launch, LaunchMessage, Limits, ProcessOutcome, check_launch
from matins.executors.processes.recovery import RunFiles
from matins.executors.processes.run_folder import LOG, name_of
from matins.executors.processes.walls import Probe
from matins.executors.processes.wardens import Identity, WardenPool
from matins.executors.processes.watching import WATCHING, Deadline, SeenTime, Silence, Watching

log = logging.getLogger("matins")


class ListeningThread:
    """Calls what is registered with the selector, then the tasks of other threads, then `duties`, whenever it wakes.

    `pause` returns the longest wait in seconds; None: until something happens."""

    def __init__(self, name: str, *duties: Callable[[], None], pause: Callable[[], float | None]) -> None:
        self.selector = selectors.DefaultSelector()
        """The data of a key is called when its file can be read."""
        self._duties = duties
        self._pause = pause
        self._tasks: deque[Callable[[], None]] = deque()
        self._stopped = False
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self.selector.register(self._receiver, selectors.EVENT_READ, lambda: self._receiver.recv(4096))
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the thread is woken already
            self._sender.send(b"\0")

    def call(self, task: Callable[[], None]) -> None:
        """Have the thread do this."""
        self._tasks.append(task)
        self.wake()

    def stop(self) -> None:
        """End the thread. The selector can still be used."""
        self._stopped = True
        self.wake()
        self._thread.join()

    def close(self) -> None:
        for end in (self.selector, self._receiver, self._sender):
            end.close()

    def _listen(self) -> None:
        while not self._stopped:
            for selected, _ in self.selector.select(self._pause()):
                _safely(selected.data)
            while self._tasks:
                _safely(self._tasks.popleft())
            for duty in self._duties:
                _safely(duty)


def _safely(task: Callable[[], None]) -> None:
    try:
        task()
    except Exception:  # one failing run must not affect others
        log.exception("the supervisor of processes continues after an error")


_MAX_IDLE = 8
_MAX_STOPS = 3
_SPARE_S = 10.0
_PROBE_S = 15.0
_REST_TURNS = 5
"""Turns of the thread after the last run, so that the next start need not wake it."""
_UNKNOWN = Limits()
"""Limits of a run that another engine started, until its warden sends them."""
OnEnd = Callable[[ProcessOutcome], None]


class _Warden:
    """A warden that this engine has a channel to."""

    __slots__ = (
        "channel",
        "identity",
        "is_given_up",
        "is_starting",
        "key",
        "silence",
        "stops",
        "walled",
        "was_stopped",
    )

    def __init__(self, channel: Channel, identity: Identity, silence: Silence, *, walled: bool = False) -> None:
        self.channel = channel
        self.identity = identity
        self.walled = walled
        self.silence = silence
        self.is_starting = False
        self.is_given_up = False
        """Whether its run is being ended from here."""
        self.key: str | None = None
        """Key of its run."""
        self.stops = 0
        """How often it was found stopped in its run. It may answer in between, whenever it is continued."""
        self.was_stopped = False
        """Whether it was stopped. It gets no other run then: the keeper counts the stops of one run."""

    def send_signal(self, number: int) -> None:
        process = proc.find(*self.identity)
        proc.send([] if process is None else [process], number)

    def is_stopped(self) -> bool:
        process = proc.find(*self.identity)
        return process is not None and proc.is_stopped(process)


class _Watched:
    """A run that has not ended, and its warden once there is one."""

    __slots__ = ("deadline", "ending", "epoch", "on_end", "run_id", "timeout_ms", "warden")

    def __init__(self, run_id: int, epoch: int, limits: Limits = _UNKNOWN, on_end: OnEnd | None = None) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.timeout_ms = limits.timeout_ms
        self.on_end = on_end
        """Gets the outcome of a command that is no run."""
        self.warden: _Warden | None = None
        self.ending: EndedBy | None = None
        """Why the run is to end."""
        self.deadline = Deadline(limits.grace_ms)


class Supervisor:
    """Forks only the keeper. A thread receives the messages of wardens; `wake` is called when a run ends."""

    def __init__(
        self,
        folder: Path,
        wake: Callable[[], None],
        *,
        incarnation: Callable[[], str] = lambda: "",
        fsync: bool = False,
        watching: Watching = WATCHING,
        clock: Callable[[], int] = proc.boot_ms,
    ) -> None:
        self._run_folder = recovery.open_private(folder)
        self.boot = proc.kernel_boot_id()
        """Identifies this boot of the machine. A caller stores it with an attempt and passes it to `reap`."""
        self.nonce = self._run_folder.nonce
        """Identifies the folder, likewise."""
        self._incarnation = incarnation
        self._names: dict[tuple[int, int], str] = {}
        """Names of the files of runs that were started under an earlier incarnation."""
        self.files = RunFiles(self._run_folder, self._name)
        self._wake = wake
        self._fsync = fsync
        self._watching = watching
        self._clock = clock
        self._time = SeenTime(clock(), watching.turn_ms)
        self._check_at = 0
        self._turns_left = 0
        self._rests = False
        """Whether the thread sleeps until something happens."""
        self._lock = threading.Lock()
        self._run_ended = threading.Condition(self._lock)
        self._probed = threading.Condition(self._lock)
        self._watched: dict[str, _Watched] = {}
        self._waiting: dict[str, LaunchMessage] = {}
        """Launches without a warden, in order."""
        self._idle: dict[bool, list[_Warden]] = {False: [], True: []}
        """Wardens without a run: without walls, and with them."""
        self._probe: Probe | None = None
        self._probe_wanted = False
        self._wardens: dict[Channel, _Warden] = {}
        self._ended: list[tuple[int, int, ProcessOutcome]] = []
        self._closed = False
        duties = self._check_supervisors, self._reach_keeper, self._request_wardens
        self._thread = ListeningThread("matins-processes", *duties, pause=self._pause)
        self._warden_pool = WardenPool(
            self._run_folder,
            self._thread.selector,
            self._on_warden,
            self._on_no_warden,
            self._on_probe,
            self._on_stopped,
            watching,
            self._time,
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
            self._watched[key] = _Watched(launch.run_id, launch.epoch, launch.limits, on_end)
            self._assign_wardens()
            wake = self._rests or bool(self._waiting)
            self._rests = False
        if wake:
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

    def renew(self, run_id: int, epoch: int, leased_at: int) -> None:
        """Let the lease of a run count since then, in boot time."""
        key = self._name(run_id, epoch)
        with self._lock:
            watched = self._watched.get(key)
            if watched is not None and watched.warden is not None:
                try_send(watched.warden.channel, {"renew": key, "at": leased_at})

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
            watched.deadline.require(ended_by, self._time.advance(self._clock()))
            if watched.warden is not None:
                try_send(watched.warden.channel, {"end": key, "for": ended_by})
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
        outcome, attached = recovery.find_outcome(self._run_folder, key, evident=evident)
        if attached is not None:
            with self._lock:
                self._watched[key] = _Watched(run_id, epoch)
            self._follow(key, attached)
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
            timeout = max((watched.deadline.grace_ms for watched in ending), default=0) / 1000 + _SPARE_S
            self._run_ended.wait_for(lambda: self._watched.keys().isdisjoint(keys), timeout)

    # -- under the lock

    def _assign_wardens(self) -> None:
        for key, launch_message in list(self._waiting.items()):
            idle = self._idle[launch_message.walled]
            if not idle:
                continue
            warden = idle.pop()
            with contextlib.suppress(OSError):  # the selector reports a dead warden
                warden.channel.send_line(launch_message.line, launch_message.files)
                warden.key = key
                self._watch(self._watched[key], warden)
                self._waiting.pop(key).close()

    def _watch(self, watched: _Watched, warden: _Warden) -> None:
        now = self._clock()
        warden.silence, warden.stops = Silence(self._time.advance(now)), 0
        watched.warden = warden
        if watched.timeout_ms is not None:
            watched.deadline.timeout_at = now + watched.timeout_ms

    def _note_times(self, watched: _Watched, times: Message) -> None:
        """What the warden said about its run: when it began, and everything about one that another engine started."""
        if "grace_ms" in times:
            watched.deadline.grace_ms = times["grace_ms"]
            if times["remaining_ms"] is not None:
                watched.deadline.timeout_at = self._clock() + times["remaining_ms"]

    # -- in the thread

    def _pause(self) -> float | None:
        """How long to wait for messages, in seconds: while there are runs, one turn."""
        if not self._watching.take_over:
            return None
        if self._watched:
            self._turns_left, self._rests = _REST_TURNS, False
        elif self._turns_left:
            self._turns_left -= 1
        else:
            with self._lock:  # a start that is not seen here sees that the thread rests
                self._rests = not self._watched
        return None if self._rests else self._watching.turn_ms / 1000

    def _check_supervisors(self) -> None:
        """Ask for signs of life once in a turn, and act for those who do not answer."""
        now = self._clock()
        if not self._watching.take_over or now < self._check_at:
            return
        self._check_at = now + self._watching.turn_ms
        with self._lock:
            at = self._time.advance(now)
        for warden in list(self._wardens.values()):
            self._check(warden, now, at)
        if self._watched or self._probe_wanted:
            self._warden_pool.check()

    def _check(self, warden: _Warden, now: int, at: int) -> None:
        if warden.key is None and not warden.is_starting:
            return
        if warden.silence.is_due(at, self._watching.heartbeat_ms):
            warden.silence.ask(at)
            try_send(warden.channel, {"heartbeat": warden.key})
        continue_ms = self._watching.continue_ms
        if warden.silence.is_to_be_continued(at, continue_ms) or self._is_given_up(warden, now, at):
            self._on_message(warden.channel)  # this thread may be late itself
        if warden.channel not in self._wardens or (warden.key is None and not warden.is_starting):
            return
        if self._is_given_up(warden, now, at):
            self._take_over(warden)
        elif warden.silence.is_to_be_continued(at, continue_ms):
            warden.silence.note_continued(at)
            warden.stops += warden.is_stopped()
            warden.send_signal(signal.SIGCONT)
            log.warning("The warden of %s does not answer; it was continued.", self._title(warden))

    def _is_given_up(self, warden: _Warden, now: int, at: int) -> bool:
        """Whether the warden is silent for too long, or lets its run go on for too long."""
        watched, watching = self._watched.get(warden.key or ""), self._watching
        if watched is not None and watched.deadline.missed_by(now, at) >= watching.late_ms:
            return True
        if warden.stops > _MAX_STOPS:
            return True
        lasts = warden.silence.lasts(at)
        return lasts >= watching.silent_ms or (lasts >= watching.stopped_ms and warden.is_stopped())

    def _title(self, warden: _Warden) -> str:
        watched = self._watched.get(warden.key or "")
        if watched is None:
            return "no run"
        return f"run {watched.run_id}" if watched.on_end is None else f"command {warden.key}"

    def _take_over(self, warden: _Warden) -> None:
        """End the run of a warden that does not. While something of it is alive, it is tried again in the next turn."""
        key, title = warden.key, self._title(warden)
        if key is None:
            warden.send_signal(signal.SIGKILL)
            self._discard(warden.channel)  # another one is requested
            return
        warden.is_given_up = True
        watched = self._watched.get(key)
        reason = (watched.deadline.reason if watched else None) or "supervisor"
        last = recovery.take_over(self._run_folder, key, warden.identity, reason)
        if last is None:
            return
        log.warning("The warden of %s does not end it; it was ended by the engine: %s.", title, reason)
        self._discard(warden.channel)
        if last:
            self._finish(key, recovery.outcome_from_last(self._run_folder, key, last))
        else:
            self._resolve(key)

    def _on_stopped(self, identity: Identity, ended: bool) -> None:
        """The keeper continued a warden, or ended its run."""
        for warden in [warden for warden in self._wardens.values() if warden.identity == identity]:
            warden.was_stopped = True
            if warden.key is not None and ended:
                self._take_over(warden)
            elif warden.key is None and not warden.is_starting:
                self._discard(warden.channel)

    def _reach_keeper(self) -> None:
        if self._probe_wanted:
            self._warden_pool.reach()

    def _request_wardens(self) -> None:
        if not self._waiting:
            return
        with self._lock:
            waiting = Counter(launch_message.walled for launch_message in self._waiting.values())
            starting = Counter(warden.walled for warden in self._wardens.values() if warden.is_starting)
        for walled, count in waiting.items():
            self._warden_pool.ensure(count - starting[walled], walled=walled)

    def _on_probe(self, probe: Probe | None) -> None:
        with self._probed:
            self._probe = probe or self._probe
            self._probe_wanted = False
            self._probed.notify_all()

    def _on_warden(self, channel: Channel, identity: Identity, walled: bool) -> None:
        warden = _Warden(channel, identity, Silence(self._time.at, asked=True), walled=walled)
        warden.is_starting = True
        self._wardens[channel] = warden
        self._register(channel)

    def _on_no_warden(self, reason: str) -> None:
        self._on_probe(None)
        for key in self._stop_waiting():
            self._resolve(key, reason, machine_error=reason)

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
        warden = self._wardens.get(channel)
        if warden is None:
            return  # it was discarded, after it had sent this
        warden.silence.hear(self._time.at)
        if "ready" in message:
            warden.is_starting = False
            self._free(warden)
        elif "ended" in message:
            if message.get("free"):
                self._free(warden)
            else:
                self._discard(channel)
            key = message["key"]
            self._finish(key, recovery.outcome_from_last(self._run_folder, key, message["ended"]))
        elif "refused" in message:
            self._free(warden)
            machine_error = recovery.machine_error(message.get("errno"))
            self._resolve(message["key"], message["refused"], machine_error=machine_error)
        elif (watched := self._watched.get(warden.key or "")) is not None:
            with self._lock:
                self._note_times(watched, message)

    def _free(self, warden: _Warden) -> None:
        if warden.was_stopped:
            self._discard(warden.channel)
            return
        with self._lock:
            warden.key = None
            idle = self._idle[warden.walled]
            idle.append(warden)
            self._assign_wardens()
            surplus = idle.pop(0) if len(idle) > _MAX_IDLE else None
        if surplus is not None:
            self._discard(surplus.channel)

    def _discard(self, channel: Channel) -> None:
        """Close the channel."""
        self._thread.selector.unregister(channel)
        channel.close()
        with self._lock:
            warden = self._wardens.pop(channel)
            idle = self._idle[warden.walled]
            if warden in idle:
                idle.remove(warden)
            if (watched := self._watched.get(warden.key or "")) is not None and watched.warden is warden:
                watched.warden = None

    def _on_lost(self, channel: Channel) -> None:
        self._warden_pool.read()  # the keeper says first why it ended a run
        warden = self._wardens.get(channel)
        if warden is not None and warden.is_given_up:
            self._take_over(warden)  # the last line is still missing
        if warden is None or channel not in self._wardens:
            return
        self._discard(channel)
        if warden.is_starting:
            self._on_no_warden(f"a warden ended at its start; the reason is in {self._run_folder.path}/{LOG}")
        elif warden.key in self._watched:
            self._resolve(warden.key)

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

    def _resolve(self, key: str, start_error: str | None = None, *, machine_error: str | None = None) -> None:
        """Find the outcome of a run without a known warden. `start_error`: why it was not started; `machine_error`:
        the reason of this machine, if it is one."""
        try:
            outcome, attached = recovery.find_outcome(self._run_folder, key)
        except OSError as error:  # not even a fence can be written
            kind = "never_started" if start_error else "unknown"
            outcome, attached = ProcessOutcome(kind, error=str(error)), None
        if attached is not None:
            self._follow(key, attached)
            return
        if outcome.kind == "orphaned":
            recovery.end_orphans(self._run_folder, key)
            outcome = outcome._replace(kind="unknown")
        if outcome.kind == "never_started" and start_error:
            outcome = outcome._replace(error=start_error, machine_error=machine_error)
        self._finish(key, outcome)

    def _follow(self, key: str, attached: recovery.Attached) -> None:
        channel = attached.channel
        with self._lock:
            at = self._time.advance(self._clock())
            warden = _Warden(channel, attached.warden, Silence(at, asked=not attached.times))
            warden.key = key
            self._wardens[channel] = warden
            if (watched := self._watched.get(key)) is not None:
                watched.warden = warden
                self._note_times(watched, attached.times)
                if watched.ending is not None:
                    try_send(channel, {"end": key, "for": watched.ending})
                    watched.deadline.require(watched.ending, at)
        self._thread.call(lambda: self._register(channel))

    def _register(self, channel: Channel) -> None:
        self._thread.selector.register(channel, selectors.EVENT_READ, lambda: self._on_message(channel))


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
