"""`reputation_attestation`: a score from the ledger, and its digest as an event that webhooks deliver."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any

from matins.jobs import Int, JobContext, JobType, Setting

_PAGE = 1_000
_GOOD, _BAD = ("succeeded",), ("failed", "denied", "over_budget", "unknown")


@dataclass(frozen=True)
class ReputationAttestation:
    days: Annotated[int, Setting(Int(1, 365), "Days of history that count.", 30)] = 30


def attest_reputation(context: JobContext) -> dict[str, Any]:
    """Compute the score of the schedule's agent, and publish the digest of the attestation."""
    inputs: ReputationAttestation = context.inputs
    counts = count_runs(context, inputs.days)
    attestation = {"agent": context.agent, "days": inputs.days, "run": context.key, **counts, "score": score(counts)}
    digest = sha256(json.dumps(attestation, sort_keys=True).encode()).hexdigest()
    context.emit("reputation.attested", {**attestation, "digest": digest})
    return {**attestation, "digest": digest}


def count_runs(context: JobContext, days: int) -> dict[str, int]:
    """The runs of the agent that ended, by state."""
    since = context.now - days * 86_400_000
    states: Counter[str] = Counter()
    before: str | None = None
    while page := context.api.runs.list(agent=context.agent or None, before=before, limit=_PAGE):
        ended = [run for run in page if run.ended_at is not None and run.ended_at.timestamp() * 1000 >= since]
        states.update(run.state for run in ended if run.state in (*_GOOD, *_BAD))
        before = page[-1].id
        if page[-1].planned_at.timestamp() * 1000 < since:
            break
    return dict(sorted(states.items()))


def score(counts: dict[str, int]) -> int:
    """From 0 to 100: the share of successes, held back while there are few runs (Laplace's rule of succession)."""
    good = sum(counts.get(state, 0) for state in _GOOD)
    bad = sum(counts.get(state, 0) for state in _BAD)
    return round(100 * (good + 1) / (good + bad + 2))


REPUTATION_ATTESTATION = JobType(
    "reputation_attestation",
    "Compute the agent's score from its runs, and publish its digest.",
    ReputationAttestation,
    attest_reputation,
    destructive=False,
    services=("reputation",),
)
