"""Agents that are created together with their first schedule."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

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

    def prepare(self, principal: Principal, name: str, settings: Mapping[str, Any]) -> Agent | None:
        """The agent to create; None if it exists, or the schedule needs no agent."""
        policies = self.core.policies()
        job = self.core.jobs.registry.get(settings.get("job") or AGENT_JOB)
        is_function = job is None or (job.prompt is None and job.name != AGENT_JOB)
        if not name or is_function or name in policies.agents:
            return None
        if name not in runners():
            raise NotFound(f'There is no agent "{name}".', value=name, field="agent", hint=_hint(name, policies.agents))
        check_granted(principal, "govern", "create agents")
        return Agent(name, runner=name, workdir=own_folder(name))

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
