"""Sessions that a tool does not know: not a failure, but a place that is gone."""

from __future__ import annotations

from matins.engine.landing import ASKED_FOR
from matins.errors import InvalidInput
from matins.executors.runners.base import Call, Command, Told
from matins.model.thread import Landing


def check_session(call: Call, landing: Landing | None, command: Command) -> None:
    """Refuse a session that was never spoken in here when the tool has no way to say whether it knows it."""
    asked_for = landing is not None and landing.how == ASKED_FOR
    if call.session is not None and asked_for and not command.gone:
        message = f'Nobody has spoken in the session "{call.session}" here, and its tool keeps none'
        raise InvalidInput(message, value=call.session, field="session", hint="name a thread, or a channel")


def session_gone(call: Call, told: Told, gone: tuple[bytes, ...], complaint: bytes) -> bool:
    """Whether a tool that failed says that it does not know the session; then it has spent nothing."""
    spent = told.tokens_in + told.tokens_out + told.tokens_cached
    said = complaint + (told.error or "").encode()
    return call.session is not None and not told.succeeded and not spent and any(words in said for words in gone)
