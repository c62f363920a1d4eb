"""Cortex's own sentences (seeds/cortex)."""

from datetime import UTC, datetime, timedelta

import pytest

from matins import JobRun
from matins.errors import IntervalParseError, TriggerError
from matins.seeds.cortex import schedule_trigger
from matins.testing import Bench, ManualClock

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


@pytest.mark.parametrize(
    ("kind", "fields", "period"),
    [
        ("interval", {"interval": "5m"}, timedelta(minutes=5)),
        ("daily", {"time": "13:00"}, timedelta(days=1)),
        ("weekly", {"day_of_week": 5, "time": "13:00"}, timedelta(days=7)),
    ],
)
def test_c9_in_flight_protection(kind: str, fields: dict, period: timedelta) -> None:
    """C9: "If a task's timer fires while a previous invocation is still running … the new invocation is skipped." """
    bench = Bench(clock=ManualClock(NOW))
    in_flight: list[int] = []

    @bench.job("task")
    def task(run: JobRun) -> None:
        in_flight.append(run.id)
        assert in_flight == [run.id]
        bench.clock.advance(period // timedelta(milliseconds=1))
        bench.engine.turn()
        in_flight.remove(run.id)

    bench.add("task", when=schedule_trigger(kind, **fields, now=NOW), do="task")
    if kind == "interval":
        bench.run("task")
    bench.run_until(NOW + timedelta(hours=1))
    first, second, *_ = [(run.state.word, run.reason) for run in reversed(bench.runs("task", limit=10_000))]
    assert (first, second) == (("succeeded", None), ("skipped", "already_running"))
    bench.close()


def test_c12_startup() -> None:
    """C12: "Drops once tasks that are more than 1 minute overdue … Schedules all remaining tasks" """
    bench = Bench(clock=ManualClock(NOW))
    bench.job("task")(lambda run: None)
    for minutes in (1, 2, 3):
        bench.add(f"once-{minutes}", when=schedule_trigger("once", delay=f"{minutes}m", now=NOW), do="task", grace="1m")
    bench.add("daily", when=schedule_trigger("daily", time="13:00"), do="task")
    bench.clock.advance(3 * 60_000 + 30_000)
    bench.settle()
    states = [bench.runs(f"once-{minutes}")[0].state.word for minutes in (1, 2, 3)]
    assert states == ["missed", "missed", "succeeded"]
    assert bench.get("daily").state == "active"
    bench.run_until(NOW + timedelta(hours=1))
    bench.assert_ran("daily", times=1)
    bench.close()
