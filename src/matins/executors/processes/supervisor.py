"""Commands as whole process trees, for an engine: start, follow, end, and find again after a crash."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from matins.errors import Conflict, InvalidInput, MatinsError
from matins.executors.processes import fates, output, proc
from matins.executors.processes.hiring import Hiring
from matins.executors.processes.home import LOG, Home
from matins.executors.processes.journal import name_of
from matins.executors.processes.links import Link, Message, close_all, tell
from matins.executors.processes.parcel import Parcel
from matins.executors.processes.values import TAIL_BYTES, EndedBy, Fate, Launch, check

log = logging.getLogger("matins")
_MOST_IDLE = 8
_SPARE_S = 10.0
_UNBORN = ""


class _Watched:
    """A run that has not ended, and the warden that is on it, once there is one."""

    __slots__ = ("ending", "epoch", "grace_ms", "link", "run_id")

    def __init__(self, run_id: int, epoch: int, grace_ms: int) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.grace_ms = grace_ms
        self.link: Link | None = None
        self.ending: EndedBy | None = None
        """Why it shall end."""


class Supervisor:
    """Never forks, but for the keeper. A thread hears what the wardens say; `wake` is called when a run has ended."""

    def __init__(self, folder: Path, wake: Callable[[], None], *, fsync: bool = False) -> None:
        self._home = _private(folder)
        self.boot = proc.boot_id()
        """Which boot of the machine this is: whoever keeps it with an attempt can give it to `reap`."""
        self._wake = wake
        self._fsync = fsync
        self._lock = threading.Lock()
        self._fewer = threading.Condition(self._lock)
        self._watched: dict[str, _Watched] = {}
        self._waiting: dict[str, Parcel] = {}
        """What has no warden yet, in order."""
        self._idle: list[Link] = []
        self._wardens: dict[Link, str | None] = {}
        """And the run that each is on; _UNBORN until it can be on one."""
        self._ended: list[tuple[int, int, Fate]] = []
        self._closed = self._left = False
        self._tasks: deque[Callable[[], None]] = deque()
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        self._rope.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ, lambda: self._bell.recv(4096))
        self._hiring = Hiring(self._home, self._selector, self._hired, self._not_hired)
        self._thread = threading.Thread(target=self._listen, name="matins-processes", daemon=True)
        self._thread.start()

    def start(self, launch: Launch) -> None:
        """At once when a warden is idle, and as soon as there is one otherwise; how it went comes by `ended`."""
        check(launch)
        key = name_of(launch.run_id, launch.epoch)
        with self._lock:
            if self._closed:
                raise MatinsError("The supervisor is closed", hint="make another one")
            if key in self._watched:
                raise Conflict(f"Run {launch.run_id} has been started with epoch {launch.epoch}", value=key)
            self._waiting[key] = Parcel(launch, fsync=self._fsync)
            self._watched[key] = _Watched(launch.run_id, launch.epoch, launch.limits.grace_ms)
            self._hand_out()
            short = bool(self._waiting)
        if short:
            self._pull_rope()

    def ended(self) -> list[tuple[int, int, Fate]]:
        """(run, epoch, fate) of what has ended since the last time."""
        with self._lock:
            ended, self._ended = self._ended, []
        return ended

    def end(self, run_id: int, epoch: int, why: EndedBy = "asked") -> None:
        """TERM, then KILL to the whole tree, also when another engine started it; the result comes by `ended`."""
        key = name_of(run_id, epoch)
        if not self._ask_to_end(key, why):
            with self._lock:
                self._watched[key] = _Watched(run_id, epoch, 0)
                self._watched[key].ending = why
            self._resolve(key)

    def _ask_to_end(self, key: str, why: EndedBy) -> bool:
        """Whether we know the run."""
        with self._lock:
            watched, parcel = self._watched.get(key), self._waiting.pop(key, None)
            if watched is None:
                return False
            watched.ending = why
            if watched.link is not None:
                tell(watched.link, {"end": key, "for": why})
        if parcel is not None:
            parcel.close()
            self._resolve(key)
        return True

    def reap(self, run_id: int, epoch: int, *, boot: str | None = None) -> Fate:
        """What became of a run whose engine is gone. One that goes on is followed from here; its end comes by `ended`.

        One that nobody has begun will never be begun. With the `boot` under which it was to start it is told apart
        from one whose journal was lost with the machine's power: that one is unknown.
        """
        key = name_of(run_id, epoch)
        with self._lock:
            if key in self._watched:
                return fates.at(self._home, key, Fate("running"))
        fate, link = fates.find(self._home, key, boot)
        if link is not None:
            with self._lock:
                self._watched[key] = _Watched(run_id, epoch, 0)
            self._follow(key, link)
        return fate

    def running(self) -> int:
        return len(self._watched)

    def tail(self, run_id: int, epoch: int, *, stream: str = output.OUT, limit: int = TAIL_BYTES) -> bytes:
        """The last bytes of its stdout, while it runs and afterwards."""
        return output.tail(self._home.run_path(name_of(run_id, epoch) + stream), limit)

    def read_output(self, run_id: int, epoch: int, offset: int, limit: int, *, stream: str = output.OUT) -> bytes:
        """From the capped file: its first bytes, as they come. A character may be cut at both ends."""
        return output.read(self._home.run_path(name_of(run_id, epoch) + stream), offset, limit)

    def read_on(self, run_id: int, epoch: int, offset: int, limit: int) -> tuple[bytes, int, int]:
        """Its stdout from an offset on, where that begins, and how much there is; beyond the capped file, the ring."""
        return output.read_on(self._home.run_path(name_of(run_id, epoch) + output.OUT), offset, limit)

    def forget(self, run_id: int, epoch: int) -> None:
        """Remove the files of a run that nobody will start or ask for any more."""
        key = name_of(run_id, epoch)
        for name in (key, *output.names(key)):
            Path(self._home.run_path(name)).unlink(missing_ok=True)

    def close(self, *, leave: bool) -> None:
        """With `leave`, what runs goes on and can be reaped by the next one; otherwise every tree ends first."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for key in self._stop_waiting():
            self._resolve(key)
        if not leave:
            self._end_all()
        self._left = True
        self._pull_rope()
        self._thread.join()
        for end in (*self._wardens, self._hiring, self._selector, self._bell, self._rope, self._home):
            end.close()

    def _end_all(self) -> None:
        with self._lock:
            everything = dict(self._watched)
        for key in everything:
            self._ask_to_end(key, "asked")
        longest = max((watched.grace_ms for watched in everything.values()), default=0) / 1000 + _SPARE_S
        with self._fewer:
            self._fewer.wait_for(lambda: not self._watched, longest)

    # -- under the lock

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            key, parcel = next(iter(self._waiting.items()))
            link = self._idle.pop()
            with contextlib.suppress(OSError):  # a dead warden's end will be heard
                link.send_line(parcel.line, parcel.files)
                self._wardens[link] = key
                self._watched[key].link = link
                self._waiting.pop(key).close()

    # -- in the thread

    def _listen(self) -> None:
        while not self._left:
            for selected, _ in self._selector.select():
                self._safely(selected.data)
            while self._tasks:
                self._safely(self._tasks.popleft())
            if self._waiting:
                self._safely(self._hire)

    def _safely(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:  # one run's trouble is not another's
            log.exception("the supervisor of processes goes on after an error")

    def _pull_rope(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is being rung already
            self._rope.send(b"\0")

    def _hire(self) -> None:
        unborn = list(self._wardens.values()).count(_UNBORN)
        self._hiring.want(len(self._waiting) - unborn)

    def _hired(self, link: Link) -> None:
        self._wardens[link] = _UNBORN
        self._register(link)

    def _not_hired(self, reason: str) -> None:
        for key in self._stop_waiting():
            self._resolve(key, reason)

    def _stop_waiting(self) -> list[str]:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for parcel in waiting.values():
            parcel.close()
        return list(waiting)

    def _hear(self, link: Link) -> None:
        messages, fds, there = link.receive()
        close_all(fds)
        for message in messages:
            self._take(link, message)
        if not there and link in self._wardens:
            self._lose(link)

    def _take(self, link: Link, message: Message) -> None:
        if "ready" in message:
            self._free(link)
            return
        key = message["key"]
        if "ended" in message:
            if message.get("free"):
                self._free(link)
            else:
                self._drop(link)
            self._finish(key, fates.told_last(self._home, key, message["ended"]))
        elif "refused" in message:
            self._free(link)
            self._resolve(key, message["refused"])

    def _free(self, link: Link) -> None:
        with self._lock:
            self._wardens[link] = None
            self._idle.append(link)
            self._hand_out()
            surplus = self._idle.pop(0) if len(self._idle) > _MOST_IDLE else None
        if surplus is not None:
            self._drop(surplus)

    def _drop(self, link: Link) -> str | None:
        """The run that it was on."""
        self._selector.unregister(link)
        link.close()
        with self._lock:
            if link in self._idle:
                self._idle.remove(link)
            return self._wardens.pop(link)

    def _lose(self, link: Link) -> None:
        key = self._drop(link)
        if key == _UNBORN:
            self._not_hired(f"a warden ended as soon as it had begun; {self._home.path}/{LOG} says why")
        elif key and (watched := self._watched.get(key)) is not None:
            watched.link = None
            self._resolve(key)

    # -- in any thread

    def _finish(self, key: str, fate: Fate) -> None:
        with self._lock:
            watched = self._watched.pop(key, None)
            if watched is None:
                return
            self._ended.append((watched.run_id, watched.epoch, fate))
            self._fewer.notify_all()
        self._wake()

    def _resolve(self, key: str, not_by_us: str | None = None) -> None:
        """It has no warden that we know: find out what became of it. We may know why we did not start it."""
        try:
            fate, link = fates.find(self._home, key)
        except OSError as error:  # not even a fence can be written
            fate, link = Fate("never_started" if not_by_us else "unknown", error=str(error)), None
        if link is not None:
            self._follow(key, link)
            return
        if fate.kind == "orphaned":
            fates.end_orphans(self._home, key)
            fate = fate._replace(kind="unknown")
        if fate.kind == "never_started" and not_by_us:
            fate = fate._replace(error=not_by_us)
        self._finish(key, fate)

    def _follow(self, key: str, link: Link) -> None:
        with self._lock:
            self._wardens[link] = key
            if (watched := self._watched.get(key)) is not None:
                watched.link = link
                if watched.ending is not None:
                    tell(link, {"end": key, "for": watched.ending})
        self._tasks.append(lambda: self._register(link))
        self._pull_rope()

    def _register(self, link: Link) -> None:
        self._selector.register(link, selectors.EVENT_READ, lambda: self._hear(link))


def _private(folder: Path) -> Home:
    home = Home(str(folder))
    if os.fstat(home.folder).st_uid != os.geteuid():
        home.close()
        raise InvalidInput(f"{folder} belongs to another user", value=str(folder), hint="name a folder of your own")
    os.fchmod(home.folder, 0o700)
    return home
