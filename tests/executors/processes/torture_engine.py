"""A small engine for the torture: starts runs one after the other, writes down what it means to do, and is killed.

python torture_engine.py FOLDER WORK|FINISH
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from matins.executors.processes.launch import Launch, Limits, ProcessOutcome
from matins.executors.processes.supervisor import Supervisor
from matins.executors.processes.watching import Watching

AT_ONCE = 6
WATCHING = Watching(turn_ms=100, heartbeat_ms=500, keeper_continue_ms=1_000)
"""A keeper that was stopped is needed soon."""
SCRIPT = 'echo "$KEY" >> effects; case $HOW in daemon) (setsid sleep 300 &);; slow) sleep 0.05;; esac; exit $CODE'
HOWS = ("quick", "slow", "daemon", "slow", "quick")


def code_of(run_id: int) -> int:
    return run_id % 7


class Engine:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._diary = os.open(folder / "diary", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._rung = threading.Event()
        self._supervisor = Supervisor(folder / "processes", self._rung.set, watching=WATCHING)

    def note(self, kind: str, run_id: int, *more: Any) -> None:
        """In the diary, and for whoever waits to kill us at such a moment."""
        os.write(self._diary, (json.dumps([kind, run_id, *more]) + "\n").encode())
        os.write(1, f"{kind}\n".encode())

    def reap(self) -> int:
        """What earlier engines, or the one beside us, meant to do and have not told the end of; the last run of all."""
        meant, told = set[int](), set[int]()
        for kind, run_id, *_ in read_diary(self._folder):
            (told if kind == "fate" else meant).add(run_id)
        for run_id in sorted(meant - told):
            outcome = self._supervisor.reap(run_id, 1)
            self.note("reaped", run_id, outcome.kind)
            if outcome.kind == "orphaned":
                self._supervisor.end(run_id, 1)
            elif outcome.kind != "running":
                self.tell(run_id, outcome)
        return max(meant, default=0)

    def tell(self, run_id: int, outcome: ProcessOutcome) -> None:
        self.note("fate", run_id, outcome.kind, outcome.exit_code)

    def collect(self) -> None:
        self._rung.wait()
        self._rung.clear()
        for run_id, _, outcome in self._supervisor.ended():
            self.tell(run_id, outcome)

    def start(self, run_id: int) -> None:
        how = HOWS[run_id % len(HOWS)]
        env = {"PATH": os.environ["PATH"], "KEY": str(run_id), "HOW": how, "CODE": str(code_of(run_id))}
        env["FOLDER"] = str(self._folder)  # so that nobody can be left over unseen
        argv = ("sh", "-c", SCRIPT)
        limits = Limits(timeout_ms=60_000, grace_ms=1_000)
        self.note("meant", run_id)
        self._supervisor.start(Launch(run_id, 1, argv, env, str(self._folder), b"prompt", limits))
        self.note("started", run_id)

    def work(self) -> None:
        run_id = self.reap()
        while True:
            while self._supervisor.running() < AT_ONCE:
                run_id += 1
                self.start(run_id)
            self.collect()

    def finish(self) -> None:
        self.reap()
        while self._supervisor.running():
            self.collect()
        for run_id, _, outcome in self._supervisor.ended():
            self.tell(run_id, outcome)
        self._supervisor.close(leave_running=False)


def read_diary(folder: Path) -> list[list[Any]]:
    """The last line may have been cut short."""
    *lines, _ = (folder / "diary").read_text().split("\n")
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    engine = Engine(Path(sys.argv[1]))
    engine.work() if sys.argv[2] == "WORK" else engine.finish()
