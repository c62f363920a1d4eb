"""What is alike for every contestant: each measure in processes of its own, seen from outside through the database.

An adapter module defines a `Contestant` and ends with `main(ThatContestant)`. Called with a measure and a task, it
prints one JSON line. It starts itself again in other roles: `prepare` fills the store and leaves; `work` opens the
scheduler, says that it is ready, begins when told, and says what it saw when told to stop.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LEAD_S = 2.0
"""From the beginning of a latency measure to its first due instant."""


@dataclass(frozen=True, slots=True)
class Task:
    """What to measure, and where. `url` is a PostgreSQL database; without it the store is a SQLite file in `folder`."""

    folder: str
    url: str | None = None
    variant: str = ""
    count: int = 100
    processes: int = 1
    threads: int = 1
    seconds: float = 10.0
    first_due: float = 0.0

    @property
    def file(self) -> Path:
        return Path(self.folder) / "store.db"

    @property
    def lines(self) -> Path:
        """What the jobs of the measure `lines` write to."""
        return Path(self.folder) / "lines"

    def dues(self) -> list[float]:
        """The instants of a latency measure, evenly spread."""
        return [round(self.first_due + nth * self.seconds / self.count, 3) for nth in range(self.count)]


class Contestant:
    """Fills the store in one process and works in another. SQL may use {count} and {now} (UTC milliseconds)."""

    left = ""
    """SQL: how many of the due things are not recorded as done."""
    recorded = ""
    """SQL: how many are."""
    poll_s = 0.25
    """Between two looks at the store. Without a write-ahead log a look holds writers up, so they are few."""

    tail_s = 2.0
    """How long the last of a latency measure may be late."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.latenesses: list[float] = []
        self._lines: int | None = None

    def prepare(self) -> None:
        """Put `count` things into the store that are due already."""
        raise NotImplementedError

    def prepare_lines(self) -> None:
        """Put `count` one-shots into the store, each with an instant and a payload of its own, that write a line."""
        raise NotImplementedError

    def prepare_latency(self) -> None:
        """Put one thing into the store for each of `task.dues()`."""
        raise NotImplementedError

    def open(self) -> None:
        """Everything that can be done before the time is taken."""

    def start(self) -> None:
        """Work from now on, in the background."""
        raise NotImplementedError

    def stop(self) -> None:
        """Work no more. The process leaves afterwards."""

    def adding_one_by_one(self) -> Callable[[int], Any]:
        """Something that adds the n-th schedule."""
        raise NotImplementedError

    def adding_in_bulk(self) -> Callable[[], Any]:
        """Something that adds `count` schedules; left out by those that know no such thing."""
        raise NotImplementedError

    def started(self, due: float) -> None:
        """What a job of a latency measure does first."""
        self.latenesses.append(time.time() - due)

    def write_line(self, key: str, nth: int) -> None:
        """What a job of the measure `lines` does."""
        if self._lines is None:
            self._lines = os.open(self.task.lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(self._lines, f"{time.time_ns()} {key} {nth}\n".encode())


class Worker:
    """An adapter in the role `work`, in a process of its own."""

    def __init__(self, script: str, task: Task) -> None:
        command = [sys.executable, script, "work", json.dumps(asdict(task))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._expect("ready")

    def go(self) -> None:
        self._tell("go")

    def stop(self) -> dict[str, Any]:
        """What it saw."""
        self._tell("stop")
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        self._process.wait()
        if not said:
            raise RuntimeError(f"a worker left with status {self._process.returncode}")
        return json.loads(said)

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if said != word:
            raise RuntimeError(f'a worker said "{said}" instead of "{word}"')

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()


class Observer:
    """A connection of its own to the contestant's store."""

    def __init__(self, task: Task) -> None:
        self._values = {"count": task.count, "now": time.time_ns() // 1_000_000}
        if task.url is None:
            name = f"file:{task.file}?mode=ro"
            self._connection: Any = sqlite3.connect(name, uri=True, isolation_level=None, timeout=30)
        else:
            import psycopg

            self._connection = psycopg.connect(task.url, autocommit=True)
            self._connection.execute("SET search_path TO public, dbos")  # the only one with a schema of its own

    def ask(self, sql: str) -> int:
        return self._connection.execute(sql.format(**self._values)).fetchone()[0]

    def close(self) -> None:
        self._connection.close()


def drain(kind: type[Contestant], script: str, task: Task, role: str = "prepare") -> dict[str, Any]:
    """Fires a second, from the word `go` until the last record is seen, and the CPU time of the workers for each."""
    in_own_process(script, role, task)
    workers = [Worker(script, task) for _ in range(task.processes)]
    observer = Observer(task)
    try:
        began = seen = time.perf_counter()
        for worker in workers:
            worker.go()
        while observer.ask(kind.left) > 0:
            seen = time.perf_counter()
            time.sleep(kind.poll_s)
            if not all(worker.alive() for worker in workers):
                raise RuntimeError("a worker is gone")
        seconds = (seen + time.perf_counter()) / 2 - began  # the end lies between two looks
        used = sum(worker.stop()["cpu_s"] for worker in workers)
    finally:
        observer.close()
        for worker in workers:
            worker.end()
    return {
        "fires_per_s": round(task.count / seconds),
        "cpu_us": round(1e6 * used / task.count, 1),
    }


def drain_and_count(kind: type[Contestant], script: str, task: Task) -> dict[str, Any]:
    return drain(kind, script, task) | {"recorded": count_afresh(kind, task), "count": task.count}


def lines(kind: type[Contestant], script: str, task: Task) -> dict[str, Any]:
    """Lines a second that jobs write, from the first to the last."""
    cpu_us = drain(kind, script, task, "prepare_lines")["cpu_us"]
    written = [line.split() for line in task.lines.read_text(encoding="utf-8").splitlines()]
    keys = {key for _, key, _ in written}
    if len(written) != task.count or len(keys) != task.count:
        raise RuntimeError(f"{len(written)} lines of {len(keys)} runs for {task.count} one-shots")
    instants = sorted(int(at) for at, _, _ in written)
    return {
        "lines_per_s": round(1e9 * task.count / (instants[-1] - instants[0])),
        "cpu_us": cpu_us,
        "count": task.count,
    }


def count_afresh(kind: type[Contestant], task: Task) -> int:
    observer = Observer(task)
    recorded = observer.ask(kind.recorded)
    observer.close()
    if recorded != task.count:
        raise RuntimeError(f"{recorded} records for {task.count} due schedules")
    return recorded


def latency(kind: type[Contestant], script: str, task: Task) -> dict[str, Any]:
    """Milliseconds from the due instant to the first line of the job."""
    in_own_process(script, "prepare_latency", task)
    worker = Worker(script, task)
    try:
        worker.go()
        time.sleep(max(0.0, task.dues()[-1] + kind.tail_s - time.time()))
        latenesses = sorted(1000 * late for late in worker.stop()["latenesses"])
    finally:
        worker.end()
    if len(latenesses) != task.count:
        raise RuntimeError(f"{len(latenesses)} fires for {task.count} due schedules")
    shares = {"p50_ms": round(at(latenesses, 0.5), 2), "p99_ms": round(at(latenesses, 0.99), 2)}
    return {"earliest_ms": round(latenesses[0], 3), **shares, "count": task.count}


def at(ordered: list[float], share: float) -> float:
    """The figure below which this share lies, by nearest rank."""
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def adding(kind: type[Contestant], script: str, task: Task) -> dict[str, Any]:
    """Schedules a second, one by one, each durable when its call returns, into a store that is empty at first."""
    return in_own_process(script, "add_one_by_one", task)


def bulk(kind: type[Contestant], script: str, task: Task) -> dict[str, Any]:
    """Schedules a second that one call adds."""
    return in_own_process(script, "add_in_bulk", task)


def add_one_by_one(contestant: Contestant) -> dict[str, Any]:
    add, count = contestant.adding_one_by_one(), contestant.task.count
    if contestant.task.threads == 1:
        return added(count, lambda: [add(nth) for nth in range(count)])
    with ThreadPoolExecutor(contestant.task.threads) as pool:
        return added(count, lambda: list(pool.map(add, range(count))))


def add_in_bulk(contestant: Contestant) -> dict[str, Any]:
    return added(contestant.task.count, contestant.adding_in_bulk())


def added(count: int, act: Callable[[], Any]) -> dict[str, Any]:
    used, began = time.process_time(), time.perf_counter()
    act()
    seconds, used = time.perf_counter() - began, time.process_time() - used
    return {"added_per_s": round(count / seconds), "cpu_us": round(1e6 * used / count, 1), "count": count}


def in_own_process(script: str, role: str, task: Task) -> Any:
    command = [sys.executable, script, role, json.dumps(asdict(task))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{role} left with status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None


def work(contestant: Contestant) -> dict[str, Any]:
    contestant.open()
    print("ready", flush=True)
    sys.stdin.readline()
    before = time.process_time()
    contestant.start()
    sys.stdin.readline()
    used = time.process_time() - before
    contestant.stop()
    return {"cpu_s": used, "latenesses": contestant.latenesses}


MEASURES: dict[str, Callable[[type[Contestant], str, Task], dict[str, Any]]] = {
    "drain": drain_and_count,
    "lines": lines,
    "latency": latency,
    "adding": adding,
    "bulk": bulk,
}
ROLES: dict[str, Callable[[Any], Any]] = {
    "prepare": lambda contestant: contestant.prepare(),
    "prepare_lines": lambda contestant: contestant.prepare_lines(),
    "prepare_latency": lambda contestant: contestant.prepare_latency(),
    "add_one_by_one": add_one_by_one,
    "add_in_bulk": add_in_bulk,
    "work": work,
}


def main(kind: type[Contestant]) -> None:
    script, name, task = sys.argv[0], sys.argv[1], Task(**json.loads(sys.argv[2]))
    if name in MEASURES:
        said: Any = MEASURES[name](kind, script, task)
    else:
        said = ROLES[name](kind(task))
    print(json.dumps(said), flush=True)
