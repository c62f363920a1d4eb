"""Settings of a tool for its runs: a file, or a home of links to the user's own, made by the process that becomes the
tool."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from matins.executors.preparation import setup_command, setup_variables
from matins.executors.processes.launch import Account
from matins.executors.runners.protocol import ToolSettings

SERVER = {"mcpServers": {"matins": {"httpUrl": "http://x/mcp/run"}}}
HOME = ToolSettings("GEMINI_CLI_HOME", SERVER, ".gemini")
FILE = ToolSettings("QWEN_DEFAULTS", SERVER)
PATIENCE = 60
LITTLE_MEMORY = ("sh", "-c", 'ulimit -v 400000; exec "$@"', "sh")
TELLS = """#!/bin/sh
umask; for word; do echo "$word"; done; cat; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; exec env -0
"""
"""A tool that tells what it was started with, and its variables last."""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's home whose tool has settings, a login and sessions."""
    folder = tmp_path / "user" / ".gemini"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"ui": {"theme": "x"}, // mine\n "mcpServers": {"other": {"command": "y"}}}')
    (folder / "login.json").write_text("1")
    return folder.parent


@pytest.fixture
def tool(tmp_path: Path) -> str:
    path = tmp_path / "tool"
    path.write_text(TELLS)
    path.chmod(0o755)
    return str(path)


def started(words: tuple[str, ...], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        words, env=environment, input="a prompt\n", capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def told_by(tool: subprocess.CompletedProcess[str]) -> tuple[str, dict[str, str]]:
    """What the tool was started with, and its variables."""
    words, _, variables = tool.stdout.rpartition("\n")
    return words, dict(pair.split("=", 1) for pair in variables.split("\0") if pair)


@pytest.fixture
def given(tmp_path: Path, user: Path, tool: str) -> Callable[..., dict[str, str]]:
    """Starts the tool, and gives its variables."""

    def given(settings: ToolSettings = HOME, home: Path = user) -> dict[str, str]:
        variables = {"HOME": str(home)}
        variables |= setup_variables(f"{tmp_path}/own/.matins/gemini", settings, variables)
        done = started((*LITTLE_MEMORY, *setup_command(None), tool), variables)
        assert (done.returncode, done.stderr) == (0, "")
        return told_by(done)[1]

    return given


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_home_of_links_has_the_user_s_settings_and_the_server(user: Path, given: Callable[..., Any]) -> None:
    """P4: the user's own folder is as it was; logins and sessions are the user's, also those that come later"""
    before = (user / ".gemini/settings.json").read_text(encoding="utf-8")
    home = Path(given()["GEMINI_CLI_HOME"]) / ".gemini"
    assert read(home / "settings.json") == {
        "ui": {"theme": "x"},
        "mcpServers": {"other": {"command": "y"}, **SERVER["mcpServers"]},
    }
    assert [path.stat().st_mode & 0o077 for path in (home / "settings.json", home, home.parent)] == [0, 0, 0]
    (home / "login.json").write_text("2")
    (home / "tmp" / "session").write_text("said")
    assert (user / ".gemini/login.json").read_text() == "2"
    assert (user / ".gemini/tmp/session").read_text() == "said"
    assert (user / ".gemini/settings.json").read_text(encoding="utf-8") == before


def test_a_file_that_the_tool_replaced_is_the_user_s_again_with_the_next_run(
    user: Path, given: Callable[..., Any]
) -> None:
    """P4: new files of the user appear; what the tool made there alone stays"""
    home = Path(given()["GEMINI_CLI_HOME"]) / ".gemini"
    (home / "login.json").unlink()
    (home / "login.json").write_text("the tool's")
    (home / "state.json").write_text("the tool's")
    (user / ".gemini/new.json").write_text("new")
    given()
    assert [(home / name).read_text() for name in ("login.json", "state.json", "new.json")] == [
        "1",
        "the tool's",
        "new",
    ]


def test_b15_a_file_that_the_tool_replaces_is_no_link(user: Path, given: Callable[..., Any]) -> None:
    """B15: gemini dies of a link that becomes a file while it resolves it; each run begins with the user's content"""
    theirs = user / ".gemini/projects.json"
    for content in ('{"projects": {"/a": "a"}}', '{"projects": {"/b": "b"}}'):
        theirs.write_text(content)
        home = Path(given()["GEMINI_CLI_HOME"]) / ".gemini"
        copied = home / "projects.json"
        assert (copied.is_symlink(), copied.read_text()) == (False, content)
        copied.write_text("{}")
        assert theirs.read_text() == content


@pytest.mark.parametrize("made", ["a folder", "too long"])
def test_b15_a_file_that_cannot_be_copied_is_left_out(made: str, user: Path, given: Callable[..., Any]) -> None:
    """B15: the tool makes its own, and has its settings"""
    theirs = user / ".gemini/projects.json"
    theirs.mkdir() if made == "a folder" else theirs.write_text("x" * (1 << 21))
    home = Path(given()["GEMINI_CLI_HOME"]) / ".gemini"
    assert (os.path.lexists(home / "projects.json"), (home / "settings.json").is_file()) == (False, True)


def test_a_lock_of_the_user_s_tool_is_not_linked(user: Path, given: Callable[..., Any]) -> None:
    """P4: gemini holds one while it starts; a link to it would outlive it, and every later run would wait for it"""
    (user / ".gemini/projects.json.lock").mkdir()
    (user / ".gemini/projects.json").write_text("{}")
    home = Path(given()["GEMINI_CLI_HOME"]) / ".gemini"
    (user / ".gemini/projects.json.lock").rmdir()
    given()
    assert (home / "projects.json").exists()
    (home / "projects.json.lock").mkdir()


def test_a_user_without_settings_has_the_server(tmp_path: Path, given: Callable[..., Any]) -> None:
    home = Path(given(home=tmp_path / "new")["GEMINI_CLI_HOME"])
    assert read(home / ".gemini/settings.json") == SERVER


def test_a_file_is_named_by_its_variable(given: Callable[..., Any]) -> None:
    path = Path(given(FILE)["QWEN_DEFAULTS"])
    assert read(path) == SERVER
    assert path.stat().st_mode & 0o077 == 0


# -- settings that are not as they should be


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(900_000_000)


BROKEN: dict[str, Callable[[Path], object]] = {
    "a broken text": lambda path: path.write_text("{"),
    "a list": lambda path: path.write_text("[]"),
    "no UTF-8": lambda path: path.write_bytes(b'{"a": "\xff"}'),
    "nested without end": lambda path: path.write_text('{"a": ' * 100_000),
    "an unclosed text": lambda path: path.write_text('{"a": "' + '\\"' * 500_000),
    "unclosed comments": lambda path: path.write_text("{" + "/* " * 340_000),
    "too long": lambda path: path.write_text('{"a": 1}' + " " * (1 << 20)),
    "900 MB of nothing": sparse,
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_settings_that_cannot_be_read_are_left_to_the_tool(case: str, user: Path, given: Callable[..., Any]) -> None:
    """P4 B16: a broken file is an error that the tool itself explains; nothing waits for it, or reads it without end"""
    path = user / ".gemini/settings.json"
    path.unlink()
    BROKEN[case](path)
    variables = given()
    assert "GEMINI_CLI_HOME" not in variables
    assert "MATINS_TOOL_SETTINGS" not in variables


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "b // c /* d */ \\" , }"}',
        '// one\n{"a": /* "two" */ "b // c /* d */ \\" , }",}',
        '/* no end of a text: " */ {"a": "b // c /* d */ \\" , }" // "\n}',
    ],
)
def test_comments_and_last_commas_are_read(text: str, user: Path, given: Callable[..., Any]) -> None:
    """P4: gemini allows comments; what looks like one in a text is none"""
    (user / ".gemini/settings.json").write_text(text)
    found = read(Path(given()["GEMINI_CLI_HOME"]) / ".gemini/settings.json")
    assert found == {"a": 'b // c /* d */ " , }', **SERVER}


