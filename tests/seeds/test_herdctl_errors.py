"""herdctl's five error classes, each with what it is about. Row H12."""

from __future__ import annotations

from contextlib import closing

import pytest

from matins.seeds import herdctl
from matins.seeds.herdctl import (
    CronParseError,
    IntervalParseError,
    SchedulerError,
    SchedulerShutdownError,
    ScheduleTriggerError,
)
from matins.testing import ManualClock, Sandbox


def test_h12_each_error_carries_what_it_is_about() -> None:
    """H12: "IntervalParseError includes the original interval string … SchedulerShutdownError includes whether a
    timeout occurred and how many jobs were still running" """
    with pytest.raises(IntervalParseError) as interval:
        herdctl.parse_interval("5x")
    assert interval.value.value == "5x"
    with pytest.raises(CronParseError) as cron:
        herdctl.parse_cron_expression("0 25 * * *")
    assert (cron.value.value, cron.value.field) == ("25", "hour")
    shutdown = SchedulerShutdownError(30_000, 2)
    assert (shutdown.timed_out, shutdown.running_job_count) == (True, 2)


def test_h12_a_trigger_that_failed_says_whose_it_was() -> None:
    """H12: "ScheduleTriggerError includes the agent and schedule names" """
    with closing(Sandbox(clock=ManualClock("2025-01-19T12:00:00Z"))) as bench:
        fails = [True]

        @bench.job("work")
        def work(run: object) -> None:
            if fails.pop():
                raise RuntimeError("the API is down")

        bench.add("check-issues", when="5m", job="work", agent="my-agent")
        herdctl.raise_for_last_run(bench, "my-agent", "check-issues")
        bench.run_until("2025-01-19T12:05:00Z")
        with pytest.raises(ScheduleTriggerError) as failed:
            herdctl.raise_for_last_run(bench, "my-agent", "check-issues")
        assert (failed.value.agent_name, failed.value.schedule_name) == ("my-agent", "check-issues")
        assert failed.value.cause == "RuntimeError: the API is down"
        assert failed.value.hint == "matins why check-issues"
        fails.append(False)
        bench.run_until("2025-01-19T12:10:00Z")
        herdctl.raise_for_last_run(bench, "my-agent", "check-issues")


@pytest.mark.parametrize(
    "kind",
    [CronParseError, IntervalParseError, ScheduleTriggerError, SchedulerShutdownError],
    ids=lambda kind: kind.__name__,
)
def test_h12_one_base_for_all(kind: type[Exception]) -> None:
    """H12: "SchedulerError: Base class for all scheduler errors" """
    assert issubclass(kind, SchedulerError)
