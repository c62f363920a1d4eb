"""What jobs read in the repositories of agents: links lead nowhere, pipes are not waited for, and sizes are bounded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from matins.errors import InvalidInput
from matins.executors.worktrees import Branch
from matins.github.jobs import repo_of
from matins.model.job import ErrandPlace
from matins.texts.untrusted_folder import OwnFolders

NOW = 1_774_602_000_000
CONFIG = '[remote "origin"]\n\turl = https://github.com/octo-org/garden.git\n'


@pytest.fixture
def robin(tmp_path: Path) -> Iterator[Path]:
    """The folder of an agent, beside that of another."""
    home = tmp_path / "home"
    for agent in ("robin", "other"):
        folder = home / "agents" / agent
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "config").write_text(CONFIG.replace("garden", agent))
        (folder / "worktrees").mkdir()
        (folder / "worktrees" / "7.outcome").write_text(f"of-{agent}\n")
    own = OwnFolders(lambda: [home])
    yield home / "agents" / "robin"
    own.close()


def place(robin: Path) -> ErrandPlace:
    return ErrandPlace("7", "robin", str(robin), str(robin), NOW)


def exchange(path: Path, target: str) -> None:
    path.rename(path.with_name("before"))
    path.symlink_to(target)


def test_honest_repositories_are_used(robin: Path) -> None:
    assert repo_of(str(robin)) == "octo-org/robin"
    assert Branch.of(place(robin)).outcome() == ["of-robin"]


@pytest.mark.parametrize("level", [".git", ".git/config"])
def test_the_repository_of_another_agent_is_not_read(robin: Path, level: str) -> None:
    exchange(robin / level, str(robin.parent / "other" / level))
    with pytest.raises(InvalidInput, match="it is a link"):
        repo_of(str(robin))
    (robin / level).unlink()
    with pytest.raises(InvalidInput, match="is no git repository"):
        repo_of(str(robin))


def test_git_s_settings_are_bounded_and_not_waited_for(robin: Path) -> None:
    config = robin / ".git" / "config"
    with config.open("ab") as file:
        file.truncate(900_000_000)
    with pytest.raises(InvalidInput, match="larger than 64,000 bytes"):
        repo_of(str(robin))
    config.unlink()
    os.mkfifo(config)
    with pytest.raises(InvalidInput, match="not a regular file"):
        repo_of(str(robin))


@pytest.mark.parametrize("level", ["worktrees", "worktrees/7.outcome"])
def test_the_outcome_of_another_agent_is_not_read(robin: Path, level: str) -> None:
    branch = Branch.of(place(robin))
    exchange(robin / level, str(robin.parent / "other" / level))
    assert (robin / "worktrees" / "7.outcome").read_text() == "of-other\n"  # control
    assert branch.outcome() is None


def test_an_outcome_is_bounded_and_not_waited_for(robin: Path) -> None:
    branch, outcome = Branch.of(place(robin)), robin / "worktrees" / "7.outcome"
    outcome.write_text("x" * 20_000)
    assert branch.outcome() == ["x" * 10_000]
    outcome.unlink()
    os.mkfifo(outcome)
    assert branch.outcome() is None
