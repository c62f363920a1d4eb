"""The terminals at which people work are out of an isolated agent's sight."""

from __future__ import annotations

import os
import pty
import select
import shlex
import sys
from collections.abc import Iterator

import pytest

from house import House, Ordinary

WRITE = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
os.write(terminal, b"approved")
print("written")
"""
OWN = """
import os, pty
ours, theirs = pty.openpty()
os.write(theirs, b"own")
print(os.read(ours, 3).decode())
"""


@pytest.fixture
def terminal(account: Ordinary) -> Iterator[tuple[int, str]]:
    """A terminal of that user: its screen, and its name."""
    screen, keyboard = pty.openpty()
    if os.geteuid() == 0:
        os.fchown(keyboard, account.uid, account.gid)
    yield screen, os.ttyname(keyboard)
    os.close(screen)
    os.close(keyboard)


def python(program: str, *words: str) -> str:
    return shlex.join([sys.executable, "-c", program, *words])


@pytest.mark.parametrize(("isolation", "written"), [("required", False), ("none", True)])
def test_b16_an_agent_does_not_write_on_a_terminal_of_its_user(
    house: House, terminal: tuple[int, str], isolation: str, written: bool
) -> None:
    """B16: it could cover what a person decides by. Without walls, the same attack succeeds"""
    screen, name = terminal
    house.shell(f"writer-{isolation}", python(WRITE, name), isolation=isolation)
    _, output = house.fire(f"writer-{isolation}")
    shown = os.read(screen, 100) if select.select([screen], [], [], 0)[0] else b""
    assert (output, shown) == (("written\n", b"approved") if written else ("", b""))


def test_b16_an_agent_has_terminals_of_its_own(house: House) -> None:
    """B16: tools that start a shell in a terminal work inside"""
    house.shell("own", python(OWN), isolation="required")
    run, output = house.fire("own")
    assert (run.state, output) == ("succeeded", "own\n"), run.outcome
