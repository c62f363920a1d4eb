"""What jobs read in the memory of agents: links lead nowhere, pipes are not waited for, and sizes are bounded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from matins.errors import InvalidInput
from matins.model.job import ErrandPlace
from matins.seeds.cortex.jobs import MemoryIndexRegen, regenerate_index
from matins.seeds.corvid.jobs import MaintenanceErrand, MemoryMaintenance
from matins.texts import untrusted_folder
from matins.texts.untrusted_folder import OwnFolders

NOW = 1_774_602_000_000


@pytest.fixture
def robin(tmp_path: Path) -> Iterator[Path]:
    """The folder of an agent, beside that of another."""
    home = tmp_path / "home"
    for agent in ("robin", "other"):
        folder = home / "agents" / agent
        (folder / "memory" / "knowledge").mkdir(parents=True)
        (folder / "memory" / "knowledge" / "a.md").write_text(f"# Of {agent}\n")
        os.utime(folder / "memory" / "knowledge" / "a.md", (0, 0))
    own = OwnFolders(lambda: [home])
    yield home / "agents" / "robin"
    own.close()


def index(robin: Path, folder: str = "memory") -> dict[str, int]:
    context: Any = SimpleNamespace(inputs=MemoryIndexRegen(folder), workdir=str(robin))
    return regenerate_index(context)


def errand(robin: Path, folder: str = "memory") -> MaintenanceErrand:
    place = ErrandPlace("7", "robin", str(robin), str(robin), NOW)
    return MaintenanceErrand(MemoryMaintenance(folder), place)


def exchange(path: Path, target: str) -> None:
    path.rename(path.with_name("before"))
    path.symlink_to(target)


def test_honest_folders_are_used(robin: Path) -> None:
    assert index(robin) == {"knowledge": 1}
    assert "[Of robin](a.md)" in (robin / "memory" / "knowledge" / "INDEX.md").read_text()
    brief = errand(robin).begin()
    assert brief is not None
    assert brief.material == "knowledge/a.md"
    assert errand(robin).finish("") == {"left": 1, "archived": 0}
    assert errand(robin, "nothing").begin() is None


@pytest.mark.parametrize("level", ["memory", "memory/knowledge", "memory/knowledge/a.md"])
def test_the_memory_of_another_agent_is_not_read(robin: Path, level: str) -> None:
    exchange(robin / level, str(robin.parent / "other" / level))
    shown = (robin / "memory" / "knowledge" / "a.md").read_text()
    assert shown == "# Of other\n"  # control: an ordinary read follows
    if level == "memory":
        for attempt in (lambda: index(robin), lambda: errand(robin).begin(), lambda: errand(robin).finish("")):
            with pytest.raises(InvalidInput, match="it is a link"):
                attempt()
    else:
        index(robin)
        brief = errand(robin).begin()
        assert "knowledge/a.md" not in ("" if brief is None else brief.material)
    assert not (robin.parent / "other" / "memory" / "knowledge" / "INDEX.md").exists()


@pytest.mark.parametrize("name", ["../other/memory", "absolute"])
def test_an_input_does_not_name_another_agent_s_memory(robin: Path, name: str) -> None:
    folder = str(robin.parent / "other" / "memory") if name == "absolute" else name
    for attempt in (lambda: index(robin, folder), lambda: errand(robin, folder).begin()):
        with pytest.raises(InvalidInput, match=r"directory of Matins|leads out of the folder"):
            attempt()
    assert index(robin.parent / "other") == {"knowledge": 1}  # control: its own


def test_notes_are_bounded_and_not_waited_for(robin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = robin / "memory" / "knowledge"
    with (notes / "large.md").open("wb") as file:
        file.write(b"# Large\n")
        file.truncate(900_000_000)
    (notes / "late.md").write_text(" " * 4_000 + "\n# Late\n")
    os.mkfifo(notes / "pipe.md")
    assert index(robin) == {"knowledge": 3}
    text = (notes / "INDEX.md").read_text()
    assert "[Large](large.md)" in text
    assert "[late](late.md)" in text
    assert "pipe" not in text
    monkeypatch.setattr(untrusted_folder, "MAX_ENTRIES", 2)
    for attempt in (lambda: index(robin), lambda: errand(robin).begin()):
        with pytest.raises(InvalidInput, match="more than 2 entries"):
            attempt()


def test_a_link_in_the_place_of_the_index_is_replaced(robin: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (robin / "memory" / "knowledge" / "INDEX.md").symlink_to(tmp_path / "mine")
    index(robin)
    assert (tmp_path / "mine").read_text() == "mine"
    assert "Of robin" in (robin / "memory" / "knowledge" / "INDEX.md").read_text()
