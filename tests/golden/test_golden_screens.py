"""Screens, help, errors and pages are as the files beside this one say. `make pages` renews them; a change of them is
what people see change."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from screens import FOLDER, renewed

FILES = ("screens.txt", "errors.txt", "help.txt", "pages.txt")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return renewed(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", FILES)
def test_people_see_what_they_saw(name: str, shown: dict[str, str]) -> None:
    before, now = (FOLDER / name).read_text(encoding="utf-8"), shown[name]
    changed = difflib.unified_diff(before.splitlines(), now.splitlines(), name, "now", lineterm="", n=2)
    assert before == now, "\n".join([*changed][:200])


def test_every_file_is_compared() -> None:
    assert {path.name for path in Path(FOLDER).glob("*.txt")} == set(FILES)
