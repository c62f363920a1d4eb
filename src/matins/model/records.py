"""The rows that the loops and a store exchange. They are named tuples, because this is the hot path."""

from __future__ import annotations

from typing import Any, NamedTuple

from matins.model.run import RunState


class Due(NamedTuple):
    """A schedule that is due."""

    schedule_id: int
    slot: int
    rev: int
    window_used: int
    executions: int


class Cursor(NamedTuple):
    """The next position of a schedule. It is applied only if the cursor is still at `slot` and `rev`."""

    schedule_id: int
    slot: int
    rev: int
    next_slot: int | None
    due_at: int | None
    window_used: int
    executions: int


class NewRun(NamedTuple):
    id: int
    schedule_id: int
    rev: int
    slot: int | None
    request_key: str | None
    state: int
    exclusive: int
    scope: str | None
    epoch: int
    attempt: int
    owner: int | None
    not_before: int | None
    planned_at: int
    started_at: int | None
    ended_at: int | None
    slots: int
    first_slot: int | None
    reason: str | None
    evidence: str | None


class Ready(NamedTuple):
    """A run that may start."""

    id: int
    schedule_id: int
    rev: int
    slot: int | None
    epoch: int
    attempt: int
    slots: int
    first_slot: int | None
    planned_at: int
    cancelling: int
    cleared: int


class Parked(NamedTuple):
    """A run that waits for a time, a verdict or a person."""

    id: int
    schedule_id: int
    rev: int
    slot: int | None
    epoch: int
    attempt: int
    reason: str
    planned_at: int


class Started(NamedTuple):
    """A run that some worker has started."""

    id: int
    schedule_id: int
    rev: int
    slot: int | None
    epoch: int
    attempt: int
    state: int
    owner: int
    cancelling: int


class Settlement(NamedTuple):
    """A named transition of a started run, from its own epoch only."""

    run_id: int
    epoch: int
    low: RunState
    high: RunState
    target: RunState
    not_before: int | None
    ended_at: int | None
    reason: str | None
    outcome: str | None
    evidence: str | None = None
    """None keeps the present value."""
    cleared: int = 0
    """Gates that the run passed now, in addition to earlier ones."""
    renewed: int = 0
    """1 when the run continues under a new epoch, which voids results of the old one."""


class NewEvent(NamedTuple):
    at: int
    type: str
    schedule_id: int | None
    run_id: int | None
    data: Any = None


class StoredEvent(NamedTuple):
    id: int
    writer: int
    seq: int
    at: int
    type: str
    schedule_id: int | None
    run_id: int | None
    data: str | None
    hash: bytes


class Said(NamedTuple):
    """The definition of a schedule at a revision."""

    schedule_id: int
    rev: int
    name: str
    agent: str
    definition: str


class NewSchedule(NamedTuple):
    id: int
    agent: str
    name: str
    definition: str
    next_slot: int | None
    due_at: int | None
    state: str = "active"
    created_by: str = "owner"
    creator_role: str = "owner"
    creator_run: int | None = None
    parent: int | None = None
    depth: int = 0
