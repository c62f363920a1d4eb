"""Deliveries: the events that a subscription gets, and when a failed delivery is retried."""

from __future__ import annotations

from collections.abc import Collection

import orjson

from matins.engine.when.jitter import fraction
from matins.model.audit import StoredEvent

MAX_ATTEMPTS = 20
MAX_PING_ATTEMPTS = 3
FIRST_DELAY_MS, MAX_DELAY_MS = 5_000, 3_600_000
DISCARDED = "delivery.discarded"


def matches(name: str, types: Collection[str], event: StoredEvent) -> bool:
    """Whether the subscription gets the event. Events about its own failed deliveries would fail too."""
    if types and event.type not in types:
        return False
    return event.type != DISCARDED or orjson.loads(event.data or "{}").get("subscription") != name


def is_told(destination: str | None, event: StoredEvent) -> bool:
    """Whether the event of an incident is told to a destination."""
    return destination in orjson.loads(event.data or "{}").get("to", ())


def next_delivery_at(name: str, event_id: int, attempts: int, now: int) -> int | None:
    """When to retry after `attempts` attempts; None when the delivery is discarded.

    The delay doubles up to an hour. Up to a tenth is added, so that deliveries do not retry in step.
    """
    if attempts >= MAX_ATTEMPTS:
        return None
    delay = min(FIRST_DELAY_MS << (attempts - 1), MAX_DELAY_MS)
    return now + delay + int(delay * 0.1 * fraction(f"{name}:{event_id}:{attempts}"))
