"""docs/seeds.md has each call of the five systems, with a sentence."""

from importlib import import_module

import pytest
from seeds_page import PAGE, calls, rendered


def test_the_page_says_what_the_modules_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page), "run make pages"


@pytest.mark.parametrize("seed", ["cortex", "corvid", "herdctl", "polpo", "syris"])
def test_no_call_is_left_out(seed: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = calls(import_module(f"matins.seeds.{seed}"))
    assert len(found) >= 3
    assert [name for name in found if f"| `{name}(" not in page] == []
    assert not [line for line in page.splitlines() if line.endswith("|  |")], "a call has no sentence"
