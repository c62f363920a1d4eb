"""Every example in the documentation runs, and prints what the page says."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def _examples() -> list[tuple[str, str, str]]:
    """(page, command, what it prints) for each `$ matins …` with fixed output."""
    found: list[tuple[str, str, str]] = []
    for page in PAGES:
        for block in _CONSOLE.findall(page.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                if command.startswith("matins ") and "TEXT" not in command:
                    found.append((page.name, command, output))
    return found


def test_there_are_examples() -> None:
    assert len(_examples()) >= 3


@pytest.mark.parametrize(("page", "command", "output"), _examples())
def test_console_examples_print_what_the_page_says(page: str, command: str, output: str, tmp_path: Path) -> None:
    words = shlex.split(command, comments=True)[1:]
    alone = {name: value for name, value in os.environ.items() if name != "COLUMNS" and not name.startswith("MATINS_")}
    alone["MATINS_HOME"] = str(tmp_path)
    result = subprocess.run(
        [sys.executable, "-m", "matins", *words], capture_output=True, text=True, timeout=60, env=alone
    )
    assert result.stdout + result.stderr == output, page


@pytest.fixture
def without_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """doctest compares the last line of an error. In a traceback that is the hint."""
    whole = traceback.format_exception_only

    def message(kind: Any, error: Any) -> list[str]:
        return [line for line in whole(kind, error) if not line.startswith("Hint: ")]

    monkeypatch.setattr(traceback, "format_exception_only", message)


@pytest.mark.usefixtures("tools", "without_hints")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_print_what_the_page_says(page: Path, request: pytest.FixtureRequest) -> None:
    named = {"endpoint": request.getfixturevalue("endpoint")} if page.name == "agents.md" else {}
    assert doctest.testfile(str(page), module_relative=False, globs={"__name__": "__main__", **named}).failed == 0


def test_make_targets_in_the_documentation_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"^\$ make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), (page.name, target)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), (page.name, link)
