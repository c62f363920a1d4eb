"""Missions on every store, and in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import every_store
import jsonschema_rs
import pytest
from file_steps import Desk

from matins.config.schema import schema
from matins.errors import InvalidFile, InvalidInput, ManagedByFile, NotAllowed, NotFound
from matins.model.access import Principal
from matins.testing import Sandbox, iso
from matins.texts.yaml_nodes import parse, to_python

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench = every_store.bench
SCOUT = Principal("agent", "scout")
PAGE = Path(__file__).parents[2] / "docs" / "missions.md"
STEPS: list[Any] = [{"title": "Build", "job": "work"}, {"title": "Deploy", "job": "work", "after": ["Build"]}]


@pytest.fixture
def desk(bench: Sandbox, tmp_path: Path) -> Iterator[Desk]:
    """A file with the mission of docs/missions.md."""
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    agents = "agents: {coder: {runner: demo}, ops: {runner: demo}}\n"
    return Desk(bench, tmp_path / "matins.yaml", agents + found[1])


def test_the_life_of_a_mission(bench: Sandbox) -> None:
    """P2 P10"""
    assert bench.missions.make("m", steps=STEPS).status == "draft"
    bench.add("plain", when="0 9 * * *", job="work")
    bench.edit("m", when="0 9 * * *", ends_at="2026-03-29T00:00:00Z")
    bench.run_until("2026-03-27T10:00:00Z")
    (mission,) = bench.missions.list()
    assert (mission.status, mission.recurring, mission.when) == ("recurring", True, "0 9 * * *")
    assert (iso(mission.last_run_at), iso(mission.next_run_at)) == ("2026-03-27T09:00:00Z", "2026-03-28T09:00:00Z")
    assert mission.last_run is not None
    assert (mission.last_run.steps, mission.steps) == ([], STEPS)
    whole = bench.missions.get("m").last_run
    assert whole is not None
    assert [step.status for step in whole.steps] == ["succeeded", "succeeded"]
    bench.run_until("2026-03-30T10:00:00Z")
    assert [one.name for one in bench.missions.list(status="completed")] == ["m"]
    drafted = bench.missions.draft("m")
    assert (drafted.status, drafted.when, drafted.ends_at, drafted.next_run_at) == ("draft", None, None, None)
    assert (bench.missions.delete("m"), bench.missions.delete("m"), bench.missions.list()) == (True, False, [])


def test_abort_ends_what_waits_for_a_person(bench: Sandbox) -> None:
    """P4"""
    bench.missions.make("m", when="0 9 * * *", steps=[{**STEPS[0], "approval": "owner_approve"}, STEPS[1]])
    bench.run_until("2026-03-27T10:00:00Z")
    assert bench.missions.get("m").status == "active"
    aborted = bench.missions.abort("m")
    assert (aborted.status, bench.approvals.list()) == ("cancelled", [])
    assert aborted.last_run is not None
    assert aborted.last_run.reason == "cancelled"
    assert [step.reason for step in aborted.last_run.steps] == ["mission_aborted", "mission_aborted"]
    bench.run_until("2026-03-29T10:00:00Z")
    assert len(bench.runs.list(schedule="m")) == 1


def test_missions_are_paged_by_id(bench: Sandbox) -> None:
    """Other schedules between them do not count"""
    for number in range(5):
        bench.add(f"s{number}", when="0 9 * * *", job="work")
        bench.missions.make(f"m{number}", steps=STEPS[:1])
    first = bench.missions.list(limit=2)
    assert [one.name for one in first] == ["m0", "m1"]
    assert [one.name for one in bench.missions.list(after=first[-1].id, limit=9)] == ["m2", "m3", "m4"]


def test_what_is_no_mission(bench: Sandbox) -> None:
    """P6"""
    bench.add("plain", when="0 9 * * *", job="work")
    with pytest.raises(InvalidInput, match='needs "steps"'):
        bench.missions.make("m", job="work")
    for verb in ("get", "draft", "abort"):
        with pytest.raises(NotFound, match="has no steps"):
            getattr(bench.missions, verb)("plain")
    assert bench.missions.delete("plain") is False
    assert bench.get("plain").state == "active"


def test_a_mission_that_an_agent_makes_waits_for_approval(bench: Sandbox) -> None:
    """B7"""
    bench.agents.set("scout", runner="demo")
    made = bench.acting_as(SCOUT).missions.make("m", when="0 9 * * *", steps=STEPS)
    assert made.status == "draft"
    bench.approvals.approve(bench.approvals.list()[0].id)
    assert bench.missions.get("m").status == "recurring"


def test_a_mission_in_the_file(desk: Desk) -> None:
    """P2 C7: without `when` it is a draft; the file defines its time"""
    assert desk.look() == "applied"
    (mission,) = desk.bench.missions.list()
    assert (mission.name, mission.status, [step["title"] for step in mission.steps]) == (
        "release",
        "draft",
        ["Build", "Deploy"],
    )
    assert mission.file is not None
    with pytest.raises(ManagedByFile):
        desk.bench.missions.abort("release")
    desk.change(("  release:\n", "  release:\n    when: 0 2 * * *\n"))
    assert desk.look() == "applied"
    assert desk.bench.missions.get("release").status == "recurring"
    desk.change(("    when: 0 2 * * *\n", ""))
    assert desk.look() == "applied"
    assert desk.bench.missions.get("release").status == "draft"


POLPO_TASKS = """\
agents:
  build-agent: {runner: demo}
  devops-agent: {runner: demo}
