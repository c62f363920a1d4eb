"""A backlog of events that incidents take up: how late fires are meanwhile, how soon a stop ends, and what a failing
job costs with its incident.

Each figure is of a process of its own, on a store of its own. Lateness stands beside that without a backlog; judge by
the difference, and the cost by CPU time. `--before` names the Python of an environment that has an earlier commit, for
the cost only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from durable import Databases

from matins import Matins
from matins.model.rows import NewEvent

SCHEDULES, BATCH = 1_000, 5_000
ERRORS = ("no disk left", "no route to host", "permission denied", "it was refused")
EVERY_S, FIRES, LEAD_S = 0.025, 60, 0.5
"""Fires while the backlog is read: one each so many seconds, the first after so long."""
_LEFT = """SELECT count(*) FROM events e JOIN subscriptions s ON s.kind = 'incident'
WHERE e.id > s.cursor AND e.type = 'run.failed'"""


def fill(url: str, events: int) -> None:
    """Failures with several errors, and a success now and then, of schedules that are not due."""
    matins = Matins(url)
    matins.job("work")(lambda run: None)
    rows = [{"name": f"schedule {n}", "when": "0 9 1 1 *", "job": "work"} for n in range(SCHEDULES)]
    ids = [int(made) for made in matins.add_many(rows)]
    now = matins.clock.now_ms()
    for first in range(0, events, BATCH):
        with matins.store.transaction(now) as transaction:
            transaction.events.extend(_event(nth, ids, now) for nth in range(first, min(first + BATCH, events)))
    matins.close()


def _event(nth: int, ids: list[int], now: int) -> NewEvent:
    schedule = ids[nth % len(ids)]
    turn = nth // len(ids)
    if turn % 10 == 9:
        return NewEvent(now, "run.succeeded", schedule, None, None)
    error = ERRORS[turn % len(ERRORS)]
    return NewEvent(now, "run.failed", schedule, None, {"epoch": 1, "reason": "failed", "error": error})


def fires(url: str) -> dict[str, Any]:
    """Fires while the backlog is read, then a stop."""
    matins = Matins(url)
    late: list[float] = []
    matins.job("look")(lambda run: late.append(1000 * (time.time() - run.slot.timestamp())))
    first = datetime.now(UTC) + timedelta(seconds=LEAD_S + 1)
    instants = [first + timedelta(seconds=EVERY_S * nth) for nth in range(FIRES)]
    matins.add_many([{"name": f"at {at.timestamp()}", "when": at.isoformat(), "job": "look"} for at in instants])
    time.sleep(max(0, (first - datetime.now(UTC)).total_seconds() - LEAD_S))
    matins.start()
    time.sleep(LEAD_S + EVERY_S * FIRES)
    began = time.perf_counter()
    matins.stop()
    took = time.perf_counter() - began
    matins.close()
    late.sort()
    lateness = {f"p{share}_ms": round(late[len(late) * share // 100], 1) for share in (50, 90, 99)}
    told = {"max_ms": round(late[-1], 1), "stop_s": round(took, 2), "left": _count(url, _LEFT)}
    return {"fires": len(late), **lateness, **told}


def failures(url: str, count: int) -> dict[str, Any]:
    """CPU time of jobs that fail, until their incidents are open."""
    matins = Matins(url)

    def fail(run: Any) -> None:
        raise ValueError("no disk left")

    matins.job("fail")(fail)
    at = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    matins.add_many([{"name": f"fails {nth}", "when": at, "job": "fail", "grace": "1h"} for nth in range(count)])
    time.sleep(2.5)
    before = time.process_time()
    matins.start()
    while _count(url, "SELECT count(*) FROM incidents") < count:
        time.sleep(0.25)
    used = time.process_time() - before
    matins.close()
    return {"cpu_us": round(1e6 * used / count, 1)}


def backlog(url: str, events: int) -> dict[str, Any]:
    """CPU time of taking up the backlog, nothing else being due."""
    matins = Matins(url)
    before = time.process_time()
    matins.start()
    while _count(url, _LEFT):
        time.sleep(0.25)  # the look costs something, too
    used = time.process_time() - before
    matins.close()
    return {"cpu_us": round(1e6 * used / events, 1)}


def _count(url: str, sql: str) -> int:
    if url.startswith("sqlite"):
        import apsw

        connection: Any = apsw.Connection(url.removeprefix("sqlite:///"))
    else:
        import psycopg

        connection = psycopg.connect(url, autocommit=True)
    (found,) = connection.execute(sql).fetchone()
    connection.close()
    return found


def alone(python: str, do: str, url: str, events: int) -> dict[str, Any]:
    words = [python, __file__, "--do", do, "--url", url, "--events", str(events)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="the backlog")
    parser.add_argument("--jobs", type=int, default=2_000, help="jobs that fail")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-lateness", action="store_true", help="fires and the stop, without the cost")
    parser.add_argument("--before", help="the Python that has the earlier commit")
    parser.add_argument("--folder", type=Path, help="where the stores lie; its disk is what is measured")
    parser.add_argument("--do", choices=("fill", "fires", "failures", "backlog"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    return parser.parse_args()


def lateness(given: argparse.Namespace, store: str, new: Any) -> None:
    """Fires without and with the backlog in turn, so that both meet the same noise; the difference is the backlog's."""
    found: dict[int, list[dict[str, Any]]] = {0: [], given.events: []}
    for _ in range(given.rounds):
        for events, rounds in found.items():
            url = new()
            alone(sys.executable, "fill", url, events)
            rounds.append(alone(sys.executable, "fires", url, 0))
            print(f"{store:10} {events:>7} events behind: {rounds[-1]}", flush=True)
    for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms"):
        without, beside = (median(one[name] for one in rounds) for rounds in found.values())
        print(f"{store:10} {name}, median of {given.rounds}: {without} without, {beside} with, {beside - without:+.1f}")


def measure(given: argparse.Namespace, store: str, new: Any) -> None:
    lateness(given, store, new)
    if given.only_lateness:
        return
    pythons = {"now": sys.executable} | ({"before": given.before} if given.before else {})
    for do, count in (("failures", given.jobs), ("backlog", given.events // 5)):
        used: dict[str, list[float]] = {name: [] for name in pythons}
        for _ in range(given.rounds):
            for name, python in pythons.items():
                url = new()
                if do == "backlog":
                    alone(python, "fill", url, count)
                used[name].append(alone(python, do, url, count)["cpu_us"])
        what = "a failing job with its incident" if do == "failures" else "an event of a backlog"
        figures = ", ".join(f"{name} {median(found)} µs {found}" for name, found in used.items())
        print(f"{store:10} CPU of {what}, median of {given.rounds}: {figures}", flush=True)


def main() -> None:
    given = arguments()
    if given.do is not None:
        act = {"fill": fill, "failures": failures, "backlog": backlog}.get(given.do)
        told = fires(given.url) if act is None else act(given.url, given.events)
        print(json.dumps(told))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        made = iter(range(1_000))
        databases = Databases(Path(folder) / "postgres")
        try:
            measure(given, "SQLite", lambda: f"sqlite:///{folder}/{next(made)}.db")
            measure(given, "PostgreSQL", databases.new)
        finally:
            databases.close()


if __name__ == "__main__":
    main()
