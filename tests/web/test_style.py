"""The style sheet is written so that a change of it can be reviewed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "src/matins/web"
STYLE = WEB / "static/style.css"
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


def unused(style: str, uses: str) -> list[str]:
    """Classes of the style sheet that nothing has. Some are put together: `entry-{{ entry.kind }}`."""
    selectors = " ".join(re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)))
    words = set(re.findall(r"[\w-]+", uses))
    joined = [prefix for prefix in ("is-", "entry-") if prefix in words]
    classes = sorted(set(re.findall(r"\.([a-zA-Z][\w-]*)", selectors)))
    return [name for name in classes if name not in words and not name.startswith(tuple(joined))]


def test_every_class_is_used_somewhere() -> None:
    files = [file for kind in ("*.html", "*.svg", "*.js", "*.py") for file in WEB.rglob(kind) if file.name != "htmx.js"]
    uses = "\n".join(file.read_text("utf-8") for file in files)
    assert unused(STYLE.read_text("utf-8"), uses) == []


def test_an_unused_class_is_found() -> None:
    style = "/* .comment { } */\n.card,\n.gone {\n  color: red;\n}\n.is-failed {\n}\n"
    assert unused(style, 'class="card is-{{ look }}"') == ["gone"]
