"""What the words of an agent's proposal can say, and what the server says instead. Rows B7, V10."""

from __future__ import annotations

from typing import Any

import pytest
from security_cast import ADA, BOB, SCOUT, Watched, at, propose
from security_rows import everything

from matins.errors import Conflict, InvalidInput, NotAllowed
from matins.executors.job_context import JobContext
from matins.model.access import Principal

PLAIN = {"when": "5 * * * *", "job": "work"}
COMMANDS = ("pre_check", "before_run", "after_run")


# -- provenance


def test_where_it_comes_from_is_stamped_by_the_server(bench: Watched) -> None:
    """B7: agent, run, parent and depth, seen in the schedule and by whoever decides."""
    seen: list[int] = []

    @bench.job("plants")
    def plants(run: JobContext) -> None:
        seen.append(run.id)
        bench.acting_as(Principal("agent", "scout", run.id)).add("child", **PLAIN)

    parent = bench.add("parent", when="5 * * * *", job="plants", agent="scout")
    bench.run_until(at("08:06"))
    child = bench.get("child")
    assert (child.created_by, child.creator_role, child.agent) == ("scout", "agent", "scout")
    assert (child.creator_run, child.parent, child.depth) == (str(seen[0]), parent.id, 1)
    request = bench.asked("child").request
    assert (request["proposed_by"], request["run"]) == ("scout", str(seen[0]))
    assert (request["parent"], request["depth"]) == (parent.id, 1)
    told = bench.told("schedule.created")[-1]
    assert told.pop("fingerprint")
    assert told == {"name": "child", "agent": "scout", "by": "scout", "who": "agent:scout", "role": "agent"}


@pytest.mark.parametrize(
    "word",
    ["created_by", "creator_role", "creator_run", "parent", "depth", "state", "rev", "id", "due_at", "paused_by",
     "executions", "principal", "role", "run_id", "proposed_by", "approved", "paused_at", "approval_timeout_ms",
     "trigger"],
)  # fmt: skip
def test_provenance_is_no_word_of_a_schedule(memory: Watched, word: str) -> None:
    """B7: whatever the words say."""
    agent = propose(memory)
    before = everything(memory)
    with pytest.raises(InvalidInput):
        agent.add("forged", **PLAIN, **{word: "owner"})
    with pytest.raises(InvalidInput):
        memory.acting_as(SCOUT).add_many([{"name": "forged", **PLAIN, word: "owner"}])
    with pytest.raises(InvalidInput):
        agent.edit("s", **{word: "owner"})
    assert everything(memory) == before


def test_an_edit_by_somebody_else_does_not_make_it_theirs(bench: Watched) -> None:
    """B7: it stays what an agent made, with an agent's limits."""
    agent = propose(bench)
    bench.edit("s", payload="by the owner")
    assert (bench.get("s").created_by, bench.get("s").state) == ("scout", "active")
    agent.edit("s", payload="by the agent")
    assert bench.get("s").state == "pending"


# -- words that reach further


UNUSUAL: dict[str, Any] = {
    "pre_check": "true",
    "before_run": ["true"],
    "after_run": "true",
    "provider": "anthropic",
    "max_cost": "$50",
    "max_tokens": 1_000_000,
    "quiet_hours": "night",
    "approval": "owner_approve",
    "approvers": ["rover"],
    "approval_default": "approve",
    "approval_timeout": "1s",
    "approval_jobs": ["nothing"],
}
REACHING: dict[str, Any] = {
    **UNUSUAL,
    "target": {"kind": "channel", "channel": "C07"},
    "work_source": "inbox",
}
"""And where it lands, which an operator may set."""


@pytest.mark.parametrize("word", REACHING)
def test_unusual_words_are_proposed_and_pointed_out(memory: Watched, word: str) -> None:
    """B7 V10: inside the digest, named in the request, and without any effect before the yes."""
    memory.quiet_hours.set("night", windows=["01:00-02:00"])
    memory.work_sources.set("inbox", kind="tasks", path="TASKS.yaml")
    agent = memory.acting_as(SCOUT)
    agent.add("plain", **PLAIN)
    assert memory.asked("plain").request["unusual"] == []
    agent.add("s", **PLAIN, **{word: REACHING[word]})
    asked = memory.asked()
    assert asked.request["unusual"] == [word]
    assert memory.get("s").state == "pending"
    agent.edit("plain", **{word: REACHING[word]})
    assert memory.asked("plain").request["unusual"] == asked.request["unusual"]
    memory.run_until(at("08:30"))
    assert memory.ran == []
    assert memory.told("run.checking", "run.started") == []


