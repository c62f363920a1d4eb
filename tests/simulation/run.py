# ruff: noqa: T201 - a command that prints
"""`python tests/simulation/run.py --seeds 1000`: many seeds; `--seed N --verbose`: one of them, step by step."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from sim_bugs import BUGS
from sim_world import FAULTS, STEPS, Result, simulate


def one(seed: int, steps: int, bug: str | None, verbose: bool = False) -> Result:
    with BUGS[bug]() if bug else nullcontext():
        return simulate(seed, steps, print if verbose else lambda line: None)


def report(results: list[Result], seconds: float) -> None:
    faults: Counter[str] = sum((result.faults for result in results), Counter())
    actions: Counter[str] = sum((result.actions for result in results), Counter())
    print(f"{len(results)} seeds in {seconds:.0f} s")
    print(f"slots {sum(r.slots for r in results)}, dispatches {sum(r.dispatches for r in results)}, ", end="")
    print(f"commits, each checked {sum(r.commits for r in results)}")
    print("faults injected: " + ", ".join(f"{kind} {faults[kind]}" for kind in FAULTS))
    print("users: " + ", ".join(f"{action} {count}" for action, count in sorted(actions.items())))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--bug", choices=sorted(BUGS), help="with a bug planted")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--verbose", action="store_true", help="say every step")
    options = parser.parse_args()
    began = time.monotonic()
    results: list[Result] = []
    for result in simulated(options):
        results.append(result)
        if result.violation:
            planted = f" --bug {options.bug}" if options.bug else ""
            print(f"seed {result.seed}: {result.violation}")
            print(f"  {sys.executable} {sys.argv[0]} --seed {result.seed} --steps {options.steps}{planted} --verbose\n")
    report(results, time.monotonic() - began)
    failed = sum(result.violation is not None for result in results)
    print(f"{failed} of {len(results)} seeds failed")
    return 1 if failed else 0


def simulated(options: argparse.Namespace) -> Iterator[Result]:
    if options.seed is not None:
        result = one(options.seed, options.steps, options.bug, options.verbose)
        print(f"trace {result.trace}")
        yield result
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        work = partial(one, steps=options.steps, bug=options.bug)
        yield from pool.map(work, range(options.first, options.first + options.seeds), chunksize=4)


if __name__ == "__main__":
    sys.exit(main())
