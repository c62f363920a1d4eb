"""Problems that would keep runs of a schedule from starting, found in advance. Nothing is started, claimed or spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from matins.engine.jobs import parse_inputs, wakes_agent
from matins.engine.policies import Policies
from matins.engine.setting_values import ParseContext
from matins.engine.steps import parts_of
from matins.errors import MatinsError
from matins.executors.command_checks import check_program
from matins.executors.registry import JobRegistry
from matins.executors.runners.protocol import AnyRunner
from matins.executors.start_checks import check_errand, check_services, known_agent
from matins.executors.work_items import source_of
from matins.model.agent import Agent
from matins.model.job import ErrandPlace, JobType
from matins.model.schedule import ScheduleDefinition
from matins.runtime.agent_folders import folder_of, own_folder
from matins.runtime.command_files import commands_of

_KEY = "0"
"""In place of the key of a run."""


class Surroundings(NamedTuple):
    """What runs find on this machine."""

    policies: Policies
    runners: Mapping[str, AnyRunner]
    jobs: JobRegistry
    workdir: str
    now: int

    def folder(self, agent: Agent | None) -> str:
        return self.workdir if agent is None else folder_of(agent, self.workdir)


def schedule_problems(definition: ScheduleDefinition, agent: str, here: Surroundings) -> list[MatinsError]:
    """All problems of the schedule and its steps, apart from those of its agents."""
    checks: list[Callable[[], object]] = [
        lambda command=command: check_program(command, here.workdir) for command in commands_of(definition)
    ]
    for part, name in parts_of(definition, agent):
        checks += _checks(part, name, here)
    return _raised(checks)


def job_problems(definition: ScheduleDefinition, agent: str, here: Surroundings) -> list[MatinsError]:
    """What its jobs themselves say about the folders of its runs."""
    parts = parts_of(definition, agent)
    return _raised([check for part, name in parts for check in _job_checks(part, name, here)])


def _checks(part: ScheduleDefinition, name: str, here: Surroundings) -> Iterator[Callable[[], object]]:
    job, agent = here.jobs.get(part.job), here.policies.agents.get(name)
    if wakes_agent(part):
        yield lambda: known_agent(agent, name)
    yield lambda: check_services(job, here.jobs)
    yield lambda: _check_source(part, name, here)
    yield from _job_checks(part, name, here)
    if job is not None and agent is not None and agent.runner in here.runners:
        yield lambda: _check_errand(part, job, agent, here)


def _check_source(part: ScheduleDefinition, name: str, here: Surroundings) -> None:
    source = source_of(part, name, here.policies, here.jobs, here.workdir, here.now)
    if source is not None:
        source.check(here.now)


def _job_checks(part: ScheduleDefinition, name: str, here: Surroundings) -> Iterator[Callable[[], object]]:
    job = here.jobs.get(part.job)
    if job is not None and job.check is not None:
        check, folder = job.check, here.folder(here.policies.agents.get(name))
        yield lambda: check(parse_inputs(job, part.payload, ParseContext(here.now)), folder)


def _check_errand(part: ScheduleDefinition, job: JobType, agent: Agent, here: Surroundings) -> None:
    if job.errand is not None:
        inputs = parse_inputs(job, part.payload, ParseContext(here.now))
        own = str(Path(here.workdir, own_folder(agent.name)))
        errand = job.errand(inputs, ErrandPlace(_KEY, agent.name, here.folder(agent), own, here.now))
        check_errand(errand, agent, here.runners[agent.runner])


def _raised(checks: list[Callable[[], object]]) -> list[MatinsError]:
    """The errors that the checks raise. The same sentence is said once."""
    found: dict[str, MatinsError] = {}
    for check in checks:
        try:
            check()
        except MatinsError as error:
            found.setdefault(error.message, error)
    return list(found.values())
