"""Where runs land: decided when they start, written down with what was said when they end."""

from __future__ import annotations

from matins.engine.landing import Found, Landed, Wait, land
from matins.engine.transitions import DEFER, SKIP
from matins.model.agent import Target
from matins.model.records import NewEvent, Ready
from matins.ports import Transaction
from matins.runtime.catalog import Known
from matins.runtime.recorder import Change, apply

_BUSY_MS, _GONE_MS = 2_000, 30_000


def landed(transaction: Transaction, row: Ready, item: Known, usual: Target, now: int) -> bool:
    """Whether there is a place for it now; if not, it waits for one, or is skipped."""
    words = item.definition
    target = words.target or usual
    place = land(target, _look(transaction, item.agent, target, row.id), words.fallback, words.final_fallback,
                 now - row.planned_at, words.wait_ms)  # fmt: skip
    if isinstance(place, Landed):
        _land(transaction, row.id, item, target, place, now)
        return True
    evidence = {"target": target.kind, "run": None}
    change = Change(row.id, row.epoch, row.slot, item, SKIP, now, None, "target_gone", None, evidence)
    if isinstance(place, Wait):
        evidence["run"] = None if place.run is None else str(place.run)
        again = now + (_BUSY_MS if place.reason == "target_busy" else _GONE_MS)
        change = change._replace(transition=DEFER, reason=place.reason, not_before=again)
    apply(transaction, [change], now)
    return False


def _look(transaction: Transaction, agent: str, target: Target, run_id: int) -> Found:
    already = transaction.landing(run_id)
    if already is not None:  # another attempt goes on where the first one was
        thread = transaction.locked_thread(already.thread.id)
    elif target.kind == "channel" and target.channel is not None:
        thread = transaction.channel_thread(agent, target.channel)
    elif target.kind == "session":
        thread = transaction.session_thread(agent, target.session or target.session_name or "")
    elif target.kind == "thread" and target.thread is not None:
        thread = transaction.locked_thread(target.thread)
    else:
        thread = None
    busy = None if thread is None else transaction.in_thread(thread.id, run_id)
    return Found(thread, busy)


def _land(transaction: Transaction, run_id: int, item: Known, target: Target, place: Landed, now: int) -> None:
    thread_id = place.thread.id if place.thread else _open(transaction, item, target, now)
    transaction.set_thread(thread_id, "running", now)
    transaction.land(run_id, thread_id, place.how)
    data = {"thread": str(thread_id), "how": place.how}
    transaction.events.append(NewEvent(now, "run.landed", item.schedule_id, run_id, data))


def _open(transaction: Transaction, item: Known, target: Target, now: int) -> int:
    """A new conversation; in a channel it goes on with the channel's session."""
    session, name = None, None
    if target.kind == "channel" and target.channel is not None:
        session, name = transaction.channel_session(item.agent, target.channel)
    return transaction.insert_thread(item.agent, target.channel, session, name, now)
