"""The end of browser sessions, with its events."""

from __future__ import annotations

from matins.model.access import signed
from matins.model.rows import NewEvent
from matins.store.transaction import Transaction


def end_sessions(
    transaction: Transaction,
    now: int,
    by: str,
    *,
    session_id: str | None = None,
    token: str | None = None,
    person: str | None = None,
) -> list[str]:
    """End one session, those that came from a token, or those of a person. Returns their ids."""
    ended = transaction.end_sessions(session_id, token, person, now)
    for found in ended:
        transaction.events.append(NewEvent(now, "session.ended", None, None, {"session": found, **signed(by)}))
    return ended
