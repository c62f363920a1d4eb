"""Agents that are created together with their first schedule."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

from matins.engine.jobs import AGENT_JOB, SHELL
from matins.engine.schedules import SETTINGS
from matins.engine.settings import own_names
from matins.engine.validation import items_of
from matins.errors import InvalidInput, NotFound
from matins.executors import isolation
from matins.executors.agent_checks import AgentProblem, agent_doubts, agent_problems, needs_of
from matins.executors.registry import runners
from matins.model.access import Principal
from matins.model.agent import Agent
from matins.model.settings import Records
from matins.records.agents import AGENTS
from matins.records.kind import RecordContext
from matins.runtime.agent_folders import is_own_folder, own_folder
from matins.service.core import Core
from matins.service.permissions import check_granted
from matins.service.record_changes import RecordChanges
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class NewAgents:
    core: Core
    changes: RecordChanges

    def prepare(
        self, principal: Principal, name: str, settings: Mapping[str, Any], given: Mapping[str, Any] | None = None
    ) -> list[Agent]:
        """The agents to create: those of the schedule and its steps that do not exist. `given` has settings of the
        schedule's own."""
        policies = self.core.policies()
        found: list[Agent] = []
        for one in self._woken(name, settings):
            if one in policies.agents:
                continue
            own: Mapping[str, str] = _checked(given or {}) if one == name else {}
            runner = own.get("runner") or one
            if runner not in runners():
                hint = _hint(one, policies.agents)
                raise NotFound(f'There is no agent "{one}".', value=one, field="agent", hint=hint)
            check_granted(principal, "govern", "create agents")
            found.append(
                Agent(
                    one,
                    runner=runner,
                    workdir=own.get("workdir") or own_folder(one),
                    permission_mode=own.get("permission_mode"),
                    user=own.get("user"),
                    isolation="none" if own.get("isolation") == "none" else "auto",
                    environment=_environment(runner),
                )
            )
        return found

    def _woken(self, name: str, settings: Mapping[str, Any]) -> list[str]:
        """The names of the agents that these settings wake. That of commands is made with the first one."""
        kind, steps = cast("Records", SETTINGS["steps"].kind), items_of(settings.get("steps"))
        given = [cast("Mapping[str, Any]", step) for step in steps if isinstance(step, Mapping)]
        named = [own_names(kind, f"Step {number}", step) for number, step in enumerate(given, 1)]
        listed = named if steps else [settings]
        listed = [step for step in listed if step.get("command") is None or step.get("agent") not in ("", None, SHELL)]
        names = [step.get("agent") or name for step in listed if self._wakes_agent(step.get("job"))]
        return [one for one in dict.fromkeys(names) if one and isinstance(one, str)]

    def _wakes_agent(self, job: str | None) -> bool:
        found = self.core.jobs.registry.get(job or AGENT_JOB)
        return found is not None and (found.prompt is not None or found.name == AGENT_JOB)

    def create(self, transaction: Transaction, principal: Principal, agent: Agent, now: int) -> list[str]:
        """Create the agent. Returns notes for the caller."""
        transaction.lock_policies()
        if agent.name in self.core.catalog.policies(transaction).agents:
            return []
        new = f"matins agents set {shlex.quote(agent.name)} --runner {agent.runner}"
        isolation.check_account(agent, f"useradd -m robin && {new} --user robin; or {new} --isolation none")
        value = AGENTS.complete(agent, RecordContext(now, "UTC", {}))
        self.changes.set(transaction, principal, AGENTS, agent.name, value, now)
        return self._notes(agent)

    def _notes(self, agent: Agent) -> list[str]:
        """What was created, and what it lacks."""
        change = f"matins agents edit {shlex.quote(agent.name)} --workdir DIR"
        own = is_own_folder(agent)
        place = f"in its own directory ({own_folder(agent.name)})" if own else f"in {agent.workdir}"
        notes = [f'Created the agent "{agent.name}" with the runner {agent.runner}.']
        notes.append(f"It works {place}. To change that: {change}")
        if agent.environment:
            names = ", ".join(name for name, _ in agent.environment)
            notes.append(f"Its runs get {names} from the environment of the daemon.")
        runner = runners()[agent.runner]
        problems = agent_problems(
            agent, runners(), workdir=self.core.workdir or ".", isolation=self.core.local.isolation
        )
        needs = needs_of(runner)
        if needs is not None and shutil.which(getattr(runner, "program", "")) is None:
            problems = [AgentProblem(f"{agent.runner} is not installed here.", f"Install it: {needs.install}")]
        return notes + [f"{one.message} {one.fix}" for one in (*problems, *agent_doubts(agent, runner))]


_SETTINGS = ("runner", "workdir", "permission_mode", "user", "isolation")


def _checked(given: Mapping[str, Any]) -> Mapping[str, str]:
    for name, value in given.items():
        if name not in _SETTINGS or not isinstance(value, str):
            known = ", ".join(_SETTINGS)
            raise InvalidInput(f'A new agent has no "{name}".', value=value, field="new_agent", hint=f"Known: {known}.")
    return given


def _environment(runner: str) -> tuple[tuple[str, str], ...]:
    """References to the variables that the tool needs, and that the environment here has."""
    needs = needs_of(runners()[runner])
    wanted = () if needs is None else needs.wanted()
    return tuple((name, f"env:{name}") for name in wanted if os.environ.get(name))


def _hint(name: str, known: Mapping[str, Agent]) -> str:
    close = get_close_matches(name, [*known, *runners()], n=1)
    new = f"matins agents set {shlex.quote(name)} --runner claude"
    return f'Did you mean "{close[0]}"? To create "{name}": {new}' if close else f"Create it: {new}"
