"""The style sheet is written so that a change of it can be reviewed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STYLE = Path(__file__).parents[2] / "src/matins/web/static/style.css"
_WIDTH = 160
_LINE = re.compile(r"(?:/\*.*\*/|\}|[^{};]*[{,]|[^{};]*:|[^{};]*;)?")
"""A comment, the end of a block, a selector, the beginning of a long value, or one declaration or its end."""


def unreadable(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > _WIDTH or not _LINE.fullmatch(line.strip())]


def test_one_declaration_a_line() -> None:
    assert unreadable(STYLE.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line", ["  margin: 0; padding: 0;", "p { margin: 0 }", "p { margin: 0; }", f".{'a' * 158} {{", "} p {"]
)
def test_packed_lines_are_found(line: str) -> None:
    assert unreadable(f"a {{\n  color: red;\n}}\n{line}\n") == [line]
