"""Tokens of runs, sessions of browsers.

Run tokens: the word of one attempt. No row is stored for them; they are valid while their attempt runs.
"""

from __future__ import annotations

import hmac
import re
from base64 import b32encode
from hashlib import sha256

from matins.model.access import Principal, signed
from matins.model.rows import NewEvent
from matins.model.run import RunState
from matins.store import Store
from matins.store.transaction import Transaction

PREFIX = "mtr_"
_TOKEN = re.compile(r"mtr_([1-9][0-9]{0,18})_([1-9][0-9]{0,18})_[a-z2-7]{32}")
_BYTES = 20


def run_token(store: Store, run_id: int, epoch: int) -> str:
    """The token of an attempt."""
    text = f"{store.store_id}:{store.incarnation}:{run_id}:{epoch}"
    code = hmac.digest(store.run_key.encode(), text.encode(), sha256)[:_BYTES]
    return f"{PREFIX}{run_id}_{epoch}_{b32encode(code).decode().lower()}"


def principal_of_run(store: Store, token: str) -> Principal | None:
    """The agent whose run has this token; None unless exactly that attempt is running."""
    form = _TOKEN.fullmatch(token)
    if form is None:
        return None
    run_id, epoch = int(form[1]), int(form[2])
    if not hmac.compare_digest(token.encode(), run_token(store, run_id, epoch).encode()):
        return None
    with store.reading() as transaction:
        run = transaction.run(run_id)
        schedule = None if run is None else transaction.schedule(run.schedule_id)
    if run is None or schedule is None or run.epoch != epoch:
        return None
    running = run.state in (RunState.STARTING, RunState.RUNNING)
    return Principal("agent", schedule.agent, run_id) if running else None


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
