"""Ways around leave, by what happens between yes and start. Rows V6, B7, invariant 10."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from security_cast import SCOUT, WAITING, Open, Watched, at, propose
from security_rows import sql

from matins.errors import Conflict, RateLimited, StoreUnavailable
from matins.executors.job_context import JobContext
from matins.runtime.attempt import Attempt

DAILY = {**WAITING, "when": "5 8 * * *", "payload": "good", "approval_timeout": "1h"}
HeldUp = Callable[[Watched], Callable[[], None]]
"""Something that is in the way of a run that has leave; what it gives puts that out of the way."""


def waiting(bench: Watched, **words: Any) -> str:
    """A run that waits for leave; its question."""
    bench.add("s", **{**DAILY, **words})
    bench.run_until(at("08:05"))
    return bench.asked().id


def ran(bench: Watched) -> list[tuple[str, Any]]:
    return [one for one in bench.ran if one[0] == "s"]


# -- leave is used by a start, and by nothing else: till then it can be void, and grow old


def captured(bench: Watched) -> list[Attempt]:
    """What the next turn starts: it has its place, and has not begun."""
    claimed: list[Attempt] = []
    submit = bench.executor.submit
    bench.executor.submit = claimed.extend  # type: ignore[method-assign] - it takes them, and does nothing yet
    bench.engine.turn()
    bench.executor.submit = submit  # type: ignore[method-assign]
    return claimed


def no_place(bench: Watched) -> Callable[[], None]:
    """Two have leave, and there is a place for one of them."""
    bench.limits.set("agent:x", size=1)
    bench.add("first", **{**DAILY, "when": "4 8 * * *", "approval_timeout": "1d"}, agent="x")
    number = waiting(bench, agent="x")
    bench.approvals.approve(bench.asked("first").id)
    bench.approvals.approve(number)
    claimed = captured(bench)
    assert [work.compiled.name for work in claimed] == ["first"]
    return lambda: bench.executor.submit(claimed)


def no_target(bench: Watched) -> Callable[[], None]:
    """The conversation in which it shall land is not there yet."""
    bench.agents.set("x", runner="demo")
    where = {"target": {"kind": "thread", "thread": 1}, "fallback": "wait", "fallback_timeout": "30d"}
    bench.approvals.approve(waiting(bench, agent="x", job="scheduled-task", **where))
    bench.settle()
    assert bench.last().status == "waiting_for_target"

    def make_thread() -> None:
        with bench._store.transaction(bench.clock.now_ms()) as transaction:
            assert transaction.insert_thread("x", None, None, None, None, bench.clock.now_ms()) == 1

    return make_thread


def given_back(bench: Watched, **words: Any) -> Callable[[], None]:
    """It was claimed, and given back before it began; then its place was taken."""
    bench.approvals.approve(waiting(bench, **words))
    bench.engine._released += captured(bench)
    bench.limits.set("global", size=1)
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        assert transaction.take_permits("global", [999_999])
    bench.engine.turn()
    assert (bench.last().status, bench.last().attempt) == ("ready", 0)

    def make_room() -> None:
        with bench._store.transaction(bench.clock.now_ms()) as transaction:
            transaction.release_permits([999_999])

    return make_room


HELD_UP = pytest.mark.parametrize("held_up", [no_place, no_target, given_back])


@HELD_UP
def test_v7_leave_of_a_run_that_was_held_up_is_for_its_own_words(bench: Watched, held_up: HeldUp) -> None:
    """V6 V7: it had leave, and has not begun: it starts with what was approved, not with the new words."""
    let_go = held_up(bench)
    bench.edit("s", payload="evil")
    let_go()
    bench.run_until(at("08:10"))
    assert ran(bench) == [("s", "good")]
    assert bench.states() == ["used"]


@HELD_UP
def test_leave_of_a_run_that_was_held_up_grows_old(bench: Watched, held_up: HeldUp) -> None:
    """V6: an approval expires, also when it could have been used and was not."""
    let_go = held_up(bench)
    bench.clock.advance_to(at("09:06"))
    let_go()
    bench.run_until(at("09:10"))
    assert (ran(bench), bench.last().status) == ([], "awaiting_approval")


@HELD_UP
def test_leave_of_a_run_that_was_held_up_is_not_lost(bench: Watched, held_up: HeldUp) -> None:
    """V6: nobody is asked twice about the same."""
    held_up(bench)()
    bench.run_until(at("08:10"))
    assert ran(bench) == [("s", "good")]
    assert bench.states() == ["used"]


def test_yes_to_money_is_no_leave(bench: Watched) -> None:
    """V6 B5: the provider refused, so that it has not begun; its leave grows old, and money is something else."""

    @bench.job("refused")
    def refused(run: JobContext) -> None:
        run.spend("$3")
        raise RateLimited("acme", resets_at=datetime.fromisoformat(at("10:00")))

    bench.budgets.set("day", max_cost="$1", period="day")
    bench.approvals.approve(waiting(bench, job="refused"))
    bench.run_until(at("09:50"))
    (money,) = bench.approvals.list()
    assert money.kind == "budget"
    bench.approvals.approve(money.id)
    bench.budgets.delete("day")
    bench.run_until(at("10:10"))
    assert (bench.last().attempt, bench.last().status) == (0, "awaiting_approval")


# -- whom it wakes


@pytest.mark.parametrize(
    "change",
    [{"tools": ["bash"]}, {"workdir": "/"}, {"permission_mode": "bypassPermissions"}, {"command": ["rm", "-rf", "/"]},
     {"environment": {"TOKEN": "env:ALL"}}, {"environment": {"MODE": "danger"}}],
    ids=["tools", "workdir", "permission_mode", "command", "reference", "value"],
)  # fmt: skip
def test_leave_is_bound_to_what_the_agent_may(bench: Watched, change: dict[str, Any]) -> None:
    """V6: the agent was given other tools between yes and start; people are asked about that."""
    words = {"runner": "shell", "command": ["true"], "workdir": "/tmp", "environment": {"MODE": "safe"}}
    bench.agents.set("x", **words)
    let_go = given_back(bench, agent="x", job="scheduled-task")
    bench.agents.set("x", **words | change)
    let_go()
    bench.run_until(at("08:10"))
    assert (bench.ran, bench.last().status) == ([], "awaiting_approval")
    assert change.keys() <= bench.asked().request["wakes"].keys()
    bench.approvals.approve(bench.asked().id)
    bench.settle()
    assert bench.ran == [("s", "good")]


def test_leave_does_not_tell_the_agents_secrets(bench: Watched) -> None:
    """V6: what people are asked is read by many."""
    bench.agents.set("x", runner="shell", command=["true"], environment={"TOKEN": "hunter2", "KEY": "env:KEY"})
    waiting(bench, agent="x", job="scheduled-task")
    assert bench.asked().request["wakes"]["environment"] == [["TOKEN", "…"], ["KEY", "env:KEY"]]


# -- words that were never written


def fail_to_commit(bench: Watched) -> None:
    """The next change is not written: the disk is full, the server is gone."""
    store: Any = bench._store
    inner = store.transaction

    class Failing:
        def __init__(self, now: int) -> None:
            self._transaction = inner(now)

        def __enter__(self) -> Any:
            store.transaction = inner
            return self._transaction.__enter__()

        def __exit__(self, *error: Any) -> None:
            lost = StoreUnavailable("the disk is full")
            self._transaction.__exit__(StoreUnavailable, lost, None)
            raise lost

    store.transaction = Failing


def test_an_edit_that_was_not_written_has_no_effect(bench: Watched) -> None:
    """B7 D1: an agent's words fail to be written; the next words bear the same number, and are those that run."""
    agent = propose(bench, payload="good")
    fail_to_commit(bench)
    with pytest.raises(StoreUnavailable):
        agent.edit("s", payload="evil")
    bench.edit("s", payload="better")
    bench.run_until(at("08:06"))
    assert bench.ran == [("s", "better")]


