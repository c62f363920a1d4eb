"""Whatever happens in whatever order: nothing that needs leave starts without it. Rows V6, B7, B1."""

from __future__ import annotations

from collections import Counter

import pytest
from approval_walk import Walk
from security_cast import Open, Watched

import postgres_fixtures

url = postgres_fixtures.kept_url
STEPS = 120
WALK = {"check_interval_ms": 60_000}
"""Nothing is lost by looking once a minute: what happens is an answer, an edit, or a time."""


def walk(seed: int, bench: Watched, again: Open | None = None) -> Walk:
    """A walk to its end; when it stumbles, the steps that led there."""
    made = Walk(seed, bench, again)
    try:
        for _ in range(STEPS):
            made.step()
        made.end()
    except BaseException as error:
        error.add_note("\n".join(made.journal))
        raise
    made.started += len(made.bench.ran)
    return made


@pytest.mark.parametrize("seed", range(15))
def test_nothing_starts_without_leave(seed: int, open_bench: Open) -> None:
    """V6: leave that was given, is not too old, is about these very words, and was used by nobody else."""
    assert walk(seed, open_bench(**WALK)).started > 0


@pytest.mark.parametrize("seed", range(100, 103))
def test_nor_across_crashes(seed: int, kept_url: str, open_bench: Open) -> None:
    """V6: on stores that outlive their process."""
    assert walk(seed, open_bench(kept_url, **WALK), lambda: open_bench(kept_url, **WALK)).started > 0


def test_the_walk_goes_everywhere(open_bench: Open) -> None:
    """A walk that does little proves little."""
    done: Counter[str] = Counter()
    for seed in range(200, 204):
        done += walk(seed, open_bench(**WALK)).done
    acts = {"_tick", "_vote", "_edit", "_pause", "_resume", "_cancel", "_run", "_fill", "_clear"}
    assert set(done) >= acts | {"NotAllowed", "Conflict"}
    assert min(done[act] for act in acts) >= 10
