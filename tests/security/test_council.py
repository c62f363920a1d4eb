"""Several people decide together: k of n, each once, about the same words. Row V6."""

from __future__ import annotations

from typing import Any

import pytest
from security_cast import ADA, BOB, CYN, OWNER, SCOUT, Watched, at
from security_rows import everything

from matins.engine.approvals import refusal_reason, tally
from matins.errors import Conflict, InvalidInput, NotAllowed
from matins.model.access import Principal
from matins.model.policies import Vote

COUNCIL = {
    "when": "5 * * * *",
    "job": "work",
    "approval": "council_approve",
    "approvers": ["ada", "bob", "cyn"],
    "approvals_required": 2,
}


def waiting(bench: Watched, **words: Any) -> str:
    bench.add("s", **{**COUNCIL, **words})
    bench.run_until(at("08:06"))
    return bench.asked().id


def vote(bench: Watched, principal: Principal, number: str, word: str = "approve") -> str:
    """The state of the question after it."""
    acting = bench.acting_as(principal)
    answered = acting.approvals.approve(number) if word == "approve" else acting.approvals.deny(number)
    bench.settle()
    return answered.state


def test_enough_of_them_must_say_yes(bench: Watched) -> None:
    """V6: two of three; the first yes starts nothing."""
    number = waiting(bench)
    assert vote(bench, ADA, number) == "pending"
    assert bench.ran == []
    assert vote(bench, CYN, number) == "approved"
    assert bench.ran == [("s", None)]
    assert bench.told("approval.approved")[0]["by"] == ["ada", "cyn"]


def test_nobody_votes_twice(bench: Watched) -> None:
    """V6: one person's two votes are one."""
    number = waiting(bench)
    for _ in range(3):
        assert vote(bench, ADA, number) == "pending"
    assert [v.voter for v in bench.approval(number).votes] == ["ada"]
    assert bench.ran == []


def test_one_person_in_two_roles_is_one_person(bench: Watched) -> None:
    """V6: names are what is counted, whatever hat is worn."""
    number = waiting(bench)
    vote(bench, ADA, number)
    assert vote(bench, Principal("owner", "ada"), number) == "pending"
    assert bench.ran == []


def test_a_no_that_leaves_it_possible_and_one_that_does_not(bench: Watched) -> None:
    """V6: denied as soon as there cannot be enough any more."""
    number = waiting(bench)
    assert vote(bench, ADA, number, "deny") == "pending"
    assert vote(bench, BOB, number, "deny") == "denied"
    assert (bench.ran, bench.last().status) == ([], "denied")
    with pytest.raises(Conflict):
        bench.acting_as(CYN).approvals.approve(number)


def test_one_no_is_enough_where_all_must_agree(bench: Watched) -> None:
    number = waiting(bench, approvals_required=3)
    vote(bench, ADA, number)
    vote(bench, BOB, number)
    assert vote(bench, CYN, number, "deny") == "denied"
    assert (bench.ran, bench.last().status) == ([], "denied")


def test_a_vote_may_be_changed_while_it_is_open(bench: Watched) -> None:
    """V6: the last word of each counts."""
    number = waiting(bench)
    vote(bench, ADA, number)
    assert vote(bench, ADA, number, "deny") == "pending"
    assert vote(bench, BOB, number) == "pending"
    assert bench.ran == []
    assert vote(bench, CYN, number) == "approved"
    assert bench.ran == [("s", None)]


def test_a_no_may_become_a_yes(bench: Watched) -> None:
    number = waiting(bench)
    vote(bench, ADA, number, "deny")
    vote(bench, ADA, number)
    assert vote(bench, BOB, number) == "approved"


def test_votes_for_other_words_do_not_count(bench: Watched) -> None:
    """V6: ada said yes, bob says yes to something else: nobody has said yes to that, and bob does not answer for it."""
    number = waiting(bench, payload="good")
    vote(bench, ADA, number)
    edited = bench.acting_as(BOB).approvals.approve(number, edits={"payload": "other"})
    bench.settle()
    assert (edited.state, edited.votes, bench.ran) == ("pending", [], [])
    assert bench.approval(number).state == "void"
    with pytest.raises(NotAllowed, match="what they made, changed or started"):
        bench.acting_as(BOB).approvals.approve(edited.id)
    assert vote(bench, ADA, edited.id) == "pending"
    assert vote(bench, CYN, edited.id) == "approved"
    assert bench.ran == [("s", "other")]


def test_votes_are_for_what_was_shown_and_outlive_an_edit(bench: Watched) -> None:
    """V6 V7: a run that waits keeps the settings that it was planned with."""
    number = waiting(bench, payload="good")
    vote(bench, ADA, number)
    bench.edit("s", payload="evil")
    bench.settle()
    again = bench.asked()
    assert (again.id, [one.voter for one in again.votes]) == (number, ["ada"])
    assert vote(bench, BOB, again.id) == "approved"
    assert bench.ran == [("s", "good")]


def test_outsiders_have_no_vote(bench: Watched) -> None:
    """V6: neither the owner, nor an operator who is not named, nor an agent that bears a name that is."""
    number = waiting(bench)
    before = everything(bench)
    for principal in (
        OWNER,
        Principal("operator", "dan"),
        SCOUT,
        Principal("agent", "ada"),
        Principal("viewer", "ada"),
    ):
        for answer in (bench.acting_as(principal).approvals.approve, bench.acting_as(principal).approvals.deny):
            with pytest.raises(NotAllowed):
                answer(number)
    assert everything(bench) == before


def test_the_engine_itself_knows_who_may_not(memory: Watched) -> None:
    """V6: behind the rights of the use cases stands the rule itself, and counts no vote for other words."""
    number = waiting(memory)
    with memory.store.reading() as transaction:
        asked = transaction.approval(int(number))
    assert asked is not None
    for role in ("agent", "viewer"):
        assert refusal_reason(asked, Principal(role, "ada"))
    assert refusal_reason(asked, ADA) is None
    stale = [Vote(name, "approve", 0, None, "other words") for name in ("ada", "bob", "cyn")]
    assert tally(asked._replace(votes=tuple(stale))) == "pending"
    assert tally(asked._replace(votes=tuple(vote._replace(digest=asked.digest) for vote in stale))) == "approved"


def test_too_few_voices_when_time_is_up(bench: Watched) -> None:
    """V6: one yes of two is no yes, unless silence was declared to be one."""
    number = waiting(bench, approval_timeout="30m")
    vote(bench, ADA, number)
    bench.run_until(at("08:40"))
    assert (bench.ran, bench.last().status) == ([], "expired")


@pytest.mark.parametrize(
    "words",
    [
        {"approvers": None},
        {"approvers": []},
        {"approvers": ["ada"]},
        {"approvers": ["ada", "ada"]},
        {"approvers": "ada"},
        {"approvers": ["ada", "b\nb"]},
        {"approvers": ["ada", ""]},
        {"approvals_required": 4},
        {"approvals_required": 0},
        {"approvals_required": True},
    ],
    ids=str,
)
def test_a_council_that_cannot_decide_is_refused(memory: Watched, words: dict[str, Any]) -> None:
    """V6: council_approve needs people, and no more of them than there are; also by an edit."""
    before = everything(memory)
    with pytest.raises(InvalidInput):
        memory.add("s", **{**COUNCIL, **words})
    assert everything(memory) == before
    memory.add("s", **COUNCIL)
    before = everything(memory)
    with pytest.raises(InvalidInput):
        memory.edit("s", **words)
    assert everything(memory) == before
