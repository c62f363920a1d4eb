"""The tools of agents on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from msgspec import structs

from matins.api.results import Tool
from matins.executors.agent_checks import credential_of
from matins.executors.agent_tools import needs_of
from matins.executors.registry import runners
from matins.executors.secrets import inherited
from matins.model.agent import Agent
from matins.service.core import Core

_PATIENCE_S = 10
_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}[0-9A-Za-z.+-]{0,60}")


def list_tools(core: Core, *, versions: bool) -> list[Tool]:
    """The agents with their tools, then installed tools without an agent."""
    agents = list(core.policies().agents.values())
    used = {agent.runner for agent in agents}
    free = [name for name, runner in sorted(runners().items()) if needs_of(runner) is not None and name not in used]
    found: list[Tool] = [*map(_of_agent, agents), *map(_of_runner, free)]
    if not versions:
        return found
    with ThreadPoolExecutor() as pool:  # a tool takes a second to tell its version
        told = pool.map(_version, [tool.path if tool.needs_credential else None for tool in found])
        return [structs.replace(tool, version=version) for tool, version in zip(found, told, strict=True)]


def _of_agent(agent: Agent) -> Tool:
    runner = runners().get(agent.runner)
    needs = needs_of(runner)
    program = agent.command[0] if agent.command else getattr(runner, "program", "")
    path = shutil.which(program) if program else None
    permission = needs.permission if needs else None
    return Tool(
        agent.name,
        agent.runner,
        path,
        None,
        credential_of(agent, needs) if needs else None,
        needs is not None,
        agent.permission_mode,
        permission.risk if permission and permission.asks else None,
        needs.install if needs else None,
    )


def _of_runner(name: str) -> Tool:
    runner = runners()[name]
    needs = needs_of(runner)
    assert needs is not None
    path = shutil.which(getattr(runner, "program", ""))
    permission = needs.permission
    return Tool(
        None,
        name,
        path,
        None,
        needs.credential(dict(os.environ), dict(os.environ)),
        True,
        permission.mode if permission else None,
        permission.risk if permission and permission.asks else None,
        needs.install,
    )


def _version(path: str | None) -> str | None:
    if path is None:
        return None
    status = Path(path).stat()
    return _told_version(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _told_version(path: str, changed_at: int, size: int) -> str | None:
    """The version that a tool tells; it is asked once, until it is replaced."""
    try:
        told = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, env=inherited(), timeout=_PATIENCE_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search((told.stdout + told.stderr).decode("utf-8", "replace"))
    return found[0] if found else None
