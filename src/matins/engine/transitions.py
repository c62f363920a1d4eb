"""Every legal change of a run, by name.

A run changes in no other way.
"""

from __future__ import annotations

from typing import NamedTuple

from matins.engine.when.triggers import fraction
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition

S = RunState


class Transition(NamedTuple):
    """A change from any state between `low` and `high` to `target`, with an event."""

    name: str
    low: RunState
    high: RunState
    target: RunState
    event: str
    is_terminal: bool
    """Whether the run ends."""
    started: bool
    """Whether the run has started before."""


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
FAIL_UNSTARTED = _named("failed", S.READY, S.READY, S.FAILED)
"""No running engine has the job."""
CANCEL = _named("cancelled", S.STARTING, S.HELD, S.CANCELLED)
CANCEL_WAITING = _named("cancelled", S.WAITING, S.READY, S.CANCELLED)
MARK_UNKNOWN = _named("unknown", S.STARTING, S.HELD, S.UNKNOWN)
THROTTLE = _named("deferred", S.STARTING, S.HELD, S.WAITING)
"""The provider refused the attempt. The run continues when the provider serves again."""
INTERRUPT = _named("interrupted", S.STARTING, S.HELD, S.INTERRUPTED)
SKIP_NO_WORK = _named("skipped", S.STARTING, S.HELD, S.SKIPPED)
"""The run found no work."""
OVERSPEND = _named("over_budget", S.STARTING, S.HELD, S.OVER_BUDGET)

# Gates are between ready and started: a run that waits for a gate is `waiting`.
DEFER = _named("deferred", S.WAITING, S.READY, S.WAITING)
CHECK = _named("checking", S.READY, S.READY, S.WAITING)
REQUEST_APPROVAL = _named("awaiting_approval", S.WAITING, S.READY, S.WAITING)
SUSPEND = _named("suspended", S.WAITING, S.WAITING, S.WAITING)
"""The run has what it waited for, but its schedule is paused."""
MARK_READY = _named("ready", S.WAITING, S.WAITING, S.READY)
ENQUEUE = _named("queued", S.WAITING, S.WAITING, S.QUEUED)
SKIP = _named("skipped", S.WAITING, S.READY, S.SKIPPED)
BLOCK = _named("blocked", S.WAITING, S.READY, S.BLOCKED)
MISS = _named("missed", S.WAITING, S.READY, S.MISSED)
DENY = _named("denied", S.WAITING, S.READY, S.DENIED)
EXPIRE = _named("expired", S.WAITING, S.READY, S.EXPIRED)
REFUSE_FOR_BUDGET = _named("over_budget", S.WAITING, S.READY, S.OVER_BUDGET)

DENY_STARTED = _named("denied", S.STARTING, S.HELD, S.DENIED)
"""A step of the run was denied."""
EXPIRE_STARTED = _named("expired", S.STARTING, S.HELD, S.EXPIRED)
JOIN = {
    S.SUCCEEDED: SUCCEED,
    S.FAILED: FAIL,
    S.OVER_BUDGET: OVERSPEND,
    S.UNKNOWN: MARK_UNKNOWN,
    S.INTERRUPTED: INTERRUPT,
    S.CANCELLED: CANCEL,
    S.DENIED: DENY_STARTED,
    S.EXPIRED: EXPIRE_STARTED,
    S.SKIPPED: SKIP_NO_WORK,
}
"""The end of a run by the outcome of its steps."""

ALL = (
    CLAIM,
    RELEASE,
    PROMOTE,
    CONFIRM,
    HOLD,
    RETRY,
    SUCCEED,
    FAIL,
    FAIL_UNSTARTED,
    CANCEL,
    CANCEL_WAITING,
    MARK_UNKNOWN,
    THROTTLE,
    INTERRUPT,
    SKIP_NO_WORK,
    OVERSPEND,
    DEFER,
    CHECK,
    REQUEST_APPROVAL,
    SUSPEND,
    MARK_READY,
    ENQUEUE,
    SKIP,
    BLOCK,
    MISS,
    DENY,
    EXPIRE,
    REFUSE_FOR_BUDGET,
    DENY_STARTED,
    EXPIRE_STARTED,
)
AFTER_VERDICT = {
    S.WAITING: DEFER,
    S.QUEUED: ENQUEUE,
    S.SKIPPED: SKIP,
    S.BLOCKED: BLOCK,
    S.MISSED: MISS,
    S.OVER_BUDGET: REFUSE_FOR_BUDGET,
}
"""The transition of a run that has not started and that a gate stops, by the state of the verdict."""
INITIAL_STATES = {
    S.WAITING: "run.deferred",
    S.READY: "run.planned",
    S.QUEUED: "run.queued",
    S.STARTING: "run.started",
    S.SKIPPED: "run.skipped",
    S.MISSED: "schedule.missed",
    S.OVER_BUDGET: "run.over_budget",
}
"""The states of new runs, and the event of each."""


def next_attempt_at(definition: ScheduleDefinition, run_id: int, attempt: int, now: int) -> int | None:
    """The instant of the attempt after number `attempt`; None when no retry is left.

    The delay doubles from `retry_delay_ms` up to `max_retry_delay_ms`. Up to a tenth is added, so that failures do not
    retry in step; it is the same for the same run and attempt.
    """
    if attempt > definition.retries:
        return None
    delay = min(definition.retry_delay_ms << min(attempt - 1, 40), definition.max_retry_delay_ms)
    return now + delay + int(delay * 0.1 * fraction(f"{run_id}:{attempt}"))
