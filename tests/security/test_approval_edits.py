"""Leave is bound to what was looked at: whatever changes, it must be asked for again. Rows V6, V7, B7."""

from __future__ import annotations

from typing import Any

import pytest
from security_cast import ADA, OWNER, SCOUT, WAITING, Open, Watched, at
from security_rows import everything, sql

from matins.errors import InvalidInput, NotAllowed


def waiting(bench: Watched, **words: Any) -> str:
    bench.add("s", **{**WAITING, "payload": "good", **words})
    bench.run_until(at("08:06"))
    return bench.asked().id


def fill(bench: Watched) -> None:
    """Take the only place there is."""
    bench.limits.set("global", size=1)
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        assert transaction.take_permits("global", [999_999])


def clear(bench: Watched) -> None:
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        transaction.release_permits([999_999])
    bench.settle()


# -- an edit of the schedule


@pytest.mark.parametrize(
    "change",
    [
        {"payload": "evil"},
        {"when": "50 * * * *"},
        {"job": "deploy"},
        {"timeout": "1m"},
        {"approvers": ["owner"]},
        {"max_cost": "$9"},
        {"ends_at": "2027-01-01T00:00"},
        {"retries": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_v7_an_edit_after_yes_neither_changes_nor_voids_it(bench: Watched, change: dict[str, Any]) -> None:
    """V6 V7: the run had leave and waited for a place; it starts with the words that were approved."""
    number = waiting(bench)
    fill(bench)
    bench.approvals.approve(number)
    bench.settle()
    assert bench.last().status == "ready"
    bench.edit("s", **change)
    assert bench.approval(number).state == "approved"
    clear(bench)
    assert bench.ran == [("s", "good")]
    assert (bench.approval(number).state, bench.last().rev) == ("used", 1)
    assert bench.states() == ["used"], "approval is requested once"


def test_v7_a_run_that_waits_keeps_the_words_it_was_planned_with(bench: Watched) -> None:
    """V6 V7: what the person sees is what will run, and the request says that the schedule has other words by now."""
    number = waiting(bench)
    before = bench.approvals.get(number)
    assert "edited" not in before.request
    bench.edit("s", payload="evil")
    bench.settle()
    asked = bench.asked()
    assert (asked.id, asked.rev, asked.digest, asked.request["payload"]) == (number, 1, before.digest, "good")
    assert asked.request["edited"].startswith("The schedule was edited since.")
    assert {**asked.request, "edited": None} == {**before.request, "edited": None}
    explained = bench.why("s").run
    assert explained is not None
    assert [approval.request for approval in explained.approvals] == [asked.request], "why shows the same"
    bench.approvals.approve(number, digest=before.digest)
    bench.settle()
    assert bench.ran == [("s", "good")]
    bench.run_until(at("09:06"))
    following = bench.asked()
    assert (following.request["payload"], following.rev, "edited" in following.request) == ("evil", 2, False)


def test_v7_a_change_of_the_agent_voids_what_waits(bench: Watched) -> None:
    """V7: a person who saw the old agent has not approved the new one; approval is requested again, with the new one"""
    bench.agents.set("scout", runner="demo", model="small")
    number = waiting(bench, job=None, payload=None, prompt="Look.", agent="scout")
    assert bench.approval(number).request["wakes"]["model"] == "small"
    fill(bench)
    bench.approvals.approve(number)
    bench.settle()
    bench.agents.edit("scout", model="large")
    clear(bench)
    again = bench.asked()
    assert (bench.approval(number).state, again.request["wakes"]["model"]) == ("void", "large")
    assert (bench.last().status, bench.last().rev, again.rev) == ("awaiting_approval", 1, 1)


def test_v7_words_that_were_changed_and_changed_back_are_told(bench: Watched) -> None:
    """V7: the revision is another; what was approved runs, whatever the schedule says meanwhile."""
    number = waiting(bench)
    bench.edit("s", payload="evil")
    bench.edit("s", payload="good")
    asked = bench.asked()
    assert (asked.id, asked.rev, "edited" in asked.request) == (number, 1, True)
    bench.approvals.approve(number)
    bench.settle()
    assert bench.ran == [("s", "good")]


def test_v7_an_edit_leaves_leave_that_waits_in_a_paused_schedule(bench: Watched) -> None:
    number = waiting(bench)
    bench.pause("s")
    bench.approvals.approve(number)
    bench.edit("s", payload="evil")
    bench.resume("s")
    bench.settle()
    assert bench.ran == [("s", "good")]
    assert bench.states() == ["used"]


def test_v7_an_edit_does_not_make_a_run_start_unasked(bench: Watched) -> None:
    """V7: the control: the schedule needs no approval any more; the run that waits was planned with one."""
    number = waiting(bench)
    bench.edit("s", approval="auto")
    bench.run_until(at("08:30"))
    assert (bench.ran, bench.last().status) == ([], "awaiting_approval")
    bench.approvals.deny(number)
    bench.settle()
    assert (bench.ran, bench.last().status) == ([], "denied")


def test_a_run_that_has_started_keeps_its_words(bench: Watched) -> None:
    """V7: an edit in flight does not touch it, nor its leave."""
    seen: list[Any] = []

    @bench.job("edits itself")
    def job(run: Any) -> None:
        bench.edit("s", payload="evil")
        seen.append((run.payload, bench.states()))

    bench.approvals.approve(waiting(bench, job="edits itself"))
    bench.settle()
    assert seen == [("good", ["used"])]
    assert bench.last().status == "succeeded"


def test_an_operator_does_not_take_the_question_away(bench: Watched) -> None:
    """B7 V10: approval, approvers, caps and checks are the owner's; setting them back to the usual is a change too."""
    waiting(bench, approvers=["ada"], approvals_required=1, approval_timeout="2h", max_cost="$1", pre_check="true")
    before = everything(bench)
    words = (
        "approval", "approvers", "approvals_required", "approval_jobs", "approval_timeout", "approval_default",
        "max_cost", "max_tokens", "pre_check", "before_run", "after_run", "provider", "quiet_hours",
    )  # fmt: skip
    for word in words:
        with pytest.raises(NotAllowed, match=word):
            bench.acting_as(ADA).edit("s", **{word: None})
        with pytest.raises(NotAllowed, match=word):
            bench.acting_as(ADA).approvals.approve(bench.asked().id, edits={word: None})
    with pytest.raises(NotAllowed, match="approval"):
        bench.acting_as(ADA).edit("s", approval="auto")
    assert everything(bench) == before


def test_an_attempt_that_failed_keeps_its_words_and_its_leave(bench: Watched) -> None:
    """V7: it has started once; an edit before its next attempt is for the runs to come."""
    seen: list[Any] = []

    @bench.job("flaky")
    def flaky(run: Any) -> None:
        seen.append(run.payload)
        if run.attempt == 1:
            raise ValueError("not yet")

    bench.approvals.approve(waiting(bench, job="flaky", retries=1, retry_delay="10m"))
    bench.settle()
    bench.edit("s", payload="evil")
    bench.run_until(at("08:30"))
    assert seen == ["good", "good"]
    assert bench.states() == ["used"]


@pytest.mark.parametrize("what", ["revisions", "approvals"])
def test_words_that_were_changed_behind_our_back_need_leave(kept_url: str, open_bench: Open, what: str) -> None:
    """V6: somebody with a database client changes what was approved, or the approval: the digest tells."""
    bench = open_bench(kept_url)
    number = waiting(bench)
    fill(bench)
    bench.approvals.approve(number)
    if what == "revisions":
        sql(bench, "UPDATE revisions SET definition = replace(definition, 'good', 'evil')")
    else:
        sql(bench, "UPDATE approvals SET digest = 'something else'")
    after = open_bench(kept_url)
    clear(after)
    assert (after.ran, after.last().status) == ([], "awaiting_approval")


# -- yes, with edits


def test_yes_with_edits_is_a_new_question_and_its_answer(bench: Watched) -> None:
    """V6: a new digest, a record of its own, the old one void; the schedule itself says what it said."""
    number = waiting(bench)
    old = bench.asked()
    new = bench.approvals.approve(number, edits={"payload": "better"}, note="as we said")
    assert bench.approval(number).state == "void"
    assert (new.id, new.digest) != (old.id, old.digest)
    assert (new.request["payload"], new.request["edited_by"]) == ("better", "owner")
    assert new.request["instead_of"] == str(number)
    assert [(vote.voter, vote.digest) for vote in new.votes] == [("owner", new.digest)]
    bench.settle()
    assert bench.ran == [("s", "better")]
    assert bench.states() == ["void", "used"]
    assert bench.get("s").settings["payload"] == "good"
    assert bench.told("approval.edited")[0]["settings"] == ["payload"]
    bench.run_until(at("09:06"))
    assert bench.asked().request["payload"] == "good"


def test_v7_an_edit_after_yes_with_edits_changes_nothing(bench: Watched) -> None:
    """V6 V7: the run's own words were approved, and they run."""
    number = waiting(bench)
    fill(bench)
    bench.approvals.approve(number, edits={"payload": "better"})
    bench.edit("s", payload="evil")
    clear(bench)
    assert bench.ran == [("s", "better")]


@pytest.mark.parametrize(
    "edits",
    [
        {"when": "every 1h"},
        {"timezone": "Asia/Tokyo"},
        {"no such word": 1},
        {"name": "other"},
        {"agent": "rover"},
        {"retries": -1},
        pytest.param({"payload": object()}, id="a payload that JSON cannot hold"),
        {"quiet_hours": "no such policy"},
        {"approval": "council_approve"},
        {"pre_check": "/no/such/program"},
        ["payload"],
        "payload",
        5,
    ],
    ids=str,
)
def test_edits_that_cannot_be_used_answer_nothing(bench: Watched, edits: Any) -> None:
    """V6: refused as a whole: the question stays, nobody has voted."""
    number = waiting(bench)
    before = everything(bench)
    with pytest.raises(InvalidInput):
        bench.approvals.approve(number, edits=edits)
    assert everything(bench) == before


def test_what_an_agent_proposed_may_be_approved_with_edits(bench: Watched) -> None:
    """B7: the owner's words are what runs; the agent's are void."""
    bench.acting_as(SCOUT).add("s", when="5 * * * *", job="work", payload="evil", max_cost="$100")
    number = bench.asked().id
    new = bench.approvals.approve(number, edits={"payload": "good", "max_cost": None})
    assert (bench.approval(number).state, new.state) == ("void", "used")
    bench.run_until(at("08:06"))
    assert bench.ran == [("s", "good")]
    assert "max_cost" not in bench.get("s").settings
    assert bench.get("s").created_by == "scout"


def test_a_question_about_money_has_nothing_to_edit(bench: Watched) -> None:
    bench.job("spend")(lambda run: run.spend("$3"))
    bench.budgets.set("day", max_cost="$1", period="day")
    bench.add("s", when="5 * * * *", job="spend")
    bench.run_until(at("08:06"))
    with pytest.raises(InvalidInput, match="A budget request has nothing to edit"):
        bench.approvals.approve(bench.asked().id, edits={"payload": 1})
    with pytest.raises(NotAllowed):
        bench.acting_as(ADA).approvals.approve(bench.asked().id)
    assert bench.get("s").state == "paused"


def test_more_money_does_not_lift_a_persons_pause(bench: Watched) -> None:
    """C16: yes to money ends the pause that the budget made, and no other."""
    bench.job("spend")(lambda run: run.spend("$3"))
    bench.budgets.set("day", max_cost="$1", period="day")
    bench.add("s", when="5 * * * *", job="spend")
    bench.run_until(at("08:06"))
    assert bench.get("s").paused_by == "budget"
    bench.pause("s", note="holidays")
    bench.acting_as(OWNER).approvals.approve(bench.asked().id)
    assert (bench.get("s").state, bench.get("s").note) == ("paused", "holidays")
