"""Problems that would keep an agent from running, found in advance. Nothing is started or spent."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from matins.engine.prices import Price, price_of
from matins.errors import Example, InvalidInput
from matins.executors.agent_tools import needs_of
from matins.executors.isolation import Isolation, account_of, is_root
from matins.executors.preparation import check_workdir, find_program
from matins.executors.runners.needs import Needs, Permission
from matins.executors.runners.protocol import AnyRunner, Call, EndpointRunner
from matins.executors.secrets import environment_of, resolve
from matins.model.agent import Agent
from matins.net.outbound import check_url
from matins.runtime.agent_folders import folder_of, is_own_folder

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
    runner = runners.get(agent.runner)
    if runner is None:
        return [AgentProblem(f'There is no runner "{agent.runner}".', f"Known: {', '.join(sorted(runners))}.")]
    folder = folder_of(agent, workdir)
    checks = list(_references(agent))
    if not is_own_folder(agent) or Path(folder).exists():
        checks.insert(0, lambda: check_workdir(folder))
        if isolation is not None and not isinstance(runner, EndpointRunner):
            checks.insert(0, lambda: _check_startable(agent, folder, isolation))
    if agent.user is not None:
        checks.append(lambda: account_of(agent))
    if agent.url is not None:
        checks.append(lambda: check_url(agent.url or "", allowed_hosts))
    checks.append(lambda: _check_call(agent, runner, folder, tuple(allowed_hosts)))
    if prices is not None:
        checks.append(lambda: _check_max_cost(agent, runner, prices))
    problems = [problem for check in checks if (problem := _problem(check)) is not None]
    return list(dict.fromkeys(problems))


def agent_doubts(agent: Agent, runner: AnyRunner | None) -> list[AgentProblem]:
    """What may keep the agent's tool from being of use: no key and no login, or no permission."""
    needs, found = needs_of(runner), list[AgentProblem]()
    if needs is None:
        return found
    if agent.user is None and credential_of(agent, needs) is None:
        key = needs.keys[0]
        give = f'matins agents edit {shlex.quote(agent.name)} --environment \'{{"{key}": "env:{key}"}}\''
        missing = f"{agent.runner} finds no login and none of {', '.join(needs.keys)} in the environment of its runs."
        found.append(AgentProblem(missing, f"Log in ({needs.login}), or put {key} into the environment of the daemon "
                                           f"(systemd: EnvironmentFile=) and run: {give}"))  # fmt: skip
    if needs.permission is not None:
        found += _permission_doubts(agent, needs.permission)
    return found


def _permission_doubts(agent: Agent, permission: Permission) -> Iterator[AgentProblem]:
    edit = f"matins agents edit {shlex.quote(agent.name)}"
    if is_root(agent) and agent.permission_mode in permission.never_as_root:
        fix = f"Run Matins as an ordinary user, or: {edit} --user ACCOUNT"
        yield AgentProblem(f"As root, {agent.runner} refuses the mode {agent.permission_mode}.", fix)
    if permission.asks and agent.permission_mode is None and not agent.tools:
        waits = f"{agent.runner} waits for a permission before it changes anything"
        yield AgentProblem(
            f"{waits}, and in a run there is no person to give it.",
            f"{edit} --permission-mode {permission.mode} ({permission.risk})",
        )


def credential_of(agent: Agent, needs: Needs) -> str | None:
    """The key or the file of the login that runs of the agent find now."""
    values = environment_of(_resolvable(agent), {}, ()).values
    return needs.credential(values, values)


def _check_startable(agent: Agent, folder: str, isolation: Isolation) -> None:
    """Raise InvalidInput, with the command that helps, for a folder in which a run of the agent is refused."""
    try:
        isolation.check_workdir(agent, folder, isolated=isolation.refusal(agent) is None)
    except InvalidInput as error:
        error.hint = f"matins agents edit {shlex.quote(agent.name)} --unset workdir"
        raise


def _references(agent: Agent) -> Iterator[Callable[[], object]]:
    for name, text in agent.environment:
        yield lambda name=name, text=text: resolve(text, name)


def _resolvable(agent: Agent) -> list[tuple[str, str]]:
    return [pair for pair, check in zip(agent.environment, _references(agent), strict=True) if _problem(check) is None]


def _check_call(agent: Agent, runner: AnyRunner, folder: str, allowed_hosts: tuple[str, ...]) -> None:
    """Check the call as a run would make it, with the variables that resolve now."""
    resolvable = _resolvable(agent)
    environment = environment_of(resolvable, {}, ())
    call = Call(
        _PROMPT,
        folder,
        agent.model,
        permission_mode=agent.permission_mode,
        allowed_tools=agent.tools,
        max_turns=agent.max_turns,
        extra_args=agent.command + agent.arguments,
        options=agent.options,
        url=agent.url,
        allowed_hosts=allowed_hosts,
        environment=environment.values,
        secrets=environment.secrets,
    )
    runner.check(call)
    if not isinstance(runner, EndpointRunner):
        command = runner.command(call)
        find_program(
            command.argv[0], environment_of(resolvable, command.env_add, command.env_remove).values.get("PATH")
        )


def _check_max_cost(agent: Agent, runner: AnyRunner, prices: Mapping[str, Price]) -> None:
    """The cost of a run must be known: reported by the tool, or from tokens and their price."""
    reports: Collection[str] = getattr(runner, "reports", ("money",))
    if agent.max_cost is None or "money" in reports:
        return
    reason, fix = None, f"Set its price: matins prices set {agent.model}."
    if "tokens" not in reports:
        reason, fix = f"{runner.name} does not report what it spends", "Omit it."
    elif agent.model is not None and price_of(agent.model, prices) is None:
        reason = f'{runner.name} reports only tokens, and "{agent.model}" has no price'
    elif agent.model is None and "model" not in reports:
        reason, fix = f"{runner.name} reports only tokens, without the model", Example({"model": "gpt-5"})
    if reason is not None:
        raise InvalidInput(f'"max_cost" cannot be enforced: {reason}.', field="max_cost", hint=fix)


def _problem(check: Callable[[], object]) -> AgentProblem | None:
    try:
        check()
    except InvalidInput as error:
        return AgentProblem(error.message, error.hint or error.allowed or "Change the agent: matins agents edit.")
    return None
