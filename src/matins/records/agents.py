"""Agents, and rules for what they make."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from matins.engine.approvals import ALL_AGENTS, AgentRules
from matins.engine.money import Budget
from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.model.access import Person
from matins.model.agent import Agent
from matins.records.kind import POLICIES, Column, RecordChange, RecordContext, RecordKind, resize
from matins.records.limits import scope_of
from matins.records.people import check_agent_name

if TYPE_CHECKING:
    from matins.engine.policies import Policies


_ACCOUNT = "useradd -m robin, and set user: robin; or set isolation: none"
_SHELL_SIGNS = frozenset(["|", "||", "&&", "&", ";", "<", ">", ">>", "2>&1", "2>"])


def _complete(agent: Agent, context: RecordContext) -> Agent:
    """The agent with its provider. Raises InvalidInput for an unknown runner."""
    from matins.executors import isolation
    from matins.executors.registry import runners
    from matins.executors.runners.endpoints import Kinds, check_options
    from matins.executors.runners.protocol import RunnerRequest

    if agent.runner not in runners():
        known = sorted(runners())
        raise InvalidInput(
            f'There is no runner "{agent.runner}".',
            value=agent.runner,
            field="runner",
            allowed=", ".join(known),
            hint=nearest(agent.runner, known),
        )
    _check_no_shell(agent)
    runner = runners()[agent.runner]
    own = type(runner).__module__.startswith("matins.")
    kinds: Kinds = getattr(runner, "options", {})
    if own or kinds:  # another package's runner that declares none says so when a run is prepared
        check_options(RunnerRequest("", "", options=agent.options), kinds)
    isolation.check_account(agent, _ACCOUNT)
    return replace(agent, provider=agent.provider or default_provider(agent))


def _check_no_shell(agent: Agent) -> None:
    """Raise for a pipe or a redirection that would only be an argument: no shell reads a command."""
    sign = next((word for word in agent.command if word in _SHELL_SIGNS), None)
    if sign is not None:
        line = " ".join(word if word in _SHELL_SIGNS else shlex.quote(word) for word in agent.command)
        hint = f"Start a shell for it: sh -c {shlex.quote(line)}"
        message = f'No shell reads the command: "{sign}" would be an argument.'
        raise InvalidInput(message, value=list(agent.command), field="command", hint=hint)


def default_provider(agent: Agent) -> str:
    from matins.executors.registry import runners
    from matins.executors.runners.endpoints import endpoint_host

    runner = runners().get(agent.runner)
    own = None if runner is None else runner.provider
    return own or endpoint_host(agent.url) or agent.runner


def _as_written(agent: Agent) -> Agent:
    return replace(agent, provider=None) if agent.provider == default_provider(agent) else agent


def _changed(agent: Agent, before: Agent | None, change: RecordChange) -> None:
    check_agent_name(agent, before, change)
    if agent.max_concurrent != (before and before.max_concurrent):
        resize(scope_of(agent.name), agent.max_concurrent or 0, change)
    if before is not None and _placed_by(before) != _placed_by(agent):
        _move_runs(agent, change)


def _placed_by(agent: Agent) -> tuple[object, ...]:
    """What decides which nodes can run it."""
    return agent.runner, agent.runs_on, agent.host, any(name == "PATH" for name, _ in agent.environment)


def _move_runs(agent: Agent, change: RecordChange) -> None:
    """Runs that have not started go to a node that offers what the agent needs now."""
    from matins.engine.placement import NOT_ON, SESSION, needs_of
    from matins.engine.schedules import decode
    from matins.engine.steps import of_step

    transaction = change.transaction
    policies = replace(change.policies, agents={**change.policies.agents, agent.name: agent})
    waiting = transaction.waiting_places(scope_of(agent.name))
    places = {row.id: row.needs for row in transaction.places()} if waiting else {}
    texts = {row[:2]: row.definition for row in transaction.definitions({row[:2] for row in waiting})}
    for row in waiting:
        definition = decode(texts[row[:2]])
        before: list[str] = json.loads(places.get(row.place, "[]"))
        needs = needs_of(of_step(definition, row.step) if row.step else definition, agent.name, policies)
        found = sorted(needs.union(need for need in before if need.startswith((SESSION, NOT_ON))))
        if found != before:
            transaction.move_runs(row, transaction.place(json.dumps(found)))


def _unlimited(agent: Agent, before: Agent | None, change: RecordChange) -> None:
    if agent.max_concurrent is not None:
        resize(scope_of(agent.name), 0, change)


def agent_renamed_in(value: Any, name: str, to: str) -> Any:
    """The record with the new name of an agent wherever it holds one."""
    if isinstance(value, AgentRules):
        return replace(value, agent=to) if value.agent == name else value
    if isinstance(value, Budget):
        return replace(value, of=to) if (value.scope, value.of) == ("agent", name) else value
    if isinstance(value, Person):
        grants = tuple(
            replace(grant, agents=tuple(to if agent == name else agent for agent in grant.agents))
            for grant in value.grants
        )
        return replace(value, grants=grants)
    channels: dict[str, str] = getattr(value, "channels", None) or {}
    if name in channels.values():
        return replace(value, channels={key: to if agent == name else agent for key, agent in channels.items()})
    return value


AGENTS = RecordKind(
    kind="agent",
    noun="agents",
    one="agent",
    value=Agent,
    help="Manage agents.",
    file_help="Who is woken, by name; schedules may be listed below their agent.",
    storage=POLICIES,
    complete=_complete,
    as_written=_as_written,
    changed=_changed,
    deleted=_unlimited,
    example="matins agents set scout --runner claude",
)


def _rules_for(agent: str, policies: Policies) -> AgentRules:
    return policies.rules_for(agent)


AGENT_RULES = RecordKind(
    kind="agent_rules",
    noun="agent_rules",
    one="agent rule set",
    key="agent",
    default_key=ALL_AGENTS,
    value=AgentRules,
    help="Manage what agents may schedule.",
    file_help='What agents may schedule, by name; "*" for all others.',
    storage=POLICIES,
    usual=_rules_for,
    columns=(
        Column("AGENT", "agent"),
        Column("SCHEDULES", "max_schedules", right=True),
        Column("DEPTH", "max_depth", right=True),
        Column("INTERVAL", "min_interval"),
        Column("LIFETIME", "max_lifetime"),
    ),
    example="matins agent-rules set scout --max-schedules 5 --min-interval 10m",
)
