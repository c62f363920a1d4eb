"""Subscriptions and pending deliveries, in SQL that both stores share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from matins.model.records import StoredEvent
from matins.model.subscription import Delivery, DeliveryState, Subscription, SubscriptionState


class Outbox:
    """Part of a transaction. The store implements `_common`, which runs a named query."""

    def _common(self, query: str, /, **values: Any) -> list[Any]:
        raise NotImplementedError

    def event_horizon(self) -> int:
        return self._common("event_horizon")[0][0]

    def event(self, event_id: int) -> StoredEvent | None:
        rows = self._common("event", id=event_id)
        return StoredEvent(*rows[0]) if rows else None

    # -- subscriptions; engines read them again when the revision of the policies rises

    def subscriptions(self) -> list[Subscription]:
        return [_subscription(row) for row in self._common("subscriptions")]

    def put_subscription(self, subscription: Subscription) -> bool:
        """False when the name is in use."""
        values = subscription._asdict()
        del values["state"], values["note"]
        values |= {name: orjson.dumps(values[name]).decode() for name in ("target", "types")}
        return self._raised(self._common("put_subscription", **values))

    def set_types(self, name: str, types: Sequence[str]) -> None:
        self._common("set_types", name=name, types=orjson.dumps(types).decode())
        self._common("raise_policy_rev")

    def set_subscription(self, name: str, state: SubscriptionState, note: str | None) -> bool:
        """False when the subscription already has this state."""
        return self._raised(self._common("set_subscription", name=name, state=state, note=note))

    def drop_subscription(self, name: str) -> bool:
        self._common("drop_deliveries", name=name)
        return self._raised(self._common("drop_subscription", name=name))

    def lease_subscription(self, name: str, owner: str, now: int, until: int) -> int | None:
        """Take the lease and return the cursor; None when another process has the lease."""
        beyond = 2 * until - now  # a turn that began earlier, and had to wait, sees a lease that ends after its own
        rows = self._common("lease_subscription", name=name, owner=owner, now=now, until=until, beyond=beyond)
        return rows[0][0] if rows else None

    def release_leases(self, owner: str) -> None:
        self._common("release_leases", owner=owner)

    def move_subscription(self, name: str, cursor: int) -> None:
        self._common("move_subscription", name=name, cursor=cursor)

    # -- deliveries

    def insert_deliveries(self, name: str, events: Iterable[StoredEvent], now: int) -> None:
        for event in events:
            values = {"event_id": event.id, "schedule_id": event.schedule_id or 0, "now": now}
            self._common("insert_delivery", name=name, **values)

    def lanes(self, name: str, now: int, limit: int) -> list[int]:
        """Schedules whose next event may be delivered now."""
        return [row[0] for row in self._common("lanes", name=name, now=now, limit=limit)]

    def lane(self, name: str, schedule_id: int, limit: int) -> list[tuple[int, StoredEvent]]:
        """(attempts, event) in the order of the events."""
        rows = self._common("lane", name=name, schedule_id=schedule_id, limit=limit)
        return [(row[0], StoredEvent(*row[1:])) for row in rows]

    def open_lane(self, name: str, schedule_id: int, now: int) -> None:
        """Release the next event of a schedule: the one before it is done."""
        self._common("open_lane", name=name, schedule_id=schedule_id, now=now)

    def open_lanes(self, name: str, now: int, latest: int) -> None:
        """Release events that wait without a cause: none is before them, or their time is too far in the future."""
        self._common("open_lanes", name=name, now=now)
        self._common("hurry_deliveries", name=name, now=now, latest=latest)

    def next_delivery(self, name: str, now: int) -> int | None:
        return self._common("next_delivery", name=name, now=now)[0][0]

    def drop_delivery(self, name: str, event_id: int) -> None:
        self._common("drop_delivery", name=name, event_id=event_id)

    def put_off_delivery(self, name: str, event: StoredEvent, attempts: int, next_at: int, error: str | None) -> None:
        """Retry the delivery later, and the events after it."""
        values = {"attempts": attempts, "next_at": next_at, "error": error, "state": "retrying"}
        self._common("put_off_delivery", name=name, event_id=event.id, **values)
        self._common("put_off_lane", name=name, schedule_id=event.schedule_id or 0, event_id=event.id)

    def give_up_delivery(self, name: str, event: StoredEvent, attempts: int, error: str | None) -> None:
        values = {"attempts": attempts, "next_at": None, "error": error, "state": "discarded"}
        self._common("put_off_delivery", name=name, event_id=event.id, **values)

    def deliveries(self, name: str, state: DeliveryState, after: int, limit: int) -> list[Delivery]:
        rows = self._common("deliveries", name=name, state=state, after=after, limit=limit)
        return [Delivery(*row) for row in rows]

    def redeliver(self, name: str, event: StoredEvent, now: int) -> None:
        """Retry the delivery now, and the ones before it."""
        lane = {"name": name, "schedule_id": event.schedule_id or 0, "now": now}
        self._common("redeliver", event_id=event.id, **lane)

    def drop_lost_deliveries(self) -> None:
        self._common("drop_lost_deliveries")

    def _raised(self, changed: Sequence[Any]) -> bool:
        if changed:
            self._common("raise_policy_rev")
        return bool(changed)


def _subscription(row: Sequence[Any]) -> Subscription:
    values = list(row)
    values[2], values[3] = orjson.loads(values[2]), tuple(orjson.loads(values[3]))
    return Subscription(*values)
