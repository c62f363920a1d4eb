"""Intervals that count from completion, whatever the end of a run: each says when the next one is. Rows H3, B1, B8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate_records import at, last, lines, moment

from matins.errors import RateLimited
from matins.executors.job_context import JobContext
from matins.testing import Sandbox, instant, iso

Ends = Callable[[Sandbox], dict[str, Any]]


def job(bench: Sandbox, act: Callable[[JobContext], None]) -> dict[str, Any]:
    bench.job("act")(act)
    return {"job": "act"}


def succeeds(bench: Sandbox) -> dict[str, Any]:
    return {}


def fails(bench: Sandbox) -> dict[str, Any]:
    return {"job": "fail"}


def fails_twice(bench: Sandbox) -> dict[str, Any]:
    return {"job": "fail", "retries": 1, "retry_delay": "10m"}


def is_refused_by_its_check(bench: Sandbox) -> dict[str, Any]:
    return {"pre_check": "false"}


def is_cancelled_by_its_hook(bench: Sandbox) -> dict[str, Any]:
    return {"before_run": "false"}


def is_blocked(bench: Sandbox) -> dict[str, Any]:
    bench.checking._guard = lambda context: "no"
    bench.checking.guarded = True
    return {}


def has_no_money(bench: Sandbox) -> dict[str, Any]:
    bench.budgets.set("day", period="day", max_cost="$1")
    return {"max_cost": "$2"}


def finds_no_money_when_it_may_start(bench: Sandbox) -> dict[str, Any]:
    """There is enough when it is due, and it is gone when it was checked."""
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.checking._guard = lambda context: bench.budgets.set("day", period="day", max_cost="$0.01") and None
    bench.checking.guarded = True
    return {"max_cost": "$1"}


def spends_too_much(bench: Sandbox) -> dict[str, Any]:
    return {**job(bench, lambda run: run.spend("$2")), "max_cost": "$1"}


def is_denied(bench: Sandbox) -> dict[str, Any]:
    bench.job("deny")(lambda run: bench.approvals.deny(bench.approvals.list()[0].id) and None)
    bench.add("denier", when="10 9 * * *", job="deny")
    return {"approval": "owner_approve"}


def is_not_answered(bench: Sandbox) -> dict[str, Any]:
    return {"approval": "owner_approve", "approval_timeout": "10m"}


def is_called_off(bench: Sandbox) -> dict[str, Any]:
    bench.job("cancel")(lambda run: bench.runs.cancel(last(bench).id) and None)
    bench.add("canceller", when="10 9 * * *", job="cancel")
    return {"approval": "owner_approve"}


def is_throttled_first(bench: Sandbox) -> dict[str, Any]:
    def call(run: JobContext) -> None:
        if bench.clock.now_ms() < instant(at("09:10")):
            raise RateLimited("anthropic", resets_at=moment("09:10"))

    return job(bench, call)


def keeps_quiet(bench: Sandbox) -> dict[str, Any]:
    bench.quiet_hours.set("quiet", windows="09:00-09:10", mode="skip")
    return {"quiet_hours": "quiet"}


def waits_for_the_end_of_quiet(bench: Sandbox) -> dict[str, Any]:
    bench.quiet_hours.set("quiet", windows="09:00-09:10", mode="defer")
    return {"quiet_hours": "quiet"}


NOW, LATER = "10:00", "10:10"
ENDS: list[tuple[Ends, str, str]] = [
    (succeeds, "succeeded", NOW),
    (fails, "failed", NOW),
    (is_refused_by_its_check, "skipped pre_check", NOW),
    (is_cancelled_by_its_hook, "skipped hook", NOW),
    (is_blocked, "blocked guard", NOW),
    (has_no_money, "over_budget", NOW),
    (finds_no_money_when_it_may_start, "over_budget", NOW),
    (keeps_quiet, "skipped quiet_hours", NOW),
    (waits_for_the_end_of_quiet, "succeeded", LATER),
    (is_denied, "denied", LATER),
    (is_not_answered, "expired approval_expired", LATER),
    (is_called_off, "cancelled", LATER),
    (is_throttled_first, "succeeded", LATER),
]


@pytest.mark.parametrize(("ends", "what", "following"), ENDS, ids=[ends.__name__ for ends, _, _ in ENDS])
def test_h3_the_next_is_an_interval_after_the_end(bench: Sandbox, ends: Ends, what: str, following: str) -> None:
    """H3 B1 B8: whatever the end"""
    bench.add("s", when="1h", **{"job": "work", **ends(bench)})
    bench.run_until(at("09:30"))
    assert lines(bench) == [f"09:00 {what}"]
    schedule = bench.get("s")
    assert (schedule.state, iso(schedule.next_run_at), iso(schedule.due_at)) == ("active", at(following), at(following))


@pytest.mark.parametrize("ends", [fails_twice, spends_too_much], ids=lambda ends: ends.__name__)
def test_h3_one_that_stops_its_schedule_goes_on_when_it_is_let(bench: Sandbox, ends: Ends) -> None:
    """H3 V4 B5"""
    bench.add("s", when="1h", pause_after_failures=1, **{"job": "work", **ends(bench)})
    bench.run_until(at("12:30"))
    assert (len(lines(bench)), bench.get("s").state) == (1, "paused")
    bench.resume("s")
    assert iso(bench.get("s").due_at) == at("13:30")


def test_a_manual_run_leaves_the_interval_where_it_stands(bench: Sandbox) -> None:
    """H3"""
    bench.add("s", when="1h", job="work", pre_check="false")
    bench.clock.advance_to(at("08:30"))
    bench.run("s")
    bench.settle()
    assert iso(bench.get("s").next_run_at) == at("09:00")
    bench.run_until(at("09:00"))
    assert lines(bench) == ["manual skipped pre_check", "09:00 skipped pre_check"]


def test_an_interval_that_is_edited_while_its_run_waits(bench: Sandbox) -> None:
    """H3 V7: the new words count from then, and the run goes on under its own"""
    bench.add("s", when="1h", job="work", approval="owner_approve")
    bench.run_until(at("09:10"))
    bench.edit("s", when="2h", approval="auto")
    bench.approvals.approve(bench.approvals.list()[0].id)
    assert iso(bench.get("s").next_run_at) == at("11:10")
    bench.run_until(at("15:00"))
    assert [line.split()[0] for line in lines(bench) if line.endswith("succeeded")][-2:] == ["11:10", "13:10"]
