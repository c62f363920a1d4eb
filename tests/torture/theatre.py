"""The processes on a stage: started, killed, stopped and continued."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import worker
from diary import Line, Reader
from points import whose
from stage import Orders, Stage

_USUAL_START_S = 0.25
_SLOWEST = 4.0
_LONGEST_START_S = 90.0
_LOOK_S = 0.004
_STACKS_S = 1.0
Path = tuple[str, str]
"""A stage, and a life there or a scene."""
_FEW = 60
_RECKONED = ("begin", "end", "letter", "promised_run", "promised_schedule", "retired")
"""What the reckoning asks for; of the rest only the number is kept."""


@dataclass
class Process:
    pid: int
    orders: Orders
    diary: Reader
    began: float
    kill_at: float | None = None
    life: float | None = None
    """How old it gets, once it has started."""
    started: float | None = None
    pace: float = 1.0
    """How many of the machine's seconds make one of its own: more than one where others want the cores too."""
    code: int | None = None
    """How it ended: a negative number is the signal."""

    def start(self) -> None:
        self.started = time.monotonic()
        self.pace = min(max(1.0, (self.started - self.began) / _USUAL_START_S), _SLOWEST)
        if self.life is not None:
            self.kill_at = self.started + self.life * self.pace

    @property
    def age(self) -> float:
        return 0.0 if self.started is None else (time.monotonic() - self.started) / self.pace

    def look(self) -> bool:
        """Whether it is over."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def send(self, number: signal.Signals) -> None:
        if self.code is None:
            os.kill(self.pid, number)  # not waited for yet, so the pid is its own

    def stacks(self) -> str:
        """What its threads are doing."""
        self.send(signal.SIGUSR1)
        time.sleep(_STACKS_S)
        return self.diary.path.with_suffix(worker.STACKS).read_text()

    def wait(self) -> int:
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


@dataclass
class Cover:
    """Which points were passed, in which lives on which stages, and at which of them somebody died."""

    passed: dict[str, set[Path]] = field(default_factory=lambda: defaultdict(set[Path]))
    died: Counter[str] = field(default_factory=Counter[str])
    coarse: bool = False
    """Whether one death on behalf of a function stands for all of its points."""

    def hear(self, line: Line, path: Path) -> None:
        if line["kind"] == "passed":
            self.passed[line["point"]].add(path)
        elif line["kind"] == "died":
            self.died[line["point"]] += 1

    def leads(self, stage: str) -> list[str]:
        """The lives on this stage that lead to the last points at which nobody died: they come seldom by chance."""
        left = self.never()
        paths = set[Path]().union(*(self.passed[point] for point in left)) if len(left) <= _FEW else set[Path]()
        return sorted(life for where, life in paths if where == stage)

    def never(self) -> list[str]:
        """Points that somebody came by and nobody died at."""
        known = self.known()
        return sorted(point for point in self.passed if point not in known and whose(point) not in known)

    def known(self) -> frozenset[str]:
        """Points at which somebody died, or the functions that these stand for."""
        return frozenset(map(whose, self.died) if self.coarse else self.died)


@dataclass
class Theatre:
    stage: Stage
    cover: Cover
    kills: int = 0
    pauses: int = 0
    refused: int = 0
    """Writes from an older epoch that were not accepted."""
    pace: float = 1.0
    """Of the engine that started last."""
    told: Counter[str] = field(default_factory=Counter[str])
    lines: list[Line] = field(default_factory=list[Line])
    findings: list[str] = field(default_factory=list[str])
    started: int = 0
    meanwhile: Callable[[], None] = lambda: None
    """What goes on elsewhere while something is waited for here."""

    def start(self, orders: Orders, kill_after: float | None = None, *, life: float | None = None) -> Process:
        """To be killed so many seconds from now, or when it has lived so long since it started."""
        self.started += 1
        path = self.stage.folder / f"{self.started:05}.diary"
        pid = worker.fork(self.stage, orders, path)
        now, patience = time.monotonic(), _LONGEST_START_S if life is not None else kill_after
        return Process(pid, orders, Reader(path), now, None if patience is None else now + patience, life)

    def hear(self, process: Process) -> None:
        for line in process.diary.news():
            self.cover.hear(line, (self.stage.name, process.orders.life))
            self.told[line["kind"]] += 1
            if line["kind"] in _RECKONED:
                self.lines.append(line)
            if line["kind"] == "started":
                process.start()
                self.pace = process.pace
            if line["kind"] == "stale":
                self.refused += line["refused"]
            if line["kind"] in ("error", "crash"):
                self.findings.append(f"{process.orders.role}: {line}")

    def over(self, process: Process) -> bool:
        """Look after a process: kill it when its time has come; whether it is over."""
        if process.started is None and process.life is not None:
            self.hear(process)
        if process.kill_at is not None and time.monotonic() >= process.kill_at:
            process.send(signal.SIGKILL)
            process.wait()
        if not process.look():
            return False
        self.bury(process)
        return True

    def bury(self, process: Process) -> None:
        self.hear(process)
        if process.code == -signal.SIGKILL:
            self.kills += 1
            if process.diary.lines and process.diary.lines[-1]["kind"] == "passed":
                self.cover.died[process.diary.lines[-1]["point"]] += 1  # where it was killed, by chance
        elif process.code not in (0, -signal.SIGTERM, worker.BUSY, worker.UNAVAILABLE):
            self.findings.append(f"{process.orders.role} ended with {process.code}")

    def kill(self, process: Process) -> None:
        process.send(signal.SIGKILL)
        process.wait()
        self.bury(process)

    def run(self, orders: Orders) -> Process:
        """A process from beginning to end."""
        process = self.start(orders)
        while not process.look():
            self.meanwhile()
            time.sleep(_LOOK_S)
        self.bury(process)
        return process

    def run_through(self, orders: Orders) -> Process:
        """A process that dies wherever nobody has died yet, and comes again until it reaches its end."""
        while (process := self.run(replace(orders, unless=self.cover.known()))).code == -signal.SIGKILL:
            pass
        return process

    def until(self, process: Process, fine: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, or the process is over, or its time is up; whether it holds and it lives."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not process.look():
            self.hear(process)
            if fine():
                return True
            self.meanwhile()
            time.sleep(_LOOK_S)
        return False
