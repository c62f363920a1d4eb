"""Agents that the schedules of a file wake, and that do not exist: Cortex's file names profiles, and has none."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from matins.engine.jobs import wakes_agent
from matins.engine.policies import Policies
from matins.engine.steps import parts_of
from matins.service.file.plan import find_schedule
from matins.store.transaction import Transaction

_NAMED = 5


class MissingAgent(NamedTuple):
    name: str
    schedules: Sequence[str]

    @property
    def sentence(self) -> str:
        names, more = ", ".join(self.schedules[:_NAMED]), len(self.schedules) - _NAMED
        whose = f"{names} and {more} more" if more > 0 else names
        return f'There is no agent "{self.name}", so runs of {whose} are skipped'

    @property
    def fix(self) -> str:
        return f"matins agents set {shlex.quote(self.name)} --runner claude"


def missing_agents(transaction: Transaction, policies: Policies) -> list[MissingAgent]:
    """The agents of active schedules of files that do not exist."""
    found: dict[str, list[str]] = {}
    for entry in transaction.file_entries():
        if entry.kind != "schedule" or entry.name.partition("/")[0] in policies.agents:
            continue
        schedule = find_schedule(transaction, entry.name)
        if schedule is not None and schedule.state == "active":
            for part, agent in parts_of(schedule.definition, schedule.agent):
                if wakes_agent(part) and agent not in policies.agents:
                    found.setdefault(agent, []).append(schedule.name)
    return [MissingAgent(name, schedules) for name, schedules in sorted(found.items())]
