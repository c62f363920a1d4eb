"""How much may run, and where.

`Capacity`: free slots of this process, and permits of limited scopes.

`Placement`: a run goes only to an engine that has its job or runner. A set of needs is a row of `places`; a run carries
its number, and 0 is anywhere. So statements compare numbers only.

`MissingEngines`: runs whose needs no running engine has are reported, or fail if their schedule says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from matins.engine.jobs import JOB_NEED, SHELL, job_needs, wakes_agent
from matins.engine.policies import Policies
from matins.engine.transitions import FAIL_UNSTARTED
from matins.model.rows import NewEvent, ScopeRow, StartedRun
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.run_changes import RunChange, apply
from matins.store import Store
from matins.store.transaction import Transaction


class Capacity:
    """The free capacity in one turn. Permits are a forecast; they are taken when a run is claimed."""

    bounded = False
    """Whether each run counts for jobs and agents together."""

    def __init__(self, jobs: int, limits: Iterable[ScopeRow] = (), agents: int | None = None) -> None:
        self.jobs = jobs
        """Capacity for jobs. Agents have their own capacity, so neither blocks the other."""
        self.agents = jobs if agents is None else agents
        self._permits = {row.scope: row.size - row.in_use for row in limits}
        self.limited = frozenset(self._permits)
        self._reserved: Counter[str] = Counter()

    @property
    def maximum(self) -> int:
        return max(self.jobs, self.agents)

    @property
    def only_one_kind(self) -> bool:
        """Whether there is capacity for only one kind."""
        return (self.jobs <= 0) != (self.agents <= 0)

    def available(self, item: CompiledSchedule) -> int:
        return self.agents if item.wakes_agent else self.jobs

    def take(self, item: CompiledSchedule) -> None:
        if item.wakes_agent:
            self.agents -= 1
        else:
            self.jobs -= 1

    def is_full_for(self, item: CompiledSchedule) -> bool:
        """Whether there is no capacity for a run of this schedule now."""
        available = self.agents if item.wakes_agent else self.jobs
        if not self.limited or available <= 0:
            return available <= 0
        promised = self._reserved
        return any(self._permits[scope] <= promised[scope] for scope in self.limited & item.scopes)

    def reserve(self, item: CompiledSchedule) -> None:
        """Count the permits of a planned run as used, for the next runs of this turn."""
        self._reserved.update(self.limited & item.scopes)

    def take_unlimited(self, item: CompiledSchedule) -> bool:
        """Take capacity for a run that needs no permit."""
        available = self.agents if item.wakes_agent else self.jobs
        if available <= 0 or not self.limited.isdisjoint(item.scopes):
            return False
        self.take(item)
        return True

    def permits_left(self, scope: str) -> int:
        """The free permits of a scope. Negative after a limit was lowered, until enough runs have ended."""
        return self._permits[scope]

    def may_take_permits(self, item: CompiledSchedule) -> bool:
        """Whether each limited scope of this schedule seems to have a free permit."""
        return all(self._permits[scope] > 0 for scope in self.limited & item.scopes)

    def take_permits(self, item: CompiledSchedule) -> None:
        for scope in self.limited & item.scopes:
            self._permits[scope] -= 1

    def exhausted(self) -> list[str]:
        return [scope for scope, left in self._permits.items() if left <= 0]

    def mark_exhausted(self, scope: str) -> None:
        """Record that another worker took the last permit."""
        self._permits[scope] = 0


class BoundedCapacity(Capacity):
    """The capacity of a node that has at most `left` more runs, of both kinds together."""

    bounded = True

    def __init__(self, jobs: int, limits: Iterable[ScopeRow], agents: int, left: int) -> None:
        super().__init__(min(jobs, left), limits, min(agents, left))
        self._left = left

    def take(self, item: CompiledSchedule) -> None:
        super().take(item)
        self._left -= 1
        self.jobs, self.agents = min(self.jobs, self._left), min(self.agents, self._left)


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
    needs = job_needs(definition)
    return with_runner(needs, agent, definition, policies) if wakes_agent(definition) else needs


def with_runner(needs: Needs, agent: str, definition: ScheduleDefinition, policies: Policies) -> Needs:
    """The needs, with the runner of the agent. An agent with a PATH of its own says where its program is."""
    found = policies.agents.get(agent)
    if definition.command is not None:
        return needs | {f"runner:{SHELL}"}
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

    def renew(self, transaction: Transaction, count: int, offers: Needs) -> None:
        """Read the places if there are new ones. Those that this engine can do are no longer reported as missing."""
        if count == len(self._needs) and offers == self._offers:
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
        needs = item.needs
        if item.wakes_agent:
            needs = with_runner(needs, item.agent, item.definition, policies)
        if not needs:
            return ANYWHERE
        found = self._numbers.get(needs)
        if found is None:
            found = self._numbers[needs] = transaction.place(needs_text(needs))
            self._needs[found] = needs
            if needs <= self._offers:
                self.mine |= {found}
        return found

    @property
    def reads_all(self) -> bool:
        """Whether a batch has all places of this engine."""
        return len(self.mine) <= MAX_PLACES

    def batch(self, transaction: Transaction) -> list[int]:
        """The places to read now: all of this engine's, or some of those in which a run is ready, in turn."""
        if self.reads_all:
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


