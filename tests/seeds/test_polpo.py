"""Polpo's own sentences (seeds/polpo)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from matins import CronParseError, JobRun, parse_trigger
from matins.testing import Bench, ManualClock

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "says", "first"),
    [
        ("0 2 * * *", "every day at 02:00", (1, 2, 0)),
        ("*/15 * * * *", "every 15 minutes on the clock", (1, 0, 15)),
        ("0 9 * * 1-5", "every weekday at 09:00", (2, 9, 0)),
        ("0 0 1 * *", "on the 1st of every month at 00:00", (32, 0, 0)),
        ("30 8,12,18 * * *", "every day at 08:30, 12:30 and 18:30", (1, 8, 30)),
        ("0 22 * * 0", "every Sunday at 22:00", (1, 22, 0)),
        ("0 6 * * 1", "every Monday at 06:00", (2, 6, 0)),
    ],
)
def test_p3_common_patterns(expression: str, says: str, first: tuple[int, int, int]) -> None:
    """P3"""
    trigger = parse_trigger(expression, strict=True)
    day, hour, minute = first
    expected = datetime(2026, 3, day, hour, minute, tzinfo=UTC) if day < 32 else datetime(2026, 4, 1, tzinfo=UTC)
    assert trigger.describe() == says
    assert trigger.next_after(START) == expected


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("30", [30]),
        ("0-5", [0, 1, 2, 3, 4, 5]),
        ("*/15", [0, 15, 30, 45]),
        ("1,3,5", [1, 3, 5]),
        ("0-30/10", [0, 10, 20, 30]),
    ],
)
def test_p3_syntax_table(field: str, minutes: list[int]) -> None:
    """P3"""
    trigger = parse_trigger(f"{field} * * * *", strict=True)
    hour = [t.minute for t in trigger.between(START, START.replace(hour=1))]
    assert hour == minutes


def test_p3_sunday_is_0_and_7() -> None:
    """P3"""
    zero, seven = parse_trigger("0 22 * * 0", strict=True), parse_trigger("0 22 * * 7", strict=True)
    assert zero.next_after(START) == seven.next_after(START)


@pytest.mark.parametrize(
    ("expression", "token"),
    [
        ("@daily", "@daily"),
        ("0 9 * * MON", "MON"),
        ("0 0 L * *", "L"),
        ("0 0 15W * *", "15W"),
        ("0 0 * * 5#2", "5#2"),
        ("0 0 ? * *", "?"),
        ("0 0 9 * * *", "6"),
    ],
)
def test_p3_strict_refuses_what_polpo_does_not_have_by_name(expression: str, token: str) -> None:
    """P3"""
    parse_trigger(expression)
    with pytest.raises(CronParseError) as caught:
        parse_trigger(expression, strict=True)
    assert token in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("expression", ["*/0 * * * *", "99 * * * *", "5-1 * * * *", "0 0 30 2 *"])
def test_p3_the_seeds_parser_defects_are_errors_here(expression: str) -> None:
    """P3"""
    with pytest.raises(CronParseError) as caught:
        parse_trigger(expression, strict=True)
    assert caught.value.field
    assert caught.value.allowed


def test_p3_february_29_is_found_across_2100() -> None:
    """P3"""
    trigger = parse_trigger("0 0 29 2 *")
    assert trigger.next_after(datetime(2096, 3, 1, tzinfo=UTC)) == datetime(2104, 2, 29, tzinfo=UTC)


def test_p8_on_startup_every_stored_schedule_is_registered(tmp_path: Path) -> None:
    """P8: "on startup, Polpo scans all missions with a schedule field … and registers them" """
    clock = ManualClock("2026-03-27T08:00:00Z")
    before = Bench(f"sqlite:///{tmp_path}/polpo.db", clock=clock)
    before.add_many([{"name": f"sched-{n}", "when": "0 9 * * *", "do": "mission"} for n in range(20)])
    before.pause("sched-7")
    before.close()
    bench = Bench(f"sqlite:///{tmp_path}/polpo.db", clock=clock)
    bench.job("mission")(lambda run: None)
    bench.run_until("2026-03-27T09:00:00Z")
    for n in range(20):
        bench.assert_ran(f"sched-{n}", times=0 if n == 7 else 1)
    bench.close()


def test_p8_double_execution_of_active_missions_is_prevented() -> None:
    """P8: "Missions in active … status are skipped. This prevents double execution of active missions." """
    bench = Bench(clock=ManualClock("2026-03-27T08:00:00Z"))
    active: list[int] = []

    @bench.job("mission")
    def mission(run: JobRun) -> None:
        active.append(run.id)
        assert len(active) == 1, "a second run of an active one"
        bench.clock.advance(3_600_000)
        bench.engine.turn()
        assert bench.run("sched-1").reason == "already_running"
        active.remove(run.id)

    bench.add("sched-1", when="0 * * * *", do="mission")
    bench.run_until("2026-03-27T09:00:00Z")
    states = [(run.state.word, run.reason) for run in reversed(bench.runs("sched-1"))]
    assert states[:3] == [("succeeded", None), ("skipped", "already_running"), ("skipped", "already_running")]
    bench.close()