def test_a_proposal_that_was_not_written_has_no_effect(bench: Watched) -> None:
    """B7 D1: the next schedule may get the same number."""
    fail_to_commit(bench)
    with pytest.raises(StoreUnavailable):
        bench.acting_as(SCOUT).add("t", when="5 * * * *", job="work", payload="evil")
    bench.add("s", when="5 * * * *", job="work", payload="good")
    bench.run_until(at("08:06"))
    assert bench.ran == [("s", "good")]


def test_an_answer_with_edits_that_was_not_written_has_no_effect(bench: Watched) -> None:
    """V6 D1"""
    number = waiting(bench)
    fail_to_commit(bench)
    with pytest.raises(StoreUnavailable):
        bench.approvals.approve(number, edits={"payload": "evil"})
    bench.approvals.approve(number, edits={"payload": "better"})
    bench.settle()
    assert bench.ran == [("s", "better")]


def test_a_policy_that_was_not_written_does_not_hold(bench: Watched) -> None:
    """D1: the next one bears the same number, and is the one that holds."""
    turn = bench.engine.timers.turn

    def fail(transaction: Any, now: int) -> None:
        transaction.upsert_policy("rate", "EUR", "2.0", now, "nobody")
        assert bench._catalog.policies(transaction).rates["EUR"] == 2
        raise StoreUnavailable("the disk is full")

    bench.engine.timers.turn = fail  # type: ignore[method-assign]
    bench.engine.run_once()
    bench.engine.timers.turn = turn  # type: ignore[method-assign]
    bench.rates.set("EUR", usd=1.1)
    assert bench._loader.policies().rates["EUR"] == 1.1


