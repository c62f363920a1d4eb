"""The overlap gate: whether an earlier run of the schedule is still live."""

from __future__ import annotations

from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.engine.gates.throttle import THROTTLE
from matins.model.run import RunState


def _judge(candidate: Candidate) -> Verdict | None:
    policy = candidate.definition.overlap
    live = candidate.facts.live
    if not live or policy == "allow":
        return None
    blocking = [run for run, _ in live]
    if policy == "skip" and not candidate.catching_up:
        throttled = None if candidate.facts.called else THROTTLE.judge(candidate)
        if throttled is not None and throttled.state is RunState.SKIPPED:  # the run that waits covers this slot
            return throttled
        evidence = {"run": str(blocking[0]), "state": RunState(live[0][1]).label}
        return Verdict(RunState.SKIPPED, "already_running", evidence)
    if policy == "cancel_other" and not candidate.catching_up:
        return Verdict(RunState.QUEUED, "cancelling_other", {"runs": [str(run) for run in blocking]}, tuple(blocking))
    queued = sum(state == RunState.QUEUED for _, state in live)
    if queued >= candidate.definition.queue_limit:
        return Verdict(RunState.SKIPPED, "queue_full", {"queued": queued})
    return Verdict(RunState.QUEUED, "waiting_for", {"run": str(blocking[0])})


def _sentence(candidate: Candidate) -> str:
    live = candidate.facts.live
    if not live:
        return "No run of the schedule is in progress."
    run, state = live[0]
    return f"Run {run} is {RunState(state).label}; runs may overlap."


OVERLAP = Gate(
    name="overlap",
    order=40,
    stages=("plan",),
    settings="`overlap`: `skip`, `queue`, `cancel_other`, `allow`",
    refusal="The slot is `skipped`, or the run waits its turn.",
    reasons=("already_running", "waiting_for", "cancelling_other", "queue_full"),
    touched=lambda facts: bool(facts.live),
    judge=_judge,
    sentence=_sentence,
)
