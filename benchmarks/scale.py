"""How far Matins goes: engines on one PostgreSQL, many schedules, limits, herds, and a long history.

It prints one JSON line for each figure. Nothing passes or fails. `benchmarks/README.md` says what is
measured. Everything runs on one server, which is started for it; peers drain on the same one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import durable
import durable_adapter as adapter
import psycopg
from durable_adapter import Observer, Task, Worker, at, in_own_process
from durable_matins import LIMITED, OfMatins

SCRIPT = str(Path(__file__).with_name("durable_matins.py"))
MEASURES = ("drain", "latency", "herd", "history", "peers")
DUE, HERD = 10_000, 10_000
LOOK_S = 0.05
PEERS = ("Matins", "Oban", "Oban, 2 processes", "Procrastinate", "Procrastinate, 4 processes", "DBOS")
TICKS = os.sysconf("SC_CLK_TCK")


def named(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


class Server:
    """The server of the measures: new databases, copies of filled ones, its CPU time, and what it waits for."""

    def __init__(self, folder: Path) -> None:
        self.databases = durable.Databases(folder)
        self.url = self.databases.new()
        self._made = 0
        with psycopg.connect(self.url, autocommit=True) as connection:
            (data,) = connection.execute("SHOW data_directory").fetchone() or ("",)
        self._postmaster = int((Path(data) / "postmaster.pid").read_text().splitlines()[0])

    def database(self, template: str | None = None) -> str:
        """The URL of a new database, empty or a copy."""
        if template is None:
            return self.databases.new()
        self._made += 1
        name = f"copy_{self._made}"
        self._ask(f"CREATE DATABASE {name} TEMPLATE {named(template)}")
        url = urlsplit(self.url)._replace(path=f"/{name}").geturl()
        with psycopg.connect(url, autocommit=True) as connection:  # engines would take it for the same, set back
            connection.execute("UPDATE meta SET value = substr(md5(random()::text), 1, 16) WHERE key = 'store_id'")
        return url

    def drop(self, url: str) -> None:
        self._ask(f"DROP DATABASE {named(url)} WITH (FORCE)")

    def settle(self) -> None:
        """Write what is behind, so that no measure pays for the one before."""
        self._ask("CHECKPOINT")

    def cpu_s(self) -> float:
        """CPU time of all processes of the server, with those that have ended."""
        used = 0
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(folder.name) == self._postmaster:
                used += sum(map(int, fields[11:15]))
            elif int(fields[1]) == self._postmaster:
                used += int(fields[11]) + int(fields[12])
        return used / TICKS

    def commits(self, url: str) -> int:
        """How many transactions wrote something; looks are none of them."""
        with psycopg.connect(url) as connection:
            (number,) = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or (0,)
        return number

    def close(self) -> None:
        self.databases.close()

    def _ask(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]


class Waits:
    """What the backends of a database do, looked at twenty times a second."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._found: Counter[str] = Counter()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        asked = """SELECT CASE WHEN state = 'active' THEN coalesce(wait_event_type || ':' || wait_event, 'CPU')
          ELSE 'client' END FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"""
        while not self._done.wait(LOOK_S):
            self._found.update(row[0] for row in self._connection.execute(asked))

    def shares(self) -> dict[str, int]:
        """In per cent of the looks at a backend in a transaction; `client` waits for its engine."""
        self._done.set()
        self._thread.join()
        self._connection.close()
        total = self._found.total() or 1
        return {what: round(100 * often / total) for what, often in self._found.most_common(4)}


def filled(server: Server, count: int) -> str:
    """The URL of a database with so many schedules that are not due for hours, made by one that was added."""
    url = server.database()
    in_own_process(SCRIPT, "fill_far", Task("", url, count=1))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT setval('schedule_ids', %s)", (count,))
        for table, columns in (
            ("schedules", "agent, state, rev, created_at, created_by, creator_role, depth, updated_at"),
            ("revisions", "rev, definition"),
            ("due", "next_slot, due_at, rev, paused"),
        ):
            key = "id" if table == "schedules" else "schedule_id"
            name, value = (", name", ", 'far ' || n") if table == "schedules" else ("", "")
            connection.execute(
                f"INSERT INTO {table} ({key}{name}, {columns}) SELECT n{value}, {columns} "
                f"FROM {table}, generate_series(2, {count}) n WHERE {key} = 1"  # type: ignore[arg-type]
            )
        connection.execute("VACUUM ANALYZE")
    return url


def drain(server: Server, url: str | None, engines: int, variant: str, count: int) -> dict[str, Any]:
    """Fires a second from the word `go`; CPU of engines and server for each; what the server waits for."""
    with tempfile.TemporaryDirectory() as folder:
        task = Task(folder, url, variant, count, engines)
        in_own_process(SCRIPT, "prepare", task)
        server.settle()
        if url is None:
            return _drained(task)
        before, committed = server.cpu_s(), server.commits(url)
        waits = Waits(url)
        reached = _drained(task)
        reached["server_us"] = round(1e6 * (server.cpu_s() - before) / count, 1)
        reached["fires_a_commit"] = round(count / (server.commits(url) - committed), 1)
        adapter.count_afresh(OfMatins, task)
        return reached | {"waits": waits.shares()}


def _drained(task: Task) -> dict[str, Any]:
    workers = [Worker(SCRIPT, task) for _ in range(task.processes)]
    observer = Observer(task)
    try:
        began = seen = time.perf_counter()
        for worker in workers:
            worker.go()
        while observer.ask(OfMatins.left) > 0:
            seen = time.perf_counter()
            time.sleep(2 * LOOK_S)
        seconds = (seen + time.perf_counter()) / 2 - began
        used = sum(worker.stop()["cpu_s"] for worker in workers)
    finally:
        observer.close()
        for worker in workers:
            worker.end()
    return {"fires_per_s": round(task.count / seconds), "engine_us": round(1e6 * used / task.count, 1)}


def starts(url: str, engines: int, count: int, seconds: float, variant: str = "") -> dict[str, Any]:
    """How long after their instants runs start, in milliseconds: spread over so many seconds, or all at once."""
    first = time.time() + 30 + count / 250
    with tempfile.TemporaryDirectory() as folder:
        task = Task(folder, url, variant, count, engines, seconds=seconds, first_due=first)
        in_own_process(SCRIPT, "prepare_latency", task)
        workers = [Worker(SCRIPT, task) for _ in range(engines)]
        try:
            for worker in workers:
                worker.go()
            if time.time() > first - 0.5:
                raise RuntimeError("the machine is too busy to be ready in time")
            time.sleep(max(0.0, first + seconds + 0.1 - time.time()))
            observer = Observer(task)  # it counts what is due by now
            while observer.ask(OfMatins.left) > 0:
                time.sleep(0.2)
            observer.close()
            told = [worker.stop() for worker in workers]
        finally:
            for worker in workers:
                worker.end()
    late = sorted(1000 * one for worker in told for one in worker["latenesses"])
    if len(late) != count:
        raise RuntimeError(f"{len(late)} starts for {count} due schedules")
    return {"p50_ms": round(at(late, 0.5), 1), "p99_ms": round(at(late, 0.99), 1), "last_ms": round(late[-1], 1)}


def drains(server: Server, fills: dict[int, str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    cells: list[tuple[int, int, str]] = [
        (many, engines, variant)
        for many in fills
        for engines in options.engines
        for variant in ("", LIMITED)
        if not (variant and many == max(fills) and len(fills) > 1)
    ]
    if 0 in fills or options.sqlite:
        cells += [(-1, 1, ""), (-1, 1, LIMITED)]
    random = Random(0)
    for nth in range(options.rounds):
        random.shuffle(cells)
        for many, engines, variant in cells:
            url = None if many < 0 else server.database(fills[many])
            about = {"measure": "drain", "store": "SQLite" if url is None else "PostgreSQL", "schedules": max(many, 0)}
            told = about | {"engines": engines, "variant": variant, "round": nth, "load": round(os.getloadavg()[0], 1)}
            yield told | attempt(lambda: drain(server, url, engines, variant, options.due))  # noqa: B023
            if url is not None:
                server.drop(url)


def latencies(server: Server, fills: dict[int, str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """100 fires over six seconds beside idle schedules, and a herd at one instant."""
    for measure, count, seconds in (("latency", 100, 6.0), ("herd", options.due, 0.0)):
        if measure not in options.only:
            continue
        for many in [max(fills) if measure == "latency" else min(fills)]:
            for engines in options.engines:
                url = server.database(fills[many])
                about = {"measure": measure, "schedules": many, "engines": engines, "count": count}
                about["load"] = round(os.getloadavg()[0], 1)
                yield about | attempt(lambda: starts(url, engines, count, seconds))  # noqa: B023
                server.drop(url)


def history(server: Server, runs: int) -> dict[str, Any]:
    """Reads and pruning in a history of so many runs, each with its attempt, evenly over 100 days: COPY from one server
    process to the other, as a restore does it. The log has no events of them."""
    url, schedules = server.database(), 1_000
    in_own_process(SCRIPT, "fill_history", Task("", url, count=schedules))
    now = time.time_ns() // 1_000_000
    step = max(1, 100 * 86_400_000 // runs)
    began = time.perf_counter()
    first = f"SELECT n AS id, 1 + n % {schedules} AS schedule_id, {now} - ({runs} - n) * {step} AS at"
    rows = {
        "runs (id, schedule_id, rev, slot, state, exclusive, epoch, attempt, owner, planned_at, started_at, ended_at,"
        " slots)": "id, schedule_id, 1, at, 10, 1, 1, 1, 1, at, at, at + 5, 1",
        "attempts (run_id, epoch, owner, started_at)": "id, 1, 1, at",
    }
    with psycopg.connect(url, autocommit=True) as reader, psycopg.connect(url, autocommit=True) as writer:
        for table, columns in rows.items():
            source = f"{first} FROM generate_series(1::bigint, {runs}) n"
            out = f"COPY (SELECT {columns} FROM ({source}) s) TO STDOUT"
            with (
                reader.cursor().copy(out) as given,  # type: ignore[arg-type]
                writer.cursor().copy(f"COPY {table} FROM STDIN") as taken,  # type: ignore[arg-type]
            ):
                for block in given:
                    taken.write(block)
        writer.execute("SELECT setval('run_ids', %s)", (runs,))
        writer.execute("VACUUM ANALYZE runs")
        writer.execute("VACUUM ANALYZE attempts")
    filled_s = round(time.perf_counter() - began)
    return {"runs": runs, "filled_s": filled_s, **in_own_process(SCRIPT, "read_history", Task("", url))}


def attempt(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return measure()
    except RuntimeError as error:
        return {"failed": str(error)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Engines on one PostgreSQL, many schedules, limits, herds, history.")
    parser.add_argument("--only", action="append", choices=MEASURES, help="this measure; may be given several times")
    parser.add_argument("--schedules", type=int, nargs="+", default=[100_000, 1_000_000], help="idle ones beside")
    parser.add_argument("--engines", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--due", type=int, default=DUE, help="schedules that are due, in a drain")
    parser.add_argument("--history", type=int, default=10_000_000, help="runs of the history")
    parser.add_argument("--minutes", type=float, default=600, help="what has not begun by then is left out, and said")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sqlite", action="store_true", help="drains on SQLite, too")
    parser.add_argument("--folder", type=Path, help="where the server keeps its data; its disk is what is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON lines to this file as well")
    options = parser.parse_args()
    options.only = options.only or list(MEASURES)
    return options


def peers(folder: Path, server: Server) -> Iterator[dict[str, Any]]:
    """Drains of others, and of Matins, on the same server in the same run."""
    for entry in durable.ENTRIES:
        if (entry.measure, entry.store) == ("drain", durable.POSTGRES) and entry.name in PEERS:
            before = server.cpu_s()
            told = durable.run(entry, folder, server.databases)
            told["server_us"] = round(1e6 * (server.cpu_s() - before) / entry.count, 1)
            yield {"measure": "peers", "contestant": entry.name, "load": round(os.getloadavg()[0], 1)} | told


def measure(server: Server, folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All measures, until the minutes are over."""
    end, fills = time.monotonic() + 60 * options.minutes, dict[int, str]()
    if {"drain", "latency", "herd"}.intersection(options.only):
        fills = {count: filled(server, count) for count in options.schedules}
    parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "peers": lambda: peers(folder, server),
        "drain": lambda: drains(server, fills, options),
        "latency": lambda: latencies(server, fills, options),
        "history": lambda: iter([{"measure": "history"} | attempt(lambda: history(server, options.history))]),
    }
    for name, part in parts.items():
        if name not in options.only and not (name == "latency" and "herd" in options.only):
            continue
        if time.monotonic() > end:
            yield {"measure": name, "failed": f"left out, because {options.minutes:g} minutes were over"}
            continue
        for record in part():
            yield record
            if time.monotonic() > end:
                yield {"measure": name, "failed": f"cut, because {options.minutes:g} minutes were over"}
                break


def main() -> None:
    options = arguments()
    durable.compiled(durable.ROOT / "src")
    folder = Path(tempfile.mkdtemp(prefix="matins-scale-", dir=options.folder))
    server = Server(folder / "postgres")
    lines: list[str] = []

    def say(record: dict[str, Any]) -> None:
        lines.append(json.dumps(record))
        print(lines[-1], flush=True)

    try:
        say(durable.machine() | durable.disk(folder))
        for record in measure(server, folder, options):
            say(record)
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
