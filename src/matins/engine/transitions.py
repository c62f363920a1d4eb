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


def _named(name: str, low: RunState, high: RunState, target: RunState) -> Transition:
    return Transition(name, low, high, target, f"run.{name}", target >= S.SUCCEEDED)


CLAIM = _named("started", S.READY, S.READY, S.STARTING)
RELEASE = _named("released", S.STARTING, S.STARTING, S.READY)
PROMOTE = _named("promoted", S.QUEUED, S.QUEUED, S.READY)
CONFIRM = _named("confirmed", S.STARTING, S.STARTING, S.RUNNING)
HOLD = _named("held", S.STARTING, S.RUNNING, S.HELD)
RETRY = _named("retrying", S.STARTING, S.HELD, S.READY)
SUCCEED = _named("succeeded", S.STARTING, S.HELD, S.SUCCEEDED)
FAIL = _named("failed", S.STARTING, S.HELD, S.FAILED)
CANCEL = _named("cancelled", S.STARTING, S.HELD, S.CANCELLED)
CALL_OFF = _named("cancelled", S.PARKED, S.READY, S.CANCELLED)
PARK = _named("parked", S.QUEUED, S.READY, S.PARKED)
UNPARK = _named("unparked", S.PARKED, S.PARKED, S.QUEUED)
LOSE = _named("unknown", S.STARTING, S.HELD, S.UNKNOWN)

ALL = (CLAIM, RELEASE, PROMOTE, CONFIRM, HOLD, RETRY, SUCCEED, FAIL, CANCEL, CALL_OFF, PARK, UNPARK, LOSE)
BORN = {
    S.READY: "run.planned",
    S.QUEUED: "run.queued",
    S.STARTING: "run.started",
    S.SKIPPED: "run.skipped",
    S.MISSED: "schedule.missed",
}
"""The states in which a run can begin, and the event of each."""
