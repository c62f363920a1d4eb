"""Who is killed, stopped and continued on one stage, and when: choices from a seed."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import worker
from power import Power
from stage import LEASE_MS, Orders, Stage
from theatre import Cover, Process, Theatre

_LONGEST_STOP_S = 5 * LEASE_MS / 1000
_LONGEST_ANSWER_S = 60.0
_AFTERLIFE_S = 0.6
_LONG_S = 4.0
_MILD = ("full", "long", "end", "chance", "chance", "point", "point", "point", "point")
LIVES = ("stop", *_MILD)
"""Stopped in the middle of a job; with a full disk; long; asked to stop; killed by chance; killed at a known point."""
ON_A_FILE = ("unsound", *LIVES)
"""On a disk that loses answers to commits, as the network before a server does."""
MOSTLY_STOPS = ("stop", "stop", "stop", "long")
WITHOUT_STOPS = _MILD
WITH_AGENTS = ("long", "long", "end", "chance", "point", "point")
"""A full disk of an engine would be one of the agents that it starts, too."""
_POWER_CUTS = 0.4
_LEADS = 0.6
"""How often a life is led that led to points at which nobody died."""


@dataclass
class Stop:
    """A process that stands still, and the attempts (epochs by run) that it was in the middle of.

    With `alone`, its heir is killed before it continues: it takes its lock again, and only its epochs are old.
    """

    process: Process
    attempts: dict[int, int]
    since: float
    taken_over: bool
    alone: bool = False
    rival: Process | None = None
    continued: bool = False


class Director:
    """`engines` and `clients` at once; an engine's life is one of `lives`."""

    def __init__(
        self, stage: Stage, cover: Cover, seed: str, *, engines: int, clients: int, lives: tuple[str, ...] = LIVES
    ) -> None:
        self.stage = stage
        self.theatre = Theatre(stage, cover)
        self.planted = ""
        """The fault of Matins itself that its processes have."""
        self.followed = 0
        """How often a process went on while another was in the middle of the same run."""
        self._cover = cover
        self._rng = Random(seed)
        self._lives = lives
        self._deck: list[str] = []
        self._engines: list[Process | None] = [None] * engines
        self._clients: list[Process | None] = [None] * clients
        self._to_stop: dict[int, float] = {}
        self._to_end: dict[int, float] = {}
        self._stops: list[Stop] = []
        self._guest: Process | None = None
        self._guest_waits = False
        """Whether a guest is to come when nobody stands still, so that nobody else is stopped before."""
        self._heir = False
        self.power: Power | None = None
        """Of the machine that agents run on, if there are agents."""

    def set_stage(self) -> None:
        """Make the store and its schedules, dying at every moment of it on the way."""
        process = self._through(Orders("set_stage", ""))
        assert process.code == 0, self.theatre.findings

    def step(self) -> None:
        """Look after every process; start one where there is none."""
        for place, process in enumerate(self._engines):
            if process is None:
                self._engines[place] = self._new_engine()
            elif process not in self._stopped():
                self._look_after_engine(process)
        for place, process in enumerate(self._clients):
            if process is None:
                self._clients[place] = self._new_client()
            elif self.theatre.over(process):
                self._clients[place] = None
        for stop in list(self._stops):
            self._look_after(stop)

    def kill_all(self) -> None:
        rivals = [stop.rival for stop in self._stops]
        left = [*self._engines, *self._clients, *self._stopped(), *rivals, self._guest]
        for process in left:
            if process is not None and process.code is None:
                self.theatre.kill(process)
        self._engines = [None] * len(self._engines)
        self._clients = [None] * len(self._clients)
        self._stops, self._to_stop, self._to_end = [], {}, {}
        if self.power is not None:
            self.power.end_agents()

    def finish(self) -> int:
        """Kill all, then let one engine bring everything to its end; the instant from which it worked. It dies at new
        points, unless there was no time for those that were known."""
        self.kill_all()
        run = self.theatre.run if self._cover.never() else self._through
        while True:
            boot = None if self.power is None else self.power.boot
            settled = run(Orders("settle", "", planted=self.planted, boot=boot))
            if settled.code == 0:
                return next(line["began"] for line in settled.diary.lines if line["kind"] == "settled")
            assert settled.code == worker.UNAVAILABLE, self.theatre.findings

    def _through(self, orders: Orders) -> Process:
        return self.theatre.run(orders) if self.planted else self.theatre.run_through(orders)

    def guest(self, *, hunts: bool, **words: Any) -> Process | None:
        """An engine in the first place that is told from outside what to do; None while somebody stands still. One that
        hunts dies where nobody has died yet, as the others do."""
        self._guest_waits = bool(self._stops)
        if self._guest_waits:
            return None
        first = self._engines[0]
        if first is not None:
            self.theatre.kill(first)
            self._forget(first)
        orders = Orders("engine", str(self._rng.random()), unless=self._cover.known() if hunts else None, **words)
        self._guest = self.theatre.start(orders, _LONGEST_ANSWER_S)
        return self._guest

    def _new_client(self) -> Process:
        at = self._rng.choice(sorted(self._cover.died)) if self._cover.died else None
        return self._start("client", self._rng.uniform(0.01, 0.6), at=at)

    # -- engines

    def _new_engine(self) -> Process:
        rng, kind = self._rng, self._next_kind()
        if self.power is not None and rng.random() < _POWER_CUTS:
            self.power.cut()
        if kind == "long":
            return self._start("engine", _LONG_S, life=kind)
        if kind == "stop":
            process = self._start("engine", _LONG_S, life=kind, hunts=self.theatre.refused > 0)
            self._to_stop[process.pid] = rng.uniform(0.1, 1.4)
            return process
        if kind in ("full", "unsound"):
            return self._start("engine", rng.uniform(1.5, 2.5), life=kind)
        if kind == "end":
            process = self._start("engine", _LONG_S, life=kind)
            self._to_end[process.pid] = rng.uniform(0.0, 0.9)
            return process
        if kind == "chance":
            return self._start("engine", rng.uniform(0.02, 1.0), life=kind)
        at = rng.choice(sorted(self._cover.died)) if self._cover.died else None
        return self._start("engine", rng.uniform(0.8, 2.0), life=kind, at=at)

    def _next_kind(self) -> str:
        """Every kind of life comes up again and again."""
        if self._heir:
            self._heir = False
            return "long"
        if "stop" in self._lives and not self.theatre.refused and self._rng.random() < 0.3:
            return "stop"  # only who stood still writes what is old
        leads = [life for life in self._cover.leads(self.stage.name) if life in self._lives]
        if leads and self._rng.random() < _LEADS:
            return self._rng.choice(leads)
        if not self._deck:
            self._deck = list(self._lives)
            self._rng.shuffle(self._deck)
        return self._deck.pop()

    def _start(
        self,
        role: str,
        seconds: float,
        *,
        life: str = "",
        hunts: bool = True,
        at: str | None = None,
    ) -> Process:
        """To die when its time is up, or before: at a point, or (if it hunts) wherever nobody has died yet. An engine's
        time begins when it has started, unless it is killed by chance."""
        passage, seed = self._rng.choice((1, 1, 2, 3, 5)), str(self._rng.random())
        unless = self._cover.known() if hunts and not self.planted else None
        threads = self._rng.choice((2, 2, 8))  # with few of them runs have to wait, and are given back
        boot = None if self.power is None else self.power.boot
        orders = Orders(
            role, seed, at, passage, unless, life == "full", self.planted, threads,
            boot=boot, unsound_disk=life == "unsound", life=life or role,
        )  # fmt: skip
        if role == "engine" and life != "chance":
            return self.theatre.start(orders, life=seconds)
        return self.theatre.start(orders, seconds * self.theatre.pace)

    def _look_after_engine(self, process: Process) -> None:
        if process.age >= self._to_end.get(process.pid, 1e18):
            process.send(signal.SIGTERM)
            del self._to_end[process.pid]
        if process.age >= self._to_stop.get(process.pid, 1e18):
            self.theatre.hear(process)
            attempts = process.diary.in_flight()
            enough_others = len(self._stops) < max(1, len(self._engines) // 2)
            if attempts and enough_others and not self._guest_waits and not process.look():
                self._stop(process, attempts)
                return
            self._to_stop[process.pid] = process.age + self._rng.uniform(0.02, 0.1)
        if self.theatre.over(process):
            self._forget(process)

    def _forget(self, process: Process) -> None:
        self._engines[self._engines.index(process)] = None
        self._to_stop.pop(process.pid, None)
        self._to_end.pop(process.pid, None)

    # -- stops

    def _stopped(self) -> list[Process]:
        return [stop.process for stop in self._stops]

    def _stop(self, process: Process, attempts: list[tuple[int, int]]) -> None:
        """Hold a process still in the middle of a job.

        Nobody can follow the owner of a SQLite file while it stands still. So now and then its lock is deleted, and its
        socket, at which a second engine would see it.
        """
        process.send(signal.SIGSTOP)
        process.kill_at = None
        del self._to_stop[process.pid]
        self.theatre.pauses += 1
        taken_over = self.stage.sqlite and (self.planted == "no-epochs" or self._rng.random() < 0.7)
        alone = taken_over and (self.planted == "no-epochs" or self._rng.random() < 0.7)
        stop = Stop(process, dict(attempts), time.monotonic(), taken_over, alone)
        self._stops.append(stop)
        if taken_over:
            for ending in (".lock", ".sock"):
                Path(f"{self.stage.database}{ending}").unlink(missing_ok=True)
            self._engines[self._engines.index(process)] = None
            self._heir = True
        elif self.stage.sqlite:
            stop.rival = self._start("engine", _LONGEST_ANSWER_S)

    def _look_after(self, stop: Stop) -> None:
        now = time.monotonic()
        if stop.rival is not None and self.theatre.over(stop.rival):
            if stop.rival.code not in (worker.BUSY, worker.UNAVAILABLE):
                self.theatre.findings.append(f"a second engine on one file ended with {stop.rival.code}")
            stop.rival = None
        # While its rival has not answered the owner stays where it is: else the lock may be free by then.
        longest = _LONGEST_STOP_S * stop.process.pace
        waited = stop.rival is None and now - stop.since > longest
        heir = None if stop.continued else self._heir_of(stop)
        if not stop.continued and (waited or heir is not None):
            self.followed += now - stop.since <= longest
            if heir is not None and stop.alone:
                self.theatre.kill(heir)
                self._forget(heir)
            stop.process.send(signal.SIGCONT)
            stop.process.kill_at = now + _AFTERLIFE_S * stop.process.pace
            stop.continued = True
        if stop.continued and stop.rival is None and self.theatre.over(stop.process):
            self._stops.remove(stop)
            if stop.process in self._engines:
                self._engines[self._engines.index(stop.process)] = None

    def _heir_of(self, stop: Stop) -> Process | None:
        """The process that is in the middle of one of the same runs, under a later epoch."""
        for other in (process for process in self._engines if process is not None and process is not stop.process):
            self.theatre.hear(other)
            if any(stop.attempts.get(run, epoch) < epoch for run, epoch in other.diary.in_flight()):
                return other
        return None