# -- a schedule that nobody approved


@pytest.mark.parametrize("answer", ["nothing", "no"])
def test_a_run_is_not_tried_again_when_its_schedule_is_not_wanted(bench: Watched, answer: str) -> None:
    """B7: an agent changes its schedule while it runs; nothing of it starts before somebody has approved it."""

    @bench.job("edits itself")
    def edits_itself(run: Any) -> None:
        if run.attempt == 1:
            agent.edit("s", payload="evil")
            if answer == "no":
                bench.approvals.deny(bench.asked().id)
            raise ValueError
        bench.ran.append((run.schedule, run.payload))

    agent = propose(bench, job="edits itself", payload="good", retries=3)
    bench.run_until(at("08:30"))
    assert bench.ran == []


def test_a_proposal_that_cannot_be_read_is_not_resumed(kept_url: str, open_bench: Open) -> None:
    """B7: a run from before is unreadable; that does not make a schedule that can be resumed of a proposal."""
    before = open_bench(kept_url)
    agent = propose(before, payload="good", quiet_hours=None)
    agent.run("s")
    agent.edit("s", payload="evil")
    sql(before, "UPDATE revisions SET definition = '{}' WHERE rev = 1")
    sql(before, "UPDATE runs SET state = 2, reason = NULL")
    bench = open_bench(kept_url)
    bench.settle()
    assert bench.get("s").state == "pending"
    with pytest.raises(Conflict):
        bench.resume("s")
    bench.run_until(at("10:00"))
    assert bench.ran == []


def test_an_agent_does_not_outlive_its_end_by_hand(bench: Watched) -> None:
    """B7: leave was given until a day; afterwards an agent does not start it by hand either, a person may."""
    agent = propose(bench, when="every 1h", ends_at="2026-03-27T10:00:00Z")
    bench.run_until(at("11:00"))
    ran = len(bench.ran)
    with pytest.raises(Conflict, match="expired"):
        agent.run("s")
    bench.settle()
    assert len(bench.ran) == ran
    bench.run("s")
    bench.settle()
    assert len(bench.ran) == ran + 1


def test_an_agent_does_not_run_more_often_by_hand(bench: Watched) -> None:
    """B7: so many times were approved, or once."""
    once, daily = propose(bench, when="in 1h"), propose(bench, "t", when="every 1h", max_executions=1)
    bench.run_until(at("11:00"))
    assert len(bench.ran) == 2
    for agent, name in ((once, "s"), (daily, "t")):
        with pytest.raises(Conflict, match="completed"):
            agent.run(name)
    bench.run_until(at("12:00"))
    assert len(bench.ran) == 2


def test_quiet_hours_hold_for_what_an_agent_starts(bench: Watched) -> None:
    """B7 C6: by hand is what a person does."""
    bench.quiet_hours.set("morning", windows=["07:00-09:00"], mode="skip")
    agent = propose(bench, quiet_hours="morning")
    assert agent.run("s").reason == "quiet_hours"
    bench.run_until(at("08:30"))
    assert bench.ran == []
