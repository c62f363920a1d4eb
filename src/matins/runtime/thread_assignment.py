"""The thread of a run: chosen when the run starts, and updated when it ends."""

from __future__ import annotations

from matins.engine.targets import BY_SESSION_ID, SESSION_GONE, Resolved, TargetState, Wait, resolve_target
from matins.engine.transitions import DEFER, SKIP
from matins.model.agent import Target
from matins.model.rows import NewEvent, ReadyRun
from matins.model.thread import Thread, ThreadAssignment
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.run_change import RunChange, event_type
from matins.runtime.run_changes import apply
from matins.store.transaction import Transaction

_BUSY_MS, _GONE_MS, _MAX_GONE_MS = 2_000, 30_000, 900_000


def assign_target(transaction: Transaction, row: ReadyRun, item: CompiledSchedule, default: Target, now: int) -> bool:
    """Whether the run has a thread now. If not, it waits or is skipped."""
    definition = item.definition
    target = definition.target or default
    already, waited = transaction.thread_assignment(row.id), now - row.planned_at
    found = _target_state(transaction, item.agent, target, row.id, already)
    place = resolve_target(
        target, found, definition.fallback, definition.final_fallback, waited, definition.fallback_timeout_ms
    )
    if isinstance(place, Resolved):
        if already is not None and place.thread is not None and already.how not in (SESSION_GONE, BY_SESSION_ID):
            place = place._replace(how=already.how)
        _assign(transaction, row.id, item, target, place, now)
        return True
    gone = target.session_name or target.session or target.thread
    note = f'"{item.name}" was skipped: its target {target.kind}{f" {gone}" if gone else ""} no longer exists.'
    evidence = {"target": target.kind, "run": None, "note": note}
    change = RunChange(row.id, row.epoch, row.slot, item, SKIP, now, None, "target_gone", None, evidence)
    if isinstance(place, Wait):
        del evidence["note"]
        evidence["run"] = None if place.run is None else str(place.run)
        again = now + (
            _BUSY_MS if place.reason == "target_busy" else _retry_delay(waited, definition.fallback_timeout_ms)
        )
        change = change._replace(transition=DEFER, reason=place.reason, not_before=again)
        if found.session_gone:  # the tool looks for the session again
            transaction.unassign_thread(row.id)
    apply(transaction, [change], now)
    return False


def _retry_delay(waited: int, deadline: int) -> int:
    """The next check: later the longer the run has waited, but not after the deadline."""
    return min(max(_GONE_MS, min(waited // 2, _MAX_GONE_MS)), max(1, deadline - waited))


def _target_state(
    transaction: Transaction, agent: str, target: Target, run_id: int, already: ThreadAssignment | None
) -> TargetState:
    if already is not None and already.how == SESSION_GONE:
        if target.kind not in ("fresh", "channel"):
            return TargetState(None, session_gone=True)
        transaction.clear_session(already.thread.id, already.thread.state)
    thread = _thread(transaction, agent, target, already)
    busy = None if thread is None else transaction.run_in_thread(thread.id, run_id)
    return TargetState(thread, busy)


def _thread(transaction: Transaction, agent: str, target: Target, already: ThreadAssignment | None) -> Thread | None:
    if already is not None:  # a further attempt continues in the same thread
        return transaction.lock_thread(already.thread.id)
    if target.kind == "channel" and target.channel is not None:
        return transaction.channel_thread(agent, target.channel)
    if target.kind == "session":
        return transaction.session_thread(agent, target.session or target.session_name or "")
    if target.kind != "thread" or not isinstance(target.thread, int):
        return None
    thread = transaction.lock_thread(target.thread)
    # A tool does not know the sessions of other tools.
    return thread if thread is not None and thread.agent == agent else None


def _assign(
    transaction: Transaction, run_id: int, item: CompiledSchedule, target: Target, place: Resolved, now: int
) -> None:
    thread_id = place.thread.id if place.thread else _open(transaction, item, target, place.how, now)
    transaction.set_thread(thread_id, "running", now)
    transaction.assign_thread(run_id, thread_id, place.how)
    data = {"thread": str(thread_id), "how": place.how}
    transaction.events.append(NewEvent(now, event_type(item, "run.thread_assigned"), item.schedule_id, run_id, data))


def _open(transaction: Transaction, item: CompiledSchedule, target: Target, how: str, now: int) -> int:
    """A new thread; in a channel it continues the channel's session."""
    session, name = None, None
    if target.kind == "channel" and target.channel is not None:
        session, name = transaction.channel_session(item.agent, target.channel)
    elif how == BY_SESSION_ID:
        session, name = target.session, target.session_name
    return transaction.insert_thread(item.agent, target.channel, session, name, now)
