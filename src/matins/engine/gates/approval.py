"""Gates that need a person or a conversation: approval, target.

The target gate: whether the target of an agent's run exists and is free. Only the store has the answer.
"""

from __future__ import annotations

from matins.engine.approvals import needs_approval
from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.engine.jobs import converses, wakes_agent
from matins.engine.when.durations import format_duration
from matins.model.run import RunState

_ASK = Verdict(RunState.WAITING, "awaiting_approval")


def _sentence(candidate: Candidate) -> str:
    definition = candidate.definition
    if not needs_approval(definition):
        return "No approval is needed."
    whom = ", ".join(definition.approvers) or "the owner"
    count = f"{definition.approvals_required} of " if len(definition.approvers) > 1 else ""
    limit, default = format_duration(definition.approval_timeout_ms), definition.approval_default
    return f"Would ask {count}{whom}. Without an answer within {limit}: {default}."


APPROVAL = Gate(
    name="approval",
    order=110,
    stages=("start",),
    level="step",
    settings="`approval`, `approvers`, …",
    refusal="The run waits. It may end as `denied` or `expired`.",
    reasons=("awaiting_approval", "approval_expired", "denied"),
    applies=lambda definition: definition.approval != "auto",
    judge=lambda candidate: _ASK if needs_approval(candidate.definition) else None,
    asks=True,
    sentence=_sentence,
)


_RESOLVE = Verdict(RunState.WAITING, "waiting_for_target")
TARGET = Gate(
    name="target",
    order=120,
    stages=("start",),
    level="step",
    settings="`target`, `fallback`, `fallback_timeout`, `final_fallback`",
    refusal="The run waits for its thread, or is `skipped`.",
    applies=converses,
    judge=lambda candidate: _RESOLVE if converses(candidate.definition) else None,
    asks=True,
)


_ENTER = Verdict(RunState.WAITING, "checkout_busy")
CHECKOUT = Gate(
    name="checkout",
    order=130,
    stages=("start",),
    level="step",
    settings="`worktree` of the agent: `exclusive`, `shared`, `per_run`",
    refusal="The run waits until no other run works in the same git checkout.",
    applies=wakes_agent,
    judge=lambda candidate: _ENTER if wakes_agent(candidate.definition) else None,
    asks=True,
)
