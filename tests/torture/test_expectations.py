"""What torture and simulation hold to be right is written down by themselves.

A ledger that asks Matins what is allowed finds right whatever Matins does. Only what drives Matins, or plants faults in
it, may import more of it than its public names and the numbers of states.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_ALLOWED = frozenset(["matins", "matins.errors", "matins.testing", "matins.model.run"])
"""The library, its errors, its clock for tests, and the states by which rows are read."""
_DRIVERS = frozenset(
    [
        "simulation/sim_bugs.py",
        "simulation/sim_checks.py",
        "simulation/sim_masks.py",  # compares two ways through the engine with each other
        "simulation/sim_people.py",
        "simulation/sim_users.py",
        "simulation/sim_worker.py",
        "simulation/sim_world.py",
        "torture/planted.py",
        "torture/stepped_clock.py",
        "torture/test_torture.py",
        "torture/traced_postgres.py",
        "torture/traced_sqlite.py",
        "torture/worker.py",
    ]
)
_FILES = {
    f"{folder}/{file.name}": file for folder in ("simulation", "torture") for file in (_TESTS / folder).glob("*.py")
}
_HELPERS = {file.stem: file for file in _TESTS.glob("*.py")}
"""What both may share with other tests."""
_LEDGERS = sorted(_FILES.keys() - _DRIVERS - {f"torture/{Path(__file__).name}"})


def _imports(source: str) -> Iterator[tuple[str, str]]:
    """(module, name) of whatever is imported, wherever it stands, also by its name as a text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", one.name) for one in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from ((one.value, "") for one in node.args if isinstance(one, ast.Constant))


def _of_matins(source: str) -> Iterator[str]:
    for module, name in _imports(source):
        if module.partition(".")[0] == "matins":
            submodule = _TESTS.parent / "src" / module.replace(".", "/") / name
            is_module = bool(name) and (submodule.is_dir() or submodule.with_suffix(".py").exists())
            yield f"{module}.{name}" if is_module else module


def _asked(source: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The modules of Matins that a ledger asks: by itself, through another ledger, or through what a driver imports."""
    found = {module for module in _of_matins(source) if module not in _ALLOWED}
    files = {Path(path).stem: path for path in _FILES}
    for module, name in _imports(source):
        if module in files and files[module] in _DRIVERS:
            inner = _FILES[files[module]].read_text()
            borrowed = {of for of, imported in _imports(inner) if imported == name and of.startswith("matins")}
            found |= {f"{of} through {module}" for of in borrowed if of not in _ALLOWED}
        elif module in _HELPERS and module not in seen:
            found |= _asked(_HELPERS[module].read_text(), seen | {module})
    return found


@pytest.mark.parametrize("path", _LEDGERS)
def test_a_ledger_does_not_ask_the_code_under_test(path: str) -> None:
    """S2 H8"""
    assert _asked(_FILES[path].read_text()) == set()


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("from matins.engine.steps import of_step", {"matins.engine.steps"}),
        ("import matins.runtime.attempt as keys", {"matins.runtime.attempt"}),
        ("from matins import engine", {"matins.engine"}),
        ("def late():\n    from matins.runtime import catalog", {"matins.runtime.catalog"}),
        ("import_module('matins.runtime.attempt')", {"matins.runtime.attempt"}),
        ("from planted import catalog", {"matins.runtime through planted"}),
        ("from whole_log import chain_problems", {"matins.engine.audit", "matins.model.event", "matins.store.chain"}),
        ("from matins import Matins\nfrom matins.model.run import RunState\nfrom planted import FAULTS", set()),
    ],
)
def test_every_way_to_ask_is_seen(source: str, asked: set[str]) -> None:
    assert _asked(source) == asked


def test_the_drivers_are_there() -> None:
    assert _FILES.keys() >= _DRIVERS
