"""A supervisor with what tests need around it: runs by number, waiting for their end, and who is who."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matins.executors.processes import proc
from matins.executors.processes.launch import Launch, ProcessOutcome
from matins.executors.processes.proc import Process
from matins.executors.processes.supervisor import Supervisor

PATIENCE = 60
PYTHON = (sys.executable, "-I", "-S", "-c")


class Harness:
    def __init__(self, folder: Path, numbers: Iterator[int] | None = None, **given: Any) -> None:
        self.folder = folder
        self._numbers = numbers or itertools.count(1)
        self.rung = threading.Event()
        self.supervisor = Supervisor(folder, self.rung.set, **given)
        self.outcomes: dict[tuple[int, int], ProcessOutcome] = {}

    def launch(self, *argv: str, **given: Any) -> Launch:
        if "run_id" not in given:
            given["run_id"] = next(self._numbers)
        defaults = {"epoch": 1, "env": {"PATH": os.environ["PATH"]}, "cwd": "/"}
        return Launch(argv=argv, **{**defaults, **given})

    def start(self, *argv: str, **given: Any) -> int:
        launch = self.launch(*argv, **given)
        self.supervisor.start(launch)
        return launch.run_id

    def sh(self, script: str, **given: Any) -> int:
        return self.start("sh", "-c", script, **given)

    def wait(self, run_id: int, epoch: int = 1) -> ProcessOutcome:
        while (run_id, epoch) not in self.outcomes:
            assert self.rung.wait(PATIENCE), f"run {run_id} did not end"
            self.collect()
        return self.outcomes[run_id, epoch]

    def collect(self) -> int:
        self.rung.clear()
        ended = self.supervisor.ended()
        for run_id, epoch, outcome in ended:
            assert (run_id, epoch) not in self.outcomes, "it ended twice"
            self.outcomes[run_id, epoch] = outcome
        return len(ended)

    def run(self, *argv: str, **given: Any) -> ProcessOutcome:
        return self.wait(self.start(*argv, **given))

    def end(self, run_id: int) -> ProcessOutcome:
        self.supervisor.end(run_id, 1)
        return self.wait(run_id)

    def output(self, run_id: int) -> bytes:
        return self.supervisor.files.read(run_id, 1, 0, 1 << 24)

    # -- who is who

    def records(self, run_id: int, epoch: int = 1) -> list[dict[str, Any]]:
        text = (self.folder / "runs" / f"{run_id}-{epoch}").read_text()
        return [json.loads(line) for line in text.splitlines() if line]

    def warden(self, run_id: int) -> Process:
        return found(*self.records(run_id)[0]["warden"])

    def command(self, run_id: int) -> Process:
        """It may be heard of before its warden has written it down."""
        while len(records := self.records(run_id)) < 2:
            pass
        return found(*records[1]["pid"])

    def keeper(self) -> Process:
        return found(*map(int, (self.folder / "keeper.lock").read_text().split()))

    def wardens(self) -> list[Process]:
        keeper = self.keeper().pid
        return [process for process in proc.descendants(keeper) if process.parent == keeper]


def found(pid: int, start: int) -> Process:
    process = proc.find(pid, start)
    assert process is not None
    return process


def kill(process: Process) -> None:
    proc.send([process], signal.SIGKILL)
    assert gone(process)


def gone(process: Process) -> bool:
    return proc.wait_gone(process, PATIENCE * 1000)


class Marks:
    """Commands write lines to it, and tests read them; nobody has to sleep."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDWR)

    def line(self) -> str:
        """The next line that somebody writes."""
        said = b""
        while not said.endswith(b"\n"):
            assert select.select([self._end], [], [], PATIENCE)[0], "nobody wrote"
            said += os.read(self._end, 1)
        return said.decode().strip()

    def close(self) -> None:
        os.close(self._end)


class Gate:
    """Commands wait to read a line from it; called, it lets so many of them go."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDWR)

    def __call__(self, count: int = 1) -> None:
        os.write(self._end, b"\n" * count)

    def close(self) -> None:
        os.close(self._end)


class Held:
    """The reading end of a fifo whose other end commands hold: it shows when all of them are gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def is_let_go(self) -> bool:
        while select.select([self._end], [], [], PATIENCE)[0]:
            if not os.read(self._end, 4096):
                return True
        return False

    def is_held(self) -> bool:
        """To be asked when a line has come that was written after opening it."""
        return not select.select([self._end], [], [], 0)[0]

    def close(self) -> None:
        os.close(self._end)
