"""The page with much to show: how long *now* takes and how much is sent, and what a page that lies open costs.

The server is a process of its own on the store of `tests/busy_store.py`; no engine runs, so nothing is due meanwhile.
This one asks as a browser does, packed, and fetches the parts that the stream names.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import api

SENT_AIM, TOOK_AIM_MS, IDLE_AIM = 60_000, 150, 5_000
IDLE_S = 30
VIEWS = ("/", "/?range=31d", "/runs", "/runs?state=failed", "/schedules", "/ui/parts/lanes", "/ui/parts/causes")
_PART = re.compile(r'data-part="([^"]*)"[^>]*hx-get="([^"]*)"')


def serve(folder: Path, schedules: int, runs: int) -> None:
    """Until stdin ends. A line asks for the CPU time so far."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import busy_store
    from matins import Matins
    from matins.service.idempotency import IdempotencyStore
    from matins.service.sign_in import SessionVerifier
    from matins.service.tokens import TokenVerifier
    from matins.surfaces.http.app import build_app
    from matins.surfaces.http.server import Server, bind
    from matins.surfaces.http.server_routes import Health
    from matins.web.app import Pages

    matins = Matins(f"sqlite:///{folder}/matins.db")
    busy_store.fill(matins, folder / "matins.db", schedules=schedules, runs=runs)
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
    print(json.dumps({"host": host, "token": matins.tokens.create("load").token}), flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)
    server.stop()
    matins.close()


class Served:
    def __init__(self, folder: Path, schedules: int, runs: int) -> None:
        command = [sys.executable, __file__, "--serve", str(folder)]
        command += ["--schedules", str(schedules), "--runs", str(runs)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = json.loads(self._line())
        self.host: str = told["host"]
        self.headers = {"Authorization": f"Bearer {told['token']}", "Accept-Encoding": "gzip"}

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def cpu_s(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def ask(self, path: str) -> tuple[int, str]:
        """The bytes of the body as they were sent, and its text."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request("GET", path, headers=self.headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        if response.status != 200:
            raise RuntimeError(f"GET {path}: {response.status} {body[-300:]!r}")
        packed = response.headers.get("Content-Encoding") == "gzip"
        return len(body), (gzip.decompress(body) if packed else body).decode()

    def close(self) -> None:
        self._process.communicate(timeout=60)


def measure(house: Served, path: str, times: int) -> dict[str, Any]:
    sent, _ = house.ask(path)
    took: list[float] = []
    before = house.cpu_s()
    for _ in range(times):
        begun = time.perf_counter()
        sent, _ = house.ask(path)
        took.append((time.perf_counter() - begun) * 1000)
    cpu = (house.cpu_s() - before) / times
    return {
        "measure": path,
        "sent": sent,
        "cpu_ms": round(cpu * 1000, 1),
        "took_p50_ms": round(api.percentile(took, 50), 1),
        "took_p99_ms": round(api.percentile(took, 99), 1),
    }


def idle(house: Served, seconds: float) -> dict[str, Any]:
    """What is sent to a page that lies open: the stream, and the parts that it names."""
    parts = _PART.findall(house.ask("/")[1])
    assert parts, "now has no parts"
    connection = http.client.HTTPConnection(house.host, timeout=60)
    connection.request("GET", "/ui/stream", headers=house.headers)
    response = connection.getresponse()
    sent, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        line = response.readline()  # a heartbeat comes every few seconds
        sent += len(line)
        if line.startswith(b"data: ["):
            names = set(json.loads(line[6:]))
            due = [path for listens, path in parts if names & set(listens.split())]
            sent += sum(house.ask(path.replace("&amp;", "&"))[0] for path in due)
    connection.close()
    return {"measure": f"now lies open for {seconds:g} s", "sent": sent}


def verdict(rows: list[dict[str, Any]]) -> str:
    now, still = rows[0], rows[-1]
    return "\n".join([
        f"- {api.word(now['sent'] <= SENT_AIM)}: now: {now['sent']:,} bytes are sent (aim {SENT_AIM:,})",
        (f"- {api.word(now['took_p50_ms'] <= TOOK_AIM_MS)}: now: {now['took_p50_ms']:g} ms (aim {TOOK_AIM_MS}), "
        f"of which {now['cpu_ms']:g} ms are CPU time of the server"),
        f"- {api.word(still['sent'] <= IDLE_AIM)}: {still['measure']}: {still['sent']:,} bytes (aim {IDLE_AIM:,})",
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="The page on a store of 40 agents.")
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    parser.add_argument("--schedules", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.schedules, options.runs)
    schedules, runs = (40, 500) if options.quick else (options.schedules, options.runs)
    folder = Path(tempfile.mkdtemp(prefix="matins-bench-"))
    rows: list[dict[str, Any]] = []
    api.say({"cpus": os.cpu_count(), "load": os.getloadavg(), "schedules": schedules, "runs": runs})
    house = Served(folder, schedules, runs)
    try:
        for path in VIEWS:
            rows.append(measure(house, path, 2 if options.quick else 30))
            api.say(rows[-1])
        rows.append(idle(house, 1 if options.quick else IDLE_S))
        api.say(rows[-1])
    finally:
        house.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{verdict(rows)}")
    return None


if __name__ == "__main__":
    main()
