"""The API under load from a second process, while schedules fire: reads and creations a second, and how late fires are.

The server is one process: engine, SQLite file, HTTP. This one sends requests over a few connections that stay open and
checks every answer. One JSON line is printed for each measure, then a table and the aims.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

READS_AIM, CREATIONS_AIM = 2_500, 300
PAGE_AIM_US = 2_000
"""CPU time of the server for a page of 50 schedules, with what fires meanwhile."""
LATE_AIM_MS = 10
"""p99 of a fire while the API is under load."""
TIMELINE_AIM_MS, FIRST_BYTE_AIM_MS = 50, (100, 200)
"""p50 of one request at a time; of a page with up to 1,000 schedules, and with more."""
PERCENTILES = (50, 99)
MIXTURE = {
    "read one schedule": 27,
    "read a page of 50 schedules": 5,
    "read the newest 20 runs": 3,
    "create a schedule": 3,
    "the timeline": 1,
    "the page: now": 1,
}
MIXED = "all of it, mixed"
_BUSY_ASKER = 0.9


# -- the server


FIRES: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"retries": 2, "payload": {"n": 1}}, {"overlap": "queue"}, {"job": "await"},
    {"when": "every 1s"}, {"when": "every 1s", "anchor": "grid", "max_executions": 1_000_000},
    {"quiet_hours": "night"}, {"timeout": "1m", "ends_at": "2099-01-01T00:00:00Z"},
)  # fmt: skip
"""What fires every second, in turn: plain jobs, and such as have gates, bounds, or intervals that count from a run."""


def fire(number: int) -> dict[str, Any]:
    return {"name": f"fire-{number}", "when": "* * * * * *", "job": "note", **FIRES[number % len(FIRES)]}


def serve(folder: Path, schedules: int, firing: int, *, governed: bool) -> None:
    """Until stdin ends. A line on stdin asks for the latenesses since the last one, and the CPU time so far."""
    from matins import Matins
    from matins.daemon.daemon import favour_fires
    from matins.service.idempotency import IdempotencyStore
    from matins.service.sign_in import SessionVerifier
    from matins.service.tokens import TokenVerifier
    from matins.surfaces.http.app import build_app
    from matins.surfaces.http.server import Server, bind
    from matins.surfaces.http.server_routes import Health
    from matins.web.app import Pages

    late: list[float] = []
    matins = Matins(f"sqlite:///{folder}/matins.db")

    @matins.job("note")
    def note(run: Any) -> None:
        if run.slot is not None:
            late.append(time.time() * 1000 - run.slot.timestamp() * 1000)

    matins.add_many([{"name": f"idle-{n}", "when": "0 0 1 1 *", "job": "note"} for n in range(schedules)])

    @matins.job("await")
    async def note_awaited(run: Any) -> None:
        note(run)

    matins.quiet_hours.set("night", windows="03:00-03:01")
    if governed:
        matins.budgets.set("all", max_cost="$1000", period="day")
    matins.add_many([fire(n) for n in range(firing)])
    matins.start()
    listening = bind("127.0.0.1", 0)
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    clock, store = matins.clock, matins.store
    app = build_app(
        matins,
        TokenVerifier(store, clock),
        IdempotencyStore(store, clock),
        hosts=[host],
        origins=[],
        health=Health(matins, clock),
        sessions=SessionVerifier(store, clock),
        parts=[Pages(clock)],
    )
    server = Server(app, listening)
    server.start()
    favour_fires()
    told = {"host": host, "token": matins.tokens.create("load").token}
    print(json.dumps(told), flush=True)
    for _ in sys.stdin:
        taken, late[:] = list(late), []
        print(json.dumps([taken, time.process_time()]), flush=True)
    server.stop()
    matins.close()


class House:
    """The server, from outside."""

    def __init__(self, folder: Path, schedules: int, firing: int, *, governed: bool) -> None:
        command = [sys.executable, __file__, "--serve", str(folder), *["--governed"][: int(governed)]]
        command += ["--schedules", str(schedules), "--firing", str(firing)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = self._line()
        self.host, self.token = told["host"], told["token"]

    def _line(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def latenesses(self) -> tuple[list[float], float]:
        """Since the last look, in milliseconds; and the CPU time of the server so far."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        late, cpu_s = self._line()
        return late, cpu_s

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


# -- the load


class Ask(NamedTuple):
    method: str
    path: str
    body: bytes = b""
    key: str | None = None
    status: int = 200


class Measured(NamedTuple):
    per_s: float
    took_ms: list[float]
    late_ms: list[float]
    cpu_us: float
    """Of the server, for each request; what fires meanwhile is in it."""
    asker_us: float = 0
    """Of the process that asks, for each request."""
    asker_share: float = 0
    """Of one core: near 1 the asker is the limit, and not the server."""


