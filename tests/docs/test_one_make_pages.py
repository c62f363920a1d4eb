"""One `make pages` is enough: what is generated does not depend on what was generated before."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KIND = '''"""Lamps, a kind of record that there was not before."""

from dataclasses import dataclass
from typing import Annotated

from matins.model.settings import Decimal, Setting
from matins.records.kind import Column, RecordKind
from matins.records.kind import POLICIES


@dataclass(frozen=True, slots=True)
class Lamp:
    name: str
    watts: Annotated[float, Setting(Decimal(0, 100, above=True), "Power of the lamp.", 5.0, required=True)]


LAMPS = RecordKind(kind="lamp", noun="lamps", one="lamp", key="name", value=Lamp, help="Manage lamps.",
                   file_help="Lamps, by name.", storage=POLICIES, example="matins lamps set desk --watts 5",
                   columns=(Column("NAME", "name"), Column("WATTS", "watts")))
'''


def generated(folder: Path) -> dict[str, str]:
    """The types after the commands of `make pages` that write them, in their order."""
    recipe = re.search(r"^pages:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    commands = [line.strip() for line in recipe[1].splitlines() if re.search(r"generate_(types|awaitable)", line)]
    assert commands
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    for command in commands:
        words = command.replace("$(BIN)/python", sys.executable).replace(" tools/", f" {ROOT}/tools/").split()
        subprocess.run(words, cwd=folder, env=environment, check=True, timeout=120)
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((folder / "matins/api").glob("_*.py*"))}


def test_a_new_kind_of_record_needs_one_make_pages(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src/matins", tmp_path / "matins", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "matins/records/lamps.py").write_text(KIND, encoding="utf-8")
    once = generated(tmp_path)
    assert all(
        "lamp" in text.lower() for name, text in once.items() if name != "__init__.py" and name != "_awaitable.py"
    ), list(once)
    assert generated(tmp_path) == once
    for name in ("_types.py", "_results.py", "_nouns.py", "_awaitable.pyi"):
        (tmp_path / "matins/api" / name).unlink()
    assert generated(tmp_path) == once, "nothing was generated before"
