"""New schedules before they are added, with the agents that are created with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from matins.executors.registry import runners
from matins.executors.schedule_checks import Surroundings, job_problems
from matins.model.access import Principal
from matins.model.agent import Agent
from matins.service.drafts import Draft, free_name, name_from_text, subject_of
from matins.service.frequent_wakes import frequent_wakes
from matins.service.new_agents import NewAgents
from matins.service.proposals import Proposals
from matins.store.transaction import Transaction


class Addition(NamedTuple):
    draft: Draft
    agents: list[Agent]
    """The agents to create."""
    subject: str | None
    """The text from which it gets a name; None when it has one."""

    def named(self, transaction: Transaction) -> Draft:
        """The draft, with a name that is free unless one was given."""
        if self.subject is None:
            return self.draft
        return self.draft._replace(name=free_name(transaction, self.draft.agent, self.subject))


@dataclass(frozen=True)
class Additions:
    proposals: Proposals
    agents: NewAgents

    def prepare(
        self, principal: Principal, now: int, given: Mapping[str, Any], *, create_agent: bool,
        new_agent: Mapping[str, Any] | None = None,
    ) -> Addition:  # fmt: skip
        """The checked schedule with these settings. Nothing is written."""
        subject = subject_of(given) if given["name"] is None else None
        if subject is not None:
            given = {**given, "name": name_from_text(subject)}
        made = self.agents.prepare(principal, given["agent"], given, new_agent) if create_agent else []
        (draft,) = self.proposals.drafts(principal, [given], now, [one.name for one in made])
        return Addition(draft, made, subject)

    def notes(self, principal: Principal, addition: Addition, now: int) -> list[str]:
        """What would make its runs fail now, and wakes that cost much. Agents do not read about folders of this
        machine."""
        core, draft = self.proposals.core, addition.draft
        with core.store.reading() as transaction:
            policies = core.catalog.policies(transaction)
            agents = {**policies.agents, **{one.name: one for one in addition.agents}}
            wakes = frequent_wakes(transaction, 0, draft.agent, draft.timetable, agents, now)
        notes = [] if wakes is None else [wakes.note]
        if principal.role == "agent":
            return notes
        workdir = core.workdir or str(Path.cwd())
        here = Surroundings(replace(policies, agents=agents), runners(), core.jobs.registry, workdir, now)
        found = job_problems(draft.timetable.definition, draft.agent, here)
        return notes + [f"{error.message} {error.hint or ''}".strip() for error in found]

    def create_agents(
        self, transaction: Transaction, principal: Principal, agents: Iterable[Agent], now: int
    ) -> list[str]:
        """Create the agents. Returns notes for the caller."""
        return [note for agent in agents for note in self.agents.create(transaction, principal, agent, now)]
