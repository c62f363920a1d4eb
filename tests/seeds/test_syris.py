"""Syris' own sentences (seeds/syris)."""

from datetime import UTC, datetime, timedelta

import pytest

from matins.errors import TriggerError
from matins.seeds.syris import schedule_trigger

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)


def test_s1_cron() -> None:
    """S1"""
    trigger = schedule_trigger("cron", "0 9 * * 1-5")
    assert trigger.next_after(NOW) == datetime(2026, 3, 30, 9, tzinfo=UTC)


def test_s1_interval_is_seconds_from_the_last_run_and_first_at_once() -> None:
    """S1"""
    trigger = schedule_trigger("interval", "30", now=NOW)
    now_ms = round(NOW.timestamp() * 1000)
    assert trigger.first_ms(now_ms) == now_ms
    assert trigger.next_after(NOW) == NOW + timedelta(seconds=30)


def test_s1_one_shot() -> None:
    """S1"""
    trigger = schedule_trigger("one_shot", "2026-03-28T09:00:00Z")
    due = datetime(2026, 3, 28, 9, tzinfo=UTC)
    assert trigger.next_after(NOW) == due
    assert trigger.next_after(due) is None


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("cron", "every day at 9am"), ("interval", "30s"), ("interval", "0"), ("one_shot", "0 9 * * *"), ("rrule", "x")],
)
def test_s1_bad_specs(kind: str, spec: str) -> None:
    """S1"""
    with pytest.raises(TriggerError):
        schedule_trigger(kind, spec)


def test_s6_time_zone_of_its_own_and_utc_by_default() -> None:
    """S6"""
    assert schedule_trigger("cron", "0 9 * * *").timezone == "UTC"
    tokyo = schedule_trigger("cron", "0 9 * * *", timezone="Asia/Tokyo")
    assert tokyo.next_after(NOW) == datetime(2026, 3, 28, 0, tzinfo=UTC)
