"""What pages, help and the demonstration name is there, and all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("claude", "codex", "gemini", "goose", "opencode")
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".yaml", ".html")),
]
_LIST = re.compile(rf"(?:\b(?:{'|'.join((*TOOLS, 'qwen'))})\b[`\",\s]{{1,6}}(?:and |or )?){{4,}}", re.IGNORECASE)
CLIENTS = "cursor"
"""A list with it is one of clients for MCP, which are not runners."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_list_of_runners_has_all_of_them(page: Path) -> None:
    """Qwen too; and no page has a command that does not exist"""
    text = page.read_text(encoding="utf-8")
    lists = [
        text[found.start() : found.end() + 8]
        for found in _LIST.finditer(text)
        if CLIENTS not in text[found.start() - 60 : found.end()]
    ]
    assert [one for one in lists if "opencode" in one.lower() and "qwen" not in one.lower()] == []
    assert "matins tools" not in text
