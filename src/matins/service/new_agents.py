"""Agents that are created together with their first schedule."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

from matins.engine.jobs import AGENT_JOB
from matins.errors import NotFound
from matins.executors.registry import runners
from matins.model.access import Principal
from matins.model.agent import Agent
from matins.ports import Transaction
from matins.records.agents import AGENTS
from matins.records.kind import RecordContext
from matins.runtime.agent_folders import own_folder
from matins.service.core import Core
from matins.service.permissions import check_granted
from matins.service.record_changes import RecordChanges


@dataclass(frozen=True)
class NewAgents:
    core: Core
    changes: RecordChanges

    def prepare(self, principal: Principal, name: str, settings: Mapping[str, Any]) -> list[Agent]:
        """The agents to create: those of the schedule and its steps that do not exist."""
        policies = self.core.policies()
        found: list[Agent] = []
        for one in self._woken(name, settings):
            if one in policies.agents:
                continue
            if one not in runners():
                hint = _hint(one, policies.agents)
                raise NotFound(f'There is no agent "{one}".', value=one, field="agent", hint=hint)
            check_granted(principal, "govern", "create agents")
            found.append(Agent(one, runner=one, workdir=own_folder(one)))
        return found

    def _woken(self, name: str, settings: Mapping[str, Any]) -> list[str]:
        """The names of the agents that these settings wake."""
        steps: list[Any] = settings.get("steps") or [settings]
        listed = [cast("Mapping[str, Any]", step) for step in steps if isinstance(step, Mapping)]
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
        value = AGENTS.complete(agent, RecordContext(now, "UTC", {}))
        self.changes.set(transaction, principal, AGENTS, agent.name, value, now)
        created = f'Created the agent "{agent.name}" with the runner {agent.runner}.'
        change = f"matins agents edit {shlex.quote(agent.name)} --workdir DIR"
        return [created, f"It works in its own directory ({own_folder(agent.name)}). To change that: {change}"]


def _hint(name: str, known: Mapping[str, Agent]) -> str:
    close = get_close_matches(name, [*known, *runners()], n=1)
    new = f"matins agents set {shlex.quote(name)} --runner claude"
    return f'Did you mean "{close[0]}"? To create it: {new}' if close else f"Create it: {new}"
