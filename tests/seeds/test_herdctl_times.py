"""herdctl's times where its own functions are more lenient than Matins' (seeds/herdctl)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from matins.runtime.clock import SystemClock
from matins.seeds.herdctl import (
    CronParseError,
    IntervalParseError,
    calculate_next_cron_trigger,
    calculate_next_trigger,
    is_schedule_due,
    is_valid_cron_expression,
    parse_cron_expression,
    parse_interval,
)


@pytest.fixture(autouse=True)
def tokyo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "local_zone", lambda self: "Asia/Tokyo")


def test_h3_a_datetime_without_a_zone_is_local() -> None:
    """H3 H4: "Next 9am after 8am today -> today at 9am", with `new Date("2025-01-15T08:00:00")`, which is local"""
    nine = datetime(2025, 1, 15, 0, tzinfo=UTC)
    assert calculate_next_cron_trigger("0 9 * * *", datetime(2025, 1, 15, 8)) == nine
    assert calculate_next_cron_trigger("0 9 * * *", datetime(2025, 1, 15, 9)) == datetime(2025, 1, 16, 0, tzinfo=UTC)
    last, now = datetime(2025, 1, 19, 10), datetime(2025, 1, 19, 1, 1, tzinfo=UTC)
    assert calculate_next_trigger(last, "5m", now=now) == datetime(2025, 1, 19, 1, 5, tzinfo=UTC)
    assert is_schedule_due(datetime(2025, 1, 19, 10), now)
    assert not is_schedule_due(datetime(2025, 1, 19, 10, 2), now)


def test_h3_the_seeds_own_example() -> None:
    """H3: "calculateNextTrigger(new Date("2025-01-19T10:00:00Z"), "5m"); // returns 2025-01-19T10:05:00Z" """
    last = datetime(2025, 1, 19, 10, tzinfo=UTC)
    assert calculate_next_trigger(last, "5m", now=last) == datetime(2025, 1, 19, 10, 5, tzinfo=UTC)


def test_h13_the_expression_alone() -> None:
    """H13: "calculateNextCronTrigger(expression)": the next match after now"""
    found = calculate_next_cron_trigger("* * * * *")
    assert found is not None
    assert 0 < (found - datetime.now(UTC)).total_seconds() + 60 <= 121


@pytest.mark.parametrize("text", [" @daily", "@daily ", "\t@daily\n", " 0 0 * * * "])
def test_h4_blanks_around_an_expression(text: str) -> None:
    """H4"""
    assert is_valid_cron_expression(text)
    assert calculate_next_cron_trigger(text, datetime(2025, 1, 15, 8)) == datetime(2025, 1, 15, 15, tzinfo=UTC)


@pytest.mark.parametrize(("text", "ms"), [("5M", 300_000), ("1H", 3_600_000), (" 30S ", 30_000), ("1 D", 86_400_000)])
def test_h7_capital_units_and_blanks(text: str, ms: int) -> None:
    """H7"""
    assert parse_interval(text) == ms


@pytest.mark.parametrize("text", [" 5x", "5.5m ", " 0m ", " -5M", "5 ", "1h30m", ""])
def test_h7_an_error_keeps_the_value_as_given(text: str) -> None:
    """H7 H12: "IntervalParseError includes the original interval string" """
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(text)
    assert caught.value.value == text
    assert caught.value.hint


@pytest.mark.parametrize("text", ["0 25 * * *", " * * * ", "invalid", "0 0 9 * * *", "@reboot", "5/15 * * * *"])
def test_h7_an_error_hints_at_an_expression_to_copy(text: str) -> None:
    """H7"""
    with pytest.raises(CronParseError) as caught:
        parse_cron_expression(text)
    assert caught.value.expression == text
    assert caught.value.hint is not None
    assert is_valid_cron_expression(caught.value.hint.rsplit('"')[-2])
