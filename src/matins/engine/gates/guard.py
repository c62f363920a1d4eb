"""The guard of this process: somebody's function, called before every run."""

from __future__ import annotations

from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.engine.gates.pre_check import CHECK


def _judge(candidate: Candidate) -> Verdict | None:
    return CHECK if candidate.facts.guarded else None


def _sentence(candidate: Candidate) -> str:
    return "If the engine has a guard, it is called before a run starts."


GUARD = Gate(
    name="guard",
    order=80,
    stages=("start",),
    settings="`Matins(guard=…)`",
    refusal="The run is `blocked`.",
    active=lambda surroundings: surroundings.guarded,
    judge=_judge,
    asks=True,
    sentence=_sentence,
)
