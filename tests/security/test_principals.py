"""Who did something is a kind and an id: a person, an agent and a token of one name are three. Rows B7, V6."""

from __future__ import annotations

import threading

import pytest
from security_cast import SCOUT, WAITING, Open, Watched, at, propose

from matins.errors import Conflict, InvalidInput, NotAllowed
from matins.model.access import OWNER, Principal, name_of, signed

NAMESAKE = Principal("operator", "scout")
"""A person with the name of an agent: made before the agent, or by a store of old."""
TOKEN = Principal("operator", "scout", token="abcdefgh")


def test_b7_a_principal_is_stored_by_kind_and_id() -> None:
    """B7: and people read its name"""
    found = [SCOUT, NAMESAKE, TOKEN, OWNER, Principal("owner", "owner", token="k"), Principal("owner", "owner x")]
    assert [one.who for one in found] == [
        "agent:scout", "person:scout", "token:abcdefgh scout", "owner", "token:k owner", "person:owner x",
    ]  # fmt: skip
    assert [name_of(one.who) for one in found] == [one.name for one in found]
    assert Principal("operator", "ci", kind="webhook").who == "webhook:ci"
    assert signed("token:abcdefgh my laptop") == {"by": "my laptop", "who": "token:abcdefgh my laptop"}
    assert [name_of(text) for text in ("matins", "failures", "webhook:ci")] == ["matins", "failures", "webhook:ci"]


@pytest.mark.parametrize("person", [NAMESAKE, TOKEN], ids=["person", "token"])
def test_b7_an_agent_does_not_resume_what_its_namesake_paused(bench: Watched, person: Principal) -> None:
    """B7: but what it paused itself"""
    acting = propose(bench)
    bench.acting_as(person).pause("s")
    with pytest.raises(NotAllowed, match=r'"s" was paused by scout.'):
        acting.resume("s")
    assert bench.get("s").paused_by == "scout"
    bench.resume("s")
    acting.pause("s")
    acting.resume("s")
    assert bench.get("s").state == "active"


def test_v6_a_namesake_of_the_agent_may_approve_and_counts(bench: Watched) -> None:
    """V6: the author is the agent, and not the person of its name"""
    propose(bench, **{**WAITING, "approvers": ["scout", "bob"], "approvals_required": 2, "approval": "council_approve"})
    bench.run_until(at("08:06"))
    asked = bench.asked()
    bench.acting_as(NAMESAKE).approvals.approve(asked.id)
    assert bench.approval(asked.id).state == "pending"
    bench.acting_as(TOKEN).approvals.approve(asked.id)
    assert bench.approval(asked.id).state == "pending", "one approver has one vote, by whatever way"
    bench.acting_as(Principal("operator", "bob")).approvals.approve(asked.id)
    bench.settle()
    assert bench.approval(asked.id).state == "used"
    assert {vote.voter for vote in bench.approval(asked.id).votes} == {"scout", "bob"}
    told = {data["who"]: data["by"] for data in bench.told("approval.voted")}
    assert told == {"owner": "owner", "person:scout": "scout", "token:abcdefgh scout": "scout", "person:bob": "bob"}
    assert bench.audit.verify().problems == []


@pytest.mark.parametrize("author", [NAMESAKE, TOKEN], ids=["person", "token"])
def test_v6_an_author_cannot_approve_by_another_way(bench: Watched, author: Principal) -> None:
    """V6: the control: a person with a token of the same name is one approver"""
    bench.add("s", **{**WAITING, "when": "5 0 1 1 *", "approvers": ["scout", "bob"]})
    bench.acting_as(author).run("s")
    bench.settle()
    for own in (NAMESAKE, TOKEN):
        with pytest.raises(NotAllowed, match="only the owner may approve what they made"):
            bench.acting_as(own).approvals.approve(bench.asked().id)
    bench.acting_as(Principal("operator", "bob")).approvals.approve(bench.asked().id)


def test_b7_a_namesake_s_schedules_are_not_the_agent_s(bench: Watched) -> None:
    """B7: neither for its maximum, nor for what it may change and read"""
    bench.agent_rules.set("scout", max_schedules=1)
    bench.acting_as(NAMESAKE).add("theirs", when="5 * * * *", job="work")
    acting = bench.acting_as(SCOUT)
    assert acting.add("own", when="5 * * * *", job="work").created_by == "scout"
    with pytest.raises(NotAllowed, match="was not made by scout"):
        acting.edit("theirs", when="6 * * * *")
    assert acting.get("theirs").settings == {}
    with pytest.raises(NotAllowed, match="already has 1 of at most 1"):
        acting.add("another", when="5 * * * *", job="work")


# -- names


def test_b7_an_agent_and_a_token_do_not_have_one_name(bench: Watched) -> None:
    """B7: whichever comes first; nor do an agent and a person"""
    bench.agents.set("claude", runner="demo")
    with pytest.raises(
        Conflict, match=r'^The name "claude" belongs to an agent.\nHint: Use another name for the token.'
    ):
        bench.tokens.create("claude", role="operator")
    with pytest.raises(
        Conflict, match=r'^The name "claude" belongs to an agent.\nHint: Use another name for the person.'
    ):
        bench.people.set("claude", role="operator")
    assert bench.tokens.create("claude", role="agent").name == "claude", "a token of the agent has its name"
    laptop = bench.tokens.create("laptop", role="operator")
    bench.people.set("ada", role="operator")
    bench.tokens.create("ada", role="operator")
    for name, what in (("laptop", "a token"), ("ada", "a person"), ("owner", "a person")):
        with pytest.raises(
            Conflict, match=f'^The name "{name}" belongs to {what}.\nHint: Use another name for the agent.'
        ):
            bench.agents.set(name, runner="demo")
        with pytest.raises(InvalidInput, match=f'^The name "{name}" belongs to {what}.'):
            bench.tokens.create(name, role="agent")
    bench.agents.edit("claude", runner="demo")
    bench.tokens.revoke(laptop.id)
    bench.agents.set("laptop", runner="demo")


def test_b7_a_token_and_an_agent_of_one_name_at_the_same_moment(postgres_url: str, open_bench: Open) -> None:
    """B7: one of them is refused, from two processes"""
    benches = [open_bench(postgres_url), open_bench(postgres_url)]
    for number in range(6):
        together, refused = threading.Barrier(2), list[str]()

        def go(bench: Watched, kind: str, name: str, together: threading.Barrier, refused: list[str]) -> None:
            together.wait()
            try:
                bench.tokens.create(name) if kind == "token" else bench.agents.set(name, runner="demo")
            except Conflict as error:
                refused.append(str(error))

        given = [(benches[n], kind, f"n{number}", together, refused) for n, kind in enumerate(("token", "agent"))]
        threads = [threading.Thread(target=go, args=one) for one in given]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 1, refused
