"""Cortex's own sentences (seeds/cortex)."""

from datetime import UTC, datetime, timedelta

import pytest

from matins.errors import IntervalParseError, TriggerError
from matins.seeds.cortex import schedule_trigger

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)  # a Friday


@pytest.mark.parametrize(
    ("interval", "gap"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        (30_000, timedelta(seconds=30)),
    ],
)
def test_c1_interval(interval: str | int, gap: timedelta) -> None:
    """C1"""
    trigger = schedule_trigger("interval", interval=interval, now=NOW)
    assert trigger.next_after(NOW) == NOW + gap


def test_c1_daily() -> None:
    """C1"""
    trigger = schedule_trigger("daily", time="09:00")
    assert trigger.next_after(NOW) == datetime(2026, 3, 28, 9, tzinfo=UTC)


def test_c1_weekly_monday_at_21() -> None:
    """C1"""
    trigger = schedule_trigger("weekly", day_of_week=1, time="21:00")
    assert trigger.next_after(NOW) == datetime(2026, 3, 30, 21, tzinfo=UTC)
    assert trigger.describe() == "every Monday at 21:00"
    assert schedule_trigger("weekly", day_of_week=0, time="21:00").describe() == "every Sunday at 21:00"


@pytest.mark.parametrize("delay", ["2h", 7_200_000])
def test_c1_once_after_a_delay(delay: str | int) -> None:
    """C1"""
    trigger = schedule_trigger("once", delay=delay, now=NOW)
    due = NOW + timedelta(hours=2)
    assert trigger.next_after(NOW) == due
    assert trigger.next_after(due) is None


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("hourly", {}),
        ("interval", {}),
        ("daily", {}),
        ("weekly", {"time": "09:00"}),
        ("weekly", {"day_of_week": 7, "time": "09:00"}),
        ("daily", {"time": "9am"}),
        ("daily", {"time": "24:00"}),
        ("once", {}),
        ("interval", {"interval": 0}),
    ],
)
def test_c1_bad_fields_are_named(kind: str, fields: dict) -> None:
    """C1"""
    with pytest.raises(TriggerError) as caught:
        schedule_trigger(kind, **fields, now=NOW)
    assert caught.value.field


def test_c1_durations_take_one_number_and_one_unit() -> None:
    """C1"""
    with pytest.raises(IntervalParseError):
        schedule_trigger("interval", interval="1w", now=NOW)
