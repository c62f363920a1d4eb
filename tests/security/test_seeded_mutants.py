"""Mutants that are drawn by a seed: the same for the same seed, known without their file, and code that compiles."""

from __future__ import annotations

from pathlib import Path

import pytest
import seeded_mutants
from seeded_mutants import drawn, mutations

SOURCE = """
class Box:
    def add(self, number: int = 3) -> int:
        if number > 1:
            self.total += number
        return len("ä") if self.total else 0
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(seeded_mutants, "SOURCE", tmp_path)
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "box.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def test_each_kind_of_change_is_found_with_its_function(source: Path) -> None:
    found = {tuple(one.id.split(" | ")[:2]) for one in mutations()}
    kinds = ("comparison", "off by one", "dropped statement", "negated condition")
    assert found == {("Box.add", kind) for kind in kinds}
    assert len(mutations()) == 6  # neither the default nor the annotation


def test_each_change_compiles_and_changes_something(source: Path) -> None:
    for one in mutations():
        before = one.path.read_bytes()
        after = before[: one.start] + one.instead + before[one.end :]
        compile(after, "box.py", "exec")
        assert after != before, one.id


def test_a_mutant_is_the_same_in_another_module(source: Path) -> None:
    before = [one.id for one in drawn(7, 3)]
    (source / "runtime").mkdir()
    (source / "engine" / "box.py").rename(source / "runtime" / "moved.py")
    assert [one.id for one in drawn(7, 3)] == before


def test_another_seed_draws_others() -> None:
    first, again, other = ([one.id for one in drawn(seed, 40)] for seed in (1, 1, 2))
    assert first == again
    assert len(set(first)) == 40
    assert first != other
