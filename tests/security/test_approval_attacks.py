"""Getting a run started without the leave that it needs. Rows V6, B7."""

from __future__ import annotations

from typing import Any

import pytest
from security_cast import ADA, BOB, SCOUT, VIC, WAITING, Open, Watched, at, propose
from security_rows import everything

from matins.engine.events import canonical
from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound
from matins.model.access import Principal


def waiting(bench: Watched, **words: Any) -> str:
    """A run that waits for leave; its question."""
    bench.add("s", **WAITING, **words)
    bench.run_until(at("08:06"))
    assert bench.last().status == "awaiting_approval"
    return bench.asked().id


def refused(bench: Watched, principal: Principal, approval_id: str, **how: Any) -> str:
    """Neither yes nor no is taken; why."""
    before = everything(bench)
    acting = bench.acting_as(principal)
    with pytest.raises(InvalidInput) as denied:
        acting.approvals.deny(approval_id, **how)
    with pytest.raises(InvalidInput) as caught:
        acting.approvals.approve(approval_id, **how)
    assert everything(bench) == before
    assert type(denied.value) is type(caught.value)
    return caught.value.message


# -- who


def test_what_is_asked_is_told(bench: Watched) -> None:
    """V6: with all that a person must see; and as the event that corvid calls `schedule_approval_request`."""
    number = waiting(bench, payload={"repo": "matins"})
    asked = bench.asked()
    assert (asked.kind, asked.policy, asked.state) == ("run", "owner_approve", "pending")
    assert (asked.run_id, asked.rev, asked.requested_by) == (bench.last().id, 1, "owner")
    assert asked.request["payload"] == {"repo": "matins"}
    (requested,) = canonical("schedule_approval_request")
    assert [told["digest"] for told in bench.told(requested)] == [asked.digest]
    bench.approvals.approve(number)
    bench.settle()
    assert bench.ran == [("s", {"repo": "matins"})]
    assert bench.approval(number).state == "used"


def test_agents_and_viewers_approve_nothing(bench: Watched) -> None:
    """B7: not even where they are named as approvers, and not by another way in."""
    number = waiting(bench, approvers=["scout", "vic"])
    for principal in (SCOUT, VIC):
        with pytest.raises(NotAllowed):
            bench.acting_as(principal).approvals.answer(bench.last().id, True)
        refused(bench, principal, number)
    bench.run_until(at("09:00"))
    assert bench.ran == []


def test_an_operator_does_not_answer_for_the_owner(bench: Watched) -> None:
    """V6: owner_approve asks the owner."""
    assert "only the owner" in refused(bench, ADA, waiting(bench))


def test_only_those_who_are_named_answer(bench: Watched) -> None:
    """V6: the owner neither, who could name himself."""
    number = waiting(bench, approvers=["ada"])
    assert "the approvers are ada" in refused(bench, BOB, number)
    assert "the approvers are ada" in refused(bench, Principal("owner", "owner"), number)
    bench.acting_as(ADA).approvals.approve(number)
    bench.settle()
    assert bench.ran == [("s", None)]


def test_nobody_approves_what_they_started_themselves(bench: Watched) -> None:
    """B7: an operator who is an approver asks for a run by hand; somebody else must say yes."""
    bench.add("s", **WAITING, approvers=["ada", "bob"])
    bench.acting_as(ADA).run("s")
    bench.settle()
    asked = bench.asked()
    assert (asked.requested_by, asked.requester_role) == ("ada", "operator")
    assert "what they made, changed or started" in refused(bench, ADA, asked.id)
    bench.acting_as(BOB).approvals.approve(asked.id)
    bench.settle()
    assert bench.ran == [("s", None)]


def test_nobody_approves_words_they_wrote_themselves(bench: Watched) -> None:
    """B7 V7: an approver edits the schedule; a waiting run has the words of before, later ones have hers."""
    waiting(bench, approvers=["ada", "bob"], payload="good")
    bench.acting_as(ADA).edit("s", payload="better")
    bench.settle()
    bench.acting_as(ADA).approvals.approve(bench.asked().id)
    bench.run_until(at("09:06"))
    assert bench.ran == [("s", "good")]
    refused(bench, ADA, bench.asked().id)
    bench.acting_as(BOB).approvals.approve(bench.asked().id)
    bench.settle()
    assert bench.ran == [("s", "good"), ("s", "better")]


def test_a_sole_owner_may_approve_what_the_owner_made(bench: Watched) -> None:
    """V6"""
    bench.add("s", **WAITING)
    bench.run("s")
    bench.settle()
    bench.approvals.approve(bench.asked().id)
    bench.settle()
    assert bench.ran == [("s", None)]


