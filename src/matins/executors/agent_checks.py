"""Problems that would keep an agent from running, found in advance. Nothing is started or spent."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

from matins.engine.prices import Price, price_of
from matins.errors import Example, InvalidInput, MatinsError
from matins.executors.agent_tools import needs_of
from matins.executors.isolation import Isolation, account_of, is_root, new_account
from matins.executors.runners.needs import Needs, Permission
from matins.executors.runners.protocol import AnyRunner, EndpointRunner
from matins.executors.secrets import environment_of, resolve
from matins.executors.start_checks import agent_call, check_isolation, check_workdir, find_program, known_runner
from matins.model.agent import Agent
from matins.net.outbound import check_url
from matins.runtime.agent_folders import check_own_folder, folder_of, is_own_folder

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
    if needs.permission is not None:
        found += _permission_doubts(agent, needs.permission)
    return found


def _permission_doubts(agent: Agent, permission: Permission) -> Iterator[AgentProblem]:
    if is_root(agent) and agent.permission_mode in permission.never_as_root:
        fix = f"Run Matins as an ordinary user, or: {new_account(agent)}"
        yield AgentProblem(f"As root, {agent.runner} refuses the mode {agent.permission_mode}.", fix)
    if permission.asks and agent.permission_mode is None and not agent.tools:
        waits = f"{agent.runner} waits for a permission before it changes anything"
        yield AgentProblem(
            f"{waits}, and in a run there is no person to give it.",
            f"{edit_command(agent, {'permission_mode': permission.mode})} # {permission.risk}",
        )


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
