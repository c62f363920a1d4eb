"""The throttle gate: whether the provider's rate limit is active."""

from __future__ import annotations

from typing import Any

from matins.engine.gates.gate import Candidate, Gate, Verdict, deferred


def _judge(candidate: Candidate) -> Verdict | None:
    facts = candidate.facts
    found = facts.policies.throttle_of(candidate.definition.provider, facts.agent, candidate.now)
    if found is None:
        return None
    # Without the reason: it is what the tool of another agent may have printed.
    evidence: dict[str, Any] = {"provider": found.provider, "until": found.resets_at}
    if found.login is not None:
        evidence["login"] = found.login
    return deferred(candidate, "throttled", evidence, found.resets_at)


def _sentence(candidate: Candidate) -> str:
    agent = candidate.facts.policies.agents.get(candidate.facts.agent)
    provider = candidate.definition.provider or (agent.provider if agent else None)
    return f'Provider "{provider}" is not throttled.' if provider else "The schedule has no provider."


THROTTLE = Gate(
    name="throttle",
    order=50,
    stages=("plan", "start"),
    level="step",
    settings="`provider`",
    refusal="The run is deferred until the provider serves again.",
    reasons=("throttled",),
    applies=lambda definition: definition.provider is not None,
    active=lambda surroundings: bool(surroundings.policies.throttles),
    judge=_judge,
    sentence=_sentence,
)
