"""The first minutes: `matins` alone, init, demo, and words of other programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_user import User

from matins.app import App
from matins.errors import InvalidInput
from matins.surfaces.home import Home, RunningDaemon

ACCOUNT = ["--isolation", "none"] if os.geteuid() == 0 else []
"""Root is asked for the account of agents."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MATINS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "home"


def tool(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_b10_matins_alone_is_five_lines_with_the_next_step(user: User, home: Path) -> None:
    """B10: for a machine with nothing, for one with a file, and for one with a daemon"""
    empty = user.says().splitlines()
    assert len(empty) == 5
    assert empty[1].split() == ["Next:", "matins", "init", "write", "a", "file", "for", "what", "is", "found", "here"]
    user.says("init", *ACCOUNT)
    assert user.says().splitlines()[1].split()[:3] == ["Next:", "matins", "up"]
    daemon = Home(home)
    daemon.lock()
    daemon.announce(RunningDaemon("http://127.0.0.1:1", 7, "now", "sqlite:///x", None))
    try:
        running = user.says().splitlines()
    finally:
        daemon.unlock()
    assert "http://127.0.0.1:1" in running[0]
    assert running[1].split()[:3] == ["Next:", "matins", "add"]
    assert len(running) == 5


def test_b10_init_writes_what_it_finds(user: User, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B10, B15: tools on PATH, the repository, the zone; Matins reads the file, with its examples and without"""
    for name in ("claude", "codex"):
        tool(tmp_path / "bin", name)
    repository = tmp_path / "my: repo"
    (repository / ".git").mkdir(parents=True)
    (repository / "src").mkdir()
    monkeypatch.chdir(repository / "src")
    monkeypatch.setenv("TZ", "Europe/London")
    written = user.json("init", *ACCOUNT)
    assert written["file"] == str(home / "matins.yaml")
    assert any(f"claude: {tmp_path}/bin/claude" in line for line in written["found"])
    assert (home / "matins.yaml").stat().st_mode & 0o777 == 0o600
    user.bench.watch_file(home / "matins.yaml")
    user.types("apply")
    claude = user.json("agents", "show", "claude")
    assert (claude["workdir"], claude["permission_mode"]) == (str(repository), "acceptEdits")
    assert user.json("list") == []
    said = user.complains("init", *ACCOUNT, code=1)
    assert "There is already a file" in said
    (home / "matins.yaml").unlink()
    user.says("init", "--examples", *ACCOUNT)
    user.types("apply")
    assert {item["name"]: item["timezone"] for item in user.json("list")} == dict.fromkeys(
        ("morning", "tidy-up"), "Europe/London"
    )


@pytest.mark.usefixtures("home")
def test_init_without_a_tool_has_the_built_in_agent(user: User) -> None:
    assert "the file has the agent demo" in user.says("init", *ACCOUNT)


def test_demo_is_a_command_of_the_package(user: User) -> None:
    user.types("--home", "/x", "demo", "--port", "0")
    assert user.app.asked.pop() == {"home": "/x", "port": 0}


def test_help_is_a_command(user: User) -> None:
    assert user.says("help") == user.says("--help")
    assert user.says("help", "add") == user.says("add", "--help")


def test_a_home_is_the_same_from_every_folder(user: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """C11: a relative one would be another home in another directory, and empty"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATINS_HOME", "mine")
    with pytest.raises(InvalidInput, match="must be a full path") as caught:
        App().transport()
    assert f"export MATINS_HOME={tmp_path}/mine" in str(caught.value.hint)
    assert Home("mine").path == tmp_path / "mine"
