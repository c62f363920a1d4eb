"""Timers: deferred runs, approvals that expire, pauses and throttles that end."""

from __future__ import annotations

from matins.engine.gates import Candidate, Facts, judge
from matins.engine.planning import USUAL_RUNS, Watched, late_text, look, past_durations, slow_text, unusual_ms
from matins.engine.transitions import AFTER_VERDICT, ENQUEUE, EXPIRE, MARK_READY, SUSPEND, Transition
from matins.model.policies import Approval
from matins.model.rows import NewEvent, StateChange, WaitingRun
from matins.model.run import GatesPassed, RunState
from matins.runtime import backfills, spending
from matins.runtime.backfills import Backfills, without_bounds
from matins.runtime.calls import DEBOUNCING
from matins.runtime.catalog import Catalog, CompiledSchedule, schedule_record
from matins.runtime.pausing import is_held, resume
from matins.runtime.planner import NO_RUNS, live_runs, mark_broken, met_runs, repeat_one_shot
from matins.runtime.run_changes import RunChange, apply, end_runs, end_unreadable
from matins.store.transaction import Transaction

_BATCH = 200


class Timers:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.backfills = Backfills(catalog)
        self.next_at: int | None = 0
        """When the next timer is due, as far as this process knows; 0 until the first turn."""

    def turn(self, transaction: Transaction, now: int) -> None:
        """Handle all timers that are due."""
        if self.next_at is None or self.next_at > now:
            if self.backfills.running:
                self.backfills.turn(transaction, now)
            return
        self.backfills.turn(transaction, now)
        for schedule_id in transaction.ended_pauses(now, _BATCH):
            self._resume(transaction, schedule_id, now)
        for provider in transaction.delete_ended_throttles(now):
            transaction.events.append(NewEvent(now, "throttle.ended", None, None, {"provider": provider}))
        for approval in transaction.expired_approvals(now, _BATCH):
            self._expire(transaction, approval, now)
        for row in transaction.waiting_due(now, _BATCH):
            self.wake(transaction, row, now)
        for run_id, late in transaction.watched_due(now, _BATCH):
            self._look(transaction, run_id, late=bool(late), now=now)

    def _look(self, transaction: Transaction, run_id: int, *, late: bool, now: int) -> None:
        """Tell that a run is late or slow, and note when to look at it again."""
        row = transaction.run(run_id)
        item = None if row is None else self._catalog.find(transaction, (row.schedule_id, row.rev, 0))
        if row is None or not isinstance(item, CompiledSchedule):
            transaction.unwatch_run(run_id)
            return
        definition, zone = item.definition, item.definition.trigger.timezone
        slow, usual = definition.slow_after_ms, definition.slow_after_ms == 0
        if usual:
            slow = unusual_ms(past_durations(transaction.last_records([row.schedule_id], USUAL_RUNS)))
        held, ended = row.reason == "paused", row.state >= RunState.SUCCEEDED
        watched = Watched(
            definition.late_after_ms, slow, row.slot, row.planned_at, row.started_at, ended=ended, held=held, late=late
        )  # fmt: skip
        found, again = look(watched, now)
        for kind in found:
            took = now - (row.started_at or now)
            summary = (
                late_text(watched, zone, now) if kind == "run.late" else slow_text(row.id, took, slow or 0, usual=usual)
            )
            transaction.events.append(
                NewEvent(now, kind, row.schedule_id, row.id, {"slot": row.slot, "summary": summary})
            )
        if again is None:
            transaction.unwatch_run(run_id)
        else:
            transaction.watch_run(run_id, again, late=late or "run.late" in found)

    def wake(self, transaction: Transaction, row: WaitingRun, now: int) -> None:
        """Wake a waiting run: it passes all gates again. It stays one run, whatever came due meanwhile."""
        if not transaction.try_lock_due([row.schedule_id]):
            return  # another worker has it locked
        item = self._catalog.find(transaction, row.key)
        if not isinstance(item, CompiledSchedule):
            _set_aside(transaction, row, item, now)
            return
        change, cancel = RunChange(row.id, row.epoch, row.slot, item, MARK_READY, now, now), ()
        if row.reason == "checking":  # the former check is void: the run is checked again
            change = change._replace(renewed=True)
        if is_held(transaction, row.schedule_id) and not backfills.goes_on(transaction, row.backfill):
            change = change._replace(transition=SUSPEND, reason="paused")
        elif row.reason != "checking":
            change, cancel = self._judged(transaction, row, item, change, now)
        if apply(transaction, [change], now) and cancel:
            end_runs(transaction, self._catalog, cancel, now, "cancelled_by_newer")

    def _judged(
        self, transaction: Transaction, row: WaitingRun, item: CompiledSchedule, change: RunChange, now: int
    ) -> tuple[RunChange, tuple[int, ...]]:
        """The change for the run, and the runs to cancel for it."""
        policies = self._catalog.policies(transaction)
        met = NO_RUNS if item.step else met_runs(transaction, [row.schedule_id]).get(row.schedule_id, NO_RUNS)
        # Earlier runs, and runs that were started manually meanwhile.
        others = [(run, state) for run, state in met.runs if run < row.id or (run > row.id and state >= RunState.READY)]
        if row.reason == DEBOUNCING:  # runs that wait for calls of other groups are not in its way
            waiting = {other.id for other in transaction.waiting_for(DEBOUNCING)}
            others = [(run, state) for run, state in others if run not in waiting]
        short = None if row.attempt else spending.expected_charge(transaction, policies, item, now)
        called = row.slot is None and transaction.is_called(row.id)
        manual = row.slot is None and not called
        if (
            row.backfill is not None
        ):  # it waits for whatever else there is, and nothing makes it one that a person started
            manual, called = False, True
        backfill = met.backfill if any(run == met.backfill for run, _ in others) else None
        facts = Facts(others, False, item.agent, policies, short, manual=manual, called=called, backfill=backfill)
        # Its slot was in time and was counted when the run was created, so these two limits do not apply.
        definition = without_bounds(item.definition, waits=row.backfill is not None)
        verdict = judge(Candidate(definition, row.slot, facts, 0, False, now), item.levels)
        if verdict is None:
            return change, ()
        change = change._replace(transition=AFTER_VERDICT[verdict.state], not_before=verdict.until or now)
        return change._replace(reason=verdict.reason, evidence=verdict.evidence), verdict.cancel

    def _resume(self, transaction: Transaction, schedule_id: int, now: int) -> None:
        if not transaction.try_lock_due([schedule_id]):
            return
        row = transaction.schedule(schedule_id)
        item = None if row is None else self._catalog.find(transaction, (schedule_id, row.rev, 0))
        if row is not None and row.state != "paused":
            return  # another engine was faster
        if row is not None and isinstance(item, CompiledSchedule):
            schedule = schedule_record(row)
            resume(transaction, schedule, item, now, "time")
            repeat_one_shot(transaction, self._catalog, schedule, {"name": "time"}, now)
        else:
            transaction.set_paused_until(schedule_id, None)

    def _expire(self, transaction: Transaction, approval: Approval, now: int) -> None:
        """Apply the default decision of a request that expired."""
        if not transaction.try_lock_due([approval.schedule_id]):
            return
        granted = approval.kind == "run" and approval.default == "approve"
        if not transaction.set_approval_state(approval.id, "pending", "approved" if granted else "expired", now):
            return
        data = {"approval": str(approval.id), "default": approval.default}
        transaction.events.append(NewEvent(now, "approval.expired", approval.schedule_id, approval.run_id, data))
        if approval.kind == "schedule":
            reject(transaction, self._catalog, approval, now, "the request expired without an answer", "matins")
        elif approval.kind == "run":
            answer_run(transaction, self._catalog, approval, granted, now, "approval_expired")


