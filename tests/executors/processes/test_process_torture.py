"""A small helping of what `make torture-processes` does at full size."""

from __future__ import annotations

from pathlib import Path

from process_harness import Harness
from process_torture import Deaths, endure, flood


def test_b9_after_many_runs_nobody_and_nothing_is_left_over(harness: Harness) -> None:
    """1,000 here, 10,000 in the torture."""
    told = endure(harness, 1_000)
    assert told["runs"] == 1_000
    assert told["wardens"] >= 1


def test_b9_a_flood_costs_little_memory(harness: Harness) -> None:
    """100 MB here, 1 GB in the torture; and it does not grow with the flood."""
    assert flood(harness, 100_000_000)["took_kb"] < 5_000


def test_b9_engines_killed_at_any_moment_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """All three states are met: over, under way, and never started."""
    told = Deaths(tmp_path / "deaths", 20, 1, others=False).run()
    assert told["killed"]["engine"] == 20
    assert set(told["found"]) == {"finished", "running", "never_started"}
    assert all(told["found"].values())
    assert "unknown" not in told["ends"]


def test_b9_with_wardens_and_keepers_killed_too_nothing_runs_twice(tmp_path: Path) -> None:
    """What cannot be known is told as unknown."""
    told = Deaths(tmp_path / "deaths", 20, 2, others=True).run()
    assert told["killed"]["warden"] >= 3
    assert told["killed"]["warden stopped"] >= 1
    assert told["killed"]["keeper stopped"] >= 1
    assert told["ends"]["unknown"] > 0
    assert told["ends"]["finished"] > 0
