"""The page about agents names everything that there is. B4, C4, C5."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from matins.engine.prompts import FIELDS
from matins.engine.targets import CURRENT
from matins.executors.conclusions import outcome_document
from matins.executors.processes.launch import ProcessOutcome
from matins.executors.registry import runners
from matins.executors.runners.protocol import RunnerResult
from matins.model.agent import Agent
from matins.model.run import Usage
from matins.model.settings import settings_of

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
OUTCOME = outcome_document(RunnerResult(True, True), ProcessOutcome("finished"), None, Usage())


def rows(title: str) -> str:
    """The first cells of the table under a heading."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (found,) = [part for part in section if part.startswith(title)]
    return " ".join(line.split("|")[1] for line in found.splitlines() if line.startswith("| `"))


@pytest.mark.parametrize("setting", settings_of(Agent))
def test_b4_every_setting_of_an_agent(setting: str) -> None:
    """B4"""
    assert f"`{setting}`" in rows("Settings of an agent")


@pytest.mark.parametrize("field", FIELDS)
def test_h9_every_field_of_a_prompt(field: str) -> None:
    """H9"""
    assert f"`{{{{{field}}}}}`" in rows("The prompt")


@pytest.mark.parametrize("field", OUTCOME)
def test_b4_every_field_of_an_outcome(field: str) -> None:
    """B4"""
    assert f"`{field}`" in rows("The outcome")


@pytest.mark.parametrize("target", ["fresh", *CURRENT])
def test_c4_every_target(target: str) -> None:
    """C4"""
    assert f'`"{target}"`' in rows("Where a run happens")


@pytest.mark.parametrize("name", sorted(runners()))
def test_b4_every_runner_has_an_example(name: str) -> None:
    """B4"""
    assert f"\n**{name}** – " in PAGE
    assert re.search(rf'^>>> .*agents\.set\(.*runner="{name}"', PAGE, re.MULTILINE)
