"""The ended gate: whether the schedule's end date or its number of runs is reached."""

from __future__ import annotations

from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.engine.reasons import local_time
from matins.model.counting import counted
from matins.model.run import RunState


def _judge(candidate: Candidate) -> Verdict | None:
    definition = candidate.definition
    if candidate.facts.manual:
        return None
    if definition.ends_at is not None and (candidate.slot or candidate.now) > definition.ends_at:
        return Verdict(RunState.SKIPPED, "end_date", {"ends_at": definition.ends_at})
    limit = definition.max_executions
    if limit is not None and candidate.executions >= limit:
        return Verdict(RunState.SKIPPED, "max_executions", {"max_executions": limit})
    return None


def _sentence(candidate: Candidate) -> str:
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
    judge=_judge,
    sentence=_sentence,
)
