"""Subscriptions to events, and pending deliveries."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

HOOKS_SUBSCRIPTION = "hooks"
"""The subscription that runs the hooks after a run."""
PIPELINES_SUBSCRIPTION = "pipelines"
"""The subscription that starts the runs of schedules that follow others."""
INCIDENTS_SUBSCRIPTION = "incidents"
"""The subscription that keeps incidents. It is always there."""
PINGS_SUBSCRIPTION = "pings"
"""The subscription that calls the URLs of schedules."""
RESERVED = (HOOKS_SUBSCRIPTION, PIPELINES_SUBSCRIPTION, INCIDENTS_SUBSCRIPTION, PINGS_SUBSCRIPTION)
NOTICES_PREFIX = "notify:"
"""A subscription with this prefix brings messages to the destination that follows it."""
SubscriptionKind = Literal["webhook", "hook", "function", "pipeline", "incident", "notice", "ping"]
SubscriptionState = Literal["active", "paused"]
DeliveryState = Literal["retrying", "discarded"]


def is_reserved(name: str) -> bool:
    """Whether Matins uses the name of a subscription itself."""
    return name in RESERVED or name.startswith(NOTICES_PREFIX)


def destination_of(subscription: str) -> str | None:
    """The destination to which a subscription brings messages; None for other subscriptions."""
    name = subscription.removeprefix(NOTICES_PREFIX)
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
