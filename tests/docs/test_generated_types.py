"""The types that follow from declarations are written into the package, so that editors and checkers see them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import matins.api
from generate_awaitable import awaitable_text
from generate_rows import SOURCE, rows_texts
from generate_types import nouns_text, results_text, types_text

ROOT = Path(__file__).parents[2]
FOLDER = Path(matins.api.__file__).parent
RUFF = Path(sys.executable).with_name("ruff")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("_types.py", types_text),
        ("_results.py", results_text),
        ("_nouns.py", nouns_text),
        ("_awaitable.pyi", awaitable_text),
    ],
)
def test_generated_types_are_up_to_date(name: str, made: object) -> None:
    assert callable(made)
    path = FOLDER / name
    assert path.read_text(encoding="utf-8") == _formatted(path, made()), "run make pages"


def test_generated_rows_are_up_to_date() -> None:
    for path, text in rows_texts(SOURCE).items():
        assert path.read_text(encoding="utf-8") == _formatted(path, text), "run make pages"


def _formatted(path: Path, text: str) -> str:
    command = [RUFF, "format", "--stdin-filename", path, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, check=True).stdout
