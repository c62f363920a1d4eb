"""Runs that wait at a gate and the runs that come after them, on every store. Rows B8, C9, V3, B1."""

from __future__ import annotations

from typing import Any

import pytest
from gate_records import at, damage, evidence, last, lines, moment, told

from matins.executors.job_context import JobContext
from matins.testing import Sandbox, instant

HALF_HOURLY = "*/30 * * * *"


def asked(bench: Sandbox) -> dict[str, Any]:
    return {"approval": "owner_approve"}


def throttled(bench: Sandbox) -> dict[str, Any]:
    bench.throttles.set("anthropic", resets_at=moment("10:10"))
    return {"provider": "anthropic"}


WAITS = {"awaiting_approval": asked, "throttled": throttled}


def let_go(bench: Sandbox) -> None:
    """What the first run waits for comes at 10:10."""
    bench.run_until(at("10:10"))
    for approval in bench.approvals.list()[:1]:
        bench.approvals.approve(approval.id)
    bench.settle()


@pytest.fixture(params=WAITS)
def waits(request: pytest.FixtureRequest) -> str:
    return request.param


def test_c9_skip_says_which_run_waits_in_the_way(bench: Sandbox, waits: str) -> None:
    """C9 B8"""
    bench.add("s", when="0,30 9 * * *", job="work", **WAITS[waits](bench))
    bench.run_until(at("09:30"))
    first = str(bench.runs.list(schedule="s")[1].id)
    if waits == "throttled":  # the throttle would stop this slot, too
        assert lines(bench) == ["09:00 throttled", "09:30 skipped coalesced"]
        assert (evidence(bench)["run"], evidence(bench)["for"]) == (first, "throttled")
    else:
        assert lines(bench) == [f"09:00 {waits}", "09:30 skipped already_running"]
        assert evidence(bench) == {"run": first, "state": "waiting"}
    let_go(bench)
    assert lines(bench)[0] == "09:00 succeeded"


def test_b8_queue_waits_behind_it(bench: Sandbox, waits: str) -> None:
    """B8: one after the other, each through its own gate"""
    bench.add("s", when="0,30 9 * * *", job="work", overlap="queue", **WAITS[waits](bench))
    bench.run_until(at("09:30"))
    assert lines(bench) == [f"09:00 {waits}", "09:30 queued waiting_for"]
    let_go(bench)
    asks = waits == "awaiting_approval"
    assert lines(bench) == ["09:00 succeeded", "09:30 awaiting_approval" if asks else "09:30 succeeded"]


def test_b8_cancel_other_ends_it(bench: Sandbox, waits: str) -> None:
    """B8: the newest takes its place at the gate"""
    bench.add("s", when="0,30 9 * * *", job="work", overlap="cancel_other", **WAITS[waits](bench))
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 cancelled cancelled_by_newer", f"09:30 {waits}"]
    assert [approval.run_id for approval in bench.approvals.list()] == [last(bench).id] * (waits == "awaiting_approval")
    let_go(bench)
    assert lines(bench)[1] == "09:30 succeeded"


def test_b8_allow_runs_beside_it(bench: Sandbox) -> None:
    """B8: each waits for its own answer"""
    bench.add("s", when="0,30 9 * * *", job="work", overlap="allow", approval="owner_approve")
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 awaiting_approval", "09:30 awaiting_approval"]
    bench.approvals.approve(bench.approvals.list()[1].id)
    bench.settle()
    assert lines(bench) == ["09:00 awaiting_approval", "09:30 succeeded"]


