"""Which tests prove which row: the last column of docs/coverage.md. Run it to renew the page."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
ROW = re.compile(r"\| ([PCHVSB]\d+) \| (.*) \| (.*) \|")
PARTS: dict[str, str] = {}
"""Rows of which the tests prove a part."""
SHOWN = 3
"""Files that a row names."""
ID = re.compile(r"\b[PCHVSB]\d+\b")


def proofs() -> dict[str, list[str]]:
    """Row id to `file::test` for every test that names the row."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, ids in _tests_of(path):
            for row in ids:
                found[row].append(name)
    return found


def _tests_of(path: Path) -> list[tuple[str, list[str]]]:
    where = path.relative_to(ROOT / "tests")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return [(f"{where}::{test.name}", _ids(test)) for test in tests]


def _ids(test: ast.FunctionDef) -> list[str]:
    """The rows that a test's docstring names, or its own name: `test_p3_…`."""
    named = re.match(r"test_([pchvsb]\d+)_", test.name)
    return sorted({*ID.findall(ast.get_docstring(test) or ""), *([named[1].upper()] if named else [])})


def rendered(page: str) -> str:
    """The page with its last column renewed: the files with the most tests that name the row, and how many others."""
    found = proofs()
    lines = []
    for line in page.splitlines():
        match = ROW.fullmatch(line)
        lines.append(f"| {match[1]} | {match[2]} | {_column(match[1], found.get(match[1], []))} |" if match else line)
    return "\n".join(lines) + "\n"


def _column(row: str, tests: list[str]) -> str:
    files: dict[str, int] = defaultdict(int)
    for test in tests:
        files[test.partition("::")[0]] += 1
    first = sorted(files, key=lambda file: (-files[file], file))[:SHOWN]
    shown = ", ".join(f"`{file}` ({files.pop(file)})" for file in first) or "–"
    shown += f"; {sum(files.values())} more in {len(files)} files" if files else ""
    return f"{shown}; {PARTS[row]}" if row in PARTS else shown


def row_ids(page: str) -> set[str]:
    return {match[1] for line in page.splitlines() if (match := ROW.fullmatch(line))}


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