class Connection:
    """One that stays open, with one request under way. Plain sockets, since the asker shares the machine's cores."""

    def __init__(self, house: House) -> None:
        host, _, port = house.host.partition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"Host: {house.host}\r\nAuthorization: Bearer {house.token}\r\nContent-Type: application/json\r\n"
        self._received, self._length = bytearray(), 0

    def send(self, ask: Ask) -> None:
        self.ask, self.begun, self._length = ask, time.perf_counter(), 0
        self._received.clear()
        key = f"Idempotency-Key: {ask.key}\r\n" if ask.key else ""
        start = f"{ask.method} {ask.path} HTTP/1.1\r\n{self._head}{key}Content-Length: {len(ask.body)}\r\n\r\n"
        self.socket.sendall(start.encode() + ask.body)

    def receive(self) -> bool:
        """Whether the answer is there."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise RuntimeError(f"{self.ask.method} {self.ask.path}: the connection was closed")
        self._received += part
        if not self._length:
            head, end, _ = self._received.partition(b"\r\n\r\n")
            if not end:
                return False
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            self._length = len(head) + len(end) + length
        return len(self._received) >= self._length

    def wrong(self) -> str | None:
        """What is wrong with the answer."""
        status = int(self._received[9:12])
        asked = f"{self.ask.method} {self.ask.path}"
        return None if status == self.ask.status else f"{asked}: {status} {bytes(self._received[-300:])!r}"


def load(house: House, asks: Callable[[], Ask], seconds: float, connections: int) -> tuple[float, list[float]]:
    took: list[float] = []
    wrong: list[str] = []
    begun = time.perf_counter()
    until = begun + seconds
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            connection = Connection(house)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send(asks())
        while selector.get_map():
            for key, _ in selector.select():
                connection = key.data
                if not connection.receive():
                    continue
                now = time.perf_counter()
                took.append((now - connection.begun) * 1000)
                wrong += filter(None, [connection.wrong()])
                if now < until:
                    connection.send(asks())
                else:
                    selector.unregister(connection.socket)
                    connection.socket.close()
    if wrong:
        raise RuntimeError(f"{len(wrong)} wrong answers, the first: {wrong[0]}")
    return len(took) / (time.perf_counter() - begun), took


def measure(house: House, asks: Callable[[], Ask], seconds: float, connections: int) -> Measured:
    _, before = house.latenesses()
    own, begun = time.process_time(), time.perf_counter()
    per_s, took = load(house, asks, seconds, connections)
    own, elapsed = time.process_time() - own, time.perf_counter() - begun
    late, after = house.latenesses()
    return Measured(per_s, took, late, (after - before) / len(took) * 1e6, own / len(took) * 1e6, own / elapsed)


# -- what is asked


def counted(make: Callable[[int], Ask]) -> Callable[[], Ask]:
    number = 0

    def ask() -> Ask:
        nonlocal number
        number += 1
        return make(number)

    return ask


def creation(prefix: str, when: str, *, keyed: bool = False) -> Callable[[], Ask]:
    def make(number: int) -> Ask:
        words = {"name": f"{prefix}-{number}", "when": when, "job": "note", "payload": {"n": number}}
        key = f"{prefix}-{number}" if keyed else None
        return Ask("POST", "/v1/schedules", json.dumps(words).encode(), key, 201)

    return counted(make)


def workload(schedules: int) -> dict[str, Callable[[], Ask]]:
    return {
        "read one schedule": counted(lambda n: Ask("GET", f"/v1/schedules/idle-{n * 7919 % schedules}")),
        "read a page of 50 schedules": counted(lambda n: Ask("GET", "/v1/schedules?limit=50")),
        "read the newest 20 runs": counted(lambda n: Ask("GET", "/v1/runs?limit=20")),
        "create a schedule": creation("new", "30 9 * * 1-5"),
        "create a schedule, with a key": creation("keyed", "30 9 * * 1-5", keyed=True),
        "create a schedule, in English": creation("english", "every weekday at 9:30am"),
    }


def one_at_a_time() -> dict[str, Callable[[], Ask]]:
    """What is asked over one connection: how long a person waits."""
    return {
        "the timeline": counted(lambda n: Ask("GET", "/v1/timeline")),
        "the page: now": counted(lambda n: Ask("GET", "/")),
        "the page: schedules": counted(lambda n: Ask("GET", "/schedules")),
    }


def mixed(schedules: int) -> Callable[[], Ask]:
    """All of it together: mostly reads, with creations, the timeline and a page in a browser between them."""
    asks = {**workload(schedules), **one_at_a_time(), "create a schedule": creation("mixed", "15 8 * * *")}
    order = [asks[name] for name, times in MIXTURE.items() for _ in range(times)]
    turns = itertools.cycle(order[n * 7 % len(order)] for n in range(len(order)))  # 7 shuffles 40
    return lambda: next(turns)()


# -- the report


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)] if values else float("nan")


def say(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


def figures(name: str, found: Measured) -> dict[str, Any]:
    told: dict[str, Any] = {
        "measure": name,
        "per_s": round(found.per_s),
        "cpu_us": round(found.cpu_us),
        "asker_us": round(found.asker_us),
        "asker_share": round(found.asker_share, 2),
        "fires": len(found.late_ms),
    }
    for percent in PERCENTILES:
        told[f"took_p{percent}_ms"] = round(percentile(found.took_ms, percent), 2)
        told[f"late_p{percent}_ms"] = round(percentile(found.late_ms, percent), 2)
    return told


def table(rows: list[dict[str, Any]]) -> str:
    heads = [
        "measure",
        "per_s",
        "cpu_us",
        "asker_us",
        "took_p50_ms",
        "took_p99_ms",
        "fires",
        "late_p50_ms",
        "late_p99_ms",
    ]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    lines += [
        "| " + " | ".join(f"{row[head]:,}" if head != "measure" else row[head] for head in heads) + " |" for row in rows
    ]
    return "\n".join(lines)


def verdict(rows: list[dict[str, Any]], schedules: int) -> str:
    by_name = {row["measure"]: row for row in rows}
    lines: list[str] = []
    for name, aim in (("read one schedule", READS_AIM), ("create a schedule", CREATIONS_AIM)):
        row = by_name[name]
        limit = "; the asker is the limit" if row["asker_share"] > _BUSY_ASKER else ""
        lines.append(f"- {word(row['per_s'] >= aim)}: {name}: {row['per_s']:,} a second (aim {aim:,}){limit}")
    late = {row["measure"]: row["late_p99_ms"] for row in rows if row["fires"]}
    if MIXED in late:  # a short run on a busy machine may have no fire in it
        worst = max(late, key=lambda name: late[name])
        lines.append(
            f"- {word(late[worst] <= LATE_AIM_MS)}: fires are late by {late[MIXED]:g} ms at p99 meanwhile, mixed; "
            f"at most by {late[worst]:g} ({worst}) (aim {LATE_AIM_MS})"
        )
    cpu = by_name["read a page of 50 schedules"]["cpu_us"]
    lines.append(f"- {word(cpu <= PAGE_AIM_US)}: a page of 50 schedules: {cpu:,} µs of CPU (aim {PAGE_AIM_US:,})")
    return "\n".join([*lines, waits(rows, schedules)])


def waits(rows: list[dict[str, Any]], schedules: int) -> str:
    """How long a person waits, beside the aims; what was not measured is left out."""
    lines: list[str] = []
    for name, took in ((row["measure"], row["took_p50_ms"]) for row in rows if row["measure"] in one_at_a_time()):
        aim = TIMELINE_AIM_MS if name == "the timeline" else FIRST_BYTE_AIM_MS[schedules > 1_000]
        lines.append(f"- {word(took <= aim)}: {name}: {took:g} ms with {schedules:,} schedules (aim {aim})")
    return "\n".join(lines)


def word(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description="The API under load while schedules fire.")
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    parser.add_argument("--seconds", type=float, default=10, help="for each measure")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--schedules", type=int, default=10_000, help="that lie in the store")
    parser.add_argument("--firing", type=int, default=50, help="of them, how many fire every second")
    parser.add_argument("--governed", action="store_true", help="with a budget, which every fire must look at")
    parser.add_argument("--only", default="", help="measures whose names contain it, without the aims for load")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.schedules, options.firing, governed=options.governed)
    seconds, schedules = (0.3, 100) if options.quick else (options.seconds, options.schedules)
    folder = Path(tempfile.mkdtemp(prefix="matins-bench-"))
    rows: list[dict[str, Any]] = []
    say(
        {
            "python": platform.python_version(),
            "system": platform.platform(),
            "cpus": os.cpu_count(),
            "load": os.getloadavg(),
        }
    )
    house = House(folder, schedules, options.firing, governed=options.governed)
    try:
        if options.only in "nothing is asked":
            time.sleep(seconds)  # alone, for comparison
            rows.append(figures("nothing is asked", Measured(0, [0], house.latenesses()[0], 0)))
            say(rows[-1])
        asked = {**workload(schedules), MIXED: mixed(schedules), **one_at_a_time()}
        for name, asks in asked.items():
            if options.only in name:
                connections = 1 if name in one_at_a_time() else options.connections
                rows.append(figures(name, measure(house, asks, seconds, connections)))
                say(rows[-1])
    finally:
        house.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{table(rows)}\n\n{(waits if options.only else verdict)(rows, schedules)}")
    return None


if __name__ == "__main__":
    main()
