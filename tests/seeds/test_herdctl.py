"""herdctl's own sentences (seeds/herdctl)."""

from datetime import UTC, datetime, timedelta

import pytest

from matins.errors import CronParseError, IntervalParseError
from matins.seeds.herdctl import (
    calculate_next_cron_trigger,
    calculate_next_trigger,
    is_schedule_due,
    is_valid_cron_expression,
    parse_cron_expression,
    parse_interval,
)

NOW = datetime(2025, 1, 19, 12, tzinfo=UTC)
LAST = datetime(2025, 1, 19, 10, tzinfo=UTC)


@pytest.mark.parametrize(("text", "ms"), [("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("1d", 86_400_000)])
def test_h7_intervals_are_read(text: str, ms: int) -> None:
    """H7"""
    assert parse_interval(text) == ms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", 'Missing time unit. Expected format: "{number}{unit}"'),
        ("5.5m", "Decimal values are not supported"),
        ("0m", "Zero interval is not allowed"),
        ("-5m", "Negative intervals are not allowed"),
        ("5x", 'Invalid time unit "x". Valid units are: s, m, h, d'),
    ],
)
def test_h7_the_five_messages(text: str, message: str) -> None:
    """H7"""
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(text)
    assert str(caught.value) == message
    assert caught.value.value == text
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", " ", "m", "٥m", "5 5m", "1h30m", "99999999999999999999d", "40000d", "."])
def test_h7_other_bad_intervals_are_clear_errors(text: str) -> None:
    """H7"""
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(text)
    assert caught.value.message
    assert caught.value.hint


def test_h7_cron_errors_name_field_and_range() -> None:
    """H7"""
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression("0 25 * * *")
    assert str(caught.value) == 'Invalid cron expression "0 25 * * *" - hour must be 0-23'
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("hour", "25", "0-23")
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression("* * *")
    assert str(caught.value) == 'Invalid cron expression "* * *" - expected 5 fields, got 3'


def test_h4_six_fields_are_refused_in_this_preset() -> None:
    """H4"""
    with pytest.raises(CronParseError, match="expected 5 fields, got 6"):
        parse_cron_expression("0 0 9 * * *")


@pytest.mark.parametrize(
    ("alias", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
    ],
)
def test_h4_shorthands(alias: str, expression: str) -> None:
    """H4"""
    after = NOW
    for _ in range(5):
        following = calculate_next_cron_trigger(expression, after, timezone="UTC")
        assert calculate_next_cron_trigger(alias, after, timezone="UTC") == following
        assert following is not None
        after = following


def test_h4_validity_without_throwing() -> None:
    """H4 H13"""
    assert is_valid_cron_expression("0 9 * * 1-5")
    assert not is_valid_cron_expression("invalid")
    assert not is_valid_cron_expression("every day at 9am")


def test_h4_next_nine_o_clock() -> None:
    """H4"""
    eight, nine = datetime(2025, 1, 15, 8, tzinfo=UTC), datetime(2025, 1, 15, 9, tzinfo=UTC)
    assert calculate_next_cron_trigger("0 9 * * *", eight, timezone="UTC") == nine
    assert calculate_next_cron_trigger("0 9 * * *", nine, timezone="UTC") == nine + timedelta(days=1)


def test_h3_first_run_is_at_once() -> None:
    """H3"""
    assert calculate_next_trigger(None, "5m", now=NOW) == NOW


def test_h3_measured_from_completion() -> None:
    """H3"""
    assert calculate_next_trigger(LAST, "5m", now=LAST) == LAST + timedelta(minutes=5)


def test_h3_a_past_due_time_means_now() -> None:
    """H3"""
    assert calculate_next_trigger(LAST, "5m", now=NOW) == NOW


def test_h3_jitter_is_bounded_and_the_same_again() -> None:
    """H3"""
    lasts = [LAST + timedelta(minutes=n) for n in range(300)]
    delays = [calculate_next_trigger(last, "1h", 5, now=LAST) - last for last in lasts]
    assert delays == [calculate_next_trigger(last, "1h", 5, now=LAST) - last for last in lasts]
    assert all(timedelta(hours=1) <= delay <= timedelta(minutes=63) for delay in delays)
    assert max(delays) - min(delays) > timedelta(minutes=2)


def test_h3_due_when_its_time_has_come() -> None:
    """H3"""
    assert is_schedule_due(LAST, now=NOW)
    assert is_schedule_due(NOW, now=NOW)
    assert not is_schedule_due(NOW + timedelta(milliseconds=1), now=NOW)


def test_h7_offending_value_travels_with_the_error() -> None:
    """H7 H12"""
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression("5-1 * * * *")
    assert caught.value.value == "5-1"
    assert caught.value.field == "minute"
