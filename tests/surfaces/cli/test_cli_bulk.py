"""Commands on many schedules: who is asked, what is said, and how just those resume."""

from __future__ import annotations

import re

import pytest
from cli_user import User

from matins.surfaces.cli.context import CliContext
from matins.testing import Sandbox


@pytest.fixture
def team(user: User, bench: Sandbox) -> User:
    bench.add_many(
        [{"name": f"ops-{n}", "when": "0 9 * * *", "job": "work", "labels": {"team": "ops"}} for n in range(12)]
    )
    bench.add("alone", when="0 9 * * *", job="work")
    return user


def test_pause_a_team_and_resume_just_those(team: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """B12: the preview, the question, the pause in force, and its end"""
    team.says("pause", "ops-3")
    monkeypatch.setattr(CliContext, "is_interactive", True)
    refused = team.types("pause", "--label", "team=ops", "-m", "database migration", typed="n\n", code=3)
    assert refused.stderr == (
        "11 active schedules: ops-0, ops-1 … and 9 more. 1 is paused already and stays so.\n"
        "Pause 11 schedules? [y/N]: n\nNothing was changed.\n"
    )
    done = team.types("pause", "--label", "team=ops", "-m", "database migration", typed="y\n")
    pause_id = re.fullmatch(r"Paused 11 schedules\. To resume just those: matins resume --pause (\w+)\n", done.stdout)
    assert pause_id is not None
    listed = team.says("resume")
    assert listed.splitlines()[0].split() == ["PAUSE", "SCHEDULES", "SINCE", "UNTIL", "BY", "REASON"]
    assert f"{pause_id[1]} " in listed
    assert "database migration" in listed
    assert team.says("resume", "--pause", pause_id[1]) == "Resumed 11 schedules.\n"
    assert team.says("list", "--state", "paused").splitlines()[1].startswith("ops-3")
    assert "No pause of several schedules is in force." in team.says("resume")
    assert "No schedule is paused by" in team.complains("resume", "--pause", pause_id[1])


def test_without_a_terminal(team: User) -> None:
    """A selector needs --yes; names that are written out do not"""
    assert "Without a terminal, give --yes." in team.complains("pause", "--label", "team=ops")
    assert "Without a terminal, give --yes." in team.complains("pause", "ops-*")
    assert "Say which schedules: matins pause NAME" in team.complains("pause")
    assert team.says("pause", "ops-1", "ops-2").startswith("Paused 2 schedules.")
    assert team.says("pause", "--all", "--yes").startswith("Paused 11 schedules.")
    assert team.says("resume", "ops-1", "alone") == "Resumed 2 schedules.\n"
    assert team.json("resume", "--state", "paused", "--yes")["total"] == 11
    assert "No schedule matches: ops-99,nobody." in team.complains("pause", "ops-99", "nobody")
    assert "give nothing else" in team.complains("resume", "--pause", "4f2a", "ops-1")


def test_deleting_many_asks_for_the_number(team: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliContext, "is_interactive", True)
    assert "Nothing was changed." in team.types("rm", "ops-*", typed="y\n", code=3).stderr
    assert team.types("rm", "ops-1", "ops-2", typed="y\n").stdout == "Deleted 2 schedules.\n"
    assert team.types("rm", "ops-*", "alone", typed="11\n").stdout == "Deleted 11 schedules.\n"
    assert team.says("rm", "alone") == 'There is no schedule "alone": nothing to delete.\n'


def test_lists_by_selector(team: User) -> None:
    assert len(team.json("list", "--label", "team=ops")) == 12
    assert [one["name"] for one in team.json("list", "alone", "*-11")] == ["ops-11", "alone"]
    assert team.says("list", "--label", "team=dev") == "No schedule matches: label.team=dev.\n"
    assert [one["name"] for one in team.json("list", "--text", "ALO")] == ["alone"]
    assert "is not a label" in team.complains("list", "--label", "=x")


def test_history_and_undo(team: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is shown as undo would make it, then asked for"""
    team.says("edit", "alone", "--retries", "3")
    lines = team.says("history", "alone").splitlines()
    assert lines[0].startswith("Revision 2, ")
    assert lines[1] == "  retries: 0 → 3"
    assert lines[2].endswith(", by owner: created")
    monkeypatch.setattr(CliContext, "is_interactive", True)
    asked = team.types("undo", "alone", typed="y\n")
    assert asked.stderr == "  retries: 3 → 0\nUndo the last change? [y/N]: y\n"
    assert asked.stdout.startswith("Changed alone: every day at 09:00 (UTC)")
    assert team.types("undo", "alone", "--to", "2", "--yes").stdout.startswith("Changed alone")
    assert "nothing to undo" in team.types("undo", "ops-1", "--yes", code=None).stderr
