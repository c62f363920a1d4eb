"""Rows of the log, of subscriptions and of incidents.

The rows of the log of events, and of what proves that it is whole.

Incidents: one message, however often the same thing happens.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple


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


HOOKS_SUBSCRIPTION = "hooks"
"""The subscription that runs the hooks after a run."""
PIPELINES_SUBSCRIPTION = "pipelines"
"""The subscription that starts the runs of schedules that follow others."""
INCIDENTS_SUBSCRIPTION = "incidents"
"""The subscription that keeps incidents. It is always there."""
PINGS_SUBSCRIPTION = "pings"
"""The subscription that calls the URLs of schedules."""
TEXTS_SUBSCRIPTION = "texts"
"""The subscription that fills the index of what runs said. It is always there."""
RESERVED = (
    HOOKS_SUBSCRIPTION, PIPELINES_SUBSCRIPTION, INCIDENTS_SUBSCRIPTION, PINGS_SUBSCRIPTION, TEXTS_SUBSCRIPTION,
)  # fmt: skip
NOTICES_PREFIX = "notify:"
"""A subscription with this prefix brings messages to the destination that follows it."""
ANSWERS_PREFIX = "deliver:"
"""A subscription with this prefix brings the answers of runs to the destination that follows it."""
SubscriptionKind = Literal["webhook", "hook", "function", "pipeline", "incident", "notice", "answer", "ping", "text"]
SubscriptionState = Literal["active", "paused"]
DeliveryState = Literal["retrying", "discarded"]


def is_reserved(name: str) -> bool:
    """Whether Matins uses the name of a subscription itself."""
    return name in RESERVED or name.startswith((NOTICES_PREFIX, ANSWERS_PREFIX))


def destination_of(subscription: str) -> str | None:
    """The destination to which a subscription brings messages or answers; None for other subscriptions."""
    name = subscription.removeprefix(NOTICES_PREFIX).removeprefix(ANSWERS_PREFIX)
    return None if name == subscription else name


class Subscription(NamedTuple):
    name: str
    kind: SubscriptionKind
    target: dict[str, Any]
    """The URL of a webhook, and the secret that signs its messages."""
    types: tuple[str, ...]
    """Types of events; empty for all."""
    cursor: int
    """Events up to this one are delivered, not wanted, or among the deliveries."""
    state: SubscriptionState
    note: str | None
    """The reason of the pause."""
    created_at: int
    created_by: str


class Delivery(NamedTuple):
    """An event that is not yet delivered to a subscription."""

    subscription: str
    event_id: int
    schedule_id: int
    """0 for events that belong to no schedule."""
    attempts: int
    next_at: int | None
    """When the delivery is tried. None while an earlier event of the schedule is pending, or when it is discarded."""
    last_error: str | None
    state: DeliveryState


IncidentState = Literal["open", "acknowledged", "resolved"]
Resolution = Literal["recovered", "paused", "resumed", "ended", "changed", "deleted", "decided", "quiet"]
NO_SCHEDULE = 0
"""The schedule of an incident that belongs to none, or to several."""


class IncidentRow(NamedTuple):
    """An incident in the store. Open ones are unique by schedule, kind and signature."""

    id: int
    schedule_id: int
    kind: str
    signature: str
    """What equal troubles have in common."""
    summary: str
    """The sentence of the newest event."""
    quote: str | None
    """What a tool, a check or a person wrote about it."""
    error: str | None
    run_id: int | None
    """The newest run."""
    times: int
    details: str
    """JSON; for missed slots, those of each schedule."""
    opened_at: int
    last_at: int
    told: int
    """The number of messages about it."""
    told_times: int
    """How often it had happened at the last message."""
    next_at: int | None
    """When it is looked at again, for a reminder; None when it is acknowledged, and when it needs none."""
    acknowledged_at: int | None = None
    acknowledged_by: str | None = None
    resolved_at: int | None = None
    resolution: str | None = None

    @property
    def state(self) -> IncidentState:
        if self.resolved_at is not None:
            return "resolved"
        return "open" if self.acknowledged_at is None else "acknowledged"


class NewNotice(NamedTuple):
    """A message to a destination."""

    destination: str
    at: int
    title: str
    held_until: int | None
    """The instant of the digest that it waits for; None when it is sent on its own."""


class HeldNotice(NamedTuple):
    """A message that waits for a digest."""

    id: int
    destination: str
    at: int
    title: str
