"""The rows of the log of events, and of what proves that it is whole."""

from __future__ import annotations

from typing import NamedTuple


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


class ChainHead(NamedTuple):
    """The last event of a chain. A store without it is older than the process that wrote it."""

    event_id: int
    writer: str
    seq: int
    hash: str


class WriterRow(NamedTuple):
    """A writer of events, and where its chain begins after older events were deleted."""

    id: int
    pruned_seq: int
    pruned_hash: bytes | None


class SealRow(NamedTuple):
    id: int
    at: int
    heads: str
    hash: bytes


class EventLink(NamedTuple):
    """Where an event is in its chain."""

    id: int
    writer: int
    seq: int
    hash: bytes


class BoundRun(NamedTuple):
    """What the log knows of a run, as the run says it."""

    id: int
    schedule_id: int
    rev: int
    slot: int | None
    first_slot: int | None
    slots: int
    state: int
    epoch: int
    attempt: int
    planned_at: int
    started_at: int | None
    ended_at: int | None
    parent: int | None
    step: int
    unfolded: int
    """Whether the run has steps."""
    reason: str | None
    evidence: str | None
    outcome: str | None


class BoundRevision(NamedTuple):
    """A revision of a schedule: what the log has a digest of."""

    schedule_id: int
    rev: int
    agent: str
    name: str
    created_by: str
    creator_role: str
    creator_run: int | None
    parent: int | None
    depth: int
    author: str | None
    author_role: str | None
    definition: str


class CurrentRevision(NamedTuple):
    """The revision that a schedule and its cursor have."""

    schedule_id: int
    agent: str
    name: str
    rev: int
    cursor_rev: int
