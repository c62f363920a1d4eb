"""The pause after failures in a row, on every store, with a clock that the test moves. Rows V4, B6, C10."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate_records import at, lines, moment, told

from matins.errors import OverBudget, RateLimited
from matins.executors.job_context import JobContext
from matins.model.run import Outcome
from matins.runtime import recorder
from matins.runtime.attempt import AttemptEnd
from matins.testing import Sandbox, iso

HOURLY = "0 * * * *"


@pytest.fixture
def outcomes(bench: Sandbox) -> list[Any]:
    """What the job "act" does, one after the other: None succeeds, an exception is raised."""
    script: list[Any] = []

    @bench.job("act")
    def act(run: JobContext) -> None:
        outcome = script.pop(0)
        if outcome is not None:
            raise outcome

    return script


def test_v4_so_many_in_a_row_and_it_is_paused(bench: Sandbox) -> None:
    """V4 C10"""
    bench.add("s", when=HOURLY, job="fail", pause_after_failures=3)
    bench.run_until(at("10:30"))
    assert (bench.get("s").state, bench.get("s").failures) == ("active", 2)
    bench.run_until(at("15:00"))
    assert lines(bench) == ["09:00 failed", "10:00 failed", "11:00 failed"]
    shown = bench.get("s")
    assert (shown.state, shown.paused_by, shown.note) == ("paused", "failures", "3 runs in a row failed")
    assert iso(shown.paused_at) == at("11:00")
    assert told(bench, "schedule.auto_paused") == [{"failures": 3}]
    assert told(bench, "schedule.paused") == [
        {"by": "failures", "who": "failures", "note": "3 runs in a row failed", "until": None}
    ]


def test_v4_the_pause_itself_counts_afresh(bench: Sandbox) -> None:
    """V4: resumed, it has as many again"""
    bench.add("s", when=HOURLY, job="fail", pause_after_failures=2)
    bench.run_until(at("10:30"))
    assert (bench.get("s").state, bench.get("s").failures) == ("paused", 0)
    bench.resume("s")
    bench.run_until(at("11:30"))
    assert (bench.get("s").state, bench.get("s").failures) == ("active", 1)
    bench.run_until(at("12:30"))
    assert bench.get("s").state == "paused"


def test_v4_a_success_counts_afresh(bench: Sandbox, outcomes: list[Any]) -> None:
    """V4"""
    outcomes += [ValueError(), ValueError(), None, ValueError(), ValueError(), None]
    bench.add("s", when=HOURLY, job="act", pause_after_failures=3)
    bench.run_until(at("14:30"))
    assert (bench.get("s").state, len(lines(bench))) == ("active", 6)


def test_v4_counted_durably(restart: Callable[..., Sandbox]) -> None:
    """V4: over restarts"""
    restart().add("s", when=HOURLY, job="fail", pause_after_failures=3)
    for hour in ("09:30", "10:30", "11:30"):
        bench = restart()
        bench.run_until(at(hour))
    assert (bench.get("s").state, bench.get("s").paused_by) == ("paused", "failures")
    again = restart()
    again.run_until(at("15:00"))
    assert len(lines(again)) == 3


def test_without_the_word_it_never_pauses_itself(bench: Sandbox) -> None:
    """V4"""
    bench.add("s", when="*/5 * * * *", job="fail", failure_backoff="none")
    bench.run_until(at("10:00"))
    assert (bench.get("s").state, bench.get("s").failures) == ("active", 24)


def test_attempts_do_not_count_the_run_does(bench: Sandbox) -> None:
    """V4 B8: three attempts of one run are one failure"""
    bench.add("s", when=HOURLY, job="fail", pause_after_failures=2, retries=2, retry_delay="1s")
    bench.run_until(at("09:30"))
    assert (bench.get("s").state, bench.get("s").failures) == ("active", 1)
    bench.run_until(at("10:30"))
    assert bench.get("s").state == "paused"


def test_what_is_started_by_hand_counts_too(bench: Sandbox) -> None:
    """V4"""
    bench.add("s", when=HOURLY, job="fail", pause_after_failures=2)
    bench.run("s")
    bench.run_until(at("09:30"))
    assert lines(bench) == ["manual failed", "09:00 failed"]
    assert bench.get("s").state == "paused"


def test_b6_a_provider_that_refuses_is_no_failure(bench: Sandbox, outcomes: list[Any]) -> None:
    """V4 B6: nor does it forgive the failures before"""
    outcomes += [ValueError(), RateLimited("anthropic"), RateLimited("anthropic"), ValueError()]
    bench.add("s", when=HOURLY, job="act", pause_after_failures=2)
    bench.run_until(at("10:01:30"))
    assert (bench.get("s").failures, bench.get("s").state) == (1, "active")
    bench.run_until(at("10:30"))
    assert lines(bench) == ["09:00 failed", "10:00 failed"]
    assert bench.get("s").state == "paused"


def test_gates_and_budgets_are_no_failures(bench: Sandbox, outcomes: list[Any]) -> None:
    """V4: skipped, blocked, cancelled, over its budget"""
    outcomes += [OverBudget("enough")]
    bench.add("s", when=HOURLY, job="act", pause_after_failures=1)
    bench.add("t", when=HOURLY, job="work", pause_after_failures=1, pre_check="false")
    bench.run_until(at("09:30"))
    assert (lines(bench), lines(bench, "t")) == (["09:00 over_budget"], ["09:00 skipped pre_check"])
    assert (bench.get("s").failures, bench.get("t").failures) == (0, 0)
    assert bench.get("t").state == "active"


def held(bench: Sandbox, name: str) -> int:
    """A run of this schedule whose worker is gone; the run."""
    submit = bench.executor.submit
    bench.executor.submit = lambda batch: None  # type: ignore[method-assign]
    run = bench.run(name)
    bench.engine.turn()
    bench.executor.submit = submit  # type: ignore[method-assign]
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        rows = transaction.live_runs([int(run.id)])
        known = bench._catalog.compiled(transaction, [rows[0].key])
        recorder.mark_unknown(transaction, [(row, known[row.key]) for row in rows], 0)  # type: ignore[misc]
    return int(run.id)


@pytest.mark.parametrize("end", ["unknown", "retry"])
def test_v4_nobody_knows_how_it_ended(bench: Sandbox, outcomes: list[Any], end: str) -> None:
    """V4: unknown is no failure; nor is what is tried again after its worker was lost"""
    outcomes += [None]
    bench.add("s", when=HOURLY, job="act", pause_after_failures=1, on_unknown="hold")
    run_id = held(bench, "s")
    assert lines(bench) == ["manual held worker_lost"]
    bench.runs.resolve(run_id, end)
    bench.settle()
    assert (bench.get("s").state, bench.get("s").failures) == ("active", 0)


def test_v4_cancelled_is_no_failure(bench: Sandbox) -> None:
    """V4"""
    bench.add("s", when=HOURLY, job="work", pause_after_failures=1)
    submit = bench.executor.submit

    def cancelled(batch: list[Any]) -> None:
        bench.executor._done += [AttemptEnd(work, Outcome(False, error="cancelled", cancelled=True)) for work in batch]

    bench.executor.submit = cancelled  # type: ignore[method-assign]
    bench.run_until(at("09:30"))
    bench.executor.submit = submit  # type: ignore[method-assign]
    assert lines(bench) == ["09:00 cancelled"]
    assert (bench.get("s").state, bench.get("s").failures) == ("active", 0)


def test_v4_it_does_not_take_over_a_pause_of_the_users(bench: Sandbox) -> None:
    """V4 C10 C16: who paused it first is who paused it"""

    @bench.job("is paused")
    def is_paused(run: JobContext) -> None:
        bench.pause("s", note="mine")
        raise ValueError

    bench.add("s", when=HOURLY, job="is paused", pause_after_failures=1)
    bench.run_until(at("10:30"))
    shown = bench.get("s")
    assert (shown.state, shown.paused_by, shown.note) == ("paused", "owner", "mine")


def test_v4_but_it_outlasts_one_that_would_end_by_itself(bench: Sandbox) -> None:
    """V4 C10"""

    @bench.job("is paused")
    def is_paused(run: JobContext) -> None:
        bench.pause("s", note="mine", until=moment("11:00"))
        raise ValueError

    bench.add("s", when=HOURLY, job="is paused", pause_after_failures=1)
    bench.run_until(at("13:30"))
    assert (bench.get("s").state, bench.get("s").paused_by) == ("paused", "failures")


def test_two_that_fail_in_one_turn(bench: Sandbox) -> None:
    """V4: both count, and the schedule is paused once"""
    bench.add("s", when=HOURLY, job="fail", pause_after_failures=2, overlap="allow")
    bench.run("s")
    bench.run("s")
    bench.settle()
    assert (bench.get("s").state, len(told(bench, "schedule.auto_paused"))) == ("paused", 1)


def test_an_interval_that_failed_its_way_into_a_pause_goes_on_when_resumed(bench: Sandbox, outcomes: list[Any]) -> None:
    """V4 H3: none can wedge it"""
    outcomes += [ValueError(), None]
    bench.add("s", when="1h", job="act", pause_after_failures=1)
    bench.run_until(at("12:30"))
    assert lines(bench) == ["09:00 failed"]
    assert iso(bench.resume("s").due_at) == at("13:30")
    bench.run_until(at("13:30"))
    assert lines(bench) == ["09:00 failed", "13:30 succeeded"]
