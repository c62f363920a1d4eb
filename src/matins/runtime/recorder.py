"""From started to over: every way in which a started run changes goes through here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from matins.engine.retry import next_attempt_at
from matins.engine.transitions import CALL_OFF, CANCEL, FAIL, HOLD, LOSE, PROMOTE, RETRY, SUCCEED, Transition
from matins.model.records import NewEvent, Settlement, Started
from matins.model.run import Outcome, RunState
from matins.ports import Transaction
from matins.runtime.catalog import Catalog, Known
from matins.runtime.work import Ended, Work

_LONGEST_PLAIN = 8_000


class Change(NamedTuple):
    """A transition of a started run, with what it leaves behind."""

    run_id: int
    epoch: int
    slot: int | None
    known: Known
    transition: Transition
    at: int
    not_before: int | None = None
    reason: str | None = None
    outcome: str | None = None


def record(transaction: Transaction, ended: Sequence[Ended], now: int, *, limited: bool) -> int:
    """Write how attempts ended; how many were refused because somebody else had taken the run over."""
    changes = [_change_of(work, outcome, now) for work, outcome in ended]
    return len(changes) - apply(transaction, changes, now, limited=limited)


def hold(transaction: Transaction, works: Sequence[Work], now: int) -> None:
    """Past its limit and not to be ended: held, with its capacity, until it ends."""
    changes = [Change(work.run_id, work.epoch, work.slot, work.known, HOLD, now, reason="timed_out") for work in works]
    apply(transaction, changes, now)


def lose(transaction: Transaction, rows: Sequence[tuple[Started, Known]], now: int) -> None:
    """Nobody knows how these ended: their worker is gone. The policy says whether they are tried again."""
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


def give_up(transaction: Transaction, rows: Sequence[Started], now: int) -> None:
    """Lost runs whose definition cannot be read: there is no policy to ask, and nothing to try again."""
    t = LOSE
    lost = [Settlement(row.id, row.epoch, t.low, t.high, t.target, None, now, "unreadable", None) for row in rows]
    settled = transaction.settle(lost)
    for row in rows:
        if (row.id, row.epoch) in settled:
            transaction.release_permits([row.id])
            transaction.events.append(NewEvent(now, t.event, row.schedule_id, row.id, {"reason": "unreadable"}))


def end_runs(transaction: Transaction, catalog: Catalog, run_ids: Sequence[int], now: int, reason: str) -> None:
    """Runs that wait end at once, and those that are held for a worker that is gone; started ones are marked, and end
    when their worker has ended them."""
    rows = transaction.live_runs(run_ids)
    known = catalog.get(transaction, {(row.schedule_id, row.rev) for row in rows})
    workers = {worker for worker, _, _ in transaction.workers()} if rows else set[int]()
    changes: list[Change] = []
    for row in rows:
        item = known.get((row.schedule_id, row.rev))
        orphan = row.state == RunState.HELD and row.owner not in workers
        if isinstance(item, Known) and (row.state <= RunState.READY or orphan):
            transition = CANCEL if orphan else CALL_OFF
            changes.append(Change(row.id, row.epoch, row.slot, item, transition, now, reason=reason))
    for run_id, schedule_id, _ in transaction.mark_cancelling(run_ids):
        transaction.events.append(NewEvent(now, "run.cancelling", schedule_id, run_id, {"reason": reason}))
    apply(transaction, changes, now)


def _change_of(work: Work, outcome: Outcome, now: int) -> Change:
    run_id, epoch, attempt, slot, _, _, _, known = work
    if outcome.succeeded:
        result = None if outcome.result is None else _json({"result": outcome.result})
        return Change(run_id, epoch, slot, known, SUCCEED, now, outcome=result)
    if outcome.cancelled:
        return Change(
            run_id, epoch, slot, known, CANCEL, now, reason="cancelled", outcome=_json({"error": outcome.error})
        )
    error = _json({"error": outcome.error})
    again = None if outcome.timed_out else next_attempt_at(known.definition, run_id, attempt, now)
    if again is not None:
        return Change(run_id, epoch, slot, known, RETRY, now, again, "failed_attempt", error)
    return Change(
        run_id, epoch, slot, known, FAIL, now, reason="timed_out" if outcome.timed_out else "failed", outcome=error
    )


def apply(transaction: Transaction, changes: Sequence[Change], now: int, *, limited: bool = True) -> int:
    """All that follows from a change follows from the rows that came back: a stale epoch changes nothing."""
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
    _count_failures(transaction, over)
    _promote(transaction, over, now)
    unwanted = [change for change in taken if change.transition is RETRY and settled[change.run_id, change.epoch]]
    apply(transaction, [change._replace(transition=CALL_OFF, not_before=None) for change in unwanted], now)
    return len(taken)


def _settlement(change: Change) -> Settlement:
    t = change.transition
    ended_at = change.at if t.over else None
    return Settlement(
        change.run_id, change.epoch, t.low, t.high, t.target, change.not_before, ended_at, change.reason, change.outcome
    )


def _event(change: Change) -> NewEvent:
    data: dict[str, Any] | None = None
    if change.reason is not None:
        data = {"reason": change.reason, "epoch": change.epoch}
    return NewEvent(change.at, change.transition.event, change.known.schedule_id, change.run_id, data)


def _move_cursors(transaction: Transaction, over: list[Change]) -> None:
    """Intervals that count from completion go on, however the run ended."""
    rows: list[tuple[int, int, int, int]] = []
    for change in over:
        rule = change.known.rule
        if rule.completion:
            next_slot, due_at = rule.after_completion(change.known.schedule_id, change.slot, change.at)
            rows.append((change.known.schedule_id, change.known.rev, next_slot, due_at))
    if rows:
        transaction.set_cursors(rows)


def _count_failures(transaction: Transaction, over: list[Change]) -> None:
    rows: list[tuple[int, bool]] = []
    for change in over:
        if change.transition is FAIL:
            rows.append((change.known.schedule_id, True))
        elif change.transition is SUCCEED:
            rows.append((change.known.schedule_id, False))
    transaction.count_failures(rows)


def _promote(transaction: Transaction, over: list[Change], now: int) -> None:
    """Of every schedule: one that skips overlaps queues too, when it catches up or after an edit."""
    if over:
        for run_id, schedule_id in transaction.promote(sorted({change.known.schedule_id for change in over}), now):
            transaction.events.append(NewEvent(now, PROMOTE.event, schedule_id, run_id))


def _json(value: dict[str, Any]) -> str:
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except Exception:  # a job may return or raise anything; what JSON cannot hold must not stop the others
        return orjson.dumps({key: _plain(told) for key, told in value.items()}).decode()


def _plain(value: object) -> str:
    try:
        return ascii(value)[:_LONGEST_PLAIN]
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
