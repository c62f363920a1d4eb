"""How much may run, and where.

`Capacity`: free slots of this process, and permits of limited scopes.

`Placement`: a run goes only to an engine that has its job or runner. A set of needs is a row of `places`; a run carries
its number, and 0 is anywhere. So statements compare numbers only.

`UnservedRuns`: runs that no node can run are reported, or fail.

`turn_away`: a node that lacks what it finds only at the start leaves a run to others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from matins.engine.jobs import JOB_NEED
from matins.engine.placement import NOT_ON, SESSION, Labels, agent_needs, lacking, unserved
from matins.engine.policies import Policies
from matins.engine.transitions import FAIL_UNSTARTED
from matins.model.rows import NewEvent, ScopeRow, StartedRun
from matins.model.run import RunState
from matins.model.selector import LABEL
from matins.runtime.attempt import Attempt
from matins.runtime.catalog import Catalog, CompiledSchedule, SharedSettings
from matins.runtime.run_changes import RunChange, apply, event_type
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

    @property
    def label_exhausted(self) -> bool:
        """Whether runs may be ready that cannot be claimed, by a label that they had when they were made."""
        return any(scope.startswith(LABEL) for scope in self.exhausted())

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
GONE_AFTER_MS = 60_000
"""How long a node may be away, as when it is restarted, before the conversations on it count as gone."""
TROUBLE = "trouble:"
"""Among the offers of an engine: why its machine cannot start agents now."""
MAX_PLACES = 8
"""How many places one statement reads. With more, only those are read in which a run is ready."""
_NOTHING: Labels = frozenset()


def needs_text(needs: Labels) -> str:
    return json.dumps(sorted(needs))


class Placement:
    """The places of a store, and those whose runs this engine can do."""

    def __init__(self) -> None:
        self._needs: dict[int, Labels] = {}
        self._numbers: dict[Labels, int] = {}
        self._of_agents: dict[tuple[SharedSettings, str], int] = {}
        """The places of runs that wake an agent, by these policies."""
        self._policies: Policies | None = None
        self._offers: Labels = _NOTHING
        self.mine: frozenset[int] = frozenset([ANYWHERE])
        self._closed = False
        self._turn = 0
        self.reads_all = True
        """Whether the last batch had all places in which this engine might find a run."""

    def clear(self) -> None:
        """Forget the places after a rollback."""
        self._needs, self._numbers, self._policies = {}, {}, None

    def renew(self, transaction: Transaction, count: int, offers: Labels, *, closed: bool = False) -> None:
        """Read the places if there are new ones. Those that this engine can do are no longer reported as missing.
        `closed`: the node takes no runs."""
        if count == len(self._needs) and offers == self._offers and closed == self._closed:
            return
        self._needs = {row.id: frozenset(json.loads(row.needs)) for row in transaction.places()}
        self._numbers = {needs: number for number, needs in self._needs.items()}
        self._offers, self._closed = offers, closed
        if closed:
            self.mine = frozenset()
            return
        served = [number for number, needs in self._needs.items() if not lacking(needs, offers)]
        self.mine = frozenset([ANYWHERE, *served])
        transaction.clear_reports(served)

    def place(self, transaction: Transaction, item: CompiledSchedule, policies: Policies) -> int:
        """The place of a new run. A new set of needs gets a number."""
        if item.steps:  # each step has a place of its own
            return ANYWHERE
        if not item.wakes_agent:
            return self.number(transaction, item.needs) if item.needs else ANYWHERE
        if policies is not self._policies:
            self._policies = policies
            self._of_agents.clear()
        key = item.shared, item.agent
        found = self._of_agents.get(key)
        if found is None:
            needs = item.needs | agent_needs(item.definition, item.agent, policies)
            found = self._of_agents[key] = self.number(transaction, needs)
        return found

    def number(self, transaction: Transaction, needs: Labels) -> int:
        """The place of a set of needs, which is added if it is new."""
        found = self._numbers.get(needs)
        if found is None:
            found = self._numbers[needs] = transaction.place(needs_text(needs))
            self._needs[found] = needs
            if not self._closed and not lacking(needs, self._offers):
                self.mine |= {found}
        return found

    def batch(self, transaction: Transaction) -> list[int]:
        """The places to read now: all of this engine's, or some of those in which a run is ready, in turn."""
        self.reads_all = True
        if len(self.mine) <= MAX_PLACES:
            return sorted(self.mine)
        waiting = [row.place for row in transaction.ready_places() if row.place in self.mine]
        if len(waiting) <= MAX_PLACES:
            return waiting
        self.reads_all = False
        self._turn += MAX_PLACES
        start = self._turn % len(waiting)
        return (waiting[start:] + waiting[:start])[:MAX_PLACES]


