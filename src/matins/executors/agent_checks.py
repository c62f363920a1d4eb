"""Problems that keep an agent or a schedule from running.

A run raises the first one. `doctor` finds all of them by the same checks, and starts, claims and spends nothing.

`ToolVersions` does start tools, to ask for their versions: behind the walls of the agent, which may have replaced them.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from matins.engine.commands import exit_code_note
from matins.engine.inputs import with_defaults
from matins.engine.jobs import SHELL_AGENT, as_scheduled, converses, parse_inputs, runs_only_commands, wakes_agent
from matins.engine.money import Price, price_of
from matins.engine.policies import Policies
from matins.engine.settings import ParseContext
from matins.engine.steps import parts_of
from matins.errors import Example, InvalidInput, MatinsError
from matins.executors.commands import Commands
from matins.executors.isolation import NOT_ISOLATED, Isolation, account_of, account_variables, is_root, new_account
from matins.executors.registry import JobRegistry, NoService, runners
from matins.executors.runners.protocol import AnyRunner, EndpointRunner, Needs, RunnerRequest
from matins.executors.runners.request_checks import check_effort
from matins.executors.secrets import MissingHere, check_program, environment_of, from_home, resolve
from matins.executors.work_items import source_of
from matins.model.agent import Agent
from matins.model.clock import Clock
from matins.model.job import Errand, ErrandPlace, JobType
from matins.model.schedule import ScheduleDefinition
from matins.net.outbound import check_url
from matins.runtime.agent_folders import check_own_folder, folder_of, is_own_folder, own_folder
from matins.runtime.command_files import commands_of


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


class NoAgent(InvalidInput):
    """The agent of the run does not exist."""


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
        raise MissingHere(
            f"{folder} is not a folder.", value=folder, field="workdir", hint=f"mkdir -p {shlex.quote(folder)}"
        )


def check_isolation(isolation: Isolation, agent: Agent, folder: str) -> None:
    """Raise InvalidInput for an agent that cannot be isolated as it must be, or for a folder that governs it."""
    isolation.check(agent)
    if not runs_only_commands(agent):
        isolation.check_workdir(agent, folder, isolated=isolation.refusal(agent) is None)


def check_errand(errand: Errand | None, agent: Agent, runner: AnyRunner) -> None:
    """Raise InvalidInput for a job that works in a folder, and an agent that does not."""
    if errand is not None and errand.folder is not None and isinstance(runner, EndpointRunner):
        message = f"The job needs an agent that works in a folder, and {runner.name} does not."
        raise InvalidInput(message, value=agent.name, field="agent", hint="Name an agent of another runner.")


def agent_call(agent: Agent, prompt: str, folder: str, allowed_hosts: Collection[str]) -> RunnerRequest:
    """What the settings of the agent say about each of its calls."""
    return RunnerRequest(
        prompt,
        folder,
        agent.model,
        agent.effort,
        permission_mode=agent.permission_mode,
        allowed_tools=agent.tools,
        max_turns=agent.max_turns,
        extra_args=agent.command + agent.arguments,
        options=agent.options,
        url=agent.url,
        allowed_hosts=tuple(allowed_hosts),
    )


def check_model(agent: Agent | None, definition: ScheduleDefinition) -> None:
    """Raise InvalidInput for a model or an effort that the agent's runner does not take, or that a command has."""
    for field in ("model", "effort"):
        if getattr(definition, field) is not None and not converses(definition):
            message = f"A command has no {field}."
            raise InvalidInput(message, value=getattr(definition, field), field=field, hint="Omit it.")
    if agent is None or (definition.model is None and definition.effort is None):
        return
    if (runner := runners().get(agent.runner)) is None:
        return
    if definition.effort is not None:
        check_effort(runner, definition.effort)
    call = replace(agent_call(agent, _PROMPT, "/", ()), model=definition.model or agent.model)
    try:
        runner.check(call)
    except InvalidInput as error:  # others concern the agent
        if error.field == "model":
            raise


def has_program(runner: AnyRunner) -> bool:
    """Whether the runner's program is on PATH, or it needs none."""
    return isinstance(runner, EndpointRunner) or not runner.program or shutil.which(runner.program) is not None


MAX_AGENTS = 64
"""How many runs of agents one engine has at a time."""
LOOK_AGAIN_MS = 5_000


class RunnersHere:
    """What this machine has of runners: `runner:NAME` of those whose program is on PATH, looked up again every few
    seconds."""

    def __init__(self, runners: Mapping[str, AnyRunner], clock: Clock) -> None:
        self._runners = runners
        self._clock = clock
        self._offers: frozenset[str] = frozenset()
        self._look_again_at = 0

    def offers(self) -> frozenset[str]:
        boot = self._clock.boot_ms()
        if boot >= self._look_again_at:
            self._look_again_at = boot + LOOK_AGAIN_MS
            here = [f"runner:{name}" for name, runner in self._runners.items() if has_program(runner)]
            if len(here) != len(self._offers) or not self._offers.issuperset(here):
                self._offers = frozenset(here)
        return self._offers