@pytest.mark.parametrize("answer", ["deny", "cancel", "expire"])
def test_b8_the_next_in_line_comes_however_the_first_ends(bench: Sandbox, answer: str) -> None:
    """B8"""
    words = {"approval": "owner_approve", "approval_timeout": "2h"}
    bench.add("s", when="0,30 9 * * *", job="work", overlap="queue", **words)
    bench.run_until(at("09:30"))
    first = bench.runs.list(schedule="s")[1]
    if answer == "deny":
        bench.approvals.deny(bench.approvals.list()[0].id)
    elif answer == "cancel":
        bench.runs.cancel(first.id)
    bench.run_until(at("11:00"))
    assert lines(bench)[1] == "09:30 awaiting_approval"
    bench.approvals.approve(bench.approvals.list()[0].id)
    bench.settle()
    assert lines(bench)[1] == "09:30 succeeded"


def test_a_queue_behind_a_gate_has_its_limit(bench: Sandbox) -> None:
    """B8"""
    words = {"approval": "owner_approve", "queue_limit": 2}
    bench.add("s", when="*/10 9 * * *", job="work", overlap="queue", **words)
    bench.run_until(at("09:40"))
    assert [line.split(maxsplit=1)[1] for line in lines(bench)] == [
        *("awaiting_approval", "queued waiting_for", "queued waiting_for"),
        *("skipped queue_full", "skipped queue_full"),
    ]


class Long:
    """A job that goes on until an instant; the time passes in it."""

    def __init__(self, bench: Sandbox, until: str) -> None:
        self.ran: list[str] = []
        self.asked_to_end = False

        @bench.job("long")
        def long(run: JobContext) -> None:
            self.ran.append(str(run.slot)[11:16])
            if len(self.ran) == 1:
                while bench.clock.now_ms() < instant(at(until)):
                    bench.clock.advance(60_000)
                    bench.engine.turn()
                with bench._store.transaction(0) as transaction:
                    (row,) = transaction.live_runs([run.id])
                self.asked_to_end = bool(row.cancelling)


@pytest.mark.parametrize(
    ("overlap", "expected", "cancelled"),
    [
        ("skip", "09:30 skipped already_running", False),
        ("queue", "09:30 succeeded", False),
        ("cancel_other", "09:30 succeeded", True),
        ("allow", "09:30 succeeded", False),
    ],
)
def test_a_deferred_run_finds_another_under_way(bench: Sandbox, overlap: str, expected: str, cancelled: bool) -> None:
    """B8 S3: it came due in quiet hours while the first ran, which is still under way at their end"""
    long = Long(bench, "10:30")
    bench.quiet_hours.set("quiet", windows="09:15-10:00", mode="defer")
    bench.add("s", when="0,30 9 * * *", job="long", overlap=overlap, quiet_hours="quiet")
    bench.run_until(at("11:00"))
    assert lines(bench) == ["09:00 succeeded", expected]
    assert long.asked_to_end is cancelled


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel_other", "allow"])
def test_a_retry_that_waits_is_one_run_still(bench: Sandbox, overlap: str) -> None:
    """B8: it is in the way as a run that waits is"""

    @bench.job("second time lucky")
    def second_time_lucky(run: JobContext) -> None:
        if run.attempt == 1 and run.slot and run.slot.minute == 0:
            raise ValueError

    bench.add("s", when="0,30 9 * * *", job="second time lucky", overlap=overlap, retries=1, retry_delay="1h")
    bench.run_until(at("10:30"))
    assert (
        lines(bench)
        == {
            "skip": ["09:00 succeeded", "09:30 skipped already_running"],
            "queue": ["09:00 succeeded", "09:30 succeeded"],
            "cancel_other": ["09:00 cancelled cancelled_by_newer", "09:30 succeeded"],
            "allow": ["09:00 succeeded", "09:30 succeeded"],
        }[overlap]
    )


# -- capacity


def test_v3_what_waits_at_a_gate_holds_no_place(bench: Sandbox, waits: str) -> None:
    """V3 H10: others run meanwhile"""
    bench.limits.set("global", size=1)
    bench.add("s", when="0 9 * * *", job="work", **WAITS[waits](bench))
    bench.add("t", when="*/10 * * * *", job="work")
    bench.run_until(at("09:30"))
    assert lines(bench) == [f"09:00 {waits}"]
    assert len(bench.assert_ran("t")) == 9
    let_go(bench)
    assert lines(bench) == ["09:00 succeeded"]


