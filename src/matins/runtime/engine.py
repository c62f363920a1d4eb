"""The engine: one thread that does all database work, one transaction a turn.

A turn records ended runs, plans due slots, claims runs that may start, and hands them to the executor. It returns the
time until the next event. The loop sleeps for that long, or until something changes.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import orjson

from matins._version import __version__
from matins.engine.placement import Node, parse_node
from matins.errors import Conflict, StoreError
from matins.model.clock import Clock
from matins.model.rows import NewEvent, NodeState, ScopeRow, TurnFacts
from matins.model.run import RunState
from matins.runtime import recorder
from matins.runtime.attempt import Attempt, AttemptEnd, Executor
from matins.runtime.capacity import BoundedCapacity, Capacity, Placement, UnservedRuns, trouble_of, turn_away
from matins.runtime.catalog import GLOBAL, MAY_EMIT, Catalog
from matins.runtime.checks import CheckedRun, Checks, NoChecks
from matins.runtime.clearance import Clearance, record_checks
from matins.runtime.clock import MAX_STEP_BACK_MS, ClockWatch
from matins.runtime.dispatcher import Dispatcher, release
from matins.runtime.maintenance import Lineage, Maintenance
from matins.runtime.message_runs import emit
from matins.runtime.planner import Planner, mark_broken, replan
from matins.runtime.recorder import IsGone, Reaper
from matins.runtime.timers import Timers
from matins.runtime.zone_changes import compare_zones
from matins.store import Store
from matins.store.transaction import Transaction

log = logging.getLogger("matins")
BATCH = 500
_SMALL_BATCH = 64
_ONE_SIDED_MS = 100
_FRESH_BEATS = 3
"""An engine whose last heartbeat is older may have ended."""
_RECHECK_MS = 250
_BACK_OFF_MS = (50, 200, 1_000, 5_000)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    lease_ms: int = 15_000
    beat_ms: int = 3_000
    threads: int = 8
    history_days: float | None = 90
    history_runs: int | None = None
    check_interval_ms: int = 1_000
    """The longest sleep; it never adds a delay."""
    heartbeat_url: str | None = None
    """URL to call every `heartbeat_every_ms` while the scheduler is healthy."""
    heartbeat_every_ms: int = 60_000
    state_folder: str | None = None
    """Directory for journals and output of runs. Default: beside the file of the store, otherwise in ~/.local/state."""
    name: str | None = None
    """The name of this node among the engines of the store. Default: the name of the host."""
    labels: Sequence[str] = ()
    """What this node offers to runs that ask for it with `runs_on`."""
    agents: Sequence[str] | None = None
    """The agents whose runs this node takes. Default: all."""
    max_runs: int | None = None
    """How many runs this node has at once."""
    output_url: str | None = None
    """Object storage for output that is longer than the database keeps: s3://BUCKET/PREFIX."""
    run_lease_ms: int = 60_000
    """How long the processes of an agent go on after their engine last reached a shared store, where `on_unknown` is
    `retry`: another node starts the run only when they have ended."""

    @property
    def node(self) -> Node:
        return parse_node(self.name or socket.gethostname() or "localhost", self.labels, self.agents, self.max_runs)


class NodeSettings(TypedDict, total=False):
    """What describes a node, as arguments of `Matins` and options of `matins up`."""

    name: str | None
    labels: Sequence[str]
    agents: Sequence[str] | None
    max_runs: int | None
    output_url: str | None


class EngineSettings(NodeSettings, total=False):
    """`EngineOptions` as arguments of `Matins`."""

    lease_ms: int
    beat_ms: int
    threads: int
    history_days: float | None
    history_runs: int | None
    check_interval_ms: int
    heartbeat_url: str | None
    heartbeat_every_ms: int
    state_folder: str | None
    run_lease_ms: int


class _Situation(NamedTuple):
    """What a turn depends on, apart from the store and the time."""

    offers: frozenset[str]
    jobs: int
    agents: int
    checks: int
    """How many jobs, agents and checks can start."""
    guarded: bool
    accepting: bool
    fenced: bool
    lead_ms: int
    left: int | None
    """How many runs may be added, where the node has a maximum."""


class _LastTurn(NamedTuple):
    situation: _Situation | None = None
    mark: object = None
    """The state of the store that it left; None if it wrote something, or nobody knows."""
    next_at: int | None = None


