"""corvid-agent's own sentences (seeds/corvid)."""

import pytest

from matins import JobRun
from matins.errors import CronParseError, IntervalParseError
from matins.seeds.corvid import validate_schedule_frequency
from matins.testing import Bench, ManualClock


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


def bench() -> Bench:
    made = Bench(clock=ManualClock("2026-03-27T08:00:00Z"))
    made.job("action")(lambda run: run.payload)
    return made


def test_v3_at_most_two_actions_at_once_and_the_rest_wait() -> None:
    """V3: "At most MAX_CONCURRENT_EXECUTIONS (2) actions run simultaneously." """
    corvid = bench()
    running: list[int] = []
    most: list[int] = []

    @corvid.job("nest")
    def nest(run: JobRun) -> None:
        running.append(run.id)
        most.append(len(running))
        corvid.engine.turn()
        running.remove(run.id)

    corvid.limit("global", 2)
    corvid.add_many([{"name": f"s{n}", "when": "*/5 * * * *", "do": "nest"} for n in range(7)])
    corvid.run_until("2026-03-27T08:06:00Z")
    assert max(most) <= 2
    for n in range(7):
        corvid.assert_ran(f"s{n}", times=1)
    corvid.close()


def test_v5_max_executions_then_completed() -> None:
    """V5: "When maxExecutions is reached, the schedule status is set to completed and no further executions occur" """
    corvid = bench()
    corvid.add("three", when="*/5 * * * *", do="action", max_executions=3)
    corvid.run_until("2026-03-28T08:00:00Z")
    corvid.assert_ran("three", times=3)
    assert corvid.get("three").state == "completed"
    assert len(corvid.runs("three")) == 3
    corvid.close()


def test_v7_config_snapshot_isolation() -> None:
    """V7: "Each execution captures a snapshot of the schedule config at creation time, so mid-flight edits don't
    corrupt running executions" """
    corvid = bench()

    @corvid.job("edited")
    def edited(run: JobRun) -> object:
        before = run.payload
        corvid.edit("s", payload="new", do="action")
        assert run.payload == before
        return run.payload

    corvid.add("s", when="*/5 * * * *", do="edited", payload="old")
    corvid.run_until("2026-03-27T08:10:00Z")
    newer, older = corvid.runs("s")
    assert (older.rev, older.outcome) == (1, {"result": "old"})
    assert (newer.rev, newer.outcome) == (2, {"result": "new"})
    corvid.close()
