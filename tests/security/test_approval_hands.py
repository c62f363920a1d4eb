"""Whose words they are: nobody but the owner answers for what they had a hand in. Rows V6, B7, invariant 10."""

from __future__ import annotations

from typing import Any

import pytest
from security_cast import ADA, BOB, CYN, OWNER, WAITING, Watched, at
from security_rows import everything

from matins.errors import NotAllowed
from matins.model.access import Principal


def waiting(bench: Watched, approvers: list[str], **words: Any) -> str:
    """A run that waits for leave; its question."""
    bench.add("s", **{**WAITING, "when": "5 8 * * *", "payload": "good"}, approvers=approvers, **words)
    bench.run_until(at("08:05"))
    return bench.asked().id


def refused(bench: Watched, principal: Principal, approval_id: str, **how: Any) -> None:
    before = everything(bench)
    with pytest.raises(NotAllowed):
        bench.acting_as(principal).approvals.approve(approval_id, **how)
    assert everything(bench) == before


def test_nobody_approves_what_they_change_in_answering(bench: Watched) -> None:
    """V6: yes, with words of one's own, is a question to the others."""
    number = waiting(bench, ["ada", "bob"])
    edited = bench.acting_as(ADA).approvals.approve(number, edits={"payload": "evil"})
    bench.settle()
    assert (edited.state, edited.votes, bench.ran) == ("pending", [], [])
    refused(bench, ADA, edited.id)
    refused(bench, ADA, edited.id, edits={"payload": "worse"})
    bench.acting_as(BOB).approvals.approve(edited.id)
    bench.settle()
    assert bench.ran == [("s", "evil")]


def test_nobody_changes_what_nobody_else_could_approve(bench: Watched) -> None:
    """V6: said at once, rather than asked in vain."""
    number = waiting(bench, ["ada"])
    refused(bench, ADA, number, edits={"payload": "evil"})
    bench.acting_as(ADA).approvals.approve(number)
    bench.settle()
    assert bench.ran == [("s", "good")]


def test_an_edit_does_not_take_the_question_away(bench: Watched) -> None:
    """V6: ada makes it something that nobody need be asked about; it waits for the others all the same."""
    number = waiting(bench, ["ada", "bob"], approval_jobs=["work"])
    edited = bench.acting_as(ADA).approvals.approve(number, edits={"job": "send_message", "payload": "evil"})
    bench.pause("s")
    bench.resume("s")
    bench.run_until(at("08:30"))
    assert (bench.ran, bench.last().status) == ([], "awaiting_approval")
    bench.acting_as(BOB).approvals.deny(edited.id)
    bench.run_until(at("09:00"))
    assert (bench.ran, bench.last().status) == ([], "denied")


def test_an_owner_answers_for_the_owners_words(bench: Watched) -> None:
    number = waiting(bench, ["owner", "ada"])
    bench.acting_as(OWNER).approvals.approve(number, edits={"payload": "better"})
    bench.settle()
    assert bench.ran == [("s", "better")]


def test_a_hand_in_a_run_is_not_forgotten_when_leave_grows_old(bench: Watched) -> None:
    """V6: ada's words for this run had leave once; when they need it again, ada does not give it."""
    number = waiting(bench, ["ada", "bob"], approval_timeout="1h")
    edited = bench.acting_as(ADA).approvals.approve(number, edits={"payload": "evil"})
    bench.pause("s")
    bench.acting_as(BOB).approvals.approve(edited.id)
    bench.run_until(at("09:30"))
    bench.resume("s")
    bench.settle()
    refused(bench, ADA, bench.asked().id)
    bench.acting_as(BOB).approvals.approve(bench.asked().id)
    bench.settle()
    assert bench.ran == [("s", "evil")]


def test_a_hand_in_one_run_is_none_in_the_next(bench: Watched) -> None:
    """V6: the schedule says what it said."""
    number = waiting(bench, ["ada", "bob"])
    edited = bench.acting_as(ADA).approvals.approve(number, edits={"payload": "other"})
    bench.acting_as(BOB).approvals.approve(edited.id)
    bench.run_until(at("08:05", day=28))
    bench.acting_as(ADA).approvals.approve(bench.asked().id)
    bench.settle()
    assert bench.ran == [("s", "other"), ("s", "good")]


def test_another_edit_does_not_wash_words_clean(bench: Watched) -> None:
    """B7: ada writes the words, bob changes something beside them; they are ada's still."""
    bench.acting_as(CYN).approvals.deny(waiting(bench, ["ada", "bob", "cyn"]))
    bench.acting_as(ADA).edit("s", payload="evil")
    bench.acting_as(BOB).edit("s", retries=1)
    bench.run_until(at("08:05", day=28))
    for operator in (ADA, BOB):
        refused(bench, operator, bench.asked().id)
    bench.acting_as(CYN).approvals.approve(bench.asked().id)
    bench.settle()
    assert bench.ran == [("s", "evil")]


def test_what_the_owner_wrote_the_owner_answers_for(bench: Watched) -> None:
    """B7: from then on those who wrote before may answer again."""
    number = waiting(bench, ["ada", "bob"])
    for operator in (ADA, BOB):
        bench.acting_as(operator).approvals.deny(number)
    bench.acting_as(ADA).edit("s", payload="evil")
    bench.edit("s", payload="better")
    bench.run_until(at("08:05", day=28))
    bench.acting_as(ADA).approvals.approve(bench.asked().id)
    bench.settle()
    assert bench.ran == [("s", "better")]
