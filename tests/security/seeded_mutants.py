"""Mutants drawn by a seed, each run against tests that call the function: `make mutants-seeded SEED=1 N=40`.

It measures what the tests notice, so that they can be compared before and after a change of the code's or their own
structure. A mutant is known by the qualified name of its function, the statement and what is changed in it, not by its
file: those that were drawn before are found again after modules were moved (`IDS=` names the earlier result).

Which tests call which functions is found by running them once, and kept in .venv.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from mutation import ROOT, Copy, copied

SOURCE = ROOT / "src" / "matins"
INDEX = ROOT / ".venv" / "mutants-index.json"
PACKAGES = ("engine", "runtime", "store", "service")
TESTS = (
    "engine/test_*.py", "gates/test_*.py", "runtime/test_*.py", "service/test_*.py", "store/test_conformance.py",
    "store/test_sqlite_*.py", "store/test_chains.py", "engine/when/test_triggers.py", "engine/english/test_phrases.py",
)  # fmt: skip
"""The tests among which those that call a function are looked for. What runs for minutes is not there."""
MAX_TESTS = 30
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_MAX_TEXT = 160


class Mutation(NamedTuple):
    id: str
    """Function, kind, change and statement. It names no file."""
    function: str
    path: Path
    start: int
    end: int
    """Of the text that is replaced, in bytes."""
    instead: bytes


class _Finder(ast.NodeVisitor):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._source = path.read_bytes()
        self._lines = [0]
        for line in self._source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._names: list[str] = []
        self._statement = ""
        self.found: list[Mutation] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within(node, node.name)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._within(node, node.name, "<locals>")

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._within(node, node.name, "<locals>")

    def _within(self, node: ast.AST, *names: str) -> None:
        self._names += names
        for statement in getattr(node, "body", ()):  # neither decorators nor annotations nor defaults
            self.visit(statement)
        del self._names[-len(names) :]

    def visit(self, node: ast.AST) -> None:
        in_function = bool(self._names) and self._names[-1] == "<locals>"
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._statement = ast.unparse(node).partition("\n")[0][:_MAX_TEXT]
            if isinstance(node, ast.Assert) or "log." in self._statement:
                return
        if in_function:
            for kind, instead in _changes(node):
                self._add(kind, node, instead)
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                self._add("negated condition", node.test, f"not ({ast.unparse(node.test)})")
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.visit(node.value)
        elif not isinstance(node, ast.JoinedStr):  # texts are not behaviour, and have no places before Python 3.12
            super().visit(node)

    def _add(self, kind: str, node: Any, instead: str) -> None:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[node.end_lineno - 1] + node.end_col_offset
        function = ".".join(self._names[:-1])
        change = f"{ast.unparse(node)[:_MAX_TEXT]} → {instead[:_MAX_TEXT]}" if instead != "pass" else "dropped"
        name = f"{function} | {kind} | {self._statement} | {change}"
        self.found.append(Mutation(name, function, self.path, start, end, f"({instead})".encode()
                                   if instead != "pass" else b"pass"))  # fmt: skip


def _changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        flipped = ast.Compare(node.left, [_FLIPPED[type(node.ops[0])]()], node.comparators)
        yield "comparison", ast.unparse(flipped)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", str(node.value + 1)
    elif _has_effect(node):
        yield "dropped statement", "pass"


def _has_effect(node: ast.AST) -> bool:
    """Whether it can be dropped and what follows still has its names."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    return isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))


def mutations(packages: Sequence[str] = ()) -> list[Mutation]:
    """All that can be made, those of equal id numbered."""
    found: list[Mutation] = []
    for path in sorted(SOURCE.rglob("*.py")):
        if not packages or path.relative_to(SOURCE).parts[0] in packages:
            finder = _Finder(path)
            finder.visit(ast.parse(path.read_bytes()))
            found += finder.found
    count = Counter[str]()
    numbered: list[Mutation] = []
    for one in found:
        count[one.id] += 1
        numbered.append(one if count[one.id] == 1 else one._replace(id=f"{one.id} | {count[one.id]}"))
    return numbered


def drawn(seed: int, number: int, packages: Sequence[str] = PACKAGES) -> list[Mutation]:
    """By a hash of seed and id: what is added elsewhere changes the draw as little as what is moved."""
    return sorted(mutations(packages), key=lambda one: hashlib.sha256(f"{seed} {one.id}".encode()).digest())[:number]


