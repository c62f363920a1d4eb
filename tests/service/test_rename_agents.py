"""Another name for an agent: everything that holds it follows, and nothing else changes, on both dialects."""

from __future__ import annotations

from pathlib import Path

import every_store
import pytest
from file_steps import Desk

from matins.errors import Conflict, InvalidInput, ManagedByFile, NotAllowed, NotFound
from matins.model.access import Principal
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory
SCOUT, ROVER = Principal("agent", "scout"), Principal("agent", "rover")


def test_what_holds_the_name(bench: Sandbox) -> None:
    """V12 B11: schedules, followers, steps, rules, limits, budgets and what was spent, grants, conversations, tokens"""
    bench.agents.set("scout", runner="demo", max_concurrent=2)
    bench.agents.set("other", runner="demo")
    bench.agent_rules.set("scout", max_schedules=7)
    bench.budgets.set("own", scope="agent", of="scout", period="day", max_cost="$5")
    bench.budgets.set("one", scope="schedule", of="scout/nightly", period="day", max_cost="$5")
    bench.people.set("ada", role="viewer", grants=[{"agents": ["scout", "other"]}])
    token = bench.tokens.create("scout", role="agent")
    bench.add("nightly", when="H H * * *", agent="scout", prompt="Look", max_cost="$1")
    bench.add("gone", when="0 9 * * *", agent="scout", prompt="Look")
    bench.delete("gone")
    bench.add("after", when="after scout/nightly succeeds", job="work")
    steps = [
        {"title": "Look", "agent": "scout", "prompt": "Look"},
        {"title": "Tell", "agent": "other", "prompt": "Tell"},
    ]
    bench.missions.make("both", steps=steps)
    bench.add("mine", when="0 9 * * *", agent="scout", steps=[{"title": "Look", "agent": "scout", "prompt": "Look"}])
    run = bench.run("nightly")
    before = bench.get("nightly")
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        transaction.insert_thread("scout", None, "s1", None, None, bench.clock.now_ms())

    renamed = bench.agents.rename("scout", "rover")

    assert (renamed.name, renamed.max_concurrent, renamed.workdir) == ("rover", 2, "agents/scout")
    assert [one.name for one in bench.agents.list()] == ["other", "rover"]
    after = bench.get("rover/nightly")
    assert (after.id, after.rev, after.next_run_at, after.agent) == (
        before.id,
        before.rev + 1,
        before.next_run_at,
        "rover",
    )
    assert bench.get("after").settings["on"] == {"schedule": "rover/nightly", "outcome": "success"}
    with bench._store.reading() as transaction:
        assert transaction.listeners("schedule", "nightly", "rover") == [int(bench.get("after").id)]
    assert [step["agent"] for step in bench.get("both").settings["steps"]] == ["rover", "other"]
    assert [step["agent"] for step in bench.get("mine").settings["steps"]] == ["rover"]
    assert bench.agent_rules.get("rover").max_schedules == 7
    assert [one.agent for one in bench.agent_rules.list() if one.agent == "scout"] == []
    assert (bench.budgets.get("own").of, bench.budgets.get("one").of) == ("rover", "rover/nightly")
    assert bench.limits.get("agent:rover").size == 2
    with pytest.raises(NotFound):
        bench.limits.get("agent:scout")
    assert "rover" in str(bench.people.get("ada").grants)
    assert "scout" not in str(bench.people.get("ada").grants)
    assert [one.name for one in bench.tokens.list() if one.id == token.id] == ["rover"]
    assert [one.agent for one in bench.threads.list()] == ["rover"]
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        assert transaction.move_scope("agent:scout", "agent:scout") == []
        assert len(transaction.move_scope("agent:rover", "agent:rover")) == 1, run.id
    with pytest.raises(NotFound, match=r'no schedule "scout/nightly"\. It was renamed to "rover/nightly"'):
        bench.get("scout/nightly")
    assert bench.undelete("gone").agent == "rover"
    assert bench.audit.verify().problems == []
    bench.agents.rename("rover", "scout")
    assert bench.get("scout/nightly").id == before.id
    assert bench.audit.verify().problems == []


def test_approvals(bench: Sandbox) -> None:
    """S4 V12: a run that waits keeps its request; a proposal is requested again, and is still the agent's own"""
    bench.agents.set("scout", runner="demo")
    bench.add("asks", when="0 9 * * *", agent="scout", prompt="Look", approval="owner_approve")
    run = bench.run("asks")
    bench.settle()
    (asked,) = bench.approvals.list()
    bench.acting_as(SCOUT).add("idea", when="0 9 * * *", prompt="Look")
    (proposed,) = [one for one in bench.approvals.list() if one.kind == "schedule"]
    bench.agents.rename("scout", "rover")
    waiting = {one.schedule: one for one in bench.approvals.list()}
    assert (waiting["asks"].id, waiting["asks"].digest) == (asked.id, asked.digest)
    assert waiting["idea"].id != proposed.id
    assert bench.approvals.get(proposed.id).state == "void"
    bench.approvals.approve(asked.id, digest=asked.digest)
    assert bench.runs.get(run.id).reason != "awaiting_approval"
    bench.acting_as(ROVER).edit("idea", prompt="Look again")
    with pytest.raises(NotAllowed):
        bench.acting_as(SCOUT).edit("idea", prompt="Look again")
    assert bench.audit.verify().problems == []


def test_what_is_refused(in_memory: Sandbox) -> None:
    bench = in_memory
    bench.agents.set("scout", runner="demo")
    bench.agents.set("other", runner="demo")
    bench.people.set("ada", role="viewer")
    for name, to, error, message in (
        ("scout", "other", Conflict, 'There is an agent "other" already'),
        ("scout", "scout", Conflict, 'There is an agent "scout" already'),
        ("scuot", "rover", NotFound, 'There is no agent "scuot"'),
        ("scout", "ada", Conflict, "ada"),
        ("scout", "", InvalidInput, "name"),
        ("scout", "shell", Conflict, "keeps its name"),
    ):
        with pytest.raises(error, match=message):
            bench.agents.rename(name, to)
    bench.missions.make("both", steps=[{"title": "Look", "agent": "scout", "prompt": "Look"}])
    run = bench.run("both")
    with pytest.raises(Conflict, match=f'Run {run.id} of "both" has steps of scout, and has not ended'):
        bench.agents.rename("scout", "rover")
    bench.runs.cancel(run.id)
    assert [one.name for one in bench.agents.list()] == ["other", "scout"]


FILE = """agents:
  scout: {runner: demo}
"""


def test_in_the_file(in_memory: Sandbox, tmp_path: Path) -> None:
    """V10: what a file defines is refused with its line: the agent, and what holds the name of one"""
    bench, desk = in_memory, Desk(in_memory, tmp_path / "matins.yaml", FILE)
    desk.look()
    with pytest.raises(ManagedByFile, match=r'"scout" is managed by .*matins.yaml \(line 2\)'):
        bench.agents.rename("scout", "rover")
    bench.agents.set("free", runner="demo")
    desk.write(FILE + "schedules:\n  nightly: {when: every day at 9am, agent: free, prompt: Look}\n")
    desk.look()
    with pytest.raises(ManagedByFile, match='"free/nightly" is managed by'):
        bench.agents.rename("free", "rover")
