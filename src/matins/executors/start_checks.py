"""What must hold before a run starts. A run raises the first problem; `doctor` looks for all of them by the same
checks, and starts, claims and spends nothing."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from matins.errors import InvalidInput
from matins.executors.isolation import Isolation
from matins.executors.registry import JobRegistry, NoService
from matins.executors.runners.protocol import AnyRunner, Call, EndpointRunner
from matins.model.agent import Agent
from matins.model.job import Errand, JobType


class NoAgent(InvalidInput):
    """The agent of the run does not exist."""


class NoFolder(InvalidInput):
    """The folder of an agent is missing on this machine."""


def known_agent(agent: Agent | None, name: str) -> Agent:
    if agent is None:
        hint = f"matins agents set {shlex.quote(name)} --runner claude"
        raise NoAgent(f'There is no agent "{name}".', value=name, field="agent", hint=hint)
    return agent


def known_runner(agent: Agent, runners: Mapping[str, AnyRunner]) -> AnyRunner:
    runner = runners.get(agent.runner)
    if runner is None:
        hint = f"Known: {', '.join(sorted(runners))}."
        raise InvalidInput(f'There is no runner "{agent.runner}".', value=agent.runner, field="runner", hint=hint)
    return runner


def check_services(job: JobType | None, jobs: JobRegistry) -> None:
    """Raise NoService for a job that needs what the program says is not available."""
    if (missing := jobs.unavailable(job)) is not None:
        raise NoService(missing, field="job")


def check_workdir(folder: str) -> None:
    if not Path(folder).is_dir():
        raise NoFolder(
            f"{folder} is not a folder.", value=folder, field="workdir", hint=f"mkdir -p {shlex.quote(folder)}"
        )


def check_isolation(isolation: Isolation, agent: Agent, folder: str) -> None:
    """Raise InvalidInput for an agent that cannot be isolated as it must be, or for a folder that governs it."""
    isolation.check(agent)
    isolation.check_workdir(agent, folder, isolated=isolation.refusal(agent) is None)


def check_errand(errand: Errand | None, agent: Agent, runner: AnyRunner) -> None:
    """Raise InvalidInput for a job that works in a folder, and an agent that does not."""
    if errand is not None and errand.folder is not None and isinstance(runner, EndpointRunner):
        message = f"The job needs an agent that works in a folder, and {runner.name} does not."
        raise InvalidInput(message, value=agent.name, field="agent", hint="Name an agent of another runner.")


def agent_call(agent: Agent, prompt: str, folder: str, allowed_hosts: Collection[str]) -> Call:
    """What the settings of the agent say about each of its calls."""
    return Call(
        prompt,
        folder,
        agent.model,
        permission_mode=agent.permission_mode,
        allowed_tools=agent.tools,
        max_turns=agent.max_turns,
        extra_args=agent.command + agent.arguments,
        options=agent.options,
        url=agent.url,
        allowed_hosts=tuple(allowed_hosts),
    )


def has_program(runner: AnyRunner) -> bool:
    """Whether the runner's program is on PATH, or it needs none."""
    return isinstance(runner, EndpointRunner) or not runner.program or shutil.which(runner.program) is not None


def find_program(program: str, path: str | None) -> str:
    found = shutil.which(program, path=path)
    if found is None:
        hint = "Install it, or give its full path."
        raise InvalidInput(f'"{program}" is not on PATH.', value=program, field="runner", hint=hint)
    return found
