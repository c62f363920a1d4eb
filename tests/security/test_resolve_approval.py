"""corvid's way to answer: by the run. Rows V2, V6."""

from __future__ import annotations

import pytest
from security_cast import ACTIONS, ADA, SCOUT, WAITING, Watched, at

from matins.errors import NotAllowed, Stale
from matins.executors.registry import installed_jobs

ASKED_ABOUT = {"work_task", "github_suggest", "fork_repo", "codebase_review", "dependency_audit", "improvement_loop"}
"""As the seed has them."""


def test_the_thirteen_actions() -> None:
    """V6: six that the owner is asked about, seven others."""
    assert {name for name in ACTIONS if installed_jobs()[name].destructive} == ASKED_ABOUT
    assert len(ACTIONS) == 13


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("policy", ["auto", "owner_approve", "council_approve"])
def test_which_actions_wait_under_which_policy(memory: Watched, policy: str, action: str) -> None:
    """V6: auto: none; owner_approve: the six; council_approve: all."""
    approvers = ["ada"] if policy == "council_approve" else None
    memory.add("s", when="5 * * * *", job=action, approval=policy, approvers=approvers)
    memory.run_until(at("08:06"))
    waits = policy == "council_approve" or (policy == "owner_approve" and action in ASKED_ABOUT)
    assert memory.last().status == ("awaiting_approval" if waits else "succeeded")
    assert len(memory.approvals.list()) == waits


def test_an_action_that_nobody_knows_waits(memory: Watched) -> None:
    """V6: deny by default."""
    memory.add("s", **{**WAITING, "job": "deploy"})
    memory.run_until(at("08:06"))
    assert memory.last().status == "awaiting_approval"


def test_a_set_of_ones_own(memory: Watched) -> None:
    """V6: per-action sets."""
    memory.add("a", **{**WAITING, "job": "send_message"}, approval_jobs=["send_message"])
    memory.add("b", **{**WAITING, "job": "work_task"}, approval_jobs=["send_message"])
    memory.run_until(at("08:06"))
    assert (memory.last("a").status, memory.last("b").status) == ("awaiting_approval", "succeeded")


def test_yes(bench: Watched) -> None:
    """V2: the run comes back, on its way."""
    bench.add("s", **WAITING)
    bench.run_until(at("08:06"))
    run = bench.approvals.answer(bench.last().id, True)
    assert run is not None
    assert (run.id, run.status) == (bench.last().id, "ready")
    bench.settle()
    assert bench.ran == [("s", None)]


def test_no(bench: Watched) -> None:
    """V2: the run comes back, denied."""
    bench.add("s", **WAITING)
    bench.run_until(at("08:06"))
    run = bench.approvals.answer(bench.last().id, False)
    assert run is not None
    assert (run.status, run.reason) == ("denied", "denied")
    bench.settle()
    assert bench.ran == []


def test_none_where_nothing_is_asked(bench: Watched) -> None:
    """V2: a run that does not exist, runs without a question, was answered already, or is over."""
    bench.add("s", **WAITING)
    bench.add("free", when="5 * * * *", job="work")
    bench.run_until(at("08:06"))
    assert bench.approvals.answer(999, True) is None
    assert bench.approvals.answer(bench.last("free").id, True) is None
    run = bench.last()
    bench.approvals.answer(run.id, True)
    assert bench.approvals.answer(run.id, True) is None
    assert bench.approvals.answer(run.id, False) is None
    bench.settle()
    assert bench.approvals.answer(run.id, False) is None
    assert bench.last().status == "succeeded"


def test_it_is_no_way_round_who_may(bench: Watched) -> None:
    """B7: the same people, and nobody else."""
    bench.add("s", **WAITING)
    bench.run_until(at("08:06"))
    for principal in (ADA, SCOUT):
        for answer in (True, False):
            with pytest.raises(NotAllowed):
                bench.acting_as(principal).approvals.answer(bench.last().id, answer)
    assert bench.asked().votes == []


def test_it_answers_about_the_run_only(bench: Watched) -> None:
    """V2: a question about money that a run left behind is another question."""
    bench.job("spend")(lambda run: run.spend("$3"))
    bench.budgets.set("day", max_cost="$1", period="day")
    bench.add("s", when="5 * * * *", job="spend")
    bench.run_until(at("08:06"))
    assert bench.asked().kind == "budget"
    assert bench.approvals.answer(bench.last().id, True) is None
    assert bench.asked().state == "pending"


@pytest.mark.parametrize(("answer", "status"), [(True, "ready"), (False, "denied")])
def test_the_digest_that_was_looked_at(bench: Watched, answer: bool, status: str) -> None:
    """V2 V6: with one, only what was looked at is answered."""
    bench.add("s", **WAITING)
    bench.run_until(at("08:06"))
    run_id, seen = bench.last().id, "0" * 64
    with pytest.raises(Stale, match="has changed since you read it") as caught:
        bench.approvals.answer(run_id, answer, digest=seen)
    assert (caught.value.field, caught.value.value) == ("digest", seen)
    assert (bench.last().status, bench.asked().votes) == ("awaiting_approval", [])
    assert bench.asked().digest != seen
    run = bench.approvals.answer(run_id, answer, digest=bench.asked().digest)
    assert run is not None
    assert (run.id, run.status) == (run_id, status)
    assert bench.approvals.answer(run_id, answer, digest=seen) is None, "nothing is asked any more"
