"""The number of executions, on every store, with a clock that the test moves. Rows V5, B1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate_records import at, lines, moment

from matins.errors import RateLimited
from matins.executors.job_context import JobContext
from matins.testing import Sandbox, instant, iso

HOURLY = "0 * * * *"


@pytest.mark.parametrize(
    "when", [HOURLY, "1h", "every day at 9am and 10am and 11am"], ids=["cron", "interval", "daily"]
)
def test_v5_so_many_and_then_completed(bench: Sandbox, when: str) -> None:
    """V5"""
    bench.add("s", when=when, job="work", max_executions=2)
    bench.run_until(at("13:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 succeeded"]
    schedule = bench.get("s")
    assert (schedule.state, schedule.executions, schedule.next_run_at) == ("completed", 2, None)


def test_failures_count_as_executions(bench: Sandbox) -> None:
    """V5"""
    bench.add("s", when=HOURLY, job="fail", max_executions=2)
    bench.run_until(at("13:00"))
    assert lines(bench) == ["09:00 failed", "10:00 failed"]


def test_it_holds_over_a_restart(restart: Callable[..., Sandbox]) -> None:
    """V5: counted durably"""
    first = restart()
    first.add("s", when=HOURLY, job="work", max_executions=3)
    first.run_until(at("10:00"))
    second = restart()
    second.run_until(at("15:00"))
    assert lines(second) == ["09:00 succeeded", "10:00 succeeded", "11:00 succeeded"]


def test_what_a_person_starts_by_hand_is_not_counted(bench: Sandbox) -> None:
    """V5: neither against the number, nor by it"""
    bench.add("s", when=HOURLY, job="work", max_executions=1)
    bench.run("s")
    bench.run_until(at("12:00"))
    bench.run("s")
    bench.settle()
    assert lines(bench) == ["manual succeeded", "09:00 succeeded", "manual succeeded"]
    assert bench.get("s").executions == 1


def quiet(bench: Sandbox) -> dict[str, Any]:
    bench.quiet_hours.set("mornings", windows="08:30-10:30")
    return {"quiet_hours": "mornings"}


def checked(bench: Sandbox) -> dict[str, Any]:
    return {"pre_check": 'test "$(($MATINS_SLOT / 3600000 % 24))" -gt 10'}


def hooked(bench: Sandbox) -> dict[str, Any]:
    bench.hooks.set("before:schedule:trigger", command='test "$(($MATINS_SLOT / 3600000 % 24))" -gt 10')
    return {}


def unaffordable(bench: Sandbox) -> dict[str, Any]:
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.job("spend")(lambda run: run.spend("$0.90"))
    bench.job("raise budget")(lambda run: bench.budgets.set("day", period="day", max_cost="$100"))
    bench.add("shop", when="30 8 * * *", job="spend", max_executions=1)
    bench.add("sale", when="30 10 * * *", job="raise budget", max_executions=1, max_cost="$0.01")
    return {"max_cost": "$0.50"}


GATES = [quiet, checked, hooked, unaffordable]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.__name__)
@pytest.mark.parametrize("when", [HOURLY, "1h"], ids=["cron", "interval"])
def test_v5_what_a_gate_turned_down_is_not_counted(bench: Sandbox, gate: Callable[[Sandbox], Any], when: str) -> None:
    """V5: the gate is open from 11:00 on"""
    bench.add("s", when=when, job="work", max_executions=2, **gate(bench))
    bench.run_until(at("20:00"))
    found = [line.split()[:2] for line in lines(bench)]
    assert [when for when, what in found if what == "succeeded"] == ["11:00", "12:00"]
    assert [when for when, what in found if what != "succeeded"] == ["09:00", "10:00"]
    assert (bench.get("s").executions, bench.get("s").state) == (2, "completed")


@pytest.mark.parametrize("when", [HOURLY, "1h"], ids=["cron", "interval"])
def test_a_last_run_that_a_gate_turns_down_is_not_the_last(bench: Sandbox, when: str) -> None:
    """V5: it was counted when it was made, and the schedule seemed complete"""
    bench.add("s", when=when, job="work", max_executions=1, pre_check="false")
    bench.run_until(at("09:30"))
    assert (bench.get("s").executions, bench.get("s").state) == (0, "active")
    assert iso(bench.get("s").next_run_at) == at("10:00")
    bench.edit("s", pre_check=None)
    bench.run_until(at("15:00"))
    assert lines(bench) == ["09:00 skipped pre_check", "10:00 succeeded"]


def test_a_denied_run_is_not_counted(bench: Sandbox) -> None:
    """V5 V6"""
    bench.add("s", when=HOURLY, job="work", max_executions=1, approval="owner_approve")
    bench.run_until(at("09:30"))
    assert bench.get("s").next_run_at is None, "as far as anybody knows, this is the last"
    bench.approvals.deny(bench.approvals.list()[0].id)
    bench.run_until(at("10:00"))
    bench.approvals.approve(bench.approvals.list()[0].id)
    bench.run_until(at("15:00"))
    assert lines(bench) == ["09:00 denied", "10:00 succeeded"]


def test_a_paused_schedule_whose_last_run_was_turned_down_stays_paused(bench: Sandbox) -> None:
    """V5 C10"""
    bench.add("s", when=HOURLY, job="work", max_executions=1, approval="owner_approve")
    bench.run_until(at("09:30"))
    bench.pause("s")
    bench.approvals.deny(bench.approvals.list()[0].id)
    bench.run_until(at("11:30"))
    assert (bench.get("s").state, bench.get("s").due_at) == ("paused", None)
    assert iso(bench.resume("s").next_run_at) == at("12:00")


def test_a_run_put_off_is_counted_once(bench: Sandbox) -> None:
    """V5 B6: it waits for its provider, and then runs"""

    @bench.job("call")
    def call(run: JobContext) -> None:
        if bench.clock.now_ms() < instant(at("10:30")):
            raise RateLimited("anthropic", resets_at=moment("10:30"))

    bench.add("s", when=HOURLY, job="call", max_executions=2)
    bench.run_until(at("15:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 skipped already_running", "11:00 succeeded"]


def test_catching_up_keeps_to_the_number(bench: Sandbox) -> None:
    """V5 S4"""
    bench.add("s", when=HOURLY, job="work", max_executions=2, catch_up="run_all_capped", catch_up_limit=10)
    bench.clock.advance_to(at("12:30"))
    bench.run_until(at("15:00"))
    assert [line.split(maxsplit=1)[1] for line in lines(bench)][:2] == ["succeeded", "succeeded"]
    bench.assert_ran("s", times=2)


def test_v5_an_edit_that_grants_more_revives_it(bench: Sandbox) -> None:
    """V5"""
    bench.add("s", when=HOURLY, job="work", max_executions=1)
    bench.run_until(at("10:30"))
    assert bench.get("s").state == "completed"
    schedule = bench.edit("s", max_executions=3)
    assert (schedule.state, iso(schedule.next_run_at)) == ("active", at("11:00"))
    bench.run_until(at("12:30"))
    assert lines(bench) == ["09:00 succeeded", "11:00 succeeded", "12:00 succeeded"]
    assert bench.get("s").state == "completed"
    bench.edit("s", max_executions=None)
    bench.run_until(at("14:00"))
    assert lines(bench)[3:] == ["13:00 succeeded", "14:00 succeeded"]


def test_an_edit_that_grants_no_more_does_not(bench: Sandbox) -> None:
    """V5: nor does an edit of a one-shot that has run"""
    bench.add("s", when=HOURLY, job="work", max_executions=2)
    bench.add("once", when=at("09:00"), job="work")
    bench.run_until(at("10:30"))
    assert bench.edit("s", max_executions=1).state == "completed"
    assert bench.edit("once", payload=1).state == "completed"
    bench.run_until(at("13:00"))
    assert len(lines(bench)) == 2
    assert len(lines(bench, "once")) == 1
