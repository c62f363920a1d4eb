"""What a schedule tells its agent: templates are checked when it is made, and whenever it is edited. H9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from matins.errors import InvalidInput
from matins.testing import Sandbox


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox()
    made.agents.set("ann", runner="demo")
    made.work_sources.set("todo", kind="tasks", path=str(tmp_path / "TASKS.yaml"))
    yield made
    made.close()


def test_h9_a_prompt_may_name_the_work_that_the_schedule_has(bench: Sandbox) -> None:
    """H9: also in an edit that says nothing about the work"""
    bench.add("s", when="1d", agent="ann", prompt="Go", work_source="todo")
    assert bench.edit("s", prompt="Do {{work.title}}").settings["prompt"] == "Do {{work.title}}"
    assert bench.edit("s", prompt="Mend {{work.title}}", work_source="todo").settings["work_source"] == "todo"


def test_h9_an_edit_may_not_take_away_what_a_prompt_names(bench: Sandbox) -> None:
    """H9"""
    bench.add("s", when="1d", agent="ann", prompt="Do {{work.title}}", work_source="todo")
    with pytest.raises(InvalidInput, match="no work source") as caught:
        bench.edit("s", work_source=None)
    assert caught.value.field == "prompt"
    assert bench.get("s").rev == 1
    assert "work_source" not in bench.edit("s", work_source=None, prompt="Go").settings


@pytest.mark.parametrize("prompt", ["Do {{work.title}}", "At {{slto}}", "a\0b", " "])
def test_h9_what_cannot_be_told_is_refused_and_nothing_is_written(bench: Sandbox, prompt: str) -> None:
    """H9"""
    with pytest.raises(InvalidInput) as caught:
        bench.add("s", when="1d", agent="ann", prompt=prompt)
    assert caught.value.field == "prompt"
    assert bench.list() == []
    bench.add("s", when="1d", agent="ann", prompt="Go")
    with pytest.raises(InvalidInput):
        bench.edit("s", prompt=prompt)
    assert bench.get("s").rev == 1