def trouble_of(offers: Iterable[str]) -> str | None:
    """Why the machine of an engine with these offers cannot start agents now; None if it can."""
    return next((offer.removeprefix(TROUBLE) for offer in offers if offer.startswith(TROUBLE)), None)


_REPORT_AFTER_MS, _LOOK_MS = 60_000, 10_000
_PAGE = 500
"""Runs of a place that are read at once. The next reading continues from there."""


class UnservedRuns:
    """Reports each set of needs that no node offers once. A run fails after the time that an engine has to come back,
    the lease: without its job if its schedule says so, and after all nodes turned it away."""

    def __init__(self, store: Store, catalog: Catalog, placement: Placement, lease_ms: int) -> None:
        self._store = store
        self._catalog = catalog
        self._placement = placement
        self._lease = lease_ms
        self._next = 0
        self._read: dict[int, int] = {}
        """The last run that was read, by place."""

    def turn(self, now: int, boot: int) -> None:
        if boot >= self._next:
            self._next = boot + _LOOK_MS
            self.look(now)

    def look(self, now: int) -> None:
        patience = min(self._lease, _REPORT_AFTER_MS)
        with self._store.reading() as transaction:
            late = [row for row in transaction.ready_places() if row.not_before <= now - patience]
            places = {row.id: frozenset(json.loads(row.needs)) for row in transaction.places()} if late else {}
        elsewhere = [row for row in late if row.place in places and row.place not in self._placement.mine]
        offers = [engine.offered for engine in self._store.engines(self._lease)] if elsewhere else []
        for row in elsewhere:
            needs = places[row.place]
            self._bring_back(row.place, needs, now)
            missing = unserved(needs, offers)
            if missing is None:
                continue
            if any(need.startswith(JOB_NEED) for need in missing):
                self._fail(row.place, "missing_job", now)
            elif all(need.startswith(NOT_ON) for need in missing):
                self._fail(row.place, "not_here", now)
            if row.not_before <= now - _REPORT_AFTER_MS:
                self._report(row.place, needs, row.not_before, now)

    def _bring_back(self, place: int, needs: Labels, now: int) -> None:
        """Let any node decide about runs whose conversations are on a node that is gone."""
        hosts = [need.removeprefix(SESSION) for need in needs if need.startswith(SESSION)]
        if not hosts:
            return
        with self._store.transaction(now) as transaction:
            if all(transaction.is_live_node(host, now - GONE_AFTER_MS) is None for host in hosts):
                rest = sorted(need for need in needs if not need.startswith(SESSION))
                transaction.move_ready(place, transaction.place(json.dumps(rest)) if rest else ANYWHERE)

    def _report(self, place: int, needs: Labels, since: int, now: int) -> None:
        with self._store.transaction(now) as transaction:
            if transaction.report_place(place, now):
                data = {"needs": sorted(needs), "since": since}
                transaction.events.append(NewEvent(now, "run.no_node", None, None, data))

    def _fail(self, place: int, reason: str, now: int) -> None:
        """Fail runs of a place that nobody can run: those whose schedules say so, or all that were turned away."""
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
                _failed(transaction, row, item, reason, now)
                for row, item in found
                if isinstance(item, CompiledSchedule)
                and (reason == "not_here" or item.definition.missing_job == "fail")
            ]
            apply(transaction, changes, now)


def _failed(transaction: Transaction, row: StartedRun, item: CompiledSchedule, reason: str, now: int) -> RunChange:
    evidence = {"job": item.definition.job}
    if reason == "not_here":
        nodes = transaction.turned_away(row.id)
        evidence = {"nodes": "; ".join(f"{node}: {reason.removesuffix('.')}" for node, reason in nodes)}
    return RunChange(row.id, row.epoch, row.slot, item, FAIL_UNSTARTED, now, reason=reason, evidence=evidence)


def run_needs(transaction: Transaction, run_id: int) -> Labels:
    """What a node must offer for a run: that of its settings, and what became known of it since."""
    return frozenset(json.loads(transaction.needs_of_run(run_id) or "[]"))


def turn_away(transaction: Transaction, placement: Placement, attempts: Iterable[Attempt], node: str, now: int) -> None:
    """Send released runs to other nodes, because this one lacks what they need."""
    for attempt in attempts:
        if attempt.not_here is not None:
            needs = run_needs(transaction, attempt.run_id)
            place = placement.number(transaction, needs | {f"{NOT_ON}{node}"})
            transaction.set_place(attempt.run_id, place)
            transaction.note_turned_away(attempt.run_id, node, attempt.not_here)
            data = {"node": node, "reason": attempt.not_here}
            kind, item = event_type(attempt.compiled, "run.not_here"), attempt.compiled
            transaction.events.append(NewEvent(now, kind, item.schedule_id, attempt.run_id, data))
