"""`add` makes the agent and the name that it needs, in one transaction."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from matins.errors import Conflict, InvalidInput, NotAllowed, NotFound
from matins.model.access import Principal
from matins.testing import Sandbox

OPERATOR = Principal("operator", "olga")


@pytest.fixture
def m() -> Sandbox:
    made = Sandbox()
    made.job("report")(lambda run: None)
    return made


def test_the_name_of_a_runner_makes_that_agent(m: Sandbox) -> None:
    added = m.add("x", when="1d", agent="demo", prompt="Say hello", create_agent=True)
    agent = m.agents.get("demo")
    assert (agent.runner, agent.workdir) == ("demo", "agents/demo")
    assert added.notes[0] == 'Created the agent "demo" with the runner demo.'
    assert "matins agents edit demo --workdir DIR" in added.notes[1]


def test_an_agent_that_exists_stays_as_it_is(m: Sandbox) -> None:
    m.agents.set("demo", runner="shell", command=["true"])
    assert m.add("x", when="1d", agent="demo", prompt="Say hello", deliver=["none"], create_agent=True).notes == []
    assert m.agents.get("demo").runner == "shell"


def test_nothing_is_made_where_the_schedule_cannot_be(m: Sandbox) -> None:
    m.add("x", when="1d", agent="demo", job="report")
    with pytest.raises(Conflict):
        m.add("x", when="1d", agent="demo", prompt="Say hello", create_agent=True)
    with pytest.raises(InvalidInput):
        m.add("y", when="never ever", agent="demo", prompt="Say hello", create_agent=True)
    assert m.agents.list() == []


def test_a_job_needs_no_agent(m: Sandbox) -> None:
    m.add("x", when="1d", agent="demo", job="report", create_agent=True)
    assert m.agents.list() == []


def test_an_unknown_agent_is_refused_with_what_to_type(m: Sandbox) -> None:
    with pytest.raises(NotFound) as error:
        m.add("x", when="1d", agent="dmo", prompt="Say hello", create_agent=True)
    assert error.value.message == 'There is no agent "dmo".'
    assert error.value.hint == 'Did you mean "demo"? To create "dmo": matins agents set dmo --runner claude'


def test_c15_an_unknown_agent_is_refused_by_the_library(m: Sandbox) -> None:
    """C15: as in the file; alone, among many, and of a step; nothing is written"""
    words = {"when": "1d", "agent": "nobody", "prompt": "Say hello"}
    step = {"title": "A", "agent": "nobody", "prompt": "Say hello"}
    calls: list[Callable[[], object]] = [
        lambda: m.add("x", **words), lambda: m.add_many([{"name": "x", **words}]),
        lambda: m.add("x", when="1d", steps=[step]),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(InvalidInput, match='There is no agent "nobody"') as error:
            call()
        assert (error.value.field or "").endswith("agent")
        assert error.value.hint == "Create it: matins agents set nobody --runner claude"
    assert m.list() == []


def test_making_an_agent_is_for_those_who_govern(m: Sandbox) -> None:
    with pytest.raises(NotAllowed) as error:
        m.acting_as(OPERATOR).add("x", when="1d", agent="demo", prompt="Say hello", create_agent=True)
    assert error.value.message == 'The role "operator" cannot create agents.'
    assert m.agents.list() == []
    assert m.list() == []


def test_a_schedule_without_a_name_gets_one_and_the_next_a_number(m: Sandbox) -> None:
    m.agents.set("a", runner="demo")
    m.job("nightly backup")(lambda run: None)
    names = [m.add(when="1d", agent="a", prompt="Summarise my open PRs, please, and then some").name for _ in range(3)]
    assert names == ["summarise-my-open-prs-please-and", "summarise-my-open-prs-please-and-2",
                     "summarise-my-open-prs-please-and-3"]  # fmt: skip
    assert m.add(when="1d", job="nightly backup").name == "nightly-backup"


def test_names_are_counted_for_each_agent(m: Sandbox) -> None:
    for agent in ("a", "b"):
        m.agents.set(agent, runner="demo")
    assert [m.add(when="1d", agent=agent, prompt="Look").name for agent in ("a", "b")] == ["look", "look"]
