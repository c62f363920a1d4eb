"""The target gate: whether the target of an agent's run exists and is free. Only the store has the answer."""

from __future__ import annotations

from matins.engine.gates.gate import Gate, Verdict
from matins.engine.jobs import wakes_agent
from matins.model.run import RunState

_RESOLVE = Verdict(RunState.WAITING, "waiting_for_target")
TARGET = Gate(
    name="target",
    order=120,
    stages=("start",),
    level="step",
    settings="`target`, `fallback`, `fallback_timeout`, `final_fallback`",
    refusal="The run waits for its thread, or is `skipped`.",
    applies=wakes_agent,
    judge=lambda candidate: _RESOLVE if wakes_agent(candidate.definition) else None,
    asks=True,
)