def find_program(program: str, path: str | None, folder: str) -> str:
    """Where the program is: on PATH, or a path from the folder of the run."""
    named = str(Path(folder, from_home(program))) if "/" in program else program
    found = shutil.which(named, path=path)
    if found is None:
        hint = "Install it, or give its full path."
        raise MissingHere(f'"{program}" is not on PATH.', value=program, field="runner", hint=hint)
    return found


_PROMPT = "Is anything in the way?"


class AgentProblem(NamedTuple):
    message: str
    fix: str


def agent_problems(
    agent: Agent,
    runners: Mapping[str, AnyRunner],
    *,
    workdir: str = ".",
    allowed_hosts: Collection[str] = (),
    prices: Mapping[str, Price] | None = None,
    isolation: Isolation | None = None,
) -> list[AgentProblem]:
    """All problems of the agent. `workdir` is for agents without one. With `prices`, the cost limit is checked too;
    with `isolation`, whether its runs may start in its folder."""
    try:
        runner = known_runner(agent, runners)
    except InvalidInput as error:
        return [agent_problem(error, agent)]
    folder = folder_of(agent, workdir)
    is_made = os.path.exists(folder)  # noqa: PTH110 - also where it cannot be looked for
    checks = list(_references(agent))
    if not is_own_folder(agent) or is_made:
        checks.insert(0, lambda: check_workdir(folder))
    else:
        checks.insert(0, lambda: check_own_folder(agent.name, workdir))
    if isolation is not None and not isinstance(runner, EndpointRunner):
        checks.insert(0, lambda: _check_startable(agent, folder, isolation, is_made=is_made))
    if agent.user is not None:
        checks.append(lambda: account_of(agent))
    if agent.url is not None:
        checks.append(lambda: check_url(agent.url or "", allowed_hosts))
    if not runs_only_commands(agent):
        checks.append(lambda: _check_call(agent, runner, folder, tuple(allowed_hosts)))
    if prices is not None:
        checks.append(lambda: _check_max_cost(agent, runner, prices))
    problems = [error for check in checks if (error := raised_by(check)) is not None]
    return list(dict.fromkeys(agent_problem(error, agent) for error in problems))


def raised_by(check: Callable[[], object]) -> MatinsError | None:
    try:
        check()
    except MatinsError as error:
        return error
    return None


def agent_problem(error: MatinsError, agent: Agent) -> AgentProblem:
    """The problem, with the command that helps where the error has settings as an example."""
    if isinstance(error.hint, Example):
        return AgentProblem(error.message, edit_command(agent, error.hint.settings))
    return AgentProblem(error.message, error.hint or f"Change the agent. To see it: matins agents show {_name(agent)}")


def edit_command(agent: Agent, settings: Mapping[str, Any]) -> str:
    """The command that sets these. Variables are added to those of the agent, which the setting would replace."""
    given = dict(settings)
    if "environment" in given:
        if any(not text.startswith(("env:", "file:")) for _, text in agent.environment):  # a secret may be among them
            pairs = cast("Mapping[str, str]", given["environment"]).items()
            return f"Add to its environment: {', '.join(f'{name}: {text}' for name, text in pairs)}"
        given["environment"] = {**dict(agent.environment), **given["environment"]}
    options = " ".join(f"--{name.replace('_', '-')} {shlex.quote(_text(value))}" for name, value in given.items())
    return f"matins agents edit {_name(agent)} {options}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _name(agent: Agent) -> str:
    return shlex.quote(agent.name)


def agent_doubts(agent: Agent, runner: AnyRunner | None) -> list[AgentProblem]:
    """What may keep the agent's tool from being of use: no key and no login, or no permission."""
    needs, found = needs_of(runner), list[AgentProblem]()
    if needs is None:
        return found
    if agent.user is None and credential_of(agent, needs) is None:
        key = needs.keys[0]
        give = edit_command(agent, {"environment": {key: f"env:{key}"}})
        missing = f"{agent.runner} finds no login and none of {', '.join(needs.keys)} in the environment of its runs."
        found.append(AgentProblem(missing, f"Log in ({needs.login}), or put {key} into the environment of the daemon "
                                           f"(systemd: EnvironmentFile=) and run: {give}"))  # fmt: skip
    permission = needs.permission
    if permission is None:
        return found
    if is_root(agent) and agent.permission_mode in permission.never_as_root:
        fix = f"Run Matins as an ordinary user, or: {new_account(agent)}"
        found.append(AgentProblem(f"As root, {agent.runner} refuses the mode {agent.permission_mode}.", fix))
    if permission.asks and agent.permission_mode is None and not agent.tools:
        waits = f"{agent.runner} waits for a permission before it changes anything"
        fix = f"{edit_command(agent, {'permission_mode': permission.mode})} # {permission.risk}"
        found.append(AgentProblem(f"{waits}, and in a run there is no person to give it.", fix))
    return found


