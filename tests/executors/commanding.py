"""Short commands as real processes, and what shows that they begin, wait and are gone."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from matins.executors import commands as short_commands
from matins.executors.commands import CommandResult as Result
from matins.executors.commands import Commands
from matins.executors.processes.supervisor import SharedSupervisor, Supervisor

PATIENCE = 90
LIMIT_MS = 90_000
_present: list[Commands] = []


@pytest.fixture(scope="module", autouse=True)
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The commands of an engine. The module that imports it runs its commands there."""
    supervisor = SharedSupervisor(lambda: Supervisor(tmp_path_factory.mktemp("supervised") / "runs", lambda: None))
    supervisor()  # its thread belongs to the module
    _present.append(Commands(supervisor))
    yield _present[-1]
    supervisor.close()
    _present.pop()


def run(command: str | Sequence[str], folder: Path | None = None, *, limit_ms: int = LIMIT_MS, **given: Any) -> Result:
    workdir = None if folder is None else str(folder)
    return _present[-1].run(command, **{"context": {}, "variables": {}, **given}, workdir=workdir, limit_ms=limit_ms)


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


def wait_until_held(held: int) -> None:
    """Somebody writes a line to it."""
    while not (select.select([held], [], [], PATIENCE)[0] and os.read(held, 1)):
        pass


@pytest.fixture
def limit_strikes(commands: Commands, tmp_path: Path) -> Iterator[Path]:
    """A fifo: the limit of all commands is past when somebody writes a line to it."""
    with limit_at(commands, tmp_path / "ready"):
        yield tmp_path / "ready"


@contextmanager
def limit_at(commands: Commands, path: Path) -> Iterator[None]:
    os.mkfifo(path)
    both = os.open(path, os.O_RDWR)

    def strike() -> None:
        if select.select([both], [], [], PATIENCE)[0]:
            commands.end_all("timeout")

    thread = threading.Thread(target=strike)
    thread.start()
    yield
    thread.join()
    os.close(both)


@pytest.fixture
def long_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For those who use it: a busy machine may need more than their second."""
    monkeypatch.setattr(short_commands, "_GRACE_MS", LIMIT_MS)


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, mode: int = 0o755, name: str = "check.sh") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    return write
