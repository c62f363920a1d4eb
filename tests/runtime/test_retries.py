"""Failed attempts, and intervals that count from completion."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from matins.executors.job_context import JobContext
from matins.model.run import Outcome, ProviderLimit
from matins.runtime.attempt import AttemptEnd
from matins.testing import Sandbox, iso

MINUTE = 60_000
Lines = Callable[..., list[str]]


def test_retries_are_rows_with_an_instant(bench: Sandbox) -> None:
    """B8 S7: nothing is held in memory only"""
    bench.add("s", when="0 9 * * *", job="fail", retries=3)
    bench.run_until("2026-03-27T09:00:00Z")
    (run,) = bench.runs.list(schedule="s")
    assert (run.state, run.attempt, run.reason) == ("ready", 1, "failed_attempt")
    assert run.not_before is not None
    assert run.slot is not None
    assert timedelta(seconds=10) <= run.not_before - run.slot <= timedelta(seconds=11)
    assert "no luck" in run.outcome["error"]


def test_back_off_doubles_and_then_it_has_failed(bench: Sandbox) -> None:
    """B8"""
    begun: list[int] = []
    keys: set[str] = set()

    @bench.job("try")
    def try_it(run: JobContext) -> None:
        begun.append(bench.clock.now_ms())
        assert run.attempt == len(begun)
        keys.add(run.key)
        raise ValueError(f"attempt {run.attempt}")

    bench.add("s", when="0 9 * * *", job="try", retries=3)
    bench.run_until("2026-03-27T12:00:00Z")
    (run,) = bench.runs.list(schedule="s")
    assert (run.state, run.attempt, len(keys)) == ("failed", 4, 1)
    assert "attempt 4" in run.outcome["error"]
    waits = [(later - earlier) // 10_000 for earlier, later in pairwise(begun)]
    assert waits == [1, 2, 4]
    assert bench.get("s").failures == 1


def test_a_restart_keeps_the_instant(reopen: Callable[..., Sandbox]) -> None:
    """B8 S7"""
    theatre = reopen()
    theatre.add("s", when="0 9 * * *", job="work", retries=1, retry_delay="10m")
    theatre.run_until("2026-03-27T09:00:00Z")
    theatre.end("s", error="no luck")
    at = theatre.runs.list(schedule="s")[0].not_before
    theatre = reopen()
    assert theatre.runs.list(schedule="s")[0].not_before == at
    theatre.run_until("2026-03-27T09:09:59Z")
    assert not theatre.stage.on
    theatre.run_until("2026-03-27T09:11:00Z")
    assert [work.number for work in theatre.stage.on.values()] == [2]


def test_success_after_a_failure(bench: Sandbox) -> None:
    """B8"""

    @bench.job("second time")
    def second_time(run: JobContext) -> int:
        return 1 // (run.attempt - 1)

    bench.add("s", when="0 9 * * *", job="second time", retries=1)
    bench.run_until("2026-03-27T10:00:00Z")
    (run,) = bench.assert_ran("s", times=1)
    assert (run.attempt, run.outcome) == (2, {"result": 1})
    assert bench.get("s").failures == 0


def test_failures_in_a_row_are_counted_and_forgotten(bench: Sandbox) -> None:
    """H8"""
    works = iter([False, False, True])

    @bench.job("perhaps")
    def perhaps(run: JobContext) -> None:
        if not next(works):
            raise ValueError

    bench.add("s", when="0 * * * *", job="perhaps")
    counted = []
    for hour in (9, 10, 11):
        bench.run_until(f"2026-03-27T{hour:02}:30:00Z")
        counted.append(bench.get("s").failures)
    assert counted == [1, 2, 0]


# -- intervals


def next_slot(bench: Sandbox) -> str | None:
    return iso(bench.get("s").due_at)


def test_an_interval_counts_from_the_end_of_its_run(theatre: Sandbox) -> None:
    """H3"""
    theatre.add("s", when="5m", job="work")
    theatre.run_until("2026-03-27T08:05:00Z")
    assert next_slot(theatre) is None, "nobody knows yet"
    theatre.run_until("2026-03-27T08:32:00Z")
    theatre.end("s")
    assert next_slot(theatre) == "2026-03-27T08:37:00Z"


@pytest.mark.parametrize("how", ["failed", "cancelled", "retried"])
def test_an_interval_goes_on_however_its_run_ends(theatre: Sandbox, how: str) -> None:
    """H3"""
    theatre.add("s", when="5m", job="work", retries=1 if how == "retried" else 0)
    theatre.run_until("2026-03-27T08:06:00Z")
    if how == "retried":
        theatre.end("s", error="no luck")
        assert next_slot(theatre) is None
        theatre.run_until("2026-03-27T08:07:00Z")
    theatre.end("s", error=None if how == "cancelled" else "no luck", cancelled=how == "cancelled")
    ended = "2026-03-27T08:12:00Z" if how == "retried" else "2026-03-27T08:11:00Z"
    assert next_slot(theatre) == ended


def test_an_interval_goes_on_when_a_run_is_called_off_before_it_starts(bench: Sandbox, lines: Lines) -> None:
    """H3"""
    bench.add("s", when="5m", job="fail", retries=1, retry_delay="1h")
    bench.run_until("2026-03-27T08:06:00Z")
    bench.runs.cancel(bench.runs.list(schedule="s")[0].id)
    assert next_slot(bench) == "2026-03-27T08:11:00Z"
    bench.run_until("2026-03-27T08:11:00Z")
    assert lines(bench, "s") == ["08:05 cancelled cancelled", "08:11 ready failed_attempt"]


@pytest.mark.parametrize("policy", ["retry", "hold"])
def test_an_interval_goes_on_when_its_run_is_lost(reopen: Callable[..., Sandbox], policy: str) -> None:
    """H3 H8"""
    theatre = reopen()
    theatre.add("s", when="5m", job="work", on_unknown=policy)
    theatre.run_until("2026-03-27T08:05:00Z")
    theatre = reopen()
    theatre.run_until("2026-03-27T08:30:00Z")
    if policy == "hold":
        assert next_slot(theatre) is None
        theatre.runs.resolve(theatre.runs.list(schedule="s")[0].id, "unknown")
    else:
        theatre.end("s")
    assert next_slot(theatre) == "2026-03-27T08:35:00Z"


@pytest.mark.parametrize("policy", ["retry", "hold"])
def test_a_lost_step_follows_the_policy_of_its_schedule(reopen: Callable[..., Sandbox], policy: str) -> None:
    """H8 P2: a step without a policy of its own is held, or runs again, as a plain run of the schedule would."""
    theatre = reopen()
    steps = [
        {"title": "Charge", "job": "work"},
        {"title": "Send it", "job": "work", "after": ["Charge"]},
    ]
    theatre.add("s", when="5m", steps=steps, on_unknown=policy)
    theatre.run_until("2026-03-27T08:05:00Z")
    theatre = reopen()
    theatre.run_until("2026-03-27T08:06:00Z")
    run = theatre.runs.get(theatre.runs.list(schedule="s")[0].id)
    assert run.steps[0].status == ("held" if policy == "hold" else "running")


def test_the_first_run_can_be_at_once(bench: Sandbox, lines: Lines) -> None:
    """H3"""
    bench.add("s", when="5m", job="work", first="immediately")
    bench.run_until("2026-03-27T08:10:00Z")
    assert lines(bench, "s") == ["08:00 succeeded", "08:05 succeeded", "08:10 succeeded"]


def test_a_start_anchored_interval_counts_from_its_slot(theatre: Sandbox, lines: Lines) -> None:
    """H3"""
    theatre.add("s", when="5m", job="work", anchor="start")
    theatre.run_until("2026-03-27T08:08:00Z")
    theatre.end("s")
    theatre.run_until("2026-03-27T08:10:00Z")
    assert lines(theatre, "s") == ["08:05 succeeded", "08:10 running"]


def test_max_executions_then_completed(bench: Sandbox, lines: Lines) -> None:
    """V5"""
    for name, when in (("cron", "*/5 * * * *"), ("interval", "5m")):
        bench.add(name, when=when, job="work", max_executions=2)
        assert bench.get(name).state == "active"
    bench.run_until("2026-03-28T09:00:00Z")
    for name in ("cron", "interval"):
        assert lines(bench, name) == ["08:05 succeeded", "08:10 succeeded"]
        shown = bench.get(name)
        assert (shown.state, shown.executions, shown.next_run_at) == ("completed", 2, None)
    assert [schedule.state for schedule in bench.list()] == ["completed", "completed"]


def test_a_failed_run_counts_as_an_execution_and_its_retries_do_not(bench: Sandbox) -> None:
    """V5"""
    bench.add("s", when="*/5 * * * *", job="fail", retries=2, retry_delay="1s", max_executions=2)
    bench.run_until("2026-03-27T09:00:00Z")
    assert [run.attempt for run in bench.runs.list(schedule="s")] == [3, 3]
    assert bench.get("s").state == "completed"


def test_more_executions_can_be_granted(bench: Sandbox) -> None:
    """V5"""
    bench.add("s", when="*/5 * * * *", job="work", max_executions=1)
    bench.run_until("2026-03-27T09:01:00Z")
    bench.edit("s", max_executions=3, when="*/5 * * * *")
    bench.run_until("2026-03-27T10:00:00Z")
    bench.assert_ran("s", times=3)
    assert bench.get("s").state == "completed"


def test_a_limit_that_a_cancelled_run_meets_counts_once(theatre: Sandbox) -> None:
    """B8 B16: the attempt does not count, once; one throttle is set, and the log agrees with the run"""
    theatre.add("s", when="0 9 * * *", job="work", provider="acme")
    theatre.run_until("2026-03-27T09:00:00Z")
    (run,) = theatre.runs.list(schedule="s")
    theatre.runs.cancel(run.id)
    attempt = theatre.stage.on.pop(int(run.id))
    limit = ProviderLimit("acme", None, "429")
    theatre.stage._done.append(AttemptEnd(attempt, Outcome(False, error="429", limit=limit)))
    theatre.settle()
    (run,) = theatre.runs.list(schedule="s")
    assert (run.state, run.attempt) == ("cancelled", 0)
    assert len(theatre.events.list(types=["throttle.set"])) == 1
    assert theatre.audit.verify().problems == []