def test_an_agents_request_is_approved_by_a_human_only(bench: Watched) -> None:
    """B7: an agent starts its own approved schedule by hand, and asks; a person answers."""
    agent = propose(bench, approval="owner_approve")
    agent.run("s")
    bench.settle()
    asked = bench.asked()
    assert (asked.requested_by, asked.requester_role) == ("scout", "agent")
    refused(bench, SCOUT, asked.id)
    refused(bench, Principal("agent", "owner"), asked.id)
    bench.approvals.approve(asked.id)
    bench.settle()
    assert bench.ran == [("s", None)]


# -- replay


@pytest.mark.parametrize("end", ["used", "denied", "expired"])
def test_an_answer_counts_once(bench: Watched, end: str) -> None:
    """V6: used, denied or expired: an approval is never taken up again, for this run or the next."""
    number = waiting(bench, overlap="allow", approval_timeout="30m")
    match end:
        case "used":
            bench.approvals.approve(number)
            bench.settle()
        case "denied":
            bench.approvals.deny(number)
        case "expired":
            bench.run_until(at("08:40"))
    assert bench.approval(number).state == end
    ran = list(bench.ran)
    refused(bench, Principal("owner", "owner"), number)
    bench.run_until(at("09:06"))
    assert bench.last().status == "awaiting_approval", "the next run asks for itself"
    refused(bench, Principal("owner", "owner"), number)
    bench.run_until(at("09:20"))
    assert bench.ran == ran


def test_a_question_that_does_not_exist_cannot_be_answered(bench: Watched) -> None:
    with pytest.raises(NotFound):
        bench.approvals.approve(404)
    assert bench.approvals.answer(404, True) is None


def test_the_digest_that_was_looked_at_must_still_be_meant(bench: Watched) -> None:
    """V6: an answer to something else is refused, with what to do."""
    number = waiting(bench)
    digest = bench.asked().digest
    assert "has changed since you read it" in refused(bench, Principal("owner", "owner"), number, digest="0" * 64)
    bench.approvals.approve(number, digest=digest)
    bench.settle()
    assert bench.ran == [("s", None)]


@pytest.mark.parametrize("state", ["bogus", "", None, 5])
def test_questions_are_never_in_a_state_that_there_is_not(memory: Watched, state: Any) -> None:
    """V6: said so, rather than that there are none."""
    with pytest.raises(InvalidInput) as caught:
        memory.approvals.list(state=state)
    assert caught.value.field == "state"
    assert "pending" in str(caught.value.allowed)


# -- a run that is over


@pytest.mark.parametrize("end", ["cancelled", "succeeded", "denied"])
def test_leave_for_a_run_that_is_over(bench: Watched, end: str) -> None:
    """V6: a clear error with a hint, and nothing written."""
    number = waiting(bench)
    if end == "cancelled":
        bench.runs.cancel(bench.last().id)
    elif end == "succeeded":
        bench.approvals.approve(number)
        bench.settle()
    else:
        bench.approvals.deny(number)
    before = everything(bench)
    with pytest.raises(Conflict, match=f"is over: {end}") as caught:
        bench.approvals.approve(number)
    assert caught.value.hint
    assert bench.approvals.answer(bench.last().id, True) is None
    assert everything(bench) == before
    assert len(bench.ran) == (end == "succeeded")


def test_leave_for_a_schedule_that_was_removed(bench: Watched) -> None:
    """V6: its questions are void, its run is over."""
    number = waiting(bench)
    run = bench.last()
    bench.delete("s")
    assert bench.approval(number).state == "void"
    refused(bench, Principal("owner", "owner"), number)
    assert bench.approvals.answer(run.id, True) is None
    bench.run_until(at("10:00"))
    assert bench.ran == []
    assert bench.runs.get(run.id).status == "cancelled"


# -- while it waits


def test_leave_for_a_paused_schedule_waits_with_it(bench: Watched) -> None:
    """V6 C10: yes is kept; the run goes on when the schedule does, and is not asked about twice."""
    number = waiting(bench)
    bench.pause("s")
    bench.approvals.approve(number)
    bench.run_until(at("08:30"))
    assert (bench.ran, bench.last().status) == ([], "paused")
    bench.resume("s")
    bench.settle()
    assert bench.ran == [("s", None)]
    assert bench.states() == ["used"]


def test_leave_that_was_kept_too_long_is_asked_for_again(bench: Watched) -> None:
    """V6: an approval expires, whether it was answered or not."""
    number = waiting(bench, approval_timeout="1h")
    bench.pause("s")
    bench.approvals.approve(number)
    bench.run_until(at("09:30"))
    bench.resume("s")
    bench.settle()
    assert bench.ran == []
    assert bench.last().status == "awaiting_approval"
    refused(bench, Principal("owner", "owner"), number)
    bench.approvals.approve(bench.asked().id)
    bench.settle()
    assert bench.ran == [("s", None)]


