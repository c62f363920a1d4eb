"""A plugin for pytest: which tests call which functions of Matins, by their names, in a file for each process."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SOURCE = str(Path(__file__).parents[2] / "src" / "matins")
FOLDER = "MATINS_CALLERS"
"""The variable that names the folder of the files."""
_seen: set[CodeType] = set()
_failed: set[str] = set()


def _note(frame: FrameType, event: str, argument: Any) -> None:
    _seen.add(frame.f_code)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _seen.clear()
    began = time.monotonic()
    threading.settrace(_note)
    sys.settrace(_note)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        calls = sorted({code.co_qualname for code in _seen if code.co_filename.startswith(SOURCE)})
        row = {"test": item.nodeid, "seconds": time.monotonic() - began, "calls": calls}
        if item.nodeid not in _failed:
            with (Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(row)}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not report.passed:
        _failed.add(report.nodeid)