def full(bench: Sandbox, scope: str, *, taken: bool) -> None:
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        if taken:
            assert transaction.take_permits(scope, [999])
        else:
            transaction.release_permits([999])


@pytest.mark.parametrize("words", [{"pre_check": "true"}, {"approval": "owner_approve"}], ids=["checked", "asked"])
def test_v3_having_passed_its_gates_it_waits_for_a_place(bench: Sandbox, words: dict[str, Any]) -> None:
    """V3: checked and asked about once, it starts when there is room"""
    bench.limits.set("agent:x", size=1)
    bench.add("s", when="0 9 * * *", job="work", agent="x", **words)
    bench.clock.advance_to(at("09:00"))
    bench.engine.turn()
    for approval in bench.approvals.list():
        bench.approvals.approve(approval.id)
    full(bench, "agent:x", taken=True)
    bench.run_until(at("09:00:30"))
    assert lines(bench) == ["09:00 ready"]
    full(bench, "agent:x", taken=False)
    bench.run_until(at("09:01"))
    assert lines(bench) == ["09:00 succeeded"]
    assert len(bench.runs.checks(last(bench).id)) == int("pre_check" in words)
    with bench._store.reading() as transaction:
        assert [row.in_use for row in transaction.limits() if row.scope == "agent:x"] == [0]


def test_a_permit_is_given_back_when_there_is_no_money(bench: Sandbox) -> None:
    """V3 B5: neither is kept without the other"""
    bench.limits.set("global", size=1)
    bench.budgets.set("day", period="day", max_cost="$1")
    bench.job("spend")(lambda run: run.spend("$0.80"))
    bench.add("rich", when="0 9 * * *", job="spend", max_cost="$0.80")
    bench.add("poor", when="0 9 * * *", job="spend", max_cost="$0.80")
    bench.add("free", when="1 9 * * *", job="work", max_cost="$0.01")
    bench.run_until(at("09:30"))
    assert sorted(lines(bench, "rich") + lines(bench, "poor")) == ["09:00 over_budget", "09:00 succeeded"]
    assert lines(bench, "free") == ["09:01 succeeded"]


def test_at_capacity_skip_is_judged_when_it_is_due(bench: Sandbox) -> None:
    """H6 V3"""
    bench.limits.set("agent:x", size=1)
    full(bench, "agent:x", taken=True)
    bench.add("s", when="0 * * * *", job="work", agent="x", at_capacity="skip", pre_check="true")
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 skipped at_capacity"]
    full(bench, "agent:x", taken=False)
    bench.run_until(at("10:00"))
    assert lines(bench)[1:] == ["10:00 succeeded"]


# -- what cannot be read


def test_h2_a_run_whose_words_are_damaged_does_not_make_the_engine_spin(bench: Sandbox) -> None:
    """H2: it is held with its schedule, and the others go on; somebody can call it off"""
    bench.quiet_hours.set("quiet", windows="09:00-10:00", mode="defer")
    bench.add("bad", when="0 9 * * *", job="work", quiet_hours="quiet")
    bench.add("good", when="*/30 * * * *", job="work")
    bench.run_until(at("09:30"))
    damage(bench, "bad")
    bench.clock.advance_to(at("10:00"))
    delays = [bench.engine.run_once() for _ in range(10)]
    assert delays[-1] > 0
    assert lines(bench, "good")[-1] == "10:00 succeeded"
    assert len(told(bench, "schedule.broken")) == 1
    run = last(bench, "bad")
    assert (run.state, run.reason) == ("waiting", "paused")
    bench.edit("bad", when="0 11 * * *", job="work")
    assert bench.runs.cancel(run.id).state == "cancelled"
    bench.resume("bad")
    bench.run_until(at("11:00"))
    assert lines(bench, "bad") == ["09:00 cancelled unreadable", "11:00 succeeded"]
