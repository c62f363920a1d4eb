"""The guard gate: a function of this process, called before every run."""

from __future__ import annotations

from matins.engine.gates.gate import Gate
from matins.engine.gates.pre_check import CHECK

GUARD = Gate(
    name="guard",
    order=80,
    stages=("start",),
    settings="`Matins(guard=…)`",
    refusal="The run is `blocked`.",
    active=lambda surroundings: surroundings.guarded,
    judge=lambda candidate: CHECK if candidate.facts.guarded else None,
    asks=True,
    sentence=lambda candidate: "If the engine has a guard, it is called before a run starts.",
)
