"""What a fire of Matins costs beside an earlier commit: the drains of `durable.py`, in turn with that commit.

Give the Python of an environment in which the earlier commit is installed. Judge by CPU time.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median

from durable import ENTRIES, Databases, run
from durable_report import WITHOUT_GATES

FIGURES = {"drain": ("cpu_us_per_fire", "fires_per_s"), "latency": ("p50_ms", "p99_ms")}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Matins beside an earlier commit, in turn.")
    parser.add_argument("before", help="the Python that has the earlier commit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", choices=tuple(FIGURES), default="drain")
    parser.add_argument("--store", help="SQLite or PostgreSQL only")
    parser.add_argument("--only", help="entries whose name has this text")
    parser.add_argument("--processes", type=int, default=1, help="entries with at most this many processes")
    parser.add_argument("--folder", type=Path, help="where the stores lie; its disk is what is measured")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    entries = [
        entry
        for entry in ENTRIES
        if (entry.measure, entry.adapter) == (options.measure, "matins")
        and entry.processes <= options.processes
        and entry.name != WITHOUT_GATES
        and options.store in (None, entry.store)
        and (options.only is None or options.only in entry.name)
    ]
    folder = Path(tempfile.mkdtemp(prefix="matins-beside-", dir=options.folder))
    databases = Databases(folder / "postgres")
    samples: defaultdict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    figures = FIGURES[options.measure]
    try:
        for nth in range(options.rounds):
            for entry in entries:
                for side in ("before", "now")[:: 1 if nth % 2 else -1]:
                    interpreter = options.before if side == "before" else sys.executable
                    said = run(replace(entry, interpreter=interpreter), folder, databases)
                    if "failed" in said:
                        print(f"FAILED: {side}, {entry.store}, {entry.name}: {said['failed']}", flush=True)
                        continue
                    for figure in figures:
                        samples[entry.store, entry.name, figure, side].append(said[figure])
    except KeyboardInterrupt:
        print("Stopped: these are the rounds so far.")
    finally:
        databases.close()
        shutil.rmtree(folder, ignore_errors=True)
    print("| store | what | figure | before | now | ratio | ratio of the least | rounds |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for entry in entries:
        for figure in figures:
            before, now = (samples[entry.store, entry.name, figure, side] for side in ("before", "now"))
            if before and now:
                a, b = median(before), median(now)
                least = min(now) / min(before)
                shown = f"{a:,.1f} | {b:,.1f} | {b / a:.2f} | {least:.2f} | {len(now)}"
                print(f"| {entry.store} | {entry.name} | {figure} | {shown} |")


if __name__ == "__main__":
    main()
