"""Placement: a run that needs a job or a runner goes only to an engine that has it.

A set of needs is a row of `places`, and a run carries its number; 0 is anywhere. Needs are matched here, over a small
table, so that statements see numbers only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from matins.engine.jobs import job_needs, wakes_agent
from matins.engine.policies import Policies
from matins.model.schedule import ScheduleDefinition
from matins.runtime.catalog import CompiledSchedule
from matins.store.transaction import Transaction

ANYWHERE = 0
TROUBLE = "trouble:"
"""Among the offers of an engine: why its machine cannot start agents now."""
NO_FOLDER = "no_folder:"
"""Among the offers of an engine: a folder of an agent that its machine does not have."""
MAX_PLACES = 8
"""How many places one statement reads. With more, only those are read in which a run is ready."""
Needs = frozenset[str]
_NOTHING: Needs = frozenset()
_NAMED = {"runner": "tool"}


def needs_of(definition: ScheduleDefinition, agent: str, policies: Policies) -> Needs:
    """What a run of these settings needs: `job:report`, `runner:claude`."""
    return with_runner(job_needs(definition), agent if wakes_agent(definition) else None, policies)


def with_runner(needs: Needs, agent: str | None, policies: Policies) -> Needs:
    """The needs, with the runner of the agent. An agent with a PATH of its own says where its program is."""
    found = None if agent is None else policies.agents.get(agent)
    if found is None or any(name == "PATH" for name, _ in found.environment):
        return needs
    return needs | {f"runner:{found.runner}"}


def needs_text(needs: Needs) -> str:
    return json.dumps(sorted(needs))


class Placement:
    """The places of a store, and those whose runs this engine can do."""

    def __init__(self) -> None:
        self._needs: dict[int, Needs] = {}
        self._numbers: dict[Needs, int] = {}
        self._offers: Needs = _NOTHING
        self.mine: frozenset[int] = frozenset([ANYWHERE])
        self._turn = 0

    def clear(self) -> None:
        """Forget the places after a rollback."""
        self._needs, self._numbers = {}, {}

    def renew(self, transaction: Transaction, offers: Needs) -> None:
        """Read the places if there are new ones. Those that this engine can do are no longer reported as missing."""
        if transaction.count_places() == len(self._needs) and offers == self._offers:
            return
        self._needs = {row.id: frozenset(json.loads(row.needs)) for row in transaction.places()}
        self._numbers = {needs: number for number, needs in self._needs.items()}
        self._offers = offers
        served = [number for number, needs in self._needs.items() if needs <= offers]
        self.mine = frozenset([ANYWHERE, *served])
        transaction.clear_reports(served)

    def place(self, transaction: Transaction, item: CompiledSchedule, policies: Policies) -> int:
        """The place of a new run. A new set of needs gets a number."""
        if item.steps:  # each step has a place of its own
            return ANYWHERE
        needs = with_runner(item.needs, item.agent, policies) if item.wakes_agent else item.needs
        if not needs:
            return ANYWHERE
        found = self._numbers.get(needs)
        if found is None:
            found = self._numbers[needs] = transaction.place(needs_text(needs))
            self._needs[found] = needs
            if needs <= self._offers:
                self.mine |= {found}
        return found

    def batch(self, transaction: Transaction) -> list[int]:
        """The places to read now: all of this engine's, or some of those in which a run is ready, in turn."""
        if len(self.mine) <= MAX_PLACES:
            return sorted(self.mine)
        waiting = [row.place for row in transaction.ready_places() if row.place in self.mine]
        self._turn += MAX_PLACES
        start = self._turn % max(1, len(waiting))
        return (waiting[start:] + waiting[:start])[:MAX_PLACES]


def unserved(needs: Needs, engines: Iterable[str]) -> Needs | None:
    """What is missing, where no engine has all of the needs: what the best of them lacks. None if one has all."""
    lacks = [needs - frozenset(json.loads(offers)) for offers in engines]
    return min(lacks, key=len) if lacks and all(lacks) else None


def trouble_of(offers: Iterable[str]) -> str | None:
    """Why the machine of an engine with these offers cannot start agents now; None if it can."""
    return next((offer.removeprefix(TROUBLE) for offer in offers if offer.startswith(TROUBLE)), None)


def needs_sentence(needs: Needs) -> str:
    """`the job "report" and the tool "claude"`. An engine has a runner where its program is on PATH."""
    parts = [
        f'the {_NAMED.get(kind, kind)} "{name}"' for kind, _, name in (need.partition(":") for need in sorted(needs))
    ]
    return " and ".join(parts)
