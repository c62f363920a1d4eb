"""Pre-checks and hooks of a real daemon: what they start does not outlive them, and the engine forks nothing."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from house import PATIENCE_S, House
from matins.executors.processes import proc

DAEMON = """
exec 3>{held}
setsid sh -c 'trap "" TERM; (exec sleep 600) & echo daemon >{told}; exit'
"""
"""It leaves a process behind that has left its session, lost its parent and ignores TERM."""


class Fifo:
    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def line(self) -> str:
        """What somebody writes."""
        while select.select([self.reading], [], [], PATIENCE_S)[0]:
            if said := os.read(self.reading, 100):
                return said.decode().strip()
        return ""

    def is_let_go(self) -> bool:
        """Whether all who hold the other end are gone."""
        return bool(select.select([self.reading], [], [], PATIENCE_S)[0]) and not os.read(self.reading, 1)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Fifo]:
    yield from fifo(tmp_path / "held")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Fifo]:
    yield from fifo(tmp_path / "told")


def fifo(path: Path) -> Iterator[Fifo]:
    one = Fifo(path)
    both = os.open(path, os.O_RDWR) if path.name == "told" else None
    yield one
    os.close(one.reading)
    if both is not None:
        os.close(both)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path / "home").up()
    one.ask("agents.set", name="ann", runner="demo")
    yield one
    one.kill()


def children(pid: int) -> list[int]:
    return [process.pid for process in proc.descendants(pid)]


@pytest.mark.parametrize("setting", ["pre_check", "after_run"])
def test_b16_a_daemon_that_a_command_leaves_is_gone_with_it(house: House, held: Fifo, told: Fifo, setting: str) -> None:
    """B16 C6 P7: also one that has left its session; the run goes on as the command says"""
    command = DAEMON.format(held=held.path, told=told.path)
    house.ask("schedules.add", name="s", when="every 1 day", agent="ann", prompt="Go.", **{setting: command})
    run = house.client.runs.wait(house.client.run("s").id, timeout=PATIENCE_S)
    assert told.line() == "daemon"
    assert held.is_let_go()
    assert run.state == "succeeded"


@pytest.mark.parametrize("setting", ["pre_check", "after_run"])
def test_b16_a_command_ends_with_its_engine(house: House, held: Fifo, told: Fifo, setting: str) -> None:
    """B16: killed at once; no child of the engine is left, because it has none, and no file of the command"""
    command = DAEMON.format(held=held.path, told=told.path) + f"echo waiting >{told.path}; exec sleep 600"
    house.ask(
        "schedules.add",
        name="s",
        when="every 1 day",
        agent="ann",
        prompt="Go.",
        **{setting: command, "check_timeout": "10m"},
    )
    house.client.run("s")
    assert "waiting" in told.line() or told.line() == "waiting"
    assert children(house.process.pid) == []
    runs = house.home / "matins.db.runs/runs"
    assert any(path.name.startswith("command-") for path in runs.iterdir())
    os.kill(house.process.pid, signal.SIGKILL)
    assert held.is_let_go()
    keeper = proc.find(*map(int, (house.home / "matins.db.runs/keeper.lock").read_text().split()))
    assert keeper is None or proc.wait_gone(keeper, PATIENCE_S * 1000)
    assert [path.name for path in runs.iterdir() if path.name.startswith("command-")] == []
