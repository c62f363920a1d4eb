"""Who wants to hear of events, and what is still to be delivered."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

SubscriptionKind = Literal["webhook", "hook", "function"]
SubscriptionState = Literal["active", "paused"]
DeliveryState = Literal["waiting", "given_up"]


class Subscription(NamedTuple):
    name: str
    kind: SubscriptionKind
    target: dict[str, Any]
    """Where a webhook leads, and the secret that signs what is sent there."""
    types: tuple[str, ...]
    """None named: all."""
    cursor: int
    """Events up to this one are delivered, of no interest, or among the deliveries."""
    state: SubscriptionState
    note: str | None
    """Why it is paused."""
    created_at: int
    created_by: str


class Delivery(NamedTuple):
    """An event that a subscription has not got yet."""

    subscription: str
    event_id: int
    schedule_id: int
    """0 for events that belong to no schedule."""
    attempts: int
    next_at: int | None
    """When it is tried; None while another event of its schedule is before it, or when it is given up."""
    last_error: str | None
    state: DeliveryState
