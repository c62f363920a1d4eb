"""The promises of docs/security.md: each has a guard that is there, and a test that fails without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant
from mutation import Copy, check_text, copied, survived

ALL = [mutant for mutants in MUTANTS.values() for mutant in mutants]
QUICK = [mutant for mutant in ALL if mutant.quick]
ROOT = Path(__file__).parents[2]


def _id(mutant: Mutant) -> str:
    return f"{mutant.file}-{mutant.test.rpartition('::')[2]}"


@pytest.fixture(scope="module")
def copy() -> Iterator[Copy]:
    with copied() as made:
        yield made


@pytest.mark.parametrize("mutant", ALL, ids=_id)
def test_each_guard_is_in_the_source(mutant: Mutant) -> None:
    check_text(mutant)


@pytest.mark.parametrize("mutant", ALL, ids=_id)
def test_each_test_exists(mutant: Mutant) -> None:
    file, _, name = mutant.test.partition("::")
    source = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert not name or f"def {name.partition('[')[0].rpartition('::')[2]}(" in source


def test_each_promise_is_a_sentence_of_the_docs() -> None:
    text = " ".join((ROOT / "docs" / "security.md").read_text(encoding="utf-8").split())
    assert [promise for promise in MUTANTS if promise not in text] == []


@pytest.mark.parametrize("mutant", QUICK, ids=_id)
def test_no_quick_mutant_lives(copy: Copy, mutant: Mutant) -> None:
    """With the guard the same test passes, as one of this suite."""
    assert survived(copy, mutant) is None
