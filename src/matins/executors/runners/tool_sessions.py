"""Sessions that a tool does not know. The target of the run is gone; this is not a failure."""

from __future__ import annotations

from matins.engine.targets import BY_SESSION_ID
from matins.errors import InvalidInput
from matins.executors.runners.protocol import Call, Command, RunnerResult
from matins.model.thread import ThreadAssignment


def check_session(call: Call, assignment: ThreadAssignment | None, command: Command) -> None:
    """Raise InvalidInput for a session that is new here, when the tool cannot report unknown sessions."""
    requested = assignment is not None and assignment.how == BY_SESSION_ID
    if call.session is not None and requested and not command.session_unknown:
        message = f'The session "{call.session}" is unknown here, and its tool stores none.'
        raise InvalidInput(message, value=call.session, field="session", hint="Name a thread or a channel.")


def session_gone(call: Call, result: RunnerResult, unknown_session: tuple[bytes, ...], stderr: bytes) -> bool:
    """Whether a failed tool reports an unknown session. Such a run has spent nothing."""
    spent = result.tokens_in + result.tokens_out + result.tokens_cached
    text = stderr + (result.error or "").encode()
    return (
        call.session is not None
        and not result.succeeded
        and not spent
        and any(phrase in text for phrase in unknown_session)
    )
