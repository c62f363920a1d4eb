"""The tools of agents on this machine."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import structs

from matins.api.results import Tool
from matins.executors.agent_checks import credential_of
from matins.executors.agent_tools import needs_of
from matins.executors.registry import runners
from matins.executors.tool_versions import ToolVersions
from matins.model.agent import Agent
from matins.service.core import Core


def list_tools(core: Core, *, versions: bool) -> list[Tool]:
    """The agents with their tools, then installed tools without an agent."""
    agents = list(core.policies().agents.values())
    used = {agent.runner for agent in agents}
    free = [name for name, runner in sorted(runners().items()) if needs_of(runner) is not None and name not in used]
    found: list[Tool] = [*map(_of_agent, agents), *map(_of_runner, free)]
    ask = core.local.versions
    if not versions or ask is None:
        return found
    asked = [*agents, *(Agent(name, name) for name in free)]
    paths = [tool.path if tool.needs_credential else None for tool in found]
    with ThreadPoolExecutor() as pool:  # a tool takes a second to tell its version
        told = pool.map(partial(_version, ask), asked, paths)
        return [structs.replace(tool, version=version) for tool, version in zip(found, told, strict=True)]


def _version(ask: ToolVersions, agent: Agent, path: str | None) -> str | None:
    return None if path is None else ask(agent, path)


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
