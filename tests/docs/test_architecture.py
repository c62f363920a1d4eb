"""ARCHITECTURE.md names files and folders that exist, and leaves no folder out."""

from __future__ import annotations

import re
from pathlib import Path

import matins

SOURCE = Path(matins.__file__).parent
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"(?<![\w/.])((?:[a-z_]+/)+[a-z_]+\.py)\b", PAGE))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (SOURCE / name).is_file() and not (ROOT / name).is_file()] == []


def test_every_folder_of_the_layout_exists_and_none_is_left_out() -> None:
    layout = PAGE.partition("src/matins/\n")[2].partition("```")[0]
    lines = [line.strip() for line in layout.splitlines() if line.startswith("  ") and not line.startswith("    ")]
    named = {name for line in lines for name in re.split(r"\s{2,}", line)[0].split()}
    there = {path.name for path in SOURCE.iterdir() if path.suffix == ".py" and not path.name.startswith("_")}
    there |= {f"{path.name}/" for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert named == there