def test_a_link_to_settings_elsewhere_is_followed(tmp_path: Path, user: Path, given: Callable[..., Any]) -> None:
    """P4: people keep such files in a repository"""
    (tmp_path / "kept.json").write_text('{"a": 1}')
    (user / ".gemini/settings.json").unlink()
    (user / ".gemini/settings.json").symlink_to(tmp_path / "kept.json")
    assert read(Path(given()["GEMINI_CLI_HOME"]) / ".gemini/settings.json") == {"a": 1, **SERVER}


# -- the tool itself


@pytest.mark.parametrize("locale", [{}, {"LC_CTYPE": "C"}, {"LC_ALL": "C.UTF-8"}])
def test_the_tool_starts_as_it_would_without_settings(
    locale: dict[str, str], tmp_path: Path, user: Path, tool: str
) -> None:
    """P4 B16: arguments, stdin, variables, signals and rights of new files; `file_size` needs the signal that Python
    ignores"""
    variables = {"HOME": str(user), **locale}
    words = (tool, "a b", "--c=$d")
    plain = started(words, variables)
    told = setup_variables(f"{tmp_path}/own/.matins/qwen", FILE, variables)
    done = started((*setup_command(None), *words), variables | told)
    assert "\na b\n--c=$d\na prompt\n" in plain.stdout
    before, after = told_by(plain), told_by(done)
    assert after[0] == before[0]
    assert after[1] == {**before[1], "QWEN_DEFAULTS": f"{tmp_path}/own/.matins/qwen.json"}


def test_a_tool_whose_settings_cannot_be_written_starts_without_them(tmp_path: Path, user: Path, tool: str) -> None:
    """P4: and its stderr says so"""
    (tmp_path / "own").write_text("no folder")
    variables = {"HOME": str(user)}
    told = setup_variables(f"{tmp_path}/own/.matins/qwen", FILE, variables)
    done = started((*setup_command(None), tool), variables | told)
    assert done.stderr == f"{tool} starts without the tools of Matins: {tmp_path}/own/.matins: Not a directory\n"
    assert done.returncode == 0
    assert "QWEN_DEFAULTS" not in done.stdout


def test_a_tool_that_cannot_be_started_is_an_error(tmp_path: Path, user: Path) -> None:
    told = setup_variables(f"{tmp_path}/own/.matins/qwen", FILE, {})
    done = started((*setup_command(None), str(tmp_path / "gone")), {"HOME": str(user), **told})
    assert (done.returncode, done.stderr) == (1, f"{tmp_path}/gone cannot be started: No such file or directory\n")


@pytest.mark.parametrize("visible", [True, False])
def test_an_account_that_cannot_run_the_python_of_matins_has_the_tool(
    visible: bool, tmp_path: Path, user: Path, tool: str
) -> None:
    """P4: root may have installed Matins where other accounts cannot see it"""
    *begin, python, isolated, no_site, command, script = setup_command(Account(1, 1, ()))
    words = (*begin, python if visible else f"{tmp_path}/gone/python", isolated, no_site, command, script, tool, "a b")
    variables = {"HOME": str(user)}
    variables |= setup_variables(f"{tmp_path}/own/.matins/qwen", FILE, variables)
    done = started(words, variables)
    assert done.returncode == 0
    assert "\na b\na prompt\n" in done.stdout
    assert ("QWEN_DEFAULTS" in done.stdout) is visible
    assert "MATINS_TOOL_SETTINGS" not in done.stdout
    assert ("starts without the tools of Matins" in done.stderr) is not visible
