"""The agents' tools on this machine."""

from __future__ import annotations

import shutil
from typing import NamedTuple

from matins.executors.registry import runners
from matins.executors.runners.needs import Needs
from matins.executors.runners.protocol import AnyRunner


class Tool(NamedTuple):
    """A tool that is installed."""

    runner: str
    path: str
    permission: str | None
    """The permission mode in which an unattended run is of use."""
    keys: tuple[str, ...]


def is_paid(runner: AnyRunner | None) -> bool:
    """Whether calls of the runner's tool or endpoint cost money or tokens."""
    return needs_of(runner) is not None or bool(getattr(runner, "reports", ()))


def needs_of(runner: AnyRunner | None) -> Needs | None:
    """What the tool of a runner needs; None for a runner without a tool."""
    return getattr(runner, "needs", None)


def installed_tools(path: str | None = None) -> list[Tool]:
    """The tools on PATH, by the names of their runners."""
    found: list[Tool] = []
    for name, runner in sorted(runners().items()):
        needs = needs_of(runner)
        where = shutil.which(getattr(runner, "program", ""), path=path) if needs is not None else None
        if needs is not None and where is not None:
            found.append(Tool(name, where, needs.permission.mode if needs.permission else None, needs.keys))
    return found
