"""Where a run lands: what its target comes to, given what is there."""

from __future__ import annotations

from typing import Literal, NamedTuple

from matins.model.agent import Fallback, Target
from matins.model.thread import Thread

ASKED_FOR = "session: asked for by its id"
"""How a run lands in a session that nobody here has spoken in: whether there is one, its tool knows."""
GONE = "gone"
"""How a run had landed whose tool does not know the session that was to go on."""


class Found(NamedTuple):
    """What was found where a target points."""

    thread: Thread | None
    """The thread that it means, if there is one."""
    busy_with: int | None = None
    """The run that is under way there."""
    gone: bool = False
    """The tool has said that it does not know the session."""


class Landed(NamedTuple):
    """Land in this thread, or in a new one."""

    thread: Thread | None
    how: str


class Wait(NamedTuple):
    reason: Literal["target_busy", "waiting_for_target"]
    run: int | None


class Skip(NamedTuple):
    reason: str = "target_gone"


def land(
    target: Target, found: Found, fallback: Fallback, final: Fallback, waited_ms: int, deadline_ms: int
) -> Landed | Wait | Skip:
    """A channel always has a place. A session or a thread may be gone: then the fallback says what becomes of the run.
    A busy place serialises."""
    thread = found.thread
    if thread is not None and thread.state != "closed":
        return Wait("target_busy", found.busy_with) if found.busy_with is not None else Landed(thread, target.kind)
    if target.kind in ("fresh", "channel"):
        return Landed(None, target.kind)
    if thread is None and target.session is not None and not found.gone:
        return Landed(None, ASKED_FOR)
    chosen = fallback
    if fallback == "wait":
        if waited_ms < deadline_ms:
            return Wait("waiting_for_target", None)
        chosen = final
    return Skip() if chosen == "skip" else Landed(None, f"{target.kind}: gone, fallback fresh")
