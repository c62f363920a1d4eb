"""`matins missions`: make, list, show, draft, abort, delete."""

from __future__ import annotations

from typing import Any

import pytest
from cli_user import User

from matins.testing import Sandbox

STEPS = ("--step", "Build @demo: Build it", "--step", "Deploy (after Build) @demo")


def test_a_draft_gets_a_time_and_loses_it(user: User) -> None:
    """P2 P4"""
    made = user.types("missions", "make", "release", *STEPS)
    assert made.stdout == "Made release: draft\n"
    assert "To start it: matins run release" in made.stderr
    user.types("edit", "release", "--when", "0 2 * * *")
    assert "· recurring  0 2 * * *" in user.says("missions")
    assert user.says("missions", "draft", "release") == "Changed release: draft\n"
    assert "◌ draft" in user.says("missions", "list", "--status", "draft")
    assert user.says("missions", "list", "--status", "failed") == "No mission matches.\n"


def test_a_mission_is_made_with_its_time(user: User) -> None:
    """P2"""
    text = user.says("missions", "make", "release", *STEPS, "--when", "in 2 hours", "--retries", "3")
    assert text.startswith("Made release: scheduled, next in 2h")
    assert user.bench.get("release").settings["retries"] == 3


def test_show_draws_the_steps(user: User, bench: Sandbox) -> None:
    """P6"""

    @bench.job("fails")
    def fails(run: Any) -> None:
        raise ValueError("no luck")

    steps = [{"title": "Build", "job": "fails"}, {"title": "Deploy", "job": "fails", "after": ["Build"]}]
    bench.missions.make("release", steps=steps)
    assert "  1 Build [fails]\n  └─ 2 Deploy [fails]\n" in user.says("missions", "show", "release")
    bench.run("release")
    bench.settle()
    text = user.says("missions", "show", "release")
    assert "failed" in text
    assert "✗ failed" in text
    assert "no luck" in text


def test_abort_and_delete(user: User, bench: Sandbox) -> None:
    """P4"""
    steps = [{"title": "Build", "job": "work", "approval": "owner_approve"}]
    bench.missions.make("release", when="0 2 * * *", steps=steps)
    bench.run("release")
    bench.settle()
    assert bench.missions.get("release").status == "active"
    assert user.says("missions", "abort", "release") == "Aborted release: cancelled\n"
    assert user.says("missions", "delete", "release") == "Deleted the mission release.\n"
    assert user.says("missions", "delete", "release") == 'There is no mission "release": nothing to delete.\n'
    assert user.says("missions").startswith("No missions. Make one:")


@pytest.mark.parametrize("verb", ["show", "draft", "abort"])
def test_a_schedule_without_steps_is_no_mission(user: User, bench: Sandbox, verb: str) -> None:
    bench.add("plain", when="0 2 * * *", job="work")
    assert '"plain" has no steps, so it is not a mission.' in user.complains("missions", verb, "plain", code=2)
    assert bench.get("plain").trigger_text == "every day at 02:00"
    assert user.says("missions", "delete", "plain").startswith("There is no mission")


def test_a_mission_needs_steps(user: User) -> None:
    assert 'A mission needs "steps".' in user.complains("missions", "make", "release", code=2)


def test_p6_tasks_in_polpos_own_json(user: User) -> None:
    """P6: the seed's example as it stands, on the command line"""
    tasks = """[
      {"title": "Build release artifacts", "assignTo": "demo"},
      {"title": "Deploy to production", "description": "Deploy it.", "assignTo": "demo",
       "dependsOn": ["Build release artifacts"]}
    ]"""
    user.says("missions", "make", "release", "--set", f"steps={tasks}")
    assert user.bench.missions.get("release").steps == [
        {"title": "Build release artifacts", "agent": "demo"},
        {
            "title": "Deploy to production",
            "agent": "demo",
            "prompt": "Deploy it.",
            "after": ["Build release artifacts"],
        },
    ]
    user.says("edit", "release", "--set", f"steps={tasks.replace('Deploy it.', 'Ship it.')}")
    assert user.bench.missions.get("release").steps[1]["prompt"] == "Ship it."
