"""Every legal change of a run, by name. There is no other way for a run to change."""

from __future__ import annotations

from typing import NamedTuple

from matins.model.run import RunState

S = RunState


class Transition(NamedTuple):
    """From any state in `low` to `high` to `target`, leaving an event."""

    name: str
    low: RunState
    high: RunState
    target: RunState
    event: str
    over: bool
    """Whether the run is over then."""
    started: bool
    """Whether the run had started before."""


def _named(name: str, low: RunState, high: RunState, target: RunState) -> Transition:
    return Transition(name, low, high, target, f"run.{name}", target >= S.SUCCEEDED, high > S.READY)


CLAIM = _named("started", S.READY, S.READY, S.STARTING)
RELEASE = _named("released", S.STARTING, S.STARTING, S.READY)
PROMOTE = _named("promoted", S.QUEUED, S.QUEUED, S.READY)
CONFIRM = _named("confirmed", S.STARTING, S.STARTING, S.RUNNING)
HOLD = _named("held", S.STARTING, S.RUNNING, S.HELD)
RETRY = _named("retrying", S.STARTING, S.HELD, S.READY)
SUCCEED = _named("succeeded", S.STARTING, S.HELD, S.SUCCEEDED)
FAIL = _named("failed", S.STARTING, S.HELD, S.FAILED)
CANCEL = _named("cancelled", S.STARTING, S.HELD, S.CANCELLED)
CALL_OFF = _named("cancelled", S.WAITING, S.READY, S.CANCELLED)
LOSE = _named("unknown", S.STARTING, S.HELD, S.UNKNOWN)
THROTTLE = _named("deferred", S.STARTING, S.HELD, S.WAITING)
"""The provider refused: it goes on when the provider does."""
INTERRUPT = _named("interrupted", S.STARTING, S.HELD, S.INTERRUPTED)
IDLE = _named("skipped", S.STARTING, S.HELD, S.SKIPPED)
"""It found that there was nothing to do."""
OVERSPEND = _named("over_budget", S.STARTING, S.HELD, S.OVER_BUDGET)

# Between ready and started stand the gates: what waits for one is `waiting`.
DEFER = _named("deferred", S.WAITING, S.READY, S.WAITING)
CHECK = _named("checking", S.READY, S.READY, S.WAITING)
ASK = _named("awaiting_approval", S.READY, S.READY, S.WAITING)
SUSPEND = _named("suspended", S.WAITING, S.WAITING, S.WAITING)
"""What it waited for is there, but its schedule is paused."""
CLEAR = _named("ready", S.WAITING, S.WAITING, S.READY)
LINE_UP = _named("queued", S.WAITING, S.WAITING, S.QUEUED)
SKIP = _named("skipped", S.WAITING, S.READY, S.SKIPPED)
BLOCK = _named("blocked", S.WAITING, S.READY, S.BLOCKED)
MISS = _named("missed", S.WAITING, S.READY, S.MISSED)
DENY = _named("denied", S.WAITING, S.READY, S.DENIED)
EXPIRE = _named("expired", S.WAITING, S.READY, S.EXPIRED)
REFUSE = _named("over_budget", S.WAITING, S.READY, S.OVER_BUDGET)

ALL = (
    CLAIM, RELEASE, PROMOTE, CONFIRM, HOLD, RETRY, SUCCEED, FAIL, CANCEL, CALL_OFF, LOSE, THROTTLE, INTERRUPT, IDLE,
    OVERSPEND, DEFER, CHECK, ASK, SUSPEND, CLEAR, LINE_UP, SKIP, BLOCK, MISS, DENY, EXPIRE, REFUSE,
)  # fmt: skip
AFTER_VERDICT = {
    S.WAITING: DEFER,
    S.QUEUED: LINE_UP,
    S.SKIPPED: SKIP,
    S.BLOCKED: BLOCK,
    S.MISSED: MISS,
    S.OVER_BUDGET: REFUSE,
}
"""How a run that has not started changes when a gate does not let it pass, by the state of the verdict."""
BORN = {
    S.WAITING: "run.deferred",
    S.READY: "run.planned",
    S.QUEUED: "run.queued",
    S.STARTING: "run.started",
    S.SKIPPED: "run.skipped",
    S.MISSED: "schedule.missed",
    S.OVER_BUDGET: "run.over_budget",
}
"""The states in which a run can begin, and the event of each."""
