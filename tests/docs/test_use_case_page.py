"""docs/calls.md is what the declarations say."""

from __future__ import annotations

from use_case_page import PAGE, rendered


def test_the_page_of_calls_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), "run make pages"
