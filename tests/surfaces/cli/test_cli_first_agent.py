"""`matins add … --agent claude` in a repository does what a person means, the first time."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_user import User

from matins.executors.agent_checks import agent_doubts
from matins.executors.registry import runners
from matins.model.agent import Agent
from matins.surfaces.cli.context import CliContext
from matins.testing import Sandbox

CLAUDE = """#!/bin/sh
if [ "$1" = --version ]; then echo '2.1.325 (Claude Code)'; exit 0; fi
echo '{"type":"result","subtype":"success","is_error":false,"result":"Three are open.","session_id":"s","num_turns":1}'
"""
ADD = ("add", "every weekday at 9am", "--agent", "claude", "Summarise my open pull requests")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, an empty home, and no tool."""
    monkeypatch.setenv("MATINS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    for name in [
        name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN", "_PROXY", "_CERTS", "_CERT_FILE"))
    ]:
        monkeypatch.delenv(name)
    for folder in ("bin", "person", "repo/.git", "repo/src", "other/.git"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo/src")
    return tmp_path


def install(machine: Path) -> None:
    (machine / "bin/claude").write_text(CLAUDE)
    (machine / "bin/claude").chmod(0o755)


def test_b15_what_is_missing_is_said_at_once(user: User, machine: Path) -> None:
    """B15, H12: the tool, the key, the permission, each with its fix; `doctor` says the same later"""
    said = user.types(*ADD).stderr
    assert f"It works in {machine}/repo. To change that: matins agents edit claude --workdir DIR" in said
    assert "claude is not installed here. Install it: npm install -g @anthropic-ai/claude-code" in said
    assert "claude finds no login and none of ANTHROPIC_API_KEY" in said
    assert "EnvironmentFile=" in said
    assert "--permission-mode acceptEdits # it edits files in its directory without asking" in said
    install(machine)
    doctor = user.types("doctor", code=None).stdout
    assert "? check  agent claude: claude finds no login" in doctor
    assert "? check  agent claude: claude waits for a permission" in doctor


def test_b15_with_tool_key_and_mode_nothing_is_missing(
    user: User, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B15: keys of the daemon are given as references; `matins agents` shows found, version, login"""
    install(machine)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("GH_TOKEN", "ghp-secret")
    added = user.types(*ADD, "--permission", "acceptEdits")
    assert "Its runs get ANTHROPIC_API_KEY, GH_TOKEN from the environment of the daemon." in added.stderr
    assert "waits for a permission" not in added.stderr
    assert "finds no login" not in added.stderr
    agent = user.json("agents", "show", "claude")
    assert agent["environment"] == {"ANTHROPIC_API_KEY": "env:ANTHROPIC_API_KEY", "GH_TOKEN": "env:GH_TOKEN"}
    assert "secret" not in str(agent)
    row = user.says("agents").splitlines()[1]
    assert row.split()[:6] == ["claude", "claude", "✓", "2.1.325", "✓", "ANTHROPIC_API_KEY"]
    assert "agent claude: Its runner claude is available" in user.types("doctor", code=None).stdout


def test_b15_a_login_is_as_good_as_a_key(user: User, machine: Path) -> None:
    """B15"""
    install(machine)
    (machine / "person/.claude").mkdir()
    (machine / "person/.claude/.credentials.json").write_text("{}")
    assert "finds no login" not in user.types(*ADD).stderr
    assert "✓ login" in user.says("agents")


def test_b15_one_agent_works_in_one_repository(user: User, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B15: in a second one another is made, and said; elsewhere a directory of its own"""
    install(machine)
    user.types(*ADD)
    user.types(*ADD, "--name", "again")
    monkeypatch.chdir(machine / "other")
    said = user.types(*ADD, "--name", "elsewhere").stderr
    assert 'Created the agent "claude-other" with the runner claude.' in said
    assert {item["name"]: item["workdir"] for item in user.json("agents")} == {
        "claude": f"{machine}/repo",
        "claude-other": f"{machine}/other",
    }
    monkeypatch.chdir("/")
    user.types("add", "5m", "--agent", "codex", "Tidy up")
    assert user.json("agents", "show", "codex")["workdir"] == "agents/codex"


def test_b15_a_folder_of_ones_choice(user: User, machine: Path) -> None:
    user.types(*ADD, "--workdir", "..")
    assert user.json("agents", "show", "claude")["workdir"] == f"{machine}/repo"


def test_h12_as_root_claude_does_not_bypass(user: User, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H12: said before the first run"""
    install(machine)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (
        "As root, claude refuses the mode bypassPermissions."
        in user.types(*ADD, "--permission", "bypassPermissions").stderr
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "As root" not in user.types("doctor", code=None).stdout


def test_h12_another_name_of_root_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """H12: what counts is the account's number, as where an agent of root is refused"""
    numbers = {"root": 0, "toor": 0, "robin": 1234}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: SimpleNamespace(pw_uid=numbers[name]))
    for user in (None, *numbers):
        agent = Agent("a", runner="claude", user=user, permission_mode="bypassPermissions")
        told = [one.message for one in agent_doubts(agent, runners()["claude"])]
        assert ("As root, claude refuses the mode bypassPermissions." in told) == (user != "robin"), user


def test_b10_try_runs_it_once_and_shows_the_answer(user: User, bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """B10: a schedule that has been seen to work, or the code of the run"""
    monkeypatch.setattr(CliContext, "wait", lambda context, seconds: bench.settle())
    bench.job("answer")(lambda run: "Three are open.")
    assert "✓ succeeded" in user.types("add", "every day at 9am", "--job", "answer", "--try").stderr
    assert "no luck" in user.types("add", "every day at 9am", "--job", "fail", "--try", code=5).stderr
    assert [run["state"] for run in user.json("runs")] == ["failed", "succeeded"]
