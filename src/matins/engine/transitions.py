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

    @property
    def event(self) -> str:
        return f"run.{self.name}"


CLAIM = Transition("started", S.READY, S.READY, S.STARTING)
RELEASE = Transition("released", S.STARTING, S.STARTING, S.READY)
PROMOTE = Transition("promoted", S.QUEUED, S.QUEUED, S.READY)
CONFIRM = Transition("confirmed", S.STARTING, S.STARTING, S.RUNNING)
HOLD = Transition("held", S.STARTING, S.RUNNING, S.HELD)
RETRY = Transition("retrying", S.STARTING, S.HELD, S.READY)
SUCCEED = Transition("succeeded", S.STARTING, S.HELD, S.SUCCEEDED)
FAIL = Transition("failed", S.STARTING, S.HELD, S.FAILED)
CANCEL = Transition("cancelled", S.STARTING, S.HELD, S.CANCELLED)
CALL_OFF = Transition("cancelled", S.PARKED, S.READY, S.CANCELLED)
PARK = Transition("parked", S.QUEUED, S.READY, S.PARKED)
UNPARK = Transition("unparked", S.PARKED, S.PARKED, S.QUEUED)
LOSE = Transition("unknown", S.STARTING, S.HELD, S.UNKNOWN)

ALL = (CLAIM, RELEASE, PROMOTE, CONFIRM, HOLD, RETRY, SUCCEED, FAIL, CANCEL, CALL_OFF, PARK, UNPARK, LOSE)
BORN = {
    S.READY: "run.planned",
    S.QUEUED: "run.queued",
    S.STARTING: "run.started",
    S.SKIPPED: "run.skipped",
    S.MISSED: "schedule.missed",
}
"""The states in which a run can begin, and the event of each."""