schedules:
  release:
    steps:
      [
        {"title": "Build release artifacts", "assignTo": "build-agent"},
        {"title": "Deploy to production", "description": "Deploy it.", "assignTo": "devops-agent",
         "dependsOn": ["Build release artifacts"]}
      ]
"""


def test_p6_polpos_tasks_in_the_file(bench: Sandbox, tmp_path: Path) -> None:
    """P6: "title, description, assignTo, dependsOn"; what is wrong in them is told as for steps"""
    desk = Desk(bench, tmp_path / "polpo.yaml", POLPO_TASKS)
    assert desk.look() == "applied"
    assert bench.missions.get("release").steps == [
        {"title": "Build release artifacts", "agent": "build-agent"},
        {"title": "Deploy to production", "agent": "devops-agent", "prompt": "Deploy it.",
         "after": ["Build release artifacts"]},
    ]  # fmt: skip
    file = to_python(parse(POLPO_TASKS))
    assert jsonschema_rs.Draft202012Validator(schema()).is_valid(file), "an editor does not mark it either"
    for wrong, problem in (
        ('"assignTo": "nobody"', 'there is no agent "nobody"'),
        ('"assignTo": "devops-agent", "agent": "build-agent"', 'Step 2 has both "agent" and "assignTo".'),
        ('"dependOn": ["Build release artifacts"]', "dependOn"),
    ):
        desk.write(POLPO_TASKS.replace('"assignTo": "devops-agent"', wrong))
        with pytest.raises(InvalidFile, match=re.escape(problem)):
            bench.file.plan()
    assert list(bench.missions.get("release").steps[1]) == ["title", "agent", "prompt", "after"], "nothing was applied"


def test_p6_polpos_tasks_in_the_library(bench: Sandbox) -> None:
    """P6: in every call that takes steps; agents that are missing can be created with them"""
    tasks: Any = [{"title": "A", "assignTo": "demo"}, {"title": "B", "description": "Do B.", "dependsOn": ["A"]}]
    expected = [{"title": "A", "agent": "demo"}, {"title": "B", "prompt": "Do B.", "after": ["A"]}]
    bench.agents.set("scout", runner="demo")
    with pytest.raises(InvalidInput, match='no agent "demo"'):
        bench.add("one", when="1h", agent="scout", steps=tasks)
    bench.add("one", when="1h", agent="scout", steps=tasks, create_agent=True)
    bench.add_many([{"name": "two", "when": "1h", "agent": "scout", "steps": tasks}])
    bench.add("three", when="1h", agent="scout", prompt="Hello")
    assert bench.preview_edit("three", steps=tasks, prompt=None).settings
    bench.edit("three", steps=tasks, prompt=None)
    for name in ("one", "two", "three"):
        assert bench.get(name).settings["steps"] == expected, name
    with pytest.raises(InvalidInput, match='Step 2 has both "prompt" and "description"'):
        bench.edit("one", steps=[tasks[0], {**tasks[1], "prompt": "Do it."}])
    with pytest.raises(NotAllowed, match=r"steps\[1\].max_cost"):
        bench.acting_as(Principal("operator", "olga")).edit("one", steps=[{**tasks[0], "max_cost": "$1"}, tasks[1]])
