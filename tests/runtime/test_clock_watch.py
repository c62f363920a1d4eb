"""Whether the wall clock can be believed."""

from __future__ import annotations

import pytest

from matins.runtime.clock import ClockWatch

HOUR = 3_600_000
NOW, BOOT = 1_774_598_400_000, 5_000


def test_time_that_passes_is_steady() -> None:
    """H2"""
    keeper = ClockWatch(NOW, BOOT)
    assert [keeper.check(NOW + n * 10 * HOUR, BOOT + n * 10 * HOUR) for n in range(3)] == ["steady"] * 3


@pytest.mark.parametrize(
    ("step", "verdict"),
    [(-1_000, "steady"), (-1_001, "back"), (-365 * 24 * HOUR, "back"), (HOUR, "steady"), (HOUR + 1, "wait")],
)
def test_a_step(step: int, verdict: str) -> None:
    """H2"""
    assert ClockWatch(NOW, BOOT).check(NOW + step, BOOT) == verdict


def test_a_leap_forward_is_believed_when_it_is_still_there() -> None:
    """H2"""
    keeper = ClockWatch(NOW, BOOT)
    year = 365 * 24 * HOUR
    assert [keeper.check(NOW + year + ms, BOOT + ms) for ms in (0, 250, 500)] == ["wait", "steady", "steady"]


def test_a_leap_that_is_taken_back_is_a_step_back() -> None:
    """H2: it was doubted here, but others may have written by it."""
    keeper = ClockWatch(NOW, BOOT)
    assert keeper.check(NOW + 2 * HOUR, BOOT) == "wait"
    assert keeper.check(NOW + 250, BOOT + 250) == "back"
    assert keeper.check(NOW + 2 * HOUR + 500, BOOT + 500) == "wait", "and a new one is doubted again"


def test_a_leap_that_goes_on_leaping_is_doubted_again() -> None:
    """H2"""
    keeper = ClockWatch(NOW, BOOT)
    assert [keeper.check(NOW + n * 2 * HOUR, BOOT) for n in (1, 2, 3)] == ["wait"] * 3


def test_a_step_back_is_told_once() -> None:
    """H2"""
    keeper = ClockWatch(NOW, BOOT)
    assert [keeper.check(NOW - HOUR + ms, BOOT + ms) for ms in (0, 10)] == ["back", "steady"]


def test_many_small_steps_back_are_each_too_small() -> None:
    """H2: as a clock does that is slewed"""
    keeper = ClockWatch(NOW, BOOT)
    assert {keeper.check(NOW - n * 500, BOOT) for n in range(1, 50)} == {"steady"}
