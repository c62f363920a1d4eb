"""Which events a subscription gets, and when a delivery that failed is tried again."""

from __future__ import annotations

from collections.abc import Collection

import orjson

from matins.engine.when.jitter import fraction
from matins.model.rows import StoredEvent

MAX_ATTEMPTS = 20
FIRST_DELAY_MS, MAX_DELAY_MS = 5_000, 3_600_000
DISCARDED = "delivery.discarded"


def matches(name: str, types: Collection[str], event: StoredEvent) -> bool:
    """Not that something could not be delivered to itself: that could not be delivered either."""
    if types and event.type not in types:
        return False
    return event.type != DISCARDED or orjson.loads(event.data or "{}").get("subscription") != name


def next_delivery_at(name: str, event_id: int, attempts: int, now: int) -> int | None:
    """When to try again after so many attempts; None when it is given up.

    Doubles up to an hour, with up to a tenth more so that deliveries do not march in step.
    """
    if attempts >= MAX_ATTEMPTS:
        return None
    delay = min(FIRST_DELAY_MS << (attempts - 1), MAX_DELAY_MS)
    return now + delay + int(delay * 0.1 * fraction(f"{name}:{event_id}:{attempts}"))