def callers() -> dict[str, list[str]]:
    """The tests that call a function, by its qualified name: the quickest first, from as many files as there are."""
    if not INDEX.exists():
        _renew_index()
    rows: list[dict[str, Any]] = json.loads(INDEX.read_text(encoding="utf-8"))
    by_function: dict[str, dict[str, list[str]]] = {}
    for row in sorted(rows, key=lambda row: row["seconds"]):
        for name in row["calls"]:
            by_function.setdefault(name, {}).setdefault(row["test"].partition("::")[0], []).append(row["test"])
    return {name: _spread(list(files.values())) for name, files in by_function.items()}


def _spread(files: list[list[str]]) -> list[str]:
    longest = max(len(tests) for tests in files)
    return [tests[nth] for nth in range(longest) for tests in files if nth < len(tests)][:MAX_TESTS]


def _renew_index() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MATINS_CALLERS": folder, "PYTHONPATH": "tests/security"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "callers_plugin", "-n", "2", "-p", "no:cacheprovider"]
        command += ["-m", "not long"]
        command += [str(path.relative_to(ROOT)) for name in TESTS for path in sorted((ROOT / "tests").glob(name))]
        subprocess.run(command, cwd=ROOT, env=environment, check=False)  # a test that fails is not asked
        texts = [path.read_text(encoding="utf-8") for path in Path(folder).glob("*.jsonl")]
        rows = [json.loads(line) for text in texts for line in text.splitlines()]
    INDEX.write_text(json.dumps(rows), encoding="utf-8")


def fate(copy: Copy, one: Mutation, tests: Sequence[str]) -> str:
    """killed, survived, or uncalled where no test of the index calls the function."""
    if not tests:
        return "uncalled"
    path = copy.folder / one.path.relative_to(ROOT)
    before = path.read_bytes()
    path.write_bytes(before[: one.start] + one.instead + before[one.end :])
    try:
        compile(path.read_bytes(), str(path), "exec")
        code, output = copy.run(*(test.removeprefix("tests/") for test in tests))
    except subprocess.TimeoutExpired:
        return "killed"
    finally:
        path.write_bytes(before)
    if code in (0, 1, 2):  # 2: what the tests import cannot be imported
        return "killed" if code else "survived"
    raise RuntimeError(f"pytest ended with {code}\n{output[-2000:]}")


def run(chosen: Sequence[Mutation], jobs: int) -> list[dict[str, Any]]:
    tests, copies, lock = callers(), SimpleQueue[Copy](), threading.Lock()

    def one(mutation: Mutation) -> dict[str, Any]:
        copy, began = copies.get(), time.monotonic()
        try:
            ended = fate(copy, mutation, tests.get(mutation.function, ()))
        finally:
            copies.put(copy)
        with lock:
            print(f"{ended:9}{time.monotonic() - began:6.1f} s  {mutation.id}", flush=True)  # noqa: T201
        return {"id": mutation.id, "fate": ended}

    with ExitStack() as stack:
        for _ in range(jobs):
            copies.put(stack.enter_context(copied()))
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, chosen))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-n", type=int, default=40, help="How many mutants.")
    parser.add_argument("--ids", help="The result of an earlier run: its mutants instead of new ones.")
    parser.add_argument("--result", default=str(ROOT / ".venv" / "mutants.json"), help="Where to write the result.")
    parser.add_argument("--index", action="store_true", help="Find out anew which tests call what.")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.index:
        INDEX.unlink(missing_ok=True)
    earlier: dict[str, str] = {}
    if given.ids:
        earlier = {row["id"]: row["fate"] for row in json.loads(Path(given.ids).read_text(encoding="utf-8"))}
        chosen = [one for one in mutations() if one.id in earlier]
    else:
        chosen = drawn(given.seed, given.n)
    results = run(chosen, given.jobs)
    Path(given.result).write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
    gone = earlier.keys() - {row["id"] for row in results}
    lost = [row["id"] for row in results if earlier.get(row["id"]) == "killed" != row["fate"]]
    for name in sorted(gone):
        print(f"gone       {name}")  # noqa: T201
    for name in lost:
        print(f"LIVES NOW  {name}")  # noqa: T201
    count = Counter(row["fate"] for row in results)
    print(f"{len(results)} mutants:", ", ".join(f"{n} {name}" for name, n in sorted(count.items())))  # noqa: T201
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
