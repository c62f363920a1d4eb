"""corvid-agent's own sentences (seeds/corvid)."""

import pytest

from matins.errors import CronParseError, IntervalParseError
from matins.seeds.corvid import validate_schedule_frequency


def test_v1_every_minute_is_too_frequent() -> None:
    """V1"""
    with pytest.raises(IntervalParseError, match=r"^Schedule interval too short: .*5m"):
        validate_schedule_frequency("* * * * *")


def test_v1_an_invalid_expression() -> None:
    """V1"""
    with pytest.raises(CronParseError, match=r"^Invalid cron expression: "):
        validate_schedule_frequency("0 25 * * *")
    with pytest.raises(CronParseError, match=r"^Invalid cron expression: "):
        validate_schedule_frequency("every day at 9am")


def test_v1_a_short_interval() -> None:
    """V1"""
    with pytest.raises(IntervalParseError, match=r"^Schedule interval too short: 299999"):
        validate_schedule_frequency(interval_ms=299_999)
    validate_schedule_frequency(interval_ms=300_000)


@pytest.mark.parametrize(
    "expression",
    [
        "0,1 9 * * *",  # far apart from now, close together at nine
        "59,0 * * * *",  # one minute apart over the hour
        "0,58 0,23 * * *",  # 23:58 to 00:00 over midnight
        "*/7 * * * *",  # 56 to 00 is four minutes
        "0-4 0 1 1 *",  # once a year, but five times then
    ],
)
def test_v1_the_smallest_gap_of_the_whole_cycle_counts(expression: str) -> None:
    """V1"""
    with pytest.raises(IntervalParseError):
        validate_schedule_frequency(expression)


@pytest.mark.parametrize("expression", ["*/5 * * * *", "0 9 * * *", "0,30 * * * *", "@hourly", "55 23 31 12 *"])
def test_v1_five_minutes_are_enough(expression: str) -> None:
    """V1"""
    validate_schedule_frequency(expression)


def test_v1_the_minimum_can_be_set() -> None:
    """V1"""
    validate_schedule_frequency("* * * * *", minimum_ms=60_000)
    with pytest.raises(IntervalParseError):
        validate_schedule_frequency("0 * * * *", minimum_ms=3_600_001)


def test_v1_nothing_to_check() -> None:
    """V1"""
    validate_schedule_frequency(None, None)
