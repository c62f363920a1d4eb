"""Which pre-checks and hooks run outside the walls: those that are a script in the home, with its arguments."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from matins.engine.policies import Policies
from matins.executors.commands import OwnerCommands
from matins.executors.isolation import Isolation, Places
from matins.executors.processes.walls import Probe
from matins.model.agent import Agent

OTHER = "nobody"
"""The agent's account where we are root."""
Owners = Callable[..., bool]


@pytest.fixture
def reach(tmp_path: Path) -> Path:
    """A folder that the agent can write, with a script and a shell."""
    folder = tmp_path / "reach"
    folder.mkdir()
    for name in ("check.sh", "sh"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, pwd.getpwnam(OTHER).pw_uid, -1)
    return folder


@pytest.fixture
def owners(tmp_path: Path, reach: Path) -> Owners:
    """Whether a command is the owner's, with this PATH."""
    home = tmp_path / "home"
    (home / "agents/a").mkdir(parents=True)
    for path in (home / "check.sh", home / "agents/a/check.sh"):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (home / "link.sh").symlink_to(reach / "check.sh")
    isolation = Isolation(lambda: Places(home / "runs", home), lambda: Probe(True))
    agent = Agent("a", "shell", command=("tool",), user=OTHER if os.geteuid() == 0 else None)
    without_walls = Agent("b", "shell", command=("tool",), isolation="none")  # as root, everything is in its reach
    policies = Policies(agents={"a": agent, "b": without_walls}, out_of_reach=(str(home),))

    def is_owners(command: str | list[str], path: str = "/usr/bin:/bin") -> bool:
        given = tuple(command) if isinstance(command, list) else command
        return given in OwnerCommands(str(home), path, isolation.is_owners, policies)

    return is_owners


@pytest.mark.parametrize(
    "command",
    [
        ["./check.sh"],
        ["./check.sh", "$(x)"],
        ["~/home/check.sh"],
        "./check.sh",
        "~/home/check.sh --all",
        "./check.sh $MATINS_RUN_ID ~/repository a=b",
    ],
)
def test_b16_a_script_in_the_home_is_the_owner_s(
    owners: Owners, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str | list[str]
) -> None:
    """B16"""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert owners(command)


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        ["git", "check.sh"],
        ["check.sh"],
        ["link.sh"],
        ["./link.sh"],
        ["./agents/a/check.sh"],
        ["agents/../agents/a/check.sh"],
        ["{reach}/check.sh"],
        ["{reach}/sh", "check.sh"],
        ["sh", "{reach}/check.sh"],
        ["sh", "-c", "./check.sh"],
        ["sh", "link.sh"],
        ["{reach}/../reach/test", "-f", "x"],
        "./check.sh | grep -q x",
        "./check.sh; {reach}/check.sh",
        "./check.sh\n{reach}/check.sh",
        "./check.sh & {reach}/check.sh",
        "echo $({reach}/check.sh)",
        'echo "$({reach}/check.sh)"',
        "echo `{reach}/check.sh`",
        "echo ${{x:-1}}",
        "({reach}/check.sh)",
        "test -f x > {reach}/out",
        "./check.sh <{reach}/in",
        "PATH={reach} ./check.sh",
        "PATH={reach}",
        "cd {reach} && ./check.sh",
        "time ./check.sh",
        ". ./check.sh",
        "sh -e check.sh",
        "sh",
        "echo '~'; '~/x'",
        "echo \\\n{reach}/check.sh",
        "./check.sh # {reach}",
        "test -f x \x0b ./check.sh",
        "./che*",
        "exec if ./check.sh",
        "command exec ./check.sh",
        "'if' ./check.sh",
        "test -f x; 'fi'",
        "w'hile' ./check.sh",
        "exec fi",
        "zsh check.sh",
        "ruby check.sh",
        ["{reach}/../home/check.sh"],
        ["sh", "{reach}/../home/check.sh"],
        "$HOME/check.sh",
        "echo 'x",
        ["sh", "check.sh"],
        "sh check.sh",
        "test -f ready",
        "./check.sh >/dev/null",
        "./check.sh 'x'",
        "./check.sh *.txt",
        "./check.sh && ./check.sh",
        "./check.sh | ./check.sh",
        "./check.sh ${{x}}",
        "x=1",
        "",
    ],
)
def test_b16_what_starts_anything_else_is_not(owners: Owners, reach: Path, command: str | list[str]) -> None:
    """B16: nor what cannot be read with certainty"""
    given = command.format(reach=reach) if isinstance(command, str) else [w.format(reach=reach) for w in command]
    assert not owners(given)


def test_b16_an_interpreter_is_found_where_no_agent_can_put_another(
    owners: Owners, tmp_path: Path, reach: Path
) -> None:
    """B16: in a folder that comes first on PATH, also in one that is not there yet"""
    (tmp_path / "home/check.sh").write_text("#!/usr/bin/env sh\n")
    assert owners("./check.sh", "/usr/missing:/usr/bin:/bin")
    for path in (f"{reach}", f"{reach}/missing:/usr/bin", f"{reach}:/usr/bin", "/tmp:/usr/bin", ".:/usr/bin", ""):
        assert not owners("./check.sh", path), path
    assert owners("./check.sh", f"/usr/bin:{reach}")


@pytest.mark.parametrize(
    ("first", "is_safe"),
    [
        ("#!/bin/sh", True),
        ("#! /bin/sh -e", True),
        ("#!/usr/bin/env sh", True),
        ("#!/usr/bin/env -S sh -e", True),
        ("no script", True),
        ("#!{reach}/sh", False),
        ("#!/usr/bin/env {reach}/sh", False),
        ("#!{reach}/env sh", False),
        ("#!/usr/bin/env", False),
        ("#!/usr/bin/env -i sh", False),
        ("#!/usr/bin/zsh", False),
        ("#!/usr/bin/git", False),
        ("#!", False),
    ],
)
def test_b16_the_first_line_of_a_script_starts_what_no_agent_can_replace(
    owners: Owners, tmp_path: Path, reach: Path, first: str, is_safe: bool
) -> None:
    """B16"""
    (reach / "env").symlink_to("/usr/bin/env")
    (tmp_path / "home/check.sh").write_text(f"{first.format(reach=reach)}\n")
    assert owners("./check.sh") is is_safe
    assert owners(["./check.sh"]) is is_safe
    if "env sh" in first:
        assert not owners("./check.sh", f"{reach}:/usr/bin")
