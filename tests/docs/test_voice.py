"""Errors, hints, reasons and log lines of Matins use plain words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import matins

pytestmark = pytest.mark.usefixtures("undisturbed")
SOURCE = Path(matins.__file__).parent
AVOIDED = re.compile(
    r"(?i:\b(?:somebody|nobody|everybody|anybody|whoever|mend(?:s|ed)?|anew|purses?|told|said)\b|at the most"
    r"|stands there|take (?:it|them|this) out|leave (?:it|them) out|than it may|as it may|\bgoes on\b)|did you mean"
)
GRAMMAR = ("engine/english/",)
"""Phrases of *when* are a language of their own."""


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings."""
    tree = ast.parse(text)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.lineno, node.value


def test_the_words_that_are_avoided() -> None:
    found = [
        f"{name}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not (name := str(path.relative_to(SOURCE))).startswith(GRAMMAR)
        for line, text in sentences(path.read_text(encoding="utf-8"))
        if AVOIDED.search(text)
    ]
    assert found == []


def test_an_avoided_word_is_found() -> None:
    module = '"""Nobody reads this."""\nraise ValueError(f"{x}: nobody knows")\n'
    assert [line for line, text in sentences(module) if AVOIDED.search(text)] == [2]