def _set_aside(transaction: Transaction, row: WaitingRun, error: object, now: int) -> None:
    """Hold a run whose definition cannot be read, with its schedule; otherwise it would be read again and again."""
    t = SUSPEND
    transaction.change_states([StateChange(row.id, row.epoch, t.low, t.high, t.target, now, None, "paused", None)])
    for due in transaction.lock_due([row.schedule_id]):
        mark_broken(transaction, due, error, now)


def reject(transaction: Transaction, catalog: Catalog, approval: Approval, now: int, why: str, by: str) -> None:
    """Reject a schedule. Its waiting runs, from former settings, are cancelled too, and steps that have not started."""
    schedule_id = approval.schedule_id
    transaction.set_schedule_state(schedule_id, "rejected", now, why, by)
    transaction.replace_cursor(schedule_id, None, None, approval.rev)
    backfills.end_all(transaction, schedule_id, now)
    live = live_runs(transaction, [schedule_id]).get(schedule_id, [])
    steps = transaction.live_runs(transaction.live_steps([run for run, _ in live]))
    waiting = [run for run, state in live if state <= RunState.READY]
    waiting += [step.id for step in steps if step.state <= RunState.READY]
    end_runs(transaction, catalog, waiting, now, "schedule_rejected", by)


def answer_run(
    transaction: Transaction, catalog: Catalog, approval: Approval, granted: bool, now: int, reason: str,
    denied: Transition = EXPIRE,
) -> bool:  # fmt: skip
    """Let the run of a request continue, or end it. False when it has already ended."""
    assert approval.run_id is not None
    rows = transaction.live_runs([approval.run_id])
    if not rows:
        return False
    row = rows[0]
    item = catalog.find(transaction, (approval.schedule_id, approval.rev, row.step))
    if not isinstance(item, CompiledSchedule):
        return end_unreadable(transaction, [row], now, denied) > 0  # whatever was decided: it must not block others
    evidence = {"approval": str(approval.id)}
    change = RunChange(row.id, row.epoch, row.slot, item, denied, now, None, reason, None, evidence)
    if granted:
        paused = is_held(transaction, approval.schedule_id)
        # Others of its schedule did not wait for a run of a backfill that was not approved.
        go_on = ENQUEUE if item.exclusive and not item.step and transaction.backfill_of(row.id) else MARK_READY
        change = RunChange(
            row.id, row.epoch, row.slot, item, SUSPEND if paused else go_on, now, now, cleared=GatesPassed.APPROVED
        )
        change = change._replace(reason="paused" if paused else None, evidence=evidence)
    return apply(transaction, [change], now) > 0
