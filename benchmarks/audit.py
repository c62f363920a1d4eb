"""How long `matins audit verify` takes, and how much memory: a log of a million events, with their runs and seals.

The log is written first, in a process of its own. Then it is verified in another one, which prints its time and its
peak of memory; the figure of an empty log stands beside it. `--url` names a PostgreSQL database that may be filled.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from matins import Matins
from matins.model.rows import AttemptRow, NewEvent, NewRun
from matins.model.run import RunState

EVENTS_OF_A_RUN: dict[str, dict[str, object] | None] = {
    "run.planned": {"slot": None},
    "run.ready": None,
    "run.started": {"worker": 1, "epoch": 1, "attempt": 1},
    "run.thread_assigned": None,
    "run.succeeded": {"rev": 1, "epoch": 1},
}
BATCH = 200
"""Runs in a transaction; a seal follows each."""


def fill(url: str, events: int) -> None:
    matins = Matins(url)
    matins.jobs["work"] = lambda run: None
    schedule = int(matins.add("s", when="0 9 * * *", job="work").id)
    now = matins.clock.now_ms()
    for _ in range(events // (BATCH * len(EVENTS_OF_A_RUN))):
        now += 1_000
        with matins.store.transaction(now) as transaction:
            ids = transaction.run_ids(BATCH)
            transaction.insert_runs([_run(run_id, schedule, now) for run_id in ids])
            transaction.insert_attempts([AttemptRow(run_id, 1, 1, now) for run_id in ids])
            for run_id in ids:
                for kind, data in EVENTS_OF_A_RUN.items():
                    transaction.events.append(NewEvent(now, kind, schedule, run_id, data))
        with matins.store.transaction(now) as transaction:
            transaction.seal(now)
    matins.close()


def _run(run_id: int, schedule: int, now: int) -> NewRun:
    return NewRun(
        run_id, schedule, 1, None, None, RunState.SUCCEEDED, 0, None, 1, 1, None, None, now, now, now, 1, None, None,
        None, 0,
    )  # fmt: skip


def verify(url: str) -> None:
    matins = Matins(url)
    began, used = time.perf_counter(), time.process_time()
    found = matins.audit.verify()
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    matins.close()
    if found.problems:
        raise SystemExit(found.problems[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "events": found.events,
                "seconds": round(seconds, 2),
                "cpu_seconds": round(cpu, 2),
                "peak_mb": round(peak, 1),
            }
        )
    )


def alone(*words: str) -> None:
    subprocess.run([sys.executable, __file__, *words], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--url", help="a PostgreSQL database, which is filled")
    parser.add_argument("--do", choices=["fill", "verify"], help="one step; for the processes of this program")
    given = parser.parse_args()
    if given.do == "verify":
        verify(given.url)
    elif given.do == "fill":
        fill(given.url, given.events)
    else:
        print(f"Python {platform.python_version()}, {platform.machine()}")
        with tempfile.TemporaryDirectory() as folder:
            url = given.url or f"sqlite:///{Path(folder)}/matins.db"
            for events in (0, given.events):
                alone("--do", "fill", "--url", url, "--events", str(events)) if events else None
                alone("--do", "verify", "--url", url)


if __name__ == "__main__":
    main()
