"""The processes on a stage: started, killed, stopped and continued."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field

import worker
from diary import Line, Reader
from stage import Orders, Stage


@dataclass
class Process:
    pid: int
    orders: Orders
    diary: Reader
    began: float
    kill_at: float | None = None
    code: int | None = None
    """How it ended: a negative number is the signal."""

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

    def wait(self) -> int:
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


@dataclass
class Cover:
    """Which points were passed, by how many processes, and at which of them somebody died."""

    passed: Counter[str] = field(default_factory=Counter[str])
    died: Counter[str] = field(default_factory=Counter[str])

    def hear(self, line: Line) -> None:
        if line["kind"] == "passed":
            self.passed[line["point"]] += 1
        elif line["kind"] == "died":
            self.died[line["point"]] += 1

    def never(self) -> list[str]:
        """Points that somebody came by and nobody died at."""
        return sorted(self.passed.keys() - self.died.keys())


@dataclass
class Theatre:
    stage: Stage
    cover: Cover
    kills: int = 0
    pauses: int = 0
    refused: int = 0
    """Writes from an older epoch that were not accepted."""
    lines: list[Line] = field(default_factory=list[Line])
    findings: list[str] = field(default_factory=list[str])
    _started: int = 0

    def start(self, orders: Orders, kill_after: float | None = None) -> Process:
        self._started += 1
        path = self.stage.folder / f"{self._started:05}.diary"
        pid = worker.fork(self.stage, orders, path)
        now = time.monotonic()
        return Process(pid, orders, Reader(path), now, None if kill_after is None else now + kill_after)

    def hear(self, process: Process) -> None:
        for line in process.diary.news():
            self.cover.hear(line)
            self.lines.append(line)
            if line["kind"] == "stale":
                self.refused += line["refused"]
            if line["kind"] in ("error", "crash"):
                self.findings.append(f"{process.orders.role}: {line}")

    def over(self, process: Process) -> bool:
        """Look after a process: kill it when its time has come; whether it is over."""
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
        elif process.code not in (0, -signal.SIGTERM, worker.BUSY, worker.UNAVAILABLE):
            self.findings.append(f"{process.orders.role} ended with {process.code}")

    def kill(self, process: Process) -> None:
        process.send(signal.SIGKILL)
        process.wait()
        self.bury(process)

    def run(self, orders: Orders) -> Process:
        """A process from beginning to end."""
        process = self.start(orders)
        process.wait()
        self.bury(process)
        return process