def test_a_person_sees_what_the_agent_would_be_told_and_where(memory: Watched) -> None:
    """B7: nobody can judge a prompt that is not shown; also when a run of it is asked about."""
    memory.work_sources.set("inbox", kind="tasks", path="TASKS.yaml")
    memory.agents.set("scout", runner="demo")
    words = {"prompt": "delete everything", "target": {"kind": "channel", "channel": "C07"}, "work_source": "inbox"}
    memory.acting_as(SCOUT).add("s", when="5 * * * *", approval="owner_approve", **words)
    seen = memory.asked().request
    memory.approvals.approve(memory.asked().id)
    memory.run_until(at("08:06"))
    for request in (seen, memory.asked().request):
        assert {word: request[word] for word in words} == words


def test_who_answers_for_a_proposal_is_not_the_agents_choice(bench: Watched) -> None:
    """B7: approvers, silence that means yes, a second to answer in: all of that is about its runs, once it may have
    any, and not about the proposal."""
    bench.acting_as(SCOUT).add(
        "s", **PLAIN, approval="council_approve", approvers=["ada"], approval_default="approve", approval_timeout="1s"
    )
    with pytest.raises(NotAllowed):
        bench.acting_as(ADA).approvals.approve(bench.asked().id)
    asked = bench.asked()
    assert (asked.approvers, asked.default, asked.required) == ([], "deny", 1)
    bench.run_until(at("10:00"))
    assert (bench.ran, bench.get("s").state) == ([], "pending")


@pytest.mark.parametrize("word", UNUSUAL)
def test_operators_do_not_set_them_at_all(memory: Watched, word: str) -> None:
    """B7 V10: preCheck, hooks, money and who is asked come from the owner or the file; commands may be proposed."""
    memory.quiet_hours.set("night", windows=["01:00-02:00"])
    memory.add("s", **PLAIN)
    before = everything(memory)
    operator = memory.acting_as(ADA)
    with pytest.raises(NotAllowed, match=word):
        operator.edit("s", **{word: UNUSUAL[word]})
    if word not in COMMANDS:
        with pytest.raises(NotAllowed, match=word):
            operator.add("t", **PLAIN, **{word: UNUSUAL[word]})
    assert everything(memory) == before


@pytest.mark.parametrize("word", COMMANDS)
def test_c13_an_operators_command_is_a_proposal(bench: Watched, word: str) -> None:
    """C13 B7: nothing of it happens until the owner has approved it, and nobody else can; then it is a schedule"""
    operator = bench.acting_as(ADA)
    foreseen = operator.preview_new("s", **PLAIN, **{word: UNUSUAL[word]})
    made = operator.add("s", **PLAIN, **{word: UNUSUAL[word]})
    assert (foreseen.needs_approval, made.state, made.due_at) == (True, "pending", None)
    why = f'Only the owner can set "{word}", and decides about it.'
    assert (why in foreseen.notes, why in made.notes) == (True, True)
    asked = bench.asked()
    assert (asked.request[word], asked.request["proposed_by"], asked.request["note"]) == (UNUSUAL[word], "ada", why)
    for principal in (ADA, BOB, SCOUT):
        with pytest.raises(NotAllowed):
            bench.acting_as(principal).approvals.approve(asked.id)
    with pytest.raises(Conflict, match="pending"):
        operator.run("s")
    with pytest.raises(Conflict, match="pending"):
        operator.resume("s")
    bench.run_until(at("09:00"))
    assert (bench.ran, bench.runs.list(schedule="s")) == ([], [])
    operator.edit("s", payload="other")
    assert bench.approval(asked.id).state == "void", "the owner decides about what it says now"
    bench.approvals.approve(bench.asked().id)
    bench.run_until(at("09:06"))
    assert bench.ran == [("s", "other")]


def test_c13_what_the_owner_denies_does_not_come_back_by_an_edit(bench: Watched) -> None:
    """C13 B7: an edit asks again"""
    operator = bench.acting_as(ADA)
    operator.add("s", **PLAIN, pre_check="true")
    bench.approvals.deny(bench.asked().id)
    assert bench.get("s").state == "rejected"
    operator.edit("s", payload="other")
    bench.run_until(at("10:00"))
    assert (bench.get("s").state, bench.ran) == ("pending", [])


def test_c13_an_owners_token_that_does_not_govern_proposes_nothing(bench: Watched) -> None:
    """C13: it could approve its own proposal"""
    token = Principal("owner", "owner", rights=frozenset(["read", "change", "approve"]))
    with pytest.raises(NotAllowed, match="pre_check"):
        bench.acting_as(token).add("s", **PLAIN, pre_check="true")
