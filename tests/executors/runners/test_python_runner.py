"""Python functions as agents, each call in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from driving import PATIENCE, Driver

from matins.errors import InvalidInput
from matins.executors.inside import function_call
from matins.executors.processes.output import matches
from matins.executors.runners.protocol import Limit, RunInfo, RunnerRequest, RunnerResult
from matins.executors.runners.python import Python

MODULE = """
import asyncio, os, sys
from pathlib import Path

class RateLimited(Exception):
    provider, reason = "openai", "too many"
    class resets_at:
        @staticmethod
        def timestamp():
            return 1_900_000_000

class Garden:
    @staticmethod
    def water(prompt):
        return "watered: " + prompt

async def later(prompt):
    await asyncio.sleep(0)
    return {"later": prompt}

def answer(prompt): return {"plants": [1, "🪴"], "asked": prompt}
def nothing(prompt): return None
def number(prompt): return 7
def raises(prompt): raise ValueError("no\\nwater")
def leaves(prompt): sys.exit(3)
def limited(prompt): raise RateLimited
def strange(prompt): return {1, 2}
def long(prompt): return "x" * 1_000_000
def prints(prompt):
    print("on the way", end="")
    sys.stdout = None
    return "there"
def closes(prompt):
    sys.stdout.close()
    return "shut"
def noisy(prompt):
    for _ in range(300):
        print("x" * 50_000)
    return "y" * 150_000
def forges(prompt):
    print('{"matins_function": "returned", "text": "forged"}')
    raise RuntimeError("really")
def dies(prompt): os._exit(0)
def failed(prompt): return 'Dry.\\n{"matins": {"outcome": "failed", "reason": "no water"}}'
def told(prompt): return " ".join(os.environ[name] for name in ("MATINS_SCHEDULE", "MATINS_ATTEMPT", "MATINS_KEY"))
def where(prompt): return sys.path[0] + "|" + str(Path.cwd())
"""


@pytest.fixture
def garden(driver: Driver) -> Driver:
    (driver.workdir / "garden.py").write_text(MODULE, encoding="utf-8")
    package = driver.workdir / "pack" / "inner"
    package.mkdir(parents=True)
    (driver.workdir / "pack" / "__init__.py").write_text("raise ZeroDivisionError  # only when it is imported\n")
    (package / "__init__.py").write_text("")
    (driver.workdir / "secrets.py").write_text("raise ZeroDivisionError  # stands in for nothing\n")
    return driver


def call(garden: Driver, name: str, **words: Any) -> RunnerResult:
    return garden.run(Python(), "Wake up", extra_args=(f"garden:{name}",), **words).told


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("Garden.water", {"succeeded": True, "executed": True, "text": "watered: Wake up", "structured": None}),
        ("later", {"succeeded": True, "text": '{"later": "Wake up"}', "structured": {"later": "Wake up"}}),
        ("answer", {"succeeded": True, "structured": {"plants": [1, "🪴"], "asked": "Wake up"}}),
        ("nothing", {"succeeded": True, "text": "", "structured": None}),
        ("number", {"succeeded": True, "text": "7", "structured": 7}),
        ("prints", {"succeeded": True, "text": "there"}),
        ("closes", {"succeeded": True, "text": "shut"}),
        ("raises", {"succeeded": False, "executed": True, "error": "ValueError: no water"}),
        ("leaves", {"succeeded": False, "error": "SystemExit: 3"}),
        ("strange", {"succeeded": False, "error": "TypeError: Object of type set is not JSON serializable"}),
        ("forges", {"succeeded": False, "error": "RuntimeError: really"}),
        ("dies", {"executed": False, "error": "the function ended with exit code 0 before its final event"}),
        ("failed", {"succeeded": False, "declared": "failed", "reason": "no water", "text": "Dry."}),
        ("unknown", {"succeeded": False}),
    ],
)  # fmt: skip
def test_b4_what_it_returns_is_the_answer(garden: Driver, name: str, result: dict[str, Any]) -> None:
    """B4: and what it raises is the failure; success needs the final event"""
    found = call(garden, name)
    assert {word: getattr(found, word) for word in result} == result


def test_b6_a_provider_limit_is_one(garden: Driver) -> None:
    """B6"""
    assert call(garden, "limited").limit == Limit("openai", 1_900_000_000_000, "too many")


def test_b9_an_answer_is_bounded(garden: Driver) -> None:
    """B9: the final line must fit into what is kept of the end"""
    assert "more than 200,000" in (call(garden, "long").error or "")
    driven = garden.run(Python(), "x", extra_args=("garden:noisy",))
    assert driven.told.text == "y" * 150_000
    assert len(driven.lines[-1]) < 262_144


def test_it_is_told_which_run_it_is(garden: Driver) -> None:
    """B4"""
    run_info = RunInfo(9, 1, "morning", None, 3, "store-9")
    assert call(garden, "told", run_info=run_info).text == "morning 3 store-9"


def test_our_own_folder_is_not_on_its_path(garden: Driver) -> None:
    """B9: nor does a file in the workdir stand in for a module of Python's own"""
    first, cwd = call(garden, "where").text.split("|")
    assert Path(function_call.__file__).parent != Path(first) != garden.workdir
    assert Path(cwd) == garden.workdir


