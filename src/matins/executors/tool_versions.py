"""The versions of tools. An agent may have replaced a tool, so it is started like a run of the agent."""

from __future__ import annotations

import re
from pathlib import Path

from matins.errors import InvalidInput
from matins.executors.commands import Commands
from matins.executors.isolation import Isolation, account_of, account_variables
from matins.model.agent import Agent
from matins.runtime.agent_folders import own_folder

_PATIENCE_MS = 10_000
_MAX_KNOWN = 64
_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}[0-9A-Za-z.+-]{0,60}")


class ToolVersions:
    """Each tool is asked once, until it is replaced."""

    def __init__(self, isolation: Isolation, commands: Commands, workdir: str | None) -> None:
        self._isolation = isolation
        self._commands = commands
        self._workdir = workdir or str(Path.cwd())
        self._known: dict[tuple[object, ...], str | None] = {}

    def __call__(self, agent: Agent, path: str) -> str | None:
        """The version of the program at this path, which the agent wakes; None if it does not print one."""
        try:
            status = Path(path).stat()
        except OSError:
            return None  # it has just been removed
        key = path, status.st_mtime_ns, status.st_size, agent.user, agent.isolation, agent.hidden
        if key not in self._known:
            while len(self._known) >= _MAX_KNOWN:
                self._known.pop(next(iter(self._known)), None)
            self._known[key] = self._told(agent, path)
        return self._known[key]

    def _told(self, agent: Agent, path: str) -> str | None:
        try:
            layout = self._isolation.layout(agent, "/", str(Path(self._workdir, own_folder(agent.name))))
            account, variables = account_of(agent), account_variables(agent)
        except InvalidInput:
            return None  # the agent does not run either
        result = self._commands.run(
            (path, "--version"), context={}, variables=variables, workdir="/", limit_ms=_PATIENCE_MS, layout=layout,
            account=account,
        )  # fmt: skip
        found = _VERSION.search(f"{result.output}\n{result.errors}")
        return found[0] if found else None
