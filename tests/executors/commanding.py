"""Short commands as real processes, and what shows that they begin, wait and are gone."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from matins.executors import commands
from matins.executors.commands import CommandResult, run_command
from matins.runtime.clock import SystemClock

PATIENCE = 90
LIMIT_MS = 90_000


def run(command: str | Sequence[str], folder: Path | None = None, **given: Any) -> CommandResult:
    workdir = None if folder is None else str(folder)
    return run_command(command, **{"context": {}, "variables": {}, **given}, workdir=workdir, limit_ms=LIMIT_MS)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[int]:
    """The reading end of a fifo: it shows when all who hold the other end are gone."""
    os.mkfifo(tmp_path / "held")
    reading = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    yield reading
    os.close(reading)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """A fifo on which commands wait for a line; called, it lets so many of them go."""
    os.mkfifo(tmp_path / "gate")
    both = os.open(tmp_path / "gate", os.O_RDWR)
    yield lambda count: os.write(both, b"\n" * count)
    os.close(both)


def wait_until_gone(held: int) -> None:
    while select.select([held], [], [], PATIENCE)[0]:
        if not os.read(held, 4_096):
            return
    pytest.fail("somebody still holds it")


@pytest.fixture
def limit_strikes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A path: the limit is past from the moment when there is a file."""
    ready = tmp_path / "ready"
    clock = SystemClock()
    monkeypatch.setattr(commands, "_boot_ms", lambda: clock.boot_ms() + (LIMIT_MS if ready.exists() else 0))
    return ready


@pytest.fixture
def long_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For those who use it: a busy machine may need more than their second."""
    monkeypatch.setattr(commands, "_GRACE_MS", LIMIT_MS)


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, mode: int = 0o755, name: str = "check.sh") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    return write
