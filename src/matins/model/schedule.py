"""A schedule: a trigger, what it starts, and the policies that govern it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from matins.model.trigger import TriggerDefinition

CatchUp = Literal["skip", "run_once", "run_all_capped"]
Overlap = Literal["skip", "queue", "cancel_other", "allow"]
AtCapacity = Literal["wait", "skip"]
OnUnknown = Literal["hold", "retry"]
ScheduleState = Literal["active", "paused", "completed", "broken", "removed"]


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """What a schedule says. An edit makes a new one, with the next revision number."""

    trigger: TriggerDefinition
    do: str
    """The registered job that it starts."""
    payload: Any = None
    catch_up: CatchUp = "skip"
    cap: int = 10
    grace_ms: int | None = None
    """How late a slot may still run; by default a day for one-shots, else half a period and 2 h at the most."""
    overlap: Overlap = "skip"
    queue_limit: int = 100
    at_capacity: AtCapacity = "wait"
    retries: int = 0
    retry_ms: int = 10_000
    retry_most_ms: int = 3_600_000
    on_unknown: OnUnknown = "retry"
    jitter: float = 0
    timeout_ms: int | None = None
    max_executions: int | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it stands in the store. Instants are UTC milliseconds."""

    id: int
    name: str
    agent: str
    state: ScheduleState
    rev: int
    definition: ScheduleDefinition
    note: str | None
    paused_by: str | None
    paused_at: int | None
    next_slot: int | None
    due_at: int | None
    executions: int
    failures: int
    """How many runs failed in a row."""
    created_at: int
    updated_at: int
