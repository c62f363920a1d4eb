"""The page about agents names everything that there is. B4, C4, C5."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from matins.engine.agents import WORDS
from matins.engine.prompts import FIELDS
from matins.engine.targets import CURRENT
from matins.executors.processes.values import Fate
from matins.executors.registry import runners
from matins.executors.reports import report
from matins.executors.runners.base import Told
from matins.model.run import Usage

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
OUTCOME = report(Told(True, True), Fate("finished"), None, Usage())


def rows(title: str) -> str:
    """The first cells of the table under a heading."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (found,) = [part for part in section if part.startswith(title)]
    return " ".join(line.split("|")[1] for line in found.splitlines() if line.startswith("| `"))


@pytest.mark.parametrize("word", WORDS)
def test_b4_every_word_of_an_agent(word: str) -> None:
    """B4"""
    assert f"`{word}`" in rows("What an agent is")


@pytest.mark.parametrize("field", FIELDS)
def test_h9_every_field_of_a_prompt(field: str) -> None:
    """H9"""
    assert f"`{{{{{field}}}}}`" in rows("What it is told")


@pytest.mark.parametrize("field", OUTCOME)
def test_b4_every_field_of_an_outcome(field: str) -> None:
    """B4"""
    assert f"`{field}`" in rows("What comes back")


@pytest.mark.parametrize("target", ["fresh", *CURRENT])
def test_c4_every_target(target: str) -> None:
    """C4"""
    assert f'`"{target}"`' in rows("Where a run lands")


@pytest.mark.parametrize("name", sorted(runners()))
def test_b4_every_runner_has_an_example(name: str) -> None:
    """B4"""
    assert f"\n**{name}** – " in PAGE
    assert re.search(rf'^>>> .*set_agent\(.*runner="{name}"', PAGE, re.MULTILINE)