_REPORT_AFTER_MS, _LOOK_MS = 60_000, 10_000
_PAGE = 500
"""How many runs of a place one look reads. The next look goes on from there."""


class MissingEngines:
    """Reports each set of needs once. A run fails after the time that an engine has to come back: the lease."""

    def __init__(self, store: Store, catalog: Catalog, placement: Placement, lease_ms: int) -> None:
        self._store = store
        self._catalog = catalog
        self._placement = placement
        self._lease = lease_ms
        self._next = 0
        self._read: dict[int, int] = {}
        """By place, the last run that was read."""

    def turn(self, now: int, boot: int) -> None:
        if boot >= self._next:
            self._next = boot + _LOOK_MS
            self.look(now)

    def look(self, now: int) -> None:
        patience = min(self._lease, _REPORT_AFTER_MS)
        with self._store.reading() as transaction:
            late = [row for row in transaction.ready_places() if row.not_before <= now - patience]
            places = {row.id: row.needs for row in transaction.places()} if late else {}
        elsewhere = [row for row in late if row.place in places and row.place not in self._placement.mine]
        engines = [engine.offers for engine in self._store.engines(self._lease)] if elsewhere else []
        for row in elsewhere:
            needs = json.loads(places[row.place])
            missing = unserved(frozenset(needs), engines)
            if missing is not None:
                self._fail(row.place, missing, now)
                if row.not_before <= now - _REPORT_AFTER_MS:
                    self._report(row.place, needs, row.not_before, now)

    def _report(self, place: int, needs: list[str], since: int, now: int) -> None:
        with self._store.transaction(now) as transaction:
            if transaction.report_place(place, now):
                transaction.events.append(NewEvent(now, "run.no_engine", None, None, {"needs": needs, "since": since}))

    def _fail(self, place: int, missing: Needs, now: int) -> None:
        """Fail runs of a place whose job is missing, if their schedules say so."""
        if not any(need.startswith(JOB_NEED) for need in missing):
            return
        with self._store.reading() as transaction:
            ids = transaction.ready_in(place, now - self._lease, self._read.get(place, 0), _PAGE)
        self._read[place] = ids[-1] if len(ids) == _PAGE else 0
        if not ids:
            return
        with self._store.transaction(now) as transaction:
            rows = [row for row in transaction.live_runs(ids) if row.state == RunState.READY]
            compiled = self._catalog.compiled(transaction, {row.key for row in rows})
            found = [(row, compiled.get(row.key)) for row in rows]
            changes = [
                _failed(row, item, now)
                for row, item in found
                if isinstance(item, CompiledSchedule) and item.definition.missing_job == "fail"
            ]
            apply(transaction, changes, now)


def _failed(row: StartedRun, item: CompiledSchedule, now: int) -> RunChange:
    evidence = {"job": item.definition.job}
    return RunChange(row.id, row.epoch, row.slot, item, FAIL_UNSTARTED, now, reason="missing_job", evidence=evidence)
