"""Changes of runs: every transition of a run is applied here, with its consequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from matins.engine.audit_runs import end_facts
from matins.engine.gates.paused import BY_FAILURES
from matins.engine.planning import Timetable
from matins.engine.reasons import last_error, sentence, summary_data
from matins.engine.targets import BY_SESSION_ID, SESSION_GONE
from matins.engine.transitions import (
    BLOCK,
    CANCEL,
    CANCEL_WAITING,
    DENY,
    ENQUEUE,
    EXPIRE,
    FAIL,
    FAIL_UNSTARTED,
    HOLD,
    MARK_UNKNOWN,
    MISS,
    PROMOTE,
    REFUSE_FOR_BUDGET,
    RETRY,
    SKIP,
    SUCCEED,
    THROTTLE,
    Transition,
)
from matins.engine.when.triggers import compile_trigger
from matins.model.access import signed
from matins.model.rows import NewEvent, NextSlot, StartedRun, StateChange, from_tuple
from matins.model.run import RunState
from matins.model.thread import ThreadAssignment
from matins.model.throttle import Throttle
from matins.runtime import approval_requests, spending
from matins.runtime.attempt import Attempt
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.pausing import pause
from matins.runtime.rows import schedule_record
from matins.runtime.run_change import RunChange, event_type, step_event
from matins.runtime.step_changes import next_changes
from matins.runtime.uncovered_slots import next_uncovered_slot
from matins.store.transaction import Transaction

_MAX_REPR_LENGTH = 8_000
_NOT_STOPPED = ("active", "completed", "paused")
_HELD_BACK = ("pending", "paused", "broken")
_new_event = from_tuple(NewEvent)
_FAILURES = (FAIL, FAIL_UNSTARTED)
_NEVER_RAN = (SKIP, BLOCK, MISS, DENY, EXPIRE, REFUSE_FOR_BUDGET)


def apply(
    transaction: Transaction, changes: Sequence[RunChange], now: int, *, limited: frozenset[str] | None = None
) -> int:
    """Apply changes and their consequences, except those with a stale epoch. Returns the number of applied ones.
    `limited` are the scopes that have permits, where they are known."""
    if not changes:
        return 0
    rows = [_state_change(change) for change in changes]
    settled = transaction.change_states(rows)
    taken: list[RunChange] = []
    for change, row in zip(changes, rows, strict=True):
        if (change.run_id, change.epoch) in settled:
            taken.append(change)
            transaction.events.append(_event(change, row.outcome))
    over = [change for change in taken if change.transition.is_terminal]
    steps = [change for change in over if change.compiled.step]
    whole = [change for change in over if not change.compiled.step] if steps else over
    _release_permits(
        transaction, [(change.run_id, change.compiled) for change in taken if not _keeps_permits(change)], limited
    )
    _move_cursors(transaction, whole)
    _count_failures(transaction, whole, now)
    _undo_preparations(transaction, [change for change in over if not change.transition.started], now)
    waited = whole + [change for change in taken if change.transition is ENQUEUE]
    _promote(transaction, {change.compiled.schedule_id for change in waited}, now)
    _settle_accounts(transaction, taken, now)
    for change in taken:
        if change.compiled.wakes_agent and change.transition.started:
            _record_turn(transaction, change, now)
    _continue(transaction, [change for change in taken if change.transition in (RETRY, THROTTLE)], settled, now)
    if steps:
        _follow(transaction, [change.run_id for change in steps], now)
    return len(taken)


def _undo_preparations(transaction: Transaction, never_started: list[RunChange], now: int) -> None:
    """Take back what was counted and approved for runs that end without a start."""
    if never_started:
        _uncount_executions(transaction, never_started, now)
    for change in never_started:
        if change.compiled.definition.approval != "auto" or change.compiled.creator is not None:
            approval_requests.void_run(transaction, change.run_id, now)


def _continue(
    transaction: Transaction, again: list[RunChange], settled: Mapping[tuple[int, int], bool], now: int
) -> None:
    """Let runs wait for their next attempt. Those that were cancelled meanwhile end, and those of schedules that stand
    still are suspended."""
    for change in again:
        transaction.end_attempt(change.run_id, change.epoch, change.at)
    cancelled = [change for change in again if settled[change.run_id, change.epoch]]
    apply(  # what the attempt used, and which limit it met, is settled
        transaction,
        [change._replace(transition=CANCEL_WAITING, not_before=None, limit=None) for change in cancelled],
        now,
    )
    hold_with_schedule(transaction, [one for one in again if not settled[one.run_id, one.epoch]], now)


def succeed_plainly(
    transaction: Transaction, attempts: Sequence[Attempt], now: int, *, limited: frozenset[str] | None
) -> int:
    """Apply SUCCEED without a result to attempts that end plainly, as `apply` does, in one statement of few values.
    Returns the number of applied ones."""
    if not attempts:
        return 0
    settled = transaction.succeed([(attempt[0], attempt[1], now) for attempt in attempts])
    taken = attempts if settled is None else [attempt for attempt in attempts if attempt[:2] in settled]
    events, kind = transaction.events, SUCCEED.event
    for attempt in taken:
        item = attempt[7]
        events.append(_new_event((now, kind, item.schedule_id, attempt[0], _bound(item.rev, None, attempt[1]))))
    if limited is None or limited:
        _release_permits(transaction, [(attempt.run_id, attempt.compiled) for attempt in taken], limited)
    schedule_ids = {attempt[7].schedule_id for attempt in taken}
    transaction.count_failures([(schedule_id, None) for schedule_id in schedule_ids])
    _promote(transaction, schedule_ids, now)
    return len(taken)


def _release_permits(
    transaction: Transaction, runs: Sequence[tuple[int, CompiledSchedule]], limited: frozenset[str] | None
) -> None:
    """Release the permits of those runs that may have one: releasing costs more than taking."""
    holders = [run_id for run_id, item in runs if limited is None or not limited.isdisjoint(item.scopes)]
    if holders:
        transaction.release_permits(holders)


def _keeps_permits(change: RunChange) -> bool:
    return change.transition is HOLD and change.compiled.definition.held_keeps_capacity


def end_runs(
    transaction: Transaction,
    catalog: Catalog,
    run_ids: Sequence[int],
    now: int,
    reason: str,
    by: str | None = None,
    note: str | None = None,
) -> None:
    """End runs. Waiting runs, and held runs of dead workers, end immediately. Running ones are marked, and end when
    their worker has stopped them. `note` is why, in the words of who ends them."""
    rows = transaction.live_runs(run_ids)  # their schedules are locked: from here on, no run unfolds into steps
    rows += transaction.live_runs(transaction.live_steps([row.id for row in rows]))
    compiled = catalog.compiled(transaction, {row.key for row in rows})
    workers = {worker.id for worker in transaction.workers()} if rows else set[int]()
    author = ({} if by is None else signed(by)) | ({} if note is None else {"note": note})
    changes: list[RunChange] = []
    for row in rows:
        item = compiled.get(row.key)
        orphan = row.state == RunState.HELD and row.owner not in workers
        if isinstance(item, CompiledSchedule) and (row.state <= RunState.READY or orphan):
            transition = CANCEL if orphan else CANCEL_WAITING
            changes.append(
                RunChange(row.id, row.epoch, row.slot, item, transition, now, reason=reason, evidence=author or None)
            )
    unreadable = [row for row in rows if not isinstance(compiled.get(row.key), CompiledSchedule)]
    end_unreadable(transaction, [row for row in unreadable if row.state <= RunState.READY], now, CANCEL_WAITING)
    orphans = [row for row in unreadable if row.state == RunState.HELD and row.owner not in workers]
    end_unreadable(transaction, orphans, now, CANCEL)
    steps = {row.id for row in rows if row.step}
    for run_id, schedule_id, _ in transaction.mark_cancelling([row.id for row in rows]):
        kind = step_event("run.cancelling") if run_id in steps else "run.cancelling"
        transaction.events.append(NewEvent(now, kind, schedule_id, run_id, {"reason": reason, **author}))
    apply(transaction, changes, now)


def _follow(transaction: Transaction, ended: Sequence[int], now: int) -> None:
    """Apply what follows from the ends of steps. When the settings of their run cannot be read, no other step of it
    starts."""
    changes, unreadable = next_changes(transaction, ended, now)
    apply(transaction, changes, now)
    for run in unreadable:
        live = transaction.live_runs(transaction.live_steps([run.id]))
        waiting = [row for row in live if row.state <= RunState.READY]
        if waiting:
            end_unreadable(transaction, waiting, now, CANCEL_WAITING)
        elif not live:
            end_unreadable(transaction, [run], now)


def end_unreadable(transaction: Transaction, rows: Sequence[StartedRun], now: int, t: Transition = MARK_UNKNOWN) -> int:
    """End runs whose definition cannot be read: they have no policy, and cannot be retried. Returns how many ended."""
    if not rows:
        return 0
    ends = (t.low, t.high, t.target, None, now, "unreadable", None, None, 0, 0)
    settled = transaction.change_states([StateChange(row.id, row.epoch, *ends) for row in rows])
    spending.release(transaction, [row.id for row in rows if (row.id, row.epoch) in settled])
    for row in rows:
        if (row.id, row.epoch) in settled:
            transaction.release_permits([row.id])
            kind = step_event(t.event) if row.step else t.event
            summary = sentence("unreadable", None, "UTC", state=t.target).text
            data = {"reason": "unreadable", "summary": summary, "epoch": row.epoch, **end_facts(row.rev, None)}
            transaction.events.append(NewEvent(now, kind, row.schedule_id, row.id, data))
    steps = [row.id for row in rows if row.step and (row.id, row.epoch) in settled]
    if steps:
        _follow(transaction, steps, now)
    return len(settled)


def hold_with_schedule(
    transaction: Transaction, again: list[RunChange], now: int, states: Sequence[str] = ("pending",)
) -> None:
    """Hold runs that wait again while their schedule is pending, and end them when it is rejected. The next round of a
    run of steps is also held while the schedule is paused, like steps that become ready."""
    for change in again:
        row = transaction.schedule(change.compiled.schedule_id)
        if row is not None and row.state in (_HELD_BACK if change.compiled.steps else states):
            transaction.suspend_runs(change.compiled.schedule_id)
        elif row is not None and row.state == "rejected":
            rejected = change._replace(
                transition=CANCEL_WAITING, not_before=None, limit=None, reason="schedule_rejected", outcome=None
            )
            apply(transaction, [rejected], now)


def _state_change(change: RunChange) -> StateChange:
    t = change.transition
    ended_at = change.at if t.is_terminal else None
    outcome = None if change.outcome is None else _json(change.outcome)
    evidence = None if change.evidence is None else _json(change.evidence)
    return StateChange(
        change.run_id, change.epoch, t.low, t.high, t.target, change.not_before, ended_at, change.reason,
        outcome, evidence, change.cleared, int(change.renewed),
    )  # fmt: skip


def _event(change: RunChange, outcome: str | None) -> NewEvent:
    data: dict[str, Any] | None = None
    if change.reason is not None:
        data = {
            "reason": change.reason,
            "epoch": change.epoch,
            **(change.evidence or {}),
            **_cause(change, change.reason),
        }
    if change.transition.is_terminal:
        data = {**(data or {}), **_bound(change.compiled.rev, outcome, change.epoch + change.renewed)}
    kind = event_type(change.compiled, change.transition.event)
    return NewEvent(change.at, kind, change.compiled.schedule_id, change.run_id, data)


def _bound(rev: int, outcome: str | None, epoch: int) -> dict[str, Any]:
    """What the event of an end says about its run."""
    facts = end_facts(rev, outcome)
    facts["epoch"] = epoch
    return facts


def _cause(change: RunChange, reason: str) -> dict[str, Any]:
    """The error and the sentence of `why`, so that whoever hears of the event need not ask."""
    error, state = last_error(change.outcome), change.transition.target
    facts = {"attempt": change.attempt, "again": change.not_before, "error": error, "became": state.label}
    zone, at = change.compiled.definition.trigger.timezone, change.slot or change.at
    summary = sentence(reason, {**facts, **(change.evidence or {})}, zone, state=state, at=at)
    return summary_data(summary) if error is None else {**summary_data(summary), "error": error}


def _move_cursors(transaction: Transaction, over: list[RunChange]) -> None:
    """Set the next slot of intervals that count from completion, whatever the outcome."""
    rows: list[NextSlot] = []
    for change in over:
        rule = change.compiled.timetable
        if rule.from_completion:
            next_slot, due_at = rule.after_completion(change.compiled.schedule_id, change.slot, change.at)
            rows.append(NextSlot(change.compiled.schedule_id, change.compiled.rev, next_slot, due_at))
    if rows:
        transaction.set_cursors(rows)


def _count_failures(transaction: Transaction, over: list[RunChange], now: int) -> None:
    """Count failures. Interrupted, unknown and throttled runs do not count."""
    counted = [change for change in over if change.transition in (SUCCEED, *_FAILURES)]
    ends = [(change.compiled.schedule_id, change.at if change.transition in _FAILURES else None) for change in counted]
    transaction.count_failures(ends)
    for change in counted:
        limit = change.compiled.definition.pause_after_failures
        if limit is not None and change.transition in _FAILURES:
            _pause_after_failures(transaction, change.compiled.schedule_id, limit, now)


def _pause_after_failures(transaction: Transaction, schedule_id: int, limit: int, now: int) -> None:
    if transaction.failures(schedule_id) < limit:
        return
    transaction.reset_failures(schedule_id)
    note = "the last run failed" if limit == 1 else f"{limit} runs in a row failed"
    if pause(transaction, schedule_id, now, BY_FAILURES, note):
        data = {"failures": limit}
        transaction.events.append(NewEvent(now, "schedule.auto_paused", schedule_id, None, data))


def _uncount_executions(transaction: Transaction, never_started: list[RunChange], now: int) -> None:
    """Do not count runs that a gate stopped as executions, unless an attempt ran before."""
    for change in never_started:
        counted = change.slot is not None or transaction.is_called(change.run_id)
        if change.transition in _NEVER_RAN and counted:
            transaction.uncount_execution(change.compiled.schedule_id, change.run_id)
            continue_schedule(transaction, change.compiled.schedule_id, now)


def continue_schedule(transaction: Transaction, schedule_id: int, now: int) -> None:
    """Continue a schedule that had no slot left, and has executions, or slots before its end, left again."""
    row = transaction.schedule(schedule_id)
    schedule = None if row is None else schedule_record(row)
    if schedule is None or schedule.next_slot is not None:
        return
    ends_at, limit = schedule.definition.ends_at, schedule.definition.max_executions
    again = schedule.state == "expired" and ends_at is not None and ends_at > now
    if (schedule.state not in _NOT_STOPPED and not again) or (limit is not None and schedule.executions >= limit):
        return
    rule = Timetable(schedule.definition, compile_trigger(schedule.definition.trigger))
    slot, paused = next_uncovered_slot(transaction, schedule_id, rule.trigger, now), schedule.state == "paused"
    if slot is not None:
        if again:
            transaction.set_schedule_state(schedule_id, "active", now, None, None)
        due_at = None if paused else rule.due_at(schedule_id, slot)
        transaction.replace_cursor(schedule_id, slot, due_at, schedule.rev, paused=paused)


def _promote(transaction: Transaction, schedule_ids: set[int], now: int) -> None:
    """Make queued runs of these schedules ready. Each may have some, after catching up or an edit."""
    if schedule_ids:
        for run_id, schedule_id in transaction.promote(sorted(schedule_ids), now):
            transaction.events.append(NewEvent(now, PROMOTE.event, schedule_id, run_id))


def _settle_accounts(transaction: Transaction, taken: list[RunChange], now: int) -> None:
    """Release reservations, record spending, and set the throttles of providers."""
    reserved = transaction.any_reservation()
    if reserved or any(change.usage is not None for change in taken):
        ended = [change for change in taken if change.transition.started and change.transition is not HOLD]
        spenders = [change for change in ended if not change.compiled.steps]  # the steps have spent
        for change in spenders:
            lost = change.reason in ("worker_lost", "unknown", "stopped")
            spender = spending.Spender(change.run_id, change.compiled, change.usage, lost)
            spending.settle(transaction, spender, now, reserved=reserved)
    for change in taken:
        if change.limit is not None and change.limit.resets_at is not None:
            provider, resets_at, reason = change.limit.provider, change.limit.resets_at, change.limit.reason
            login, affects = change.limit.login, change.limit.affects
            transaction.uncount_attempt(change.run_id)
            throttle = Throttle(provider, resets_at, now, affects, reason, f"run {change.run_id}", login)
            transaction.upsert_throttle(throttle)
            data = {"provider": provider, "resets_at": resets_at, "reason": reason}
            if login is not None:
                data["login"] = login
            transaction.events.append(NewEvent(now, "throttle.set", change.compiled.schedule_id, change.run_id, data))


def _record_turn(transaction: Transaction, change: RunChange, now: int) -> None:
    """Set the thread of an agent's run to waiting, and store its new messages and the tool's session."""
    assignment = transaction.thread_assignment(change.run_id)
    if change.transition is RETRY and change.reason == "target_gone":
        _reject_session(transaction, change.run_id, assignment, now)
    elif assignment is not None and change.turn is None:
        transaction.set_thread(assignment.thread.id, "waiting", now)
    elif assignment is not None and change.turn is not None:
        thread, turn = assignment.thread.id, change.turn
        for role, text in (("user", turn.prompt), ("assistant", turn.text)):
            if text:
                transaction.insert_message(thread, change.run_id, role, text, now)
        transaction.set_thread(thread, "waiting", now, turn.session, turn.session_usage)


def _reject_session(transaction: Transaction, run_id: int, assignment: ThreadAssignment | None, now: int) -> None:
    """Handle a session that the tool does not know: the attempt does not count, and the thread is chosen again."""
    transaction.uncount_attempt(run_id)
    if assignment is None:
        return
    if assignment.how == BY_SESSION_ID:  # a thread without a conversation
        transaction.clear_session(assignment.thread.id, "closed")
    else:
        transaction.set_thread(assignment.thread.id, "waiting", now)
    transaction.assign_thread(run_id, assignment.thread.id, SESSION_GONE)


def _json(value: dict[str, Any]) -> str:
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except Exception:  # a job may return or raise anything, which must not stop the others
        return orjson.dumps({key: _plain(item) for key, item in value.items()}).decode()


def _plain(value: object) -> str:
    try:
        return ascii(value)[:_MAX_REPR_LENGTH]
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
