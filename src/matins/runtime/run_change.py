"""A change of a run: a named transition with its results. `run_changes.apply` applies it."""

from __future__ import annotations

from typing import Any, NamedTuple

from matins.engine.transitions import Transition
from matins.model.run import AgentTurn, ProviderLimit, Usage
from matins.runtime.catalog import CompiledSchedule


class RunChange(NamedTuple):
    """A transition of a run, with its results."""

    run_id: int
    epoch: int
    slot: int | None
    compiled: CompiledSchedule
    transition: Transition
    at: int
    not_before: int | None = None
    reason: str | None = None
    outcome: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None
    cleared: int = 0
    renewed: bool = False
    usage: Usage | None = None
    limit: ProviderLimit | None = None
    turn: AgentTurn | None = None
    attempt: int | None = None
    """The number of the attempt that ended."""


def event_type(compiled: CompiledSchedule, kind: str) -> str:
    """The type of an event of a run: `step.failed` instead of `run.failed` when the run is a step."""
    return step_event(kind) if compiled.step else kind


def step_event(kind: str) -> str:
    """The type of an event of a step, by that of a run."""
    return kind.replace("run.", "step.", 1)
