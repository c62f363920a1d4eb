"""Plain commands in matins.yaml, and who reads what of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from matins.errors import InvalidFile, InvalidInput
from matins.model.access import Principal
from matins.testing import Sandbox


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db")) as made:
        yield made


def apply(bench: Sandbox, tmp_path: Path, text: str) -> Any:
    path = tmp_path / "matins.yaml"
    path.write_text(text)
    bench.watch_file(path)
    return bench.file.apply()


def test_b22_a_command_of_the_file_needs_no_agent(bench: Sandbox, tmp_path: Path) -> None:
    """B22 H12: the agent `shell` is made with the first one, as from every other surface"""
    text = "schedules:\n  dump: {when: 0 3 * * *, command: date, environment: {A: b}}\n"
    text += "  ship:\n    when: 1d\n    steps: [{title: A, command: [date, -u]}]\n"
    apply(bench, tmp_path, text)
    assert [(one.name, one.agent) for one in bench.list()] == [("dump", "shell"), ("ship", "")]
    assert bench.get("ship").settings["steps"][0]["agent"] == "shell"
    assert bench.agents.get("shell").isolation == "none"
    plan = bench.file.plan()
    assert (plan.added, plan.changed, plan.removed) == (0, 0, 0)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("command: echo 'a", "the shell cannot read it"),
        ('command: "date {{slot}}"', "in a command would be read by the shell"),
        ("command: date, prompt: Hello, agent: scout", 'cannot be combined with "command"'),
        ("command: date, agent: scout", '"command" needs an agent that runs shell; "scout" runs demo.'),
    ],
)
def test_b22_what_is_wrong_with_a_command_is_told_at_its_line(
    bench: Sandbox, tmp_path: Path, settings: str, problem: str
) -> None:
    """B22"""
    text = f"agents: {{scout: {{runner: demo}}}}\nschedules:\n  s: {{when: 1d, {settings}}}\n"
    with pytest.raises(InvalidFile) as caught:
        apply(bench, tmp_path, text)
    assert any(problem in one.message for one in caught.value.problems)


def test_b22_values_of_variables_are_neither_shown_nor_found(bench: Sandbox) -> None:
    """B22: they may be secrets, and who searches must not guess them letter by letter"""
    bench.add("dump", when="1d", command="date", environment={"KEY": "hunter2"}, description="Nightly")
    bench.add("plain", when="1d", command="date", description="Nightly")
    viewer = bench.acting_as(Principal("viewer", "eve"))
    assert viewer.get("dump").settings["environment"] == {"KEY": "…"}
    assert viewer.list(select="text=hunter") == []
    assert [one.name for one in viewer.list(select="text=nightly")] == ["plain"]  # the control
    bench.edit("dump", environment={"KEY": "hunter3"})
    again = bench.add("dump", when="1d", agent="shell", command="date", environment={"KEY": "4"}, replace=True)
    assert again.rev == 3


@pytest.mark.parametrize("value", ["\ud800", "a\0b"])
def test_b22_variables_can_be_stored(bench: Sandbox, value: str) -> None:
    """B22"""
    with pytest.raises(InvalidInput, match="is not a name with a string"):
        bench.add("s", when="1d", command="date", environment={"KEY": value})