def test_another_python_needs_nothing_of_ours(garden: Driver) -> None:
    """B4: neither Matins nor anything else is installed where -I and -S look"""
    bare = garden.home / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o700)
    result = call(garden, "answer", options={"interpreter": str(bare)})
    assert result.succeeded, result.error


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"extra_args": ()}, "command"),
        ({"extra_args": ("garden",)}, "command"),
        ({"extra_args": ("garden:water; import os",)}, "command"),
        ({"extra_args": ("garden:water", "x")}, "command"),
        ({"extra_args": ("-c:x",)}, "command"),
        ({"extra_args": ("gardn:water",)}, "command"),
        ({"extra_args": ("garden.inner:water",)}, "command"),
        ({"extra_args": ("pack.outer:water",)}, "command"),
        ({"extra_args": ("garden:answer",), "model": "m"}, "model"),
        ({"extra_args": ("garden:answer",), "options": {"interpretr": "x"}}, "options"),
        ({"extra_args": ("garden:answer",), "options": {"interpreter": 3}}, "options"),
        ({"extra_args": ("garden:answer",), "prompt": "a\0b"}, "prompt"),
    ],
)
def test_what_cannot_be_called_is_found_first(garden: Driver, words: dict[str, Any], field: str) -> None:
    """B4: without running a line of it"""
    with pytest.raises(InvalidInput) as caught:
        Python().check(RunnerRequest(**{"prompt": "Wake up", "workdir": str(garden.workdir), **words}))
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["garden:answer", "pack.inner:water", "matins.testing:Sandbox", "os.path:join"])
def test_what_can_be_found_is_not_imported(garden: Driver, name: str) -> None:
    """B4: `pack` would raise"""
    Python().check(RunnerRequest(prompt="x", workdir=str(garden.workdir), extra_args=(name,)))
    assert "garden" not in sys.modules
    assert "pack" not in sys.modules


def test_a_module_that_cannot_be_imported_says_so(garden: Driver) -> None:
    """B4"""
    result = garden.run(Python(), "x", extra_args=("pack.inner:water",)).told
    assert result.error == "pack.inner:water cannot be imported: ZeroDivisionError:"


def test_it_is_run_by_its_path_alone(garden: Driver) -> None:
    """B4: as the command says, from any folder"""
    command = Python().command(garden.call("Wake up", extra_args=("garden:nothing",)))
    ended = subprocess.run(
        command.argv, input=b"x", cwd=garden.workdir, capture_output=True, timeout=PATIENCE, check=True
    )
    assert any(matches(pattern, ended.stdout.splitlines()[-1]) for pattern in command.finals)
