"""The production loops on real SQLite, under a virtual clock and seeded faults; every commit is checked.

A seed that fails replays exactly: `python tests/simulation/run.py --seed N --verbose`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sim_bugs import BUGS, GATE_BUGS
from sim_people import GOVERNING
from sim_users import ACTIONS
from sim_world import FAULTS, Result, gated, simulate

pytestmark = pytest.mark.timeout(1_500)  # computing alone, which takes five times as long where others compute, too
SEEDS = range(1, 51)
SEEDS_FOR_BUGS = range(1, 181)
"""More of them: how soon one finds a bug is chance."""
_USERS = {action.__name__ for action in (*ACTIONS, *GOVERNING)}


def test_invariants_hold_under_faults() -> None:
    """H2, H3, H8, C9, C12, S2, S4, S7: nothing is lost, nothing done twice, whatever breaks and whenever.

    P5, P7, C6, C8, C10, C16, V4, V5, V6, S3, B5, B6, B7: and nothing starts that a gate should have stopped.

    P6, P8, V13, B8: a run of steps runs exactly while one of its steps is live, and each step in its order.
    """
    results = [simulate(seed) for seed in SEEDS]
    failed = [f"seed {result.seed}: {result.violation}" for result in results if result.violation]
    assert not failed, "\n".join([*failed, "python tests/simulation/run.py --seed N --verbose"])
    _assert_that_much_went_wrong(results)


def _assert_that_much_went_wrong(results: list[Result]) -> None:
    """A simulation in which nothing goes wrong proves nothing."""
    faults: Counter[str] = sum((result.faults for result in results), Counter())
    actions: Counter[str] = sum((result.actions for result in results), Counter())
    assert set(faults) == set(FAULTS), "a kind of fault was never injected, or is not listed"
    assert set(actions) == _USERS, "an action is always refused: nothing of it is tried"
    assert sum(result.dispatches for result in results) > 1_000
    assert sum(result.commits for result in results) > 10_000


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_planted_bug_is_found(bug: str) -> None:
    """Worlds that pass with the code as it is find each of these changes to it."""
    with BUGS[bug]():
        found = next(_violations(with_gates=bug in GATE_BUGS), None)
    assert found is not None, f"nobody noticed {bug}: {BUGS[bug].__doc__}"


def _violations(*, with_gates: bool) -> Iterator[str]:
    for seed in SEEDS_FOR_BUGS:
        violation = simulate(seed).violation if gated(seed) is with_gates else None
        if violation:
            yield f"seed {seed}: {violation}"


def test_same_seed_gives_the_same_trace() -> None:
    """Also in another process, whose sets and dicts are ordered by other hashes."""
    here = simulate(7, steps=120)
    script = Path(__file__).with_name("run.py")
    command = [sys.executable, str(script), "--seed", "7", "--steps", "120"]
    for hashes in ("1", "2"):
        told = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONHASHSEED": hashes})
        assert f"trace {here.trace}" in told.stdout, told.stdout + told.stderr


def test_other_seed_gives_another_trace() -> None:
    assert simulate(7, steps=60).trace != simulate(8, steps=60).trace
