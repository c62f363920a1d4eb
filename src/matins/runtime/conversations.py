"""Conversations between Matins and an agent, stored with their threads."""

from __future__ import annotations

from matins.engine.landing import ASKED_FOR, GONE
from matins.model.run import Conversation
from matins.ports import ThreadRows, Transaction


def conclude(transaction: ThreadRows, run_id: int, told: Conversation | None, now: int) -> None:
    """Set the thread to waiting, and store its new messages and the tool's session."""
    landing = transaction.landing(run_id)
    if landing is None:
        return
    thread_id = landing.thread.id
    if told is None:
        transaction.set_thread(thread_id, "waiting", now)
        return
    for role, text in (("user", told.prompt), ("assistant", told.text)):
        if text:
            transaction.insert_message(thread_id, run_id, role, text, now)
    transaction.set_thread(thread_id, "waiting", now, told.session, told.session_tokens)


def turn_away(transaction: Transaction, run_id: int, now: int) -> None:
    """Handle a session that the tool does not know: the attempt does not count, and the thread is chosen again."""
    transaction.forgive_attempt(run_id)
    landing = transaction.landing(run_id)
    if landing is None:
        return
    if landing.how == ASKED_FOR:  # a thread without a conversation
        transaction.forget_session(landing.thread.id, "closed")
    else:
        transaction.set_thread(landing.thread.id, "waiting", now)
    transaction.land(run_id, landing.thread.id, GONE)
