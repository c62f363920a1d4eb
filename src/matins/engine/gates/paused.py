"""The paused gate: whether the schedule is active. A paused schedule has no due slot, so planning skips the check."""

from __future__ import annotations

from matins.engine.gates.gate import Candidate, Gate, Objection, Verdict
from matins.engine.reasons import local_time
from matins.model.access import name_of
from matins.model.run import RunState
from matins.model.schedule import ScheduleRecord
from matins.model.sentence import Sentence

BY_FAILURES, BY_BUDGET = "failures", "budget"
"""The values of `paused_by` for automatic pauses."""
ACTIVE = "The schedule is not paused."
_AUTOMATIC = {BY_FAILURES: "its failures", BY_BUDGET: "its budget"}

_SKIP = Verdict(RunState.SKIPPED, "schedule_paused")


def _objects(candidate: Candidate) -> Objection | None:
    standing = candidate.facts.standing
    return None if standing is None else objection(standing.schedule)


def objection(schedule: ScheduleRecord) -> Objection | None:
    """Why the schedule is not active; None when it is active."""
    if schedule.state == "active":
        return None
    by = None if schedule.paused_by is None else name_of(schedule.paused_by)
    text, quote = _state(schedule)
    return Objection(text, {"state": schedule.state, "by": by, "note": schedule.note}, quote)


def _state(schedule: ScheduleRecord) -> Sentence:
    match schedule.state:
        case "paused":
            return _paused(schedule, schedule.definition.trigger.timezone)
        case "pending":
            return Sentence(f"Pending: {name_of(schedule.created_by)} proposed the schedule, and it needs approval.")
        case "rejected" | "broken":
            return Sentence(f"{schedule.state.capitalize()}.", schedule.note or "no reason was given")
        case "expired":
            return Sentence("Expired: the end date is past.")
        case _:
            return Sentence(f"{schedule.state.capitalize()}: there is no slot left.")


def _paused(schedule: ScheduleRecord, zone: str) -> Sentence:
    by = _AUTOMATIC.get(schedule.paused_by or "", name_of(schedule.paused_by or ""))
    since = "" if schedule.paused_at is None else f" since {local_time(schedule.paused_at, zone)}"
    until = "" if schedule.paused_until is None else f", until {local_time(schedule.paused_until, zone)}"
    return Sentence(f"Paused by {by}{since}{until}.", schedule.note)


PAUSED = Gate(
    name="paused",
    order=10,
    stages=("plan",),
    settings="`m.pause(name, note=…, until=…)`; `pause_after_failures`",
    refusal="No slot is due. Waiting runs are suspended.",
    reasons=("schedule_paused",),
    touched=lambda facts: facts.paused,
    judge=lambda candidate: _SKIP if candidate.facts.paused else None,
    predictable=False,
    sentence=lambda candidate: ACTIVE,
    objects=_objects,
)
