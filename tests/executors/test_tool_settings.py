"""Settings of a tool for its runs: a file, or a home of links to the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from matins.executors.runners.protocol import ToolSettings
from matins.executors.tool_settings import settings_variables
from matins.model.agent import Agent

SERVER = {"mcpServers": {"matins": {"httpUrl": "http://x/mcp/run"}}}
HOME = ToolSettings("GEMINI_CLI_HOME", SERVER, ".gemini")
AGENT = Agent("scout", "gemini")


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's home whose tool has settings, a login and sessions."""
    folder = tmp_path / "user" / ".gemini"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"ui": {"theme": "x"}, // mine\n "mcpServers": {"other": {"command": "y"}}}')
    (folder / "login.json").write_text("1")
    return folder.parent


def given(tmp_path: Path, user: Path, settings: ToolSettings = HOME) -> dict[str, str]:
    return settings_variables(tmp_path / "own", AGENT, settings, {"HOME": str(user)})


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_home_of_links_has_the_user_s_settings_and_the_server(tmp_path: Path, user: Path) -> None:
    """P4: the user's own folder is as it was; logins and sessions are the user's, also those that come later"""
    before = (user / ".gemini/settings.json").read_text(encoding="utf-8")
    home = Path(given(tmp_path, user)["GEMINI_CLI_HOME"]) / ".gemini"
    assert read(home / "settings.json") == {
        "ui": {"theme": "x"},
        "mcpServers": {"other": {"command": "y"}, **SERVER["mcpServers"]},
    }
    assert (home / "settings.json").stat().st_mode & 0o077 == 0
    (home / "login.json").write_text("2")
    (home / "tmp" / "session").write_text("said")
    assert (user / ".gemini/login.json").read_text() == "2"
    assert (user / ".gemini/tmp/session").read_text() == "said"
    assert (user / ".gemini/settings.json").read_text(encoding="utf-8") == before


def test_a_file_that_the_tool_replaced_is_the_user_s_again_with_the_next_run(tmp_path: Path, user: Path) -> None:
    """P4: new files of the user appear; what the tool made there alone stays"""
    home = Path(given(tmp_path, user)["GEMINI_CLI_HOME"]) / ".gemini"
    (home / "login.json").unlink()
    (home / "login.json").write_text("the tool's")
    (home / "state.json").write_text("the tool's")
    (user / ".gemini/new.json").write_text("new")
    given(tmp_path, user)
    assert [(home / name).read_text() for name in ("login.json", "state.json", "new.json")] == [
        "1",
        "the tool's",
        "new",
    ]


def test_settings_that_cannot_be_read_are_left_to_the_tool(tmp_path: Path, user: Path) -> None:
    """P4: a broken file is an error that the tool itself explains"""
    (user / ".gemini/settings.json").write_text("{")
    assert given(tmp_path, user) == {}


def test_a_user_without_settings_has_the_server(tmp_path: Path) -> None:
    home = Path(given(tmp_path, tmp_path / "new")["GEMINI_CLI_HOME"])
    assert read(home / ".gemini/settings.json") == SERVER


def test_a_file_is_named_by_its_variable(tmp_path: Path, user: Path) -> None:
    variables = given(tmp_path, user, ToolSettings("QWEN_DEFAULTS", SERVER))
    assert read(Path(variables["QWEN_DEFAULTS"])) == SERVER
