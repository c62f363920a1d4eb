"""Transitions of runs: every change of a started run is made here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from matins.engine.gates.paused import BY_FAILURES
from matins.engine.planning import Rule
from matins.engine.retry import next_attempt_at
from matins.engine.transitions import (
    BLOCK,
    CALL_OFF,
    CANCEL,
    DENY,
    EXPIRE,
    FAIL,
    HOLD,
    IDLE,
    INTERRUPT,
    LINE_UP,
    LOSE,
    MISS,
    OVERSPEND,
    PROMOTE,
    REFUSE,
    RETRY,
    SKIP,
    SUCCEED,
    THROTTLE,
    Transition,
)
from matins.engine.when.triggers import compile_trigger
from matins.model.policy import Throttle
from matins.model.rows import NewEvent, NextSlot, StartedRun, StateChange
from matins.model.run import Conversation, Outcome, ProviderLimit, RunState, Usage
from matins.ports import Transaction
from matins.runtime import spending
from matins.runtime.catalog import Catalog, Known
from matins.runtime.conversations import conclude, turn_away
from matins.runtime.pausing import pause
from matins.runtime.replan import next_free
from matins.runtime.rows import schedule_of
from matins.runtime.work import Ended, Work

_LONGEST_PLAIN = 8_000
_SHORTEST_LIMIT_MS = 60_000
"""The shortest throttle: without a reset time, a provider is not called for a minute."""
_LONGEST_LIMIT_MS = 7 * 86_400_000
"""The longest throttle that a run can set: a week."""
_NOT_STOPPED = ("active", "completed", "paused")
_NEVER_RAN = (SKIP, BLOCK, MISS, DENY, EXPIRE, REFUSE)


class Change(NamedTuple):
    """A transition of a run, with its results."""

    run_id: int
    epoch: int
    slot: int | None
    known: Known
    transition: Transition
    at: int
    not_before: int | None = None
    reason: str | None = None
    outcome: str | None = None
    evidence: dict[str, Any] | None = None
    cleared: int = 0
    renewed: bool = False
    usage: Usage | None = None
    limit: ProviderLimit | None = None
    told: Conversation | None = None


def record(transaction: Transaction, ended: Sequence[Ended], now: int, *, limited: bool) -> int:
    """Record the outcomes of attempts. Returns how many were refused because another worker had taken over the run."""
    changes = [_change_of(work, outcome, now) for work, outcome in ended]
    return len(changes) - apply(transaction, changes, now, limited=limited)


def hold(transaction: Transaction, works: Sequence[Work], now: int) -> None:
    """Hold runs that exceeded their timeout and cannot be stopped. They keep their capacity until they end."""
    changes = [Change(work.run_id, work.epoch, work.slot, work.known, HOLD, now, reason="timed_out") for work in works]
    apply(transaction, changes, now)


def lose(transaction: Transaction, rows: Sequence[tuple[StartedRun, Known]], now: int) -> None:
    """Handle runs whose worker is dead: their outcome is unknown. Their policy decides whether they are retried."""
    changes: list[Change] = []
    for row, known in rows:
        if row.cancelling:
            transition, reason = CANCEL, "worker_lost"
        elif known.definition.on_unknown == "retry":
            transition, reason = RETRY, "worker_lost"
        else:
            transition, reason = (HOLD if row.state < RunState.HELD else LOSE), "worker_lost"
        not_before = now if transition is RETRY else None
        changes.append(Change(row.id, row.epoch, row.slot, known, transition, now, not_before, reason))
    apply(transaction, changes, now)


def give_up(transaction: Transaction, rows: Sequence[StartedRun], now: int, t: Transition = LOSE) -> None:
    """End runs whose definition cannot be read: they have no policy, and cannot be retried."""
    ends = (t.low, t.high, t.target, None, now, "unreadable", None, None, 0, 0)
    settled = transaction.settle([StateChange(row.id, row.epoch, *ends) for row in rows])
    spending.release(transaction, [row.id for row in rows if (row.id, row.epoch) in settled])
    for row in rows:
        if (row.id, row.epoch) in settled:
            transaction.release_permits([row.id])
            transaction.events.append(NewEvent(now, t.event, row.schedule_id, row.id, {"reason": "unreadable"}))


def end_runs(
    transaction: Transaction, catalog: Catalog, run_ids: Sequence[int], now: int, reason: str, by: str | None = None
) -> None:
    """End runs. Waiting runs, and held runs of dead workers, end immediately. Running ones are marked, and end when
    their worker has stopped them."""
    rows = transaction.live_runs(run_ids)
    known = catalog.get(transaction, {(row.schedule_id, row.rev) for row in rows})
    workers = {worker.id for worker in transaction.workers()} if rows else set[int]()
    told = {} if by is None else {"by": by}
    changes: list[Change] = []
    for row in rows:
        item = known.get((row.schedule_id, row.rev))
        orphan = row.state == RunState.HELD and row.owner not in workers
        if isinstance(item, Known) and (row.state <= RunState.READY or orphan):
            transition = CANCEL if orphan else CALL_OFF
            changes.append(
                Change(row.id, row.epoch, row.slot, item, transition, now, reason=reason, evidence=told or None)
            )
    unreadable = [row for row in rows if not isinstance(known.get((row.schedule_id, row.rev)), Known)]
    give_up(transaction, [row for row in unreadable if row.state <= RunState.READY], now, CALL_OFF)
    for run_id, schedule_id, _ in transaction.mark_cancelling(run_ids):
        transaction.events.append(NewEvent(now, "run.cancelling", schedule_id, run_id, {"reason": reason, **told}))
    apply(transaction, changes, now)


def tried_again(work: Work, outcome: Outcome, now: int) -> bool:
    """Whether a run with this outcome is retried."""
    return _change_of(work, outcome, now).transition is RETRY


def _change_of(work: Work, outcome: Outcome, now: int) -> Change:
    run_id, epoch, attempt, slot, _, _, _, known = work
    usage = outcome.usage
    if outcome.succeeded:
        result = None if outcome.result is None else _json({"result": outcome.result})
        return Change(
            run_id, epoch, slot, known, SUCCEED, now, None, None, result, None, 0, False, usage, None, outcome.told
        )
    return _unsuccessful(Change(run_id, epoch, slot, known, FAIL, now, usage=usage), attempt, outcome)


def _unsuccessful(change: Change, attempt: int, outcome: Outcome) -> Change:
    report = {} if outcome.result is None else {"result": outcome.result}
    change = change._replace(outcome=_json({"error": outcome.error, **report}), told=outcome.told)
    if outcome.lost:
        return _lost(change)
    if outcome.interrupted:
        return change._replace(transition=INTERRUPT, reason="stopped")
    if outcome.nothing_to_do is not None:
        return change._replace(transition=IDLE, reason=outcome.nothing_to_do)
    if outcome.over_budget:
        words = change.known.definition
        evidence = {"max_cost": words.max_cost, "max_tokens": words.max_tokens}
        return change._replace(transition=OVERSPEND, reason="over_budget", evidence=evidence)
    if outcome.limit is not None:
        return _throttled(change, outcome.limit)
    if outcome.cancelled:
        return change._replace(transition=CANCEL, reason="cancelled")
    if outcome.target_gone:
        return change._replace(transition=RETRY, not_before=change.at, reason="target_gone")
    again = None if outcome.timed_out else next_attempt_at(change.known.definition, change.run_id, attempt, change.at)
    if again is not None:
        return change._replace(transition=RETRY, not_before=again, reason="failed_attempt")
    return change._replace(reason="timed_out" if outcome.timed_out else "failed")


def _lost(change: Change) -> Change:
    if change.known.definition.on_unknown == "retry":
        return change._replace(transition=RETRY, not_before=change.at, reason="unknown")
    return change._replace(transition=HOLD, reason="unknown")


def _throttled(change: Change, limit: ProviderLimit) -> Change:
    """A rate limit is not a failure. The run waits until the limit resets, with all runs of that provider."""
    until = min(max(limit.resets_at or 0, change.at + _SHORTEST_LIMIT_MS), change.at + _LONGEST_LIMIT_MS)
    evidence = {"provider": limit.provider, "until": until, "why": limit.reason}
    limit = limit._replace(resets_at=until)
    return change._replace(transition=THROTTLE, reason="throttled", not_before=until, evidence=evidence, limit=limit)


def apply(transaction: Transaction, changes: Sequence[Change], now: int, *, limited: bool = True) -> int:
    """Apply changes and their consequences, except those with a stale epoch. Returns the number of applied ones."""
    if not changes:
        return 0
    settled = transaction.settle([_settlement(change) for change in changes])
    taken = [change for change in changes if (change.run_id, change.epoch) in settled]
    for change in taken:
        transaction.events.append(_event(change))
    over = [change for change in taken if change.transition.over]
    if limited:
        transaction.release_permits([change.run_id for change in taken if change.transition is not HOLD])
    _move_cursors(transaction, over)
    _count_failures(transaction, over, now)
    never_started = [change for change in over if not change.transition.started]
    if never_started:
        _uncount(transaction, never_started, now)
        _withdraw_questions(transaction, never_started, now)
    _promote(transaction, [change for change in taken if change.transition.over or change.transition is LINE_UP], now)
    _settle_accounts(transaction, taken, now)
    for change in taken:
        if change.known.talks and change.transition.started:
            _conclude(transaction, change, now)
    again = [change for change in taken if change.transition in (RETRY, THROTTLE)]
    unwanted = [change for change in again if settled[change.run_id, change.epoch]]
    apply(transaction, [change._replace(transition=CALL_OFF, not_before=None) for change in unwanted], now)
    keep_back(transaction, [change for change in again if change not in unwanted], now)
    return len(taken)


def keep_back(transaction: Transaction, again: list[Change], now: int, held: Sequence[str] = ("pending",)) -> None:
    """Hold runs that wait again while their schedule is pending, and end them when it is rejected."""
    for change in again:
        row = transaction.schedule(change.known.schedule_id)
        if row is not None and row.state in held:
            transaction.park(change.known.schedule_id)
        elif row is not None and row.state == "rejected":
            rejected = change._replace(transition=CALL_OFF, not_before=None, reason="schedule_rejected", outcome=None)
            apply(transaction, [rejected], now)


def _conclude(transaction: Transaction, change: Change, now: int) -> None:
    if change.transition is RETRY and change.reason == "target_gone":
        turn_away(transaction, change.run_id, now)
    else:
        conclude(transaction, change.run_id, change.told, now)


def _settlement(change: Change) -> StateChange:
    t = change.transition
    ended_at = change.at if t.over else None
    evidence = None if change.evidence is None else _json(change.evidence)
    return StateChange(
        change.run_id, change.epoch, t.low, t.high, t.target, change.not_before, ended_at, change.reason,
        change.outcome, evidence, change.cleared, int(change.renewed),
    )  # fmt: skip


def _event(change: Change) -> NewEvent:
    data: dict[str, Any] | None = None
    if change.reason is not None:
        data = {"reason": change.reason, "epoch": change.epoch, **(change.evidence or {})}
    return NewEvent(change.at, change.transition.event, change.known.schedule_id, change.run_id, data)


def _move_cursors(transaction: Transaction, over: list[Change]) -> None:
    """Set the next slot of intervals that count from completion, whatever the outcome."""
    rows: list[NextSlot] = []
    for change in over:
        rule = change.known.rule
        if rule.completion:
            next_slot, due_at = rule.after_completion(change.known.schedule_id, change.slot, change.at)
            rows.append(NextSlot(change.known.schedule_id, change.known.rev, next_slot, due_at))
    if rows:
        transaction.set_cursors(rows)


def _count_failures(transaction: Transaction, over: list[Change], now: int) -> None:
    """Count failures. Interrupted, unknown and throttled runs do not count."""
    rows: list[tuple[int, bool]] = []
    for change in over:
        if change.transition is FAIL:
            rows.append((change.known.schedule_id, True))
        elif change.transition is SUCCEED:
            rows.append((change.known.schedule_id, False))
    transaction.count_failures(rows)
    for change in [change for change in over if change.transition is FAIL]:
        most = change.known.definition.pause_after_failures
        if most is not None:
            _pause_after_failures(transaction, change.known.schedule_id, most, now)


def _pause_after_failures(transaction: Transaction, schedule_id: int, most: int, now: int) -> None:
    if transaction.failures(schedule_id) < most:
        return
    transaction.forget_failures(schedule_id)
    if pause(transaction, schedule_id, now, BY_FAILURES, f"{most} runs in a row failed"):
        data = {"failures": most}
        transaction.events.append(NewEvent(now, "schedule.auto_paused", schedule_id, None, data))


def _uncount(transaction: Transaction, never_started: list[Change], now: int) -> None:
    """Do not count runs that a gate stopped as executions, unless an attempt ran before."""
    for change in never_started:
        if change.transition in _NEVER_RAN and change.slot is not None:
            transaction.uncount(change.known.schedule_id, change.run_id)
            _go_on(transaction, change.known.schedule_id, now)


def _go_on(transaction: Transaction, schedule_id: int, now: int) -> None:
    """Continue a schedule that has executions left again."""
    row = transaction.schedule(schedule_id)
    schedule = None if row is None else schedule_of(row)
    if schedule is None or schedule.next_slot is not None or schedule.state not in _NOT_STOPPED:
        return
    most = schedule.definition.max_executions
    if most is not None and schedule.executions < most:
        rule = Rule(schedule.definition, compile_trigger(schedule.definition.trigger))
        slot, paused = next_free(transaction, schedule_id, rule.trigger, now), schedule.state == "paused"
        due_at = None if paused else rule.due_at(schedule_id, slot)
        transaction.replace_cursor(schedule_id, slot, due_at, schedule.rev, paused=paused)


def _withdraw_questions(transaction: Transaction, never_started: list[Change], now: int) -> None:
    for change in never_started:
        if change.known.definition.approval != "auto":
            for approval in transaction.approvals_of_run(change.run_id):
                if approval.kind == "run" and approval.state in ("pending", "approved"):
                    transaction.settle_approval(approval.id, approval.state, "void", now)
                    data = {"approval": str(approval.id), "why": "the run has ended"}
                    transaction.events.append(
                        NewEvent(now, "approval.voided", approval.schedule_id, change.run_id, data)
                    )


def _settle_accounts(transaction: Transaction, taken: list[Change], now: int) -> None:
    """Release reservations, record spending, and set the throttles of providers."""
    reserved = transaction.any_reservation()
    if reserved or any(change.usage is not None for change in taken):
        spenders = [change for change in taken if change.transition.started and change.transition is not HOLD]
        for change in spenders:
            lost = change.reason in ("worker_lost", "unknown", "stopped")
            spender = spending.Spender(change.run_id, change.known, change.usage, lost)
            spending.settle(transaction, spender, now, reserved=reserved)
    if not any(change.limit is not None for change in taken):
        return
    for change in taken:
        if change.limit is not None and change.limit.resets_at is not None:
            provider, resets_at, reason = change.limit.provider, change.limit.resets_at, change.limit.reason
            transaction.forgive_attempt(change.run_id)
            transaction.put_throttle(Throttle(provider, resets_at, now, (), reason, f"run {change.run_id}"))
            data = {"provider": provider, "resets_at": resets_at, "reason": reason}
            transaction.events.append(NewEvent(now, "throttle.set", change.known.schedule_id, change.run_id, data))


def _promote(transaction: Transaction, changes: list[Change], now: int) -> None:
    """Make queued runs ready. Every schedule may have some, after catching up or an edit."""
    if changes:
        for run_id, schedule_id in transaction.promote(sorted({change.known.schedule_id for change in changes}), now):
            transaction.events.append(NewEvent(now, PROMOTE.event, schedule_id, run_id))


def _json(value: dict[str, Any]) -> str:
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except Exception:  # a job may return or raise anything, which must not stop the others
        return orjson.dumps({key: _plain(told) for key, told in value.items()}).decode()


def _plain(value: object) -> str:
    try:
        return ascii(value)[:_LONGEST_PLAIN]
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