def test_no_is_no_for_a_paused_schedule_too(bench: Watched) -> None:
    number = waiting(bench)
    bench.pause("s")
    bench.approvals.deny(number, note="not today")
    bench.resume("s")
    bench.run_until(at("08:30"))
    assert (bench.ran, bench.last().status) == ([], "denied")
    assert bench.approval(number).votes[0].note == "not today"


def test_what_waits_for_leave_holds_no_place(bench: Watched) -> None:
    """V6: one place for all; while one schedule waits for a person another runs."""
    bench.limits.set("global", size=1)
    number = waiting(bench)
    bench.add("other", when="10 * * * *", job="work")
    bench.run_until(at("08:11"))
    assert bench.ran == [("other", None)]
    bench.approvals.approve(number)
    bench.settle()
    assert bench.ran == [("other", None), ("s", None)]


def test_nobody_answers_and_it_is_denied(bench: Watched) -> None:
    """V6: the declared default is no."""
    number = waiting(bench, approval_timeout="30m")
    bench.run_until(at("08:35"))
    run = bench.last()
    assert (bench.ran, run.status, run.reason) == ([], "expired", "approval_expired")
    assert bench.approval(number).state == "expired"
    assert [told["default"] for told in bench.told("approval.expired")] == ["deny"]


def test_nobody_answers_and_it_was_declared_that_this_means_yes(bench: Watched) -> None:
    """V6: only after the time is over, and not a moment before."""
    waiting(bench, approval_timeout="30m", approval_default="approve")
    bench.run_until(at("08:34:59"))
    assert bench.ran == []
    bench.run_until(at("08:35"))
    assert bench.ran == [("s", None)]
    assert bench.states() == ["used"]


def test_a_no_is_stronger_than_the_declared_yes(bench: Watched) -> None:
    number = waiting(bench, approval_timeout="30m", approval_default="approve")
    bench.approvals.deny(number)
    bench.run_until(at("08:50"))
    assert (bench.ran, bench.last().status) == ([], "denied")


def test_an_answer_that_comes_too_late(bench: Watched) -> None:
    """V6: at the very instant it is over, though no timer has looked yet."""
    number = waiting(bench, approval_timeout="30m")
    bench.clock.advance_to(at("08:35"))
    assert "expired" in refused(bench, Principal("owner", "owner"), number)


# -- restarts


def test_a_restart_between_question_and_answer(kept_url: str, open_bench: Open) -> None:
    """V6: what people are asked is not held in memory."""
    waiting(open_bench(kept_url))
    after = open_bench(kept_url)
    after.run_until(at("08:20"))
    assert after.ran == []
    after.approvals.approve(after.asked().id)
    after.settle()
    assert after.ran == [("s", None)]


def test_a_crash_between_answer_and_start(kept_url: str, open_bench: Open) -> None:
    """V6: leave that was given is not lost, and not asked for twice."""
    first = open_bench(kept_url)
    first.approvals.approve(waiting(first))
    after = open_bench(kept_url)
    after.settle()
    assert after.ran == [("s", None)]
    assert after.states() == ["used"]


def test_a_crash_after_the_start(kept_url: str, open_bench: Open) -> None:
    """V6: the run is tried again on the leave that it had; nobody is asked twice, and no other run gets it."""
    first = open_bench(kept_url)
    number = waiting(first)
    first.executor.submit = lambda batch: None  # type: ignore[method-assign] - it dies before it does anything
    first.approvals.approve(number)
    first.engine.turn()
    assert first.last().status == "running"
    after = open_bench(kept_url)
    for second in range(0, 60, 5):  # until the others are sure that it is dead
        after.run_until(at(f"08:07:{second:02}"))
    assert (after.ran, after.last().attempt) == ([("s", None)], 2)
    assert after.states() == ["used"]


def test_a_restart_does_not_bring_a_denied_run_back(kept_url: str, open_bench: Open) -> None:
    first = open_bench(kept_url)
    first.approvals.deny(waiting(first))
    after = open_bench(kept_url)
    after.run_until(at("08:50"))
    assert (after.ran, after.last().status) == ([], "denied")


def test_attempts_of_one_run_need_one_leave(bench: Watched) -> None:
    """V6: it was given to the run; the next run needs its own."""
    tries: list[int] = []

    @bench.job("flaky")
    def flaky(run: Any) -> None:
        tries.append(run.attempt)
        if run.attempt < 3:
            raise ValueError("not yet")

    bench.add("s", **{**WAITING, "job": "flaky"}, retries=5)
    bench.run_until(at("08:06"))
    bench.approvals.approve(bench.asked().id)
    bench.run_until(at("09:00"))
    assert tries == [1, 2, 3]
    bench.run_until(at("09:30"))
    assert tries == [1, 2, 3]
    assert bench.last().status == "awaiting_approval"
