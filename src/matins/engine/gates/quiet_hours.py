"""The quiet hours gate: whether quiet hours are active."""

from __future__ import annotations

from typing import Any

from matins.engine import quiet_hours
from matins.engine.gates.gate import Candidate, Gate, Verdict, deferred
from matins.engine.policies import Policies
from matins.engine.quiet_hours import QuietHours, quiet_until
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition
from matins.model.trigger import Once


def _judge(candidate: Candidate) -> Verdict | None:
    """The verdict. A slot that was due in skipping hours is skipped, even if it is judged after them. A run later than
    its slot is deferred in either mode."""
    facts = candidate.facts
    policy = None if facts.manual else facts.policies.quiet_hours.get(candidate.definition.quiet_hours or "")
    if policy is None:
        return None
    late = candidate.catching_up and candidate.due_at is None
    skips = not late and policy is skipping_hours(candidate.definition, facts.policies)
    due_at = min(candidate.due_at or candidate.now, candidate.now)  # an edit plans slots before their jitter
    until = (quiet_until(policy, due_at) if skips else None) or quiet_until(policy, candidate.now)
    if until is None:
        return None
    evidence = quiet_evidence(candidate.definition, until)
    if skips:
        return Verdict(RunState.SKIPPED, "quiet_hours", evidence)
    return deferred(candidate, "quiet_hours", evidence, until)


def skipping_hours(definition: ScheduleDefinition, policies: Policies) -> QuietHours | None:
    """The quiet hours that skip slots. A one-shot has no other slot, so it is deferred instead."""
    policy = policies.quiet_hours.get(definition.quiet_hours or "")
    once = isinstance(definition.trigger.when, Once)
    return None if policy is None or policy.mode != "skip" or once else policy


def quiet_evidence(definition: ScheduleDefinition, until: int | None) -> dict[str, Any]:
    return {"policy": definition.quiet_hours, "until": until}


def _sentence(candidate: Candidate) -> str:
    name = candidate.definition.quiet_hours
    if name is None:
        return "The schedule has no quiet hours."
    policy = candidate.facts.policies.quiet_hours.get(name)
    return f'Quiet hours "{name}" are not active' + (
        f" ({quiet_hours.describe(policy)})." if policy else ": they are not defined."
    )


QUIET_HOURS = Gate(
    name="quiet_hours",
    order=30,
    stages=("plan", "start"),
    settings="`quiet_hours`, the name of a policy",
    refusal="The slot is `skipped`, or deferred to the end of the window.",
    applies=lambda definition: definition.quiet_hours is not None,
    judge=_judge,
    sentence=_sentence,
)
