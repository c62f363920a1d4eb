"""Subscriptions and pending deliveries, in SQL that both stores share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from matins.model.audit import StoredEvent
from matins.model.subscription import Delivery, DeliveryState, Subscription, SubscriptionState
from matins.store.common.statements import Statements


class SubscriptionQueries(Statements):
    def event_horizon(self) -> int:
        return self._value("event_horizon")

    def event(self, event_id: int) -> StoredEvent | None:
        return self._row(StoredEvent, "event", id=event_id)

    # -- subscriptions; engines read them again when the revision of the policies rises

    def subscriptions(self) -> list[Subscription]:
        return [_decoded(row) for row in self._rows(Subscription, "subscriptions")]

    def insert_subscription(self, subscription: Subscription) -> bool:
        values = subscription._asdict()
        del values["state"], values["note"]
        values |= {name: orjson.dumps(values[name]).decode() for name in ("target", "types")}
        return bool(self._raised(self._all("insert_subscription", **values)))

    def set_types(self, name: str, types: Sequence[str]) -> None:
        self._all("set_types", name=name, types=orjson.dumps(types).decode())
        self._all("increment_policy_rev")

    def set_subscription(self, name: str, state: SubscriptionState, note: str | None) -> bool:
        return bool(self._raised(self._all("set_subscription", name=name, state=state, note=note)))

    def delete_subscription(self, name: str) -> bool:
        self._all("delete_deliveries", name=name)
        return bool(self._raised(self._all("delete_subscription", name=name)))

    def lease_subscription(self, name: str, owner: str, now: int, until: int) -> int | None:
        beyond = 2 * until - now  # a turn that started earlier and waited sees a lease that ends after its own
        return self._value("lease_subscription", name=name, owner=owner, now=now, until=until, beyond=beyond)

    def release_leases(self, owner: str) -> None:
        self._all("release_leases", owner=owner)

    def move_subscription(self, name: str, cursor: int) -> None:
        self._all("move_subscription", name=name, cursor=cursor)

    # -- deliveries

    def insert_deliveries(self, name: str, events: Iterable[StoredEvent], now: int) -> None:
        for event in events:
            values = {"event_id": event.id, "schedule_id": event.schedule_id or 0, "now": now}
            self._all("insert_delivery", name=name, **values)

    def due_queues(self, name: str, now: int, limit: int) -> list[int]:
        return self._column("due_queues", name=name, now=now, limit=limit)

    def queue_events(self, name: str, schedule_id: int, limit: int) -> list[tuple[int, StoredEvent]]:
        rows = self._all("queue_events", name=name, schedule_id=schedule_id, limit=limit)
        return [(attempts, StoredEvent(*event)) for attempts, *event in rows]

    def unblock_queue(self, name: str, schedule_id: int, now: int) -> None:
        self._all("unblock_queue", name=name, schedule_id=schedule_id, now=now)

    def unblock_queues(self, name: str, now: int, latest: int) -> None:
        self._all("unblock_queues", name=name, now=now)
        self._all("advance_deliveries", name=name, now=now, latest=latest)

    def next_delivery(self, name: str, now: int) -> int | None:
        return self._value("next_delivery", name=name, now=now)

    def delete_delivery(self, name: str, event_id: int) -> None:
        self._all("delete_delivery", name=name, event_id=event_id)

    def defer_delivery(self, name: str, event: StoredEvent, attempts: int, next_at: int, error: str | None) -> None:
        values = {"attempts": attempts, "next_at": next_at, "error": error, "state": "retrying"}
        self._all("defer_delivery", name=name, event_id=event.id, **values)
        self._all("defer_queue", name=name, schedule_id=event.schedule_id or 0, event_id=event.id)

    def discard_delivery(self, name: str, event: StoredEvent, attempts: int, error: str | None) -> None:
        values = {"attempts": attempts, "next_at": None, "error": error, "state": "discarded"}
        self._all("defer_delivery", name=name, event_id=event.id, **values)

    def deliveries(self, name: str, state: DeliveryState, after: int, limit: int) -> list[Delivery]:
        return self._rows(Delivery, "deliveries", name=name, state=state, after=after, limit=limit)

    def given_up(self) -> list[Delivery]:
        return self._rows(Delivery, "given_up")

    def redeliver(self, name: str, event: StoredEvent, now: int) -> None:
        queue = {"name": name, "schedule_id": event.schedule_id or 0, "now": now}
        self._all("redeliver", event_id=event.id, **queue)

    def delete_lost_deliveries(self) -> None:
        self._all("delete_lost_deliveries")


def _decoded(row: Subscription) -> Subscription:
    raw: Any = row
    return row._replace(target=orjson.loads(raw.target), types=tuple(orjson.loads(raw.types)))