class Engine:
    """Does the work of a turn. It has no threads: `Loop`, the tests and the simulation drive it."""

    worker = 0
    stale = 0
    """Outcomes that were refused because another worker had taken over the run."""
    accepting = True
    """Whether new runs are planned and started."""
    fenced = False
    """Whether other workers may consider this one dead."""
    outdated = False
    """Whether the store needs a newer Matins. Then this engine starts nothing."""
    lead_ms = 0
    """How long before their slots runs are planned that nothing can stop. 0 where a test moves the clock."""
    turns = 0
    """The number of completed turns."""
    _batch = BATCH
    _policy_rev = -1
    _planning = False
    _failures = 0
    _clock_went_back = False
    _store_changed = False
    _zones_compared = False
    _emptied = False
    _offers: frozenset[str] = frozenset()
    _is_gone: IsGone | None = None

    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalog: Catalog,
        settings: EngineOptions,
        lineage: Lineage | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.settings = settings
        self.node = settings.node
        self._node_offers = self.node.offers
        self.clearance = Clearance()
        self.placement = Placement()
        self.unserved_runs = UnservedRuns(store, catalog, self.placement, settings.lease_ms)
        if store.shared:
            self.clearance.node, self.clearance.placement = self.node.name, self.placement
        self.planner = Planner(catalog, self.clearance, self.placement)
        self.dispatcher = Dispatcher(catalog, self.clearance, self.placement)
        self.timers = Timers(catalog)
        self.checks: Checks = NoChecks()
        self.reaper = Reaper(store, catalog, settings.lease_ms, settings.beat_ms, settings.run_lease_ms)
        self.maintenance = Maintenance(store, settings.history_days, settings.history_runs)
        self._lineage = lineage or Lineage(store)
        self.turned_at = clock.boot_ms()
        """Boot time at which the last turn was completed."""
        self.wrote_events: Callable[[int], None] = lambda policy_rev: None
        self._catalog = catalog
        self._ended: list[AttemptEnd] = []
        self._checked: list[CheckedRun] = []
        self._overdue: list[Attempt] = []
        self._released: list[Attempt] = []
        self._uncertain: list[Attempt] = []
        """Runs that are claimed but not yet started. If the commit gives no answer, no other worker finds them."""
        self._last_turn = _LastTurn()
        self._clock_watch = ClockWatch(clock.now_ms(), clock.boot_ms())

    def open(
        self,
        executor: Executor,
        identity: Mapping[str, Any],
        checks: Checks | None = None,
        is_gone: IsGone | None = None,
    ) -> None:
        """Become a worker of this store, and take over the runs of dead workers."""
        self._is_gone = is_gone
        self.executor = executor
        self.checks = checks or NoChecks()
        self._identity = identity
        now = self.clock.now_ms()
        self._check_name()
        self._lineage.open(now)
        self._enlist(now)

    def _check_name(self) -> None:
        """Raise Conflict if a live engine on another machine has the name of this node, or one of this machine whose
        operator gave it the same name."""
        own, name = self._identity, self.node.name
        recent = min(self.settings.lease_ms, _FRESH_BEATS * self.settings.beat_ms)
        for other in self.store.engines(recent) if self.store.shared else []:
            found = other.facts
            if other.node != name or "boot" not in found or (self._is_gone is not None and self._is_gone(found)):
                continue
            apart = any(found.get(key) != own.get(key) for key in ("host", "boot"))
            if apart or (self.settings.name is not None and found.get("nonce") != own.get("nonce")):
                message = f'The node "{name}" runs already, on {found["host"]}.'
                hint = f"Give this one another name: matins up --name {name}-2. If that one has just ended, try again."
                raise Conflict(message, value=name, field="name", hint=hint)

    def _enlist(self, now: int) -> None:
        with self.store.transaction(now) as transaction:
            self.executor.use(self._catalog.policies(transaction))  # before runs of dead workers are taken over
            identity = {
                **self._identity,
                "incarnation": self.store.incarnation,
                "version": __version__,
                "knows": self.store.knows,
            }
            identity |= {} if self.node.max_runs is None else {"max_runs": self.node.max_runs}
            offers = self.executor.offers() | self._node_offers
            worker = transaction.insert_worker(
                orjson.dumps(identity).decode(), now, _offers_text(offers), self.node.name
            )
            ahead = transaction.last_written() - now  # the clock went back while no engine was running
            self._clock_went_back |= ahead > MAX_STEP_BACK_MS or transaction.is_replanning()
        self.worker, self.fenced = worker, False
        self._zones_compared = False
        self._offers = offers
        self.reaper.open(worker, now, self.executor, self._identity, self._is_gone)
        self._adopt()

    def _adopt(self) -> None:
        if adopted := self.reaper.adopted_attempts():
            self.executor.adopt(adopted)

    def close(self) -> None:
        """Stop being a worker. Other workers find the runs that still run in this process."""
        now = self.clock.now_ms()
        self.maintenance.seal(now)
        with self.store.transaction(now) as transaction:
            # Claims whose commit gave no answer: the last turn may have failed too.
            release(transaction, self._still_ours(transaction, self._uncertain), now)
            if not self.unfinished() and not transaction.started(self.worker, mine=True):
                transaction.stop_worker(self.worker, now)
            self._report_trouble(transaction, trouble_of(self._offers), None, now)
        self._lineage.note()
        self.store.checkpoint()

    def release_unstarted(self) -> None:
        """Release runs that were claimed and have not started: another worker may claim them."""
        self._released += self.executor.withdraw(everything=True)

    @property
    def is_failing(self) -> bool:
        """Whether the last turn failed."""
        return self._failures > 0

    def unfinished(self) -> int:
        """The number of runs of this worker that have not ended, or whose end is not yet recorded."""
        return self.executor.running() + len(self._ended) + len(self._released)

    def run_once(self) -> int:
        """Do one turn, and handle its errors. Returns the milliseconds until the next."""
        try:
            delay = self.turn()
        except StoreError as error:
            log.warning("The store failed: %s", error)
            return self._back_off()
        except Exception as error:
            log.exception("A turn of the engine failed. The engine continues with fewer schedules at a time.")
            if self._planning and self._batch == 1:
                self._set_aside(error)
            self._batch = max(1, self._batch // 8)
            return self._back_off()
        self._failures = 0
        return delay

    def turn(self) -> int:
        now, boot = self.clock.now_ms(), self.clock.boot_ms()
        verdict = self._clock_watch.check(now, boot)
        if verdict == "wait":
            return _RECHECK_MS
        self._clock_went_back |= verdict == "back"  # before anything that may fail: the watch reports a step once
        self._store_changed |= self._lineage.turn(now, boot, at_once=self._failures > 0)
        if self._store_changed:
            self._catalog.clear()
            self._enlist(now)  # the worker of the store that was known before may be unknown in this one
            self._store_changed = False
        if self._clock_went_back:
            replan(self.store, self._catalog, now)
            self._clock_went_back = False
        if self.fenced and not self.outdated:
            self._enlist_again(now)
        if not self._zones_compared:
            compare_zones(self.store, self._catalog, self.worker, now)
            self._zones_compared = True
        self._ended += self.executor.drain()
        self._checked += self.checks.drain()
        start, next_at = self._transact(now)
        self._hand_over(start, boot)
        if checks := self.clearance.take_checks():
            self.checks.submit(checks)
        if not self.outdated:
            self.maintenance.turn(now, boot)
            self.unserved_runs.turn(now, boot)
        if self.accepting and not self.outdated:  # an engine that stops would end what it takes over
            self.reaper.turn(now, boot, self.executor)
            self._adopt()
        self.turned_at = self.clock.boot_ms()
        self.turns += 1
        max_delay = self.settings.check_interval_ms
        return max_delay if next_at is None else max(0, min(next_at - self.clock.now_ms(), max_delay))

    def _transact(self, now: int) -> tuple[list[Attempt], int | None]:
        """Do the turn in one transaction, which is durable before any run starts."""
        self._planning = False
        self.clearance.take_checks()  # the checks of a turn that was rolled back
        executor, checks = self.executor, self.checks
        self._overdue += executor.overdue()
        self._released += executor.withdraw()
        situation = _Situation(
            executor.offers() | self._node_offers,
            executor.capacity(), executor.capacity(for_agents=True), checks.capacity(),
            checks.guarded, self.accepting, self.fenced, self.lead_ms,
            None if self.node.max_runs is None else self.node.max_runs - executor.running(),
        )  # fmt: skip
        if self._rests(situation, now):
            return [], self._last_turn.next_at
        start: list[Attempt] = []
        next_at: int | None = None
        with self.store.transaction(now) as transaction:
            facts = transaction.turn_facts()
            limits = transaction.limits() if facts.limited else []
            stale = self._record(transaction, now, limited=frozenset([row.scope for row in limits]))
            if self.store.shared and transaction.heartbeat(self.worker) is None:
                self.fenced = True  # considered dead: no worker would find runs that it claimed now
            if situation.offers != self._offers:  # a job was registered, or a program installed
                transaction.set_offers(self.worker, _offers_text(situation.offers))
                self._report_trouble(transaction, trouble_of(self._offers), trouble_of(situation.offers), now)
            if self.accepting and not self.fenced:
                if limits and (self._ended or self._released):
                    limits = transaction.limits()  # ended runs released permits
                start, next_at = self._start(transaction, situation, facts, limits, now)
            self._uncertain = start
            self.maintenance.dirty = self.maintenance.dirty or bool(transaction.events)
            mark = None if transaction.events else self.store.mark()
        self._last_turn = _LastTurn(situation, mark, next_at)
        self.stale += stale
        self._offers = situation.offers
        self._ended, self._checked, self._overdue, self._released = [], [], [], []
        self._batch = BATCH
        if transaction.events:
            self.wrote_events(self.clearance.policies.rev)
        return start, next_at

    def _rests(self, situation: _Situation, now: int) -> bool:
        """Whether the last turn left nothing to do, no instant has come since, and all that it went by is the same.
        Then this one would find nothing either, and asks nothing."""
        last = self._last_turn
        if self._ended or self._checked or self._overdue or self._released or self._uncertain:
            return False
        if last.mark is None or situation != last.situation or not self.placement.reads_all:
            return False
        return (last.next_at is None or last.next_at > now) and self.store.mark() == last.mark

    def _report_trouble(self, transaction: Transaction, before: str | None, reason: str | None, now: int) -> None:
        """Report that this machine cannot start agents any more, or can again."""
        if before != reason:
            data = {"host": self._identity.get("host"), "worker": self.worker, "reason": reason or before}
            if reason:
                transaction.events.append(NewEvent(now, "engine.cannot_start", None, None, data))
            else:
                transaction.events.append(NewEvent(now, "engine.can_start", None, None, data))

    def _record(self, transaction: Transaction, now: int, *, limited: frozenset[str]) -> int:
        """Record ended, checked, held and released runs. Returns the number of outcomes that came too late."""
        if self._checked or self._overdue or self._released or self._uncertain:
            # The cursors of all schedules with something to record are locked first and at once: no deadlocks.
            attempts = [ended.attempt for ended in self._ended] + self._overdue + self._released + self._uncertain
            items = [attempt.compiled for attempt in attempts] + [checked.check.compiled for checked in self._checked]
            transaction.lock_due({item.schedule_id for item in items})
        stale = 0
        if self._ended:
            policies = self._catalog.policies(transaction)
            stale = recorder.record(transaction, self._ended, now, policies, limited=limited)
        if self._checked:
            record_checks(transaction, self._checked, now)
        if self._overdue:
            recorder.hold(transaction, self._overdue, now)
        if self._released or self._uncertain:
            released = release(transaction, self._released + self._still_ours(transaction, self._uncertain), now)
            turn_away(transaction, self.placement, released, self.node.name, now)
        return stale

    def _start(
        self, transaction: Transaction, situation: _Situation, facts: TurnFacts, limits: list[ScopeRow], now: int
    ) -> tuple[list[Attempt], int | None]:
        """Wake, plan and claim runs. Returns the runs to start, and the time of the next event."""
        capacity = Capacity(situation.jobs, limits, situation.agents)
        if situation.left is not None:
            capacity = BoundedCapacity(situation.jobs, limits, situation.agents, situation.left)
        # Without capacity it still plans, or slots would be late; but in small batches, since capacity may return.
        limit = min(self._batch, max(capacity.jobs, _SMALL_BATCH))
        policies = self._catalog.policies(transaction)
        if policies.rev != self._policy_rev:  # it rises too when the clock was set back
            self._policy_rev, self.planner.recorded_until = policies.rev, transaction.recorded_until()
            self.executor.use(policies)
        self.clearance.begin(policies, guarded=situation.guarded, capacity=situation.checks)
        state = transaction.node_state(self.node.name) if facts.closed_nodes else None
        self._obey(state, now)
        self.placement.renew(transaction, facts.places, situation.offers, closed=state is not None)
        self.timers.turn(transaction, now)
        self._planning = True
        planned = self.planner.plan(transaction, now, self.worker, capacity, limit)
        self._planning = False
        claimed, ready_at = self._claim(transaction, now, capacity)
        start = planned.start + claimed
        special = [one.compiled.special for one in start]
        if any(map(MAY_EMIT.__and__, special)):
            start = emit(transaction, start, policies, now)
        if planned.taken == limit:
            return start, now
        (due_at, timer_at), until = transaction.next_instants(), now + self.lead_ms
        if self.lead_ms and due_at is not None and now < due_at <= until:  # slots that come within the lead
            start += self.planner.plan_ahead(transaction, now, until, self.worker, capacity, limit)
            claimed, ready_at = self._claim(transaction, now, capacity, until)
            start += claimed
            due_at = transaction.next_due()
        self.timers.next_at = timer_at
        # What was not planned ahead is left for its instant.
        plan_at = due_at if due_at is None or due_at <= until else due_at - self.lead_ms
        if ready_at is not None and (capacity.only_one_kind or (capacity.limited and capacity.label_exhausted)):
            ready_at = max(ready_at, now + _ONE_SIDED_MS)  # it may have no capacity: the end of a run wakes us
        return start, min([at for at in (plan_at, ready_at, timer_at) if at is not None], default=None)

    def _obey(self, state: NodeState | None, now: int) -> None:
        """End what a draining node still runs when its time is over."""
        ends_at = None if state is None else state.ends_at
        if ends_at is not None and now >= ends_at and not self._emptied:
            self.executor.interrupt()
        elif self._emptied and state is None:
            self.executor.accept()
        self._emptied = state is not None and (self._emptied or (ends_at is not None and now >= ends_at))

    def _claim(
        self, transaction: Transaction, now: int, capacity: Capacity, until: int | None = None
    ) -> tuple[list[Attempt], int | None]:
        """Claim runs that are ready now, or `until` then. Returns them, and when the next one is ready."""
        claimed: list[Attempt] = []
        places, ready_at = self._ready_at(transaction, capacity)
        if ready_at is not None and ready_at <= (until or now):
            claimed = self.dispatcher.claim(transaction, now, self.worker, capacity, places, until)
            _, ready_at = self._ready_at(transaction, capacity)
        return claimed, ready_at

    def _ready_at(self, transaction: Transaction, capacity: Capacity) -> tuple[list[int], int | None]:
        """The places to look at, and when the next run of them is ready; None without capacity for it."""
        exhausted = capacity.exhausted()
        if capacity.maximum <= 0 or GLOBAL in exhausted:
            return [], None
        places = self.placement.batch(transaction)
        return places, transaction.next_ready(exhausted, places)

    def _hand_over(self, start: list[Attempt], since: int) -> None:
        """Start the claimed runs, unless the commit took so long that other workers may have taken them over."""
        if not start:
            return
        if self.store.shared and self.clock.boot_ms() - since > self.settings.lease_ms // 2:
            with self.store.reading() as transaction:
                start = self._still_ours(transaction, start)
        self._uncertain = []
        self.executor.submit(start)

    def _still_ours(self, transaction: Transaction, claimed: list[Attempt]) -> list[Attempt]:
        if not claimed:
            return []
        rows = transaction.started(self.worker, mine=True)
        ours = {(row.id, row.epoch) for row in rows if row.state == RunState.STARTING}
        return [attempt for attempt in claimed if attempt.mark in ours]

    def _enlist_again(self, now: int) -> None:
        """Continue as a new worker after others considered this one dead; they own its runs."""
        with self.store.transaction(now) as transaction:
            self.fenced = transaction.heartbeat(self.worker) is None
        if self.fenced:
            self._enlist(now)

    def _set_aside(self, error: Exception) -> None:
        """Mark the only schedule of the batch as broken, because it cannot be written; the others continue."""
        now = self.clock.now_ms()
        with self.store.transaction(now) as transaction:
            for row in self.planner.last_due[:1]:
                mark_broken(transaction, row, error, now)

    def _back_off(self) -> int:
        """The delay after a failure. Ended runs stay in memory; nothing is planned or started."""
        self._catalog.clear()
        self.placement.clear()
        self._last_turn = _LastTurn()
        delay = _BACK_OFF_MS[min(self._failures, len(_BACK_OFF_MS) - 1)]
        self._failures += 1
        return delay


def _offers_text(offers: frozenset[str]) -> str:
    return json.dumps(sorted(offers))