def credential_of(agent: Agent, needs: Needs) -> str | None:
    """The key or the file of the login that runs of the agent find now."""
    values = environment_of(_resolvable(agent), {}, ()).values
    return needs.credential(values, values)


def _check_startable(agent: Agent, folder: str, isolation: Isolation, *, is_made: bool) -> None:
    """Raise InvalidInput, with the command that helps, for a folder in which a run of the agent is refused."""
    if not is_made and is_own_folder(agent):
        isolation.check(agent)  # its run makes the folder, and may start there
        return
    try:
        check_isolation(isolation, agent, folder)
    except InvalidInput as error:
        if error.field == "workdir":
            error.hint = f"matins agents edit {_name(agent)} --unset workdir"
        raise


def _references(agent: Agent) -> Iterator[Callable[[], object]]:
    for name, text in agent.environment:
        yield lambda name=name, text=text: resolve(text, name)


def _resolvable(agent: Agent) -> list[tuple[str, str]]:
    return [pair for pair, check in zip(agent.environment, _references(agent), strict=True) if raised_by(check) is None]


def _check_call(agent: Agent, runner: AnyRunner, folder: str, allowed_hosts: tuple[str, ...]) -> None:
    """Check the call as a run would make it, with the variables that resolve now."""
    resolvable = _resolvable(agent)
    environment = environment_of(resolvable, {}, ())
    call = agent_call(agent, _PROMPT, folder, allowed_hosts)
    call = replace(call, environment=environment.values, secrets=environment.secrets)
    if call.effort is not None:
        check_effort(runner, call.effort)
    runner.check(call)
    if not isinstance(runner, EndpointRunner):
        command = runner.command(call)
        path = environment_of(resolvable, command.env_add, command.env_remove).values.get("PATH")
        find_program(command.argv[0], path, folder)


def _check_max_cost(agent: Agent, runner: AnyRunner, prices: Mapping[str, Price]) -> None:
    """The cost of a run must be known: reported by the tool, or from tokens and their price."""
    reports: Collection[str] = getattr(runner, "reports", ("money",))
    if agent.max_cost is None or "money" in reports:
        return
    reason, fix = None, "Omit it."
    if "tokens" not in reports:
        reason = f"{runner.name} does not report what it spends"
    elif agent.model is not None and price_of(agent.model, prices) is None:
        reason = f'{runner.name} reports only tokens, and "{agent.model}" has no price'
        fix = f"Set its prices, for a million tokens: matins prices set {shlex.quote(agent.model)} --input 1 --output 5"
    elif agent.model is None and "model" not in reports:
        reason, fix = f"{runner.name} reports only tokens, without the model", Example({"model": "gpt-5"})
    if reason is not None:
        raise InvalidInput(f'"max_cost" cannot be enforced: {reason}.', field="max_cost", hint=fix)


_KEY = "0"
"""The key that checks have instead of that of a run."""


class Surroundings(NamedTuple):
    """What runs find on this machine."""

    policies: Policies
    runners: Mapping[str, AnyRunner]
    jobs: JobRegistry
    workdir: str
    now: int

    def folder(self, agent: Agent | None) -> str:
        return self.workdir if agent is None else folder_of(agent, self.workdir)


def command_notes(
    definition: ScheduleDefinition, agent: str, policies: Policies, isolation: Isolation | None, *, by_owner: bool
) -> list[str]:
    """Who runs the commands of a new schedule and where, and whose exit code decides. A sentence is said once."""
    found: dict[str, None] = {}
    for part, name in parts_of(definition, agent):
        if part.command is None:
            continue
        woken = as_scheduled(policies.agents.get(name, SHELL_AGENT), part)
        walls = woken.isolation != "none" if isolation is None else isolation.refusal(woken) is None
        who = woken.user or ("you" if by_owner else pwd.getpwuid(os.getuid()).pw_name)
        what = "Its commands run" if definition.steps else "It runs"
        place = woken.workdir or own_folder(woken.name)
        found[f"{what} as {who} in {place}, {'isolated' if walls else NOT_ISOLATED}."] = None
        if (note := exit_code_note(part.command)) is not None:
            found[note] = None
    return list(found)


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
    if converses(part) and agent is not None and runs_only_commands(agent):
        yield lambda: _check_call(agent, here.runners[agent.runner], here.folder(agent), ())
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
        yield lambda: check(parse_inputs(job, with_defaults(part.inputs, part.payload), ParseContext(here.now)), folder)


def _check_errand(part: ScheduleDefinition, job: JobType, agent: Agent, here: Surroundings) -> None:
    if job.errand is not None:
        inputs = parse_inputs(job, with_defaults(part.inputs, part.payload), ParseContext(here.now))
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
