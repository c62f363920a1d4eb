"""Gates that ask what state a schedule is in: paused, ended, backing off.

The paused gate: whether the schedule is active. A paused schedule has no due slot, so planning skips the check.

The ended gate: whether the schedule's end date or its number of runs is reached.

The back-off gate: whether the schedule has failed several times in a row, so that slots are left out.
"""

from __future__ import annotations

from typing import NamedTuple

from matins.engine.gates.gate import Candidate, Gate, Objection, Verdict
from matins.engine.reasons import local_time
from matins.model.access import name_of
from matins.model.run import RunState
from matins.model.schedule import ScheduleRecord
from matins.model.words import Sentence, counted

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


def _judge_ended(candidate: Candidate) -> Verdict | None:
    definition = candidate.definition
    if candidate.facts.manual:
        return None
    if definition.ends_at is not None and (candidate.slot or candidate.now) > definition.ends_at:
        return Verdict(RunState.SKIPPED, "end_date", {"ends_at": definition.ends_at})
    limit = definition.max_executions
    if limit is not None and candidate.executions >= limit:
        return Verdict(RunState.SKIPPED, "max_executions", {"max_executions": limit})
    return None


def _ended_sentence(candidate: Candidate) -> str:
    ends_at, limit = candidate.definition.ends_at, candidate.definition.max_executions
    parts = [] if ends_at is None else [f"The schedule ends on {local_time(ends_at, candidate.zone)}"]
    if limit is not None:
        parts.append(f"{candidate.executions} of {counted(limit, 'run')} used")
    return "; ".join(parts) + "." if parts else "The schedule has no end."


ENDED = Gate(
    name="ended",
    order=20,
    stages=("plan",),
    settings="`ends_at`, `max_executions`",
    refusal="One slot is `skipped`, and the schedule is `expired`; or it is `completed`.",
    reasons=("end_date", "max_executions"),
    applies=lambda definition: definition.ends_at is not None or definition.max_executions is not None,
    judge=_judge_ended,
    sentence=_ended_sentence,
)


MIN_FAILURES = 3
"""The number of consecutive failures from which slots are skipped."""
_MAX_DELAY_MS = 3_600_000
_MAX_DOUBLINGS = 22
"""An hour is less than a millisecond, doubled so often."""


class Failures(NamedTuple):
    """The consecutive failures of a schedule."""

    number: int = 0
    last_at: int | None = None
    """The instant of the last failure; None after an edit, a pause or a resumption, which end the back-off."""


def backs_off_until(failures: Failures, period: int) -> int | None:
    """The end of the back-off: 2 periods after the third failure, then 4, 8 …, an hour at most. None for schedules with
    too few failures, and for those whose slots are an hour apart or more."""
    if failures.last_at is None or failures.number < MIN_FAILURES or not 0 < period < _MAX_DELAY_MS:
        return None
    doublings = min(failures.number - MIN_FAILURES + 1, _MAX_DOUBLINGS)
    return failures.last_at + min(period << doublings, _MAX_DELAY_MS)


def _judge_backing_off(candidate: Candidate) -> Verdict | None:
    until = candidate.facts.backs_off_until
    if until is None or candidate.now >= until:
        return None
    return Verdict(RunState.SKIPPED, "backing_off", {"failures": candidate.facts.failures, "until": until})


def _backing_off_sentence(candidate: Candidate) -> str:
    failures = candidate.facts.failures
    if candidate.definition.failure_backoff == "none":
        return "The schedule does not back off after failures."
    return (
        f"The last {failures} runs failed; the schedule tries again." if failures > 1 else "The last runs did not fail."
    )


BACKING_OFF = Gate(
    name="backing_off",
    order=25,
    stages=("plan",),
    settings="`failure_backoff`: `exponential` or `none`",
    refusal="The slot is `skipped`: from the third failure in a row, for 2, 4, 8 … periods, an hour at most.",
    touched=lambda facts: facts.backs_off_until is not None,
    judge=_judge_backing_off,
    sentence=_backing_off_sentence,
)
