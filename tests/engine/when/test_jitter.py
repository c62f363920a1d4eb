"""Jitter that is the same after a restart."""

import pytest

from matins import InvalidInput
from matins.engine.when.triggers import jitter_ms

HOUR = 3_600_000


def test_h3_a_function_of_schedule_and_slot() -> None:
    """H3 B8"""
    assert jitter_ms(7, 1_000, HOUR, 10) == jitter_ms(7, 1_000, HOUR, 10) == 86_200
    assert jitter_ms(7, 1_000, HOUR, 10) != jitter_ms(8, 1_000, HOUR, 10)
    assert jitter_ms(7, 1_000, HOUR, 10) != jitter_ms(7, 2_000, HOUR, 10)


def test_h3_spreads_over_all_of_its_range() -> None:
    """H3"""
    values = [jitter_ms(n, 0, HOUR, 10) for n in range(2_000)]
    assert all(0 <= value < HOUR // 10 for value in values)
    assert min(values) < HOUR // 1000
    assert max(values) > HOUR // 10 - HOUR // 1000
    assert abs(sum(values) / len(values) - HOUR / 20) < HOUR / 400


def test_h3_nothing_for_nothing() -> None:
    """H3"""
    assert jitter_ms(7, 1_000, HOUR, 0) == 0


@pytest.mark.parametrize("percent", [-1, 11, 10.1, float("nan")])
def test_h3_ten_percent_at_the_most(percent: float) -> None:
    """H3"""
    with pytest.raises(InvalidInput) as caught:
        jitter_ms(7, 1_000, HOUR, percent)
    assert caught.value.allowed == "0-10"
