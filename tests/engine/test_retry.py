"""When a failed attempt is tried again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.schedules import parse_schedule
from matins.engine.transitions import next_attempt_at
from matins.model.schedule import ScheduleDefinition


def defined(**words: Any) -> ScheduleDefinition:
    return parse_schedule("* * * * *", {"job": "job", **words}, 0)[0]


def test_without_retries_there_is_none() -> None:
    """B8"""
    assert next_attempt_at(defined(), 1, 1, 0) is None


def test_as_many_as_said() -> None:
    """B8: three retries are four attempts"""
    definition = defined(retries=3)
    found = [next_attempt_at(definition, 1, attempt, 0) is not None for attempt in range(1, 6)]
    assert found == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 10), (2, 20), (3, 40), (4, 80), (9, 2_560), (10, 3_600), (50, 3_600), (100, 3_600)]
)
def test_doubles_from_ten_seconds_up_to_an_hour(attempt: int, seconds: int) -> None:
    """B8"""
    at = next_attempt_at(defined(retries=100), 1, attempt, 5_000)
    assert at is not None
    assert seconds * 1_000 <= at - 5_000 <= seconds * 1_100


def test_the_back_off_can_be_said() -> None:
    """B8"""
    definition = defined(retries=9, retry_delay="1m", max_retry_delay="3m")
    delays = [next_attempt_at(definition, 1, attempt, 0) or 0 for attempt in (1, 2, 3, 4)]
    assert [delay // 60_000 for delay in delays] == [1, 2, 3, 3]


@given(run=st.integers(1, 1 << 53), attempt=st.integers(1, 100), now=st.integers(0, 1 << 50))
def test_jitter_is_the_same_again_and_a_tenth_at_most(run: int, attempt: int, now: int) -> None:
    """B8"""
    definition = defined(retries=100)
    at = next_attempt_at(definition, run, attempt, now)
    assert at == next_attempt_at(definition, run, attempt, now)
    assert at is not None
    base = min(10_000 << (attempt - 1), 3_600_000)
    assert now + base <= at <= now + base * 1.1


def test_failures_do_not_march_in_step() -> None:
    """B8"""
    definition = defined(retries=1)
    assert len({next_attempt_at(definition, run, 1, 0) for run in range(100)}) > 80
