"""Ratchets of the layout: numbers that may only fall. `python tools/structure.py` says which one has risen, and where.

Branches are bounded by ruff, layers by import-linter, the files that a fire passes by `tests/test_walks.py`. Here are
the two things that make a tree hard to read although each line is fine: functions that were cut out only to be short,
and files that hold too little to be looked for.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "matins"
SMALL = 40
"""A file below so many lines holds no noun of its own."""
PLUGINS = ("engine/gates", "delivery/destinations", "coding_tools", "jobs", "github", "seeds", "executors/inside")
"""In these folders a file is a plug-in, which may be as small as it likes."""
REASONS = {
    "model/clock.py": "every layer names the clock, and none of what else is in the model",
    "net/peer.py": "both ends of the socket need it, and neither the client for HTTP",
    "chat/rows.py": "the rows of `rows.sql`, which the generator looks for beside it",
}
"""Small files that stay, each with its reason."""


class Ceilings(NamedTuple):
    files: int
    single_use: int
    """Private functions with one call and no other reference."""


CEILINGS = Ceilings(files=456, single_use=600)


def modules() -> dict[str, ast.Module]:
    paths = (path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(paths)}


def single_use(trees: dict[str, ast.Module]) -> list[str]:
    """Private functions and methods that are called once in their file, named nowhere else in the source, and that
    nothing overrides."""
    named: Counter[str] = Counter()
    defined: Counter[str] = Counter()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                named[node.id] += 1
            elif isinstance(node, ast.Attribute):
                named[node.attr] += 1
            elif isinstance(node, ast.alias):
                named[node.name] += 1
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                defined[node.name] += 1
    found: list[str] = []
    for file, tree in trees.items():
        called = Counter(
            node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list:
                name = node.name
                if (
                    name.startswith("_")
                    and not name.startswith("__")
                    and called[name] == named[name] == defined[name] == 1
                ):
                    found.append(f"{file}:{node.lineno} {name}")
    return found


def small_files() -> list[str]:
    """Files that are neither an `__init__`, nor generated, nor a plug-in, nor on the list of reasons."""
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if path.name.startswith("_") or name in REASONS or name.startswith(PLUGINS):  # `_x.py` is generated
            continue
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines < SMALL:
            found.append(f"{name}: {lines} lines. Merge it, or give its reason in tools/structure.py.")
    return found


def main() -> int:
    trees = modules()
    once = single_use(trees)
    problems = small_files()
    if len(trees) > CEILINGS.files:
        problems.append(f"There are {len(trees)} files, not {CEILINGS.files}.")
    if len(once) > CEILINGS.single_use:
        problems.append(f"There are {len(once)} private functions with one use, not {CEILINGS.single_use}:")
        problems += [f"  {each}" for each in once]
    if "--list" in sys.argv:
        print(*once, sep="\n")
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(trees)} files, {len(once)} private functions with one use")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
