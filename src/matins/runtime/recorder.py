"""What the end of an attempt means for its run: it succeeds, fails, is retried, waits, or is held (`record`).

`Reaper` finds runs whose worker is dead, and ends or retries them by their policy.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from matins.engine.inputs import decode_given
from matins.engine.jobs import retries_unknown
from matins.engine.policies import Policies
from matins.engine.transitions import (
    CANCEL,
    FAIL,
    HOLD,
    INTERRUPT,
    OVERSPEND,
    RETRY,
    SKIP_NO_WORK,
    SUCCEED,
    THROTTLE,
    next_attempt_at,
)
from matins.engine.when.durations import DAY_MS
from matins.model.rows import NewEvent, StartedRun, WorkerRow
from matins.model.run import DONE, Outcome, ProviderLimit, RunState
from matins.runtime.attempt import Attempt, AttemptEnd, Executor, Mark, key_at_claim
from matins.runtime.capacity import trouble_of
from matins.runtime.catalog import AT_END, Catalog, CompiledSchedule
from matins.runtime.run_changes import RunChange, apply, end_unreadable, event_type, result_data, succeed_plainly
from matins.store import Store
from matins.store.transaction import Transaction

_MIN_LIMIT_MS = 60_000
"""The shortest throttle without a reset time. It doubles each time that the provider refuses the run again."""
_MIN_WAIT_MS = 1_000
"""The shortest throttle with a reset time. It doubles as well, up to the shortest one without: a provider that says
"one second" again and again does not start a tool each second."""
_LONGEST_GUESS_MS = 3_600_000
"""The longest throttle without a reset time."""
_MAX_LOGIN_MS = 900_000
"""The longest wait until a login that was refused is tried again: a person may have logged in."""
_MAX_OUTAGES = 3
"""How often an outage of the provider defers a run, before it counts as a failure."""
_MAX_LIMIT_MS = 7 * DAY_MS
"""The longest throttle that a run can set: a week."""


def record(
    transaction: Transaction,
    ended: Sequence[AttemptEnd],
    now: int,
    policies: Policies,
    *,
    limited: frozenset[str] | None = None,
) -> int:
    """Record the outcomes of attempts. Returns how many were refused because another worker had taken over the run.
    `limited` are the scopes that have permits, where they are known."""
    if not ended:
        return 0
    plain, others = _sorted(transaction, ended, policies)
    changes: list[RunChange] = []
    for attempt, outcome in others:
        # How often the provider has refused this run before: such attempts do not count.
        deferrals = max(0, len(transaction.attempts(attempt.run_id)) - attempt.number) if outcome.limit else 0
        changes.append(_change_of(attempt, outcome, now, deferrals))
    taken = succeed_plainly(transaction, plain, now, limited=limited)
    if changes:
        taken += apply(transaction, changes, now, limited=limited, policies=policies)
    return len(ended) - taken


def _sorted(
    transaction: Transaction, ended: Sequence[AttemptEnd], policies: Policies
) -> tuple[Sequence[AttemptEnd], Sequence[AttemptEnd]]:
    """Splits the ends: successes of which only the result is recorded (the fast path), and the others. The ends of
    one schedule stay in their order."""
    delivers = policies.delivers
    if transaction.any_reservation() or (delivers and policies.deliver.condition == "always"):
        return (), ended
    special = {
        attempt.compiled.schedule_id
        for attempt, outcome in ended
        if attempt.compiled.special & AT_END or (outcome is not DONE and (delivers or not outcome.is_plain))
    }
    if not special:
        return ended, ()
    plain = [end for end in ended if end.attempt.compiled.schedule_id not in special]
    return plain, [end for end in ended if end.attempt.compiled.schedule_id in special]


def hold(transaction: Transaction, attempts: Sequence[Attempt], now: int) -> None:
    """Hold runs that exceeded their timeout and cannot be stopped. They keep their capacity until they end."""
    changes = [RunChange(*one.mark, one.slot, one.compiled, HOLD, now, reason="timed_out") for one in attempts]
    apply(transaction, changes, now)


def mark_unknown(transaction: Transaction, rows: Sequence[tuple[StartedRun, CompiledSchedule]], now: int) -> None:
    """Handle runs whose worker is dead: their outcome is unknown. Their policy decides whether they are retried."""
    changes: list[RunChange] = []
    for row, compiled in rows:
        if row.cancelling:
            transition = CANCEL
        elif retries_unknown(compiled.definition):
            transition = RETRY
        elif row.state < RunState.HELD:
            transition = HOLD
        else:
            continue  # it waits for a person, so its worker does not matter
        not_before = now if transition is RETRY else None
        changes.append(RunChange(row.id, row.epoch, row.slot, compiled, transition, now, not_before, "worker_lost"))
    apply(transaction, changes, now)


def will_retry(attempt: Attempt, outcome: Outcome, now: int) -> bool:
    """Whether a run with this outcome is retried."""
    return _change_of(attempt, outcome, now).transition is RETRY


def _change_of(attempt: Attempt, outcome: Outcome, now: int, deferrals: int = 0) -> RunChange:
    run_id, epoch, number, slot, compiled = *attempt.mark, attempt.number, attempt.slot, attempt.compiled
    usage = outcome.usage
    if outcome.succeeded:
        result = result_data(outcome)
        change = RunChange(
            run_id, epoch, slot, compiled, SUCCEED, now, None, None, result, None, 0, False, usage, None, outcome.turn
        )
        if outcome.denials:
            return change._replace(reason="with_denials", evidence={"denials": outcome.denials})
        return change
    failed = RunChange(run_id, epoch, slot, compiled, FAIL, now, usage=usage, attempt=number)
    return _unsuccessful(failed, number, outcome, deferrals)


def _unsuccessful(change: RunChange, number: int, outcome: Outcome, deferrals: int) -> RunChange:
    report = {} if outcome.result is None else {"result": outcome.result}
    change = change._replace(outcome={"error": outcome.error, **report}, turn=outcome.turn)
    if outcome.lost:
        return _lost(change)
    if outcome.interrupted:
        return change._replace(transition=INTERRUPT, reason="stopped")
    if outcome.no_agent:
        return change._replace(transition=SKIP_NO_WORK, reason="no_agent", evidence={"agent": change.compiled.agent})
    if outcome.no_work:
        evidence = {"work_source": change.compiled.definition.work_source}
        return change._replace(transition=SKIP_NO_WORK, reason="no_work", evidence=evidence)
    if outcome.over_budget:
        definition = change.compiled.definition
        evidence = {"max_cost": definition.max_cost, "max_tokens": definition.max_tokens}
        return change._replace(transition=OVERSPEND, reason="over_budget", evidence=evidence)
    if outcome.cancelled:
        return change._replace(transition=CANCEL, reason="cancelled")
    if outcome.limit is not None and not (outcome.limit.outage and deferrals >= _MAX_OUTAGES):
        return _throttled(change, outcome.limit, deferrals)
    if outcome.target_gone:
        return change._replace(transition=RETRY, not_before=change.at, reason="target_gone")
    again = None if outcome.timed_out else next_attempt_at(change.compiled.definition, change.run_id, number, change.at)
    if again is not None:
        return change._replace(transition=RETRY, not_before=again, reason="failed_attempt")
    return change._replace(reason="timed_out" if outcome.timed_out else "failed")


def _lost(change: RunChange) -> RunChange:
    if retries_unknown(change.compiled.definition):
        return change._replace(transition=RETRY, not_before=change.at, reason="unknown")
    return change._replace(transition=HOLD, reason="unknown")


def _throttled(change: RunChange, limit: ProviderLimit, deferrals: int) -> RunChange:
    """A rate limit is not a failure. The run waits until the limit resets, with all runs of that provider."""
    if limit.resets_at is None:
        longest = _LONGEST_GUESS_MS if limit.login is None else _MAX_LOGIN_MS
        wait = min(_MIN_LIMIT_MS << min(deferrals, 10), longest)
    elif limit.resets_at <= change.at:  # what it says is over, and it refused nevertheless
        wait = _MIN_LIMIT_MS
    else:
        wait = min(_MIN_WAIT_MS << min(deferrals, 10), _MIN_LIMIT_MS)
    until = min(max(limit.resets_at or 0, change.at + wait), change.at + _MAX_LIMIT_MS)
    evidence = {"provider": limit.provider, "until": until, "why": limit.reason}
    if limit.login is not None:
        evidence["login"] = limit.login
    limit = limit._replace(resets_at=until)
    return change._replace(transition=THROTTLE, reason="throttled", not_before=until, evidence=evidence, limit=limit)


IsGone = Callable[[Mapping[str, Any]], bool]
"""Whether the process of a worker with this identity has ended, and left its runs to the folder of this process."""


_AFTER_LEASE_MS = 15_000
"""After the lease of processes: their grace, and time for their warden to end them."""


class Reaper:
    """A worker is dead when its heartbeat has not changed for a lease, by the reaper's boot time, or when its process
    on this machine has ended. On a store with a single owner, every other worker is dead.

    An agent of a dead worker elsewhere may live until its lease ends: until then its run keeps its epoch, and an engine
    in the place of the worker adopts it. Then it is retried."""

    def __init__(self, store: Store, catalog: Catalog, lease_ms: int, every_ms: int, run_lease_ms: int) -> None:
        self._store = store
        self._catalog = catalog
        self._lease = lease_ms
        self._every = every_ms
        self._run_lease = run_lease_ms
        self._seen: dict[int, tuple[int, int]] = {}
        self._lost: dict[Mark, int] = {}
        """Since when nobody has renewed the leases of agents elsewhere, in boot time."""
        self._boot: int | None = None
        """Boot time of the last check."""
        self._worker = 0
        self._next = 0
        self._executor: Executor | None = None
        self._is_gone: IsGone | None = None
        self._nonce: str | None = None
        self._adopted: list[Attempt] = []

    def open(
        self,
        worker: int,
        now: int,
        executor: Executor | None = None,
        identity: Mapping[str, Any] | None = None,
        is_gone: IsGone | None = None,
    ) -> None:
        self._worker = worker
        self._executor = executor
        self._is_gone = is_gone
        self._nonce = (identity or {}).get("nonce")
        self._adopted = []
        if self._store.shared and is_gone is not None:
            with self._store.transaction(now) as transaction:
                # At once: after a lease, engines on other machines would give up runs that still run here.
                self._stop_workers(transaction, self._gone(transaction.workers()), now)
        if not self._store.shared:
            with self._store.transaction(now) as transaction:
                dead = {other.id for other in transaction.workers() if other.id != worker}
                self._stop_workers(transaction, dead, now)
                # A worker that lost its lock may have claimed more runs after it was declared dead.
                orphans = [row for row in transaction.started(worker, mine=False) if row.state < RunState.HELD]
                self._recover(transaction, self._others(transaction, orphans), now)

    def _others(self, transaction: Transaction, orphans: list[StartedRun]) -> list[StartedRun]:
        """Keep the runs that this process still runs, and return the others."""
        has = set[Mark]() if self._executor is None else self._executor.marks()
        return [row for row in orphans if row.mark not in has or not transaction.adopt(*row.mark, self._worker)]

    def adopted_attempts(self) -> list[Attempt]:
        """Runs that were adopted since the last call. The executor knows whether they still run."""
        adopted, self._adopted = self._adopted, []
        return adopted

    def turn(self, now: int, boot: int, executor: Executor | None = None) -> None:
        """Check the other workers, and runs without one, every `every_ms`."""
        self._adopted = []  # of a transaction that failed: whatever was committed is found again
        if boot < self._next:
            return
        self._next, self._boot = boot + self._every, boot
        if self._store.shared:
            self._check_workers(now, boot)
        if executor is not None:
            self._check_runs(now, executor)

    def _check_workers(self, now: int, boot: int) -> None:
        with self._store.reading() as transaction:
            workers = transaction.workers()
        dead = {other.id for other in workers if other.id != self._worker and self._is_dead(other, boot)}
        dead |= self._gone(workers)
        compiled = {worker.id for worker in workers}
        self._seen = {worker: seen for worker, seen in self._seen.items() if worker in compiled}
        if dead:
            with self._store.transaction(now) as transaction:
                if transaction.heartbeat(self._worker) is not None:  # a dead worker declares no other dead
                    self._stop_workers(transaction, dead, now)

    def _check_runs(self, now: int, executor: Executor) -> None:
        """Take up runs whose worker has stopped or is unknown, and own runs that the executor does not have. End
        attempts that are no longer ours."""
        has = executor.marks() | {attempt.mark for attempt in self._adopted}
        with self._store.reading() as transaction:
            mine, orphans = transaction.started(self._worker, mine=True), transaction.orphans()
            lost, ours = self._without_attempt(mine, has), {row.id for row in mine}
            if orphans:
                lost += self._decidable(transaction, orphans)
                ours |= {row.id for row in orphans if row.mark in has}
        if foreign := {run_id for run_id, _ in has if run_id not in ours}:
            executor.cancel(foreign)
        if not lost:
            return
        with self._store.transaction(now) as transaction:
            if transaction.heartbeat(self._worker) is None:
                return  # a dead worker takes up nothing
            transaction.lock_due({row.schedule_id for row in lost})  # one reaper at a time, and all locks at once
            mine = self._without_attempt(transaction.started(self._worker, mine=True), has)
            locked = {row.id for row in lost}
            orphans = [row for row in transaction.orphans() if row.id in locked]
            here = [row for row in orphans if self._was_here(transaction, row)]
            self._recover(transaction, mine + self._others(transaction, here), now)
            self._recover(transaction, [row for row in orphans if row not in here], now, here=False)

    @staticmethod
    def _without_attempt(mine: list[StartedRun], has: set[Mark]) -> list[StartedRun]:
        return [row for row in mine if row.state < RunState.HELD and (row.id, row.epoch) not in has]

    def _decidable(self, transaction: Transaction, orphans: list[StartedRun]) -> list[StartedRun]:
        """Those that were started here, or whose processes have ended by now."""
        known = {row.mark for row in orphans}
        self._lost = {mark: since for mark, since in self._lost.items() if mark in known}
        compiled = self._catalog.compiled(transaction, {row.key for row in orphans})
        return [
            row
            for row in orphans
            if self._was_here(transaction, row)
            or self._follows(item := compiled.get(row.key))
            or not self._may_live(row, item)
        ]

    def _follows(self, item: CompiledSchedule | Exception | None) -> bool:
        """Whether a run is in an engine elsewhere."""
        executor = self._executor
        return executor is not None and isinstance(item, CompiledSchedule) and executor.follows(item)

    def _was_here(self, transaction: Transaction, row: StartedRun) -> bool:
        return not self._store.shared or self._is_here(_parsed(transaction.worker_of(*row.mark) or "{}"))

    def _may_live(self, row: StartedRun, item: CompiledSchedule | Exception | None) -> bool:
        """Whether the processes of a run elsewhere may live, so that it cannot be retried. A run that is not retried
        needs no lease."""
        if not self._store.shared or not isinstance(item, CompiledSchedule) or not item.wakes_agent:
            return False
        if row.cancelling or row.state >= RunState.HELD or not retries_unknown(item.definition):
            return False
        return (
            self._boot is None
            or self._boot - self._lost.setdefault(row.mark, self._boot) < self._run_lease + _AFTER_LEASE_MS
        )

    def _gone(self, workers: list[WorkerRow]) -> set[int]:
        """The workers whose process on this machine has ended."""
        is_gone = self._is_gone
        return set() if is_gone is None else {one.id for one in workers if is_gone(_parsed(one.identity))}

    def _is_dead(self, worker: WorkerRow, boot: int) -> bool:
        last, since = self._seen.get(worker.id, (None, boot))
        if last != worker.beat:
            self._seen[worker.id] = worker.beat, boot
            return False
        return boot - since > self._lease

    def _stop_workers(self, transaction: Transaction, dead: set[int], now: int) -> None:
        rows = {worker.id: worker for worker in transaction.workers()} if dead else {}
        here = {number for number, row in rows.items() if self._is_here(_parsed(row.identity))}
        for worker in sorted(dead):
            if not transaction.stop_worker(worker, now):
                continue  # another reaper was faster
            if worker in rows:
                end_trouble(transaction, rows[worker], now)
            started = transaction.started(worker, mine=True)
            if worker in self._seen:
                self._lost |= {row.mark: self._seen[worker][1] for row in started}
            self._recover(transaction, started, now, here=worker in here)

    def _is_here(self, identity: Mapping[str, Any]) -> bool:
        """Whether the journals of a worker are in the folder of this one. Where several engines run, by its nonce:
        containers may share the name of a host, and two engines of one host have folders of their own."""
        is_ours = not self._store.shared or identity.get("nonce") == self._nonce
        return is_ours and identity.get("host") == socket.gethostname()

    def _recover(self, transaction: Transaction, rows: list[StartedRun], now: int, *, here: bool = True) -> None:
        compiled = self._catalog.compiled(transaction, {row.key for row in rows})
        pairs = [(row, compiled.get(row.key)) for row in rows]
        pairs = [(row, item) for row, item in pairs if not self._adopt(transaction, row, item, now, here=here)]
        if not here:
            pairs = [(row, item) for row, item in pairs if not self._may_live(row, item)]
        mark_unknown(transaction, [(row, item) for row, item in pairs if isinstance(item, CompiledSchedule)], now)
        end_unreadable(transaction, [row for row, item in pairs if not isinstance(item, CompiledSchedule)], now)

    def _adopt(
        self, transaction: Transaction, row: StartedRun, item: CompiledSchedule | Exception | None, now: int, *,
        here: bool,
    ) -> bool:  # fmt: skip
        """Take over a run whose process may have outlived its worker on this machine, or which is in an engine
        elsewhere, with the same epoch."""
        run = (
            transaction.run(row.id)
            if isinstance(item, CompiledSchedule)
            and ((here and item.wakes_agent) or self._follows(item))
            and row.state < RunState.HELD
            else None
        )
        if run is None or not isinstance(item, CompiledSchedule) or self._executor is None:
            return False
        if run.given is not None:
            item = item.with_given(decode_given(run.given))
        started_at = run.started_at or run.planned_at
        slot = transaction.nominal_slot(row.id) if item.step else row.slot
        key = key_at_claim(transaction, item, row.id, row.slot)
        attempt = Attempt(
            row.id, row.epoch, row.attempt, slot, run.slots, run.first_slot, started_at, item, key, None, run.for_slot
        )
        if not self._executor.adoptable(attempt) or not transaction.adopt(row.id, row.epoch, self._worker):
            return False
        transaction.events.append(
            NewEvent(now, event_type(item, "run.adopted"), row.schedule_id, row.id, {"epoch": row.epoch})
        )
        self._adopted.append(attempt)
        return True


def end_trouble(transaction: Transaction, worker: WorkerRow, now: int) -> None:
    """Report the end of what an engine reported about its machine: the engine has ended."""
    reason = trouble_of(orjson.loads(worker.offers))
    if reason is not None:
        data = {"host": _parsed(worker.identity).get("host"), "worker": worker.id, "reason": reason, "stopped": True}
        transaction.events.append(NewEvent(now, "engine.can_start", None, None, data))


def _parsed(identity: str) -> Mapping[str, Any]:
    try:
        found = orjson.loads(identity)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
