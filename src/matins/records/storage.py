"""Storage of records: as policies, limits, subscriptions or throttles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from matins.errors import Conflict
from matins.model.rows import NewEvent
from matins.model.subscription import NOTICES_PREFIX, Subscription
from matins.model.throttle import Throttle
from matins.records.kind import RecordChange, RecordKind

if TYPE_CHECKING:
    from matins.engine.policies import Policies
    from matins.store.transaction import Transaction


class PolicyStorage:
    """Stores each record in a row. Engines read the rows again after a change."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        held: Mapping[str, Any] = policies.records.get(kind.kind, {})
        return {key: value if isinstance(value, kind.value) else kind.load(key, value) for key, value in held.items()}

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        from matins.engine.audit_definitions import fingerprint
        from matins.engine.settings import redacted

        data = kind.dump(value)
        text = orjson.dumps(data).decode()
        change.transaction.upsert_policy(kind.kind, key, text, change.now, change.principal.who)
        details = {"kind": kind.kind, "name": key, **change.principal.signed, "definition": redacted(kind.table, data)}
        details["fingerprint"] = fingerprint(text)
        change.transaction.events.append(NewEvent(change.now, "policy.set", None, None, details))
        return value

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        deleted = change.transaction.delete_policy(kind.kind, key)
        if deleted:
            details = {"kind": kind.kind, "name": key, **change.principal.signed}
            change.transaction.events.append(NewEvent(change.now, "policy.deleted", None, None, details))
        return deleted


class DestinationStorage(PolicyStorage):
    """Stores a destination with the subscription that brings messages to it."""

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        """Store the destination. If it was paused because it was gone, it is tried again."""
        name, transaction = f"{NOTICES_PREFIX}{key}", change.transaction
        if find_subscription(transaction, name) is None:
            horizon, by = transaction.event_horizon(), change.principal.who
            transaction.insert_subscription(
                Subscription(name, "notice", {}, (), horizon, "active", None, change.now, by)
            )
        else:
            transaction.set_subscription(name, "active", None)
        return super().put(kind, key, value, change)

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        change.transaction.delete_subscription(f"{NOTICES_PREFIX}{key}")
        return super().delete(kind, key, change)


class LimitStorage:
    """Stores the number of units of each scope. Running runs hold them."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        return {row.scope: kind.value(row.scope, row.size) for row in transaction.limits()}

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        resize(key, value.size, change)
        return value

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        limited = any(row.scope == key and row.size for row in change.transaction.limits())
        if limited:
            resize(key, 0, change)
        return limited


def resize(scope: str, size: int, change: RecordChange) -> None:
    """Set the maximum number of concurrent runs of a scope; 0 for no limit."""
    change.transaction.set_limit(scope, size)
    data = {"scope": scope, "size": size, **change.principal.signed}
    change.transaction.events.append(NewEvent(change.now, "limit.set", None, None, data))


class WebhookStorage:
    """Stores subscriptions with their position in the event stream."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        found = [item for item in transaction.subscriptions() if item.kind == "webhook"]
        return {
            item.name: kind.value(item.name, item.target["url"], item.types, item.target["secret"]) for item in found
        }

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        """Store the webhook. With another URL or secret, it starts with new events; otherwise its position stays."""
        transaction, target = change.transaction, {"url": value.url, "secret": value.secret}
        found = find_subscription(transaction, key)
        if found is not None and found.kind != "webhook":
            message = f'There is a subscription "{key}" already.'
            raise Conflict(message, value=key, field="name", hint="Delete it first, or use another name.")
        if found is not None and found.target == target:
            if found.types != value.types:
                transaction.set_types(key, value.types)
                note_subscription("subscription.updated", found._replace(types=value.types), change)
            return value
        if found is not None:
            transaction.delete_subscription(key)
        horizon = transaction.event_horizon()
        made = Subscription(
            key, "webhook", target, value.types, horizon, "active", None, change.now, change.principal.who
        )
        transaction.insert_subscription(made)
        note_subscription("subscription.created", made, change)
        return value

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        found = find_subscription(change.transaction, key)
        if found is None or found.kind != "webhook":
            return False
        change.transaction.delete_subscription(key)
        note_subscription("subscription.deleted", found, change)
        return True


def find_subscription(transaction: Transaction, name: str) -> Subscription | None:
    return next((found for found in transaction.subscriptions() if found.name == name), None)


def note_subscription(event: str, found: Subscription, change: RecordChange, note: str | None = None) -> None:
    """Append an event without secret and path, since every principal can read events."""
    from matins.engine.audit_definitions import subscription_fingerprint
    from matins.engine.settings import origin

    data: dict[str, Any] = {"subscription": found.name, "kind": found.kind, **change.principal.signed}
    if event != "subscription.deleted":
        data["fingerprint"] = subscription_fingerprint(found)
    if found.kind == "webhook":
        data |= {"to": origin(found.target["url"]), "types": found.types}
    if note is not None:
        data["note"] = note
    change.transaction.events.append(NewEvent(change.now, event, None, None, data))


class ThrottleStorage:
    """Stores rate limits of providers, which expire."""

    def read(self, kind: RecordKind[Any], transaction: Transaction, policies: Policies) -> Mapping[str, Any]:
        return {held.provider: _rate_limit(kind, held) for held in transaction.throttles()}

    def put(self, kind: RecordKind[Any], key: str, value: Any, change: RecordChange) -> Any:
        throttle = Throttle(key, value.resets_at, change.now, value.affects, value.reason, change.principal.who)
        held = change.transaction.upsert_throttle(throttle)
        data = {"provider": key, "resets_at": value.resets_at, "reason": value.reason, **change.principal.signed}
        change.transaction.events.append(NewEvent(change.now, "throttle.set", None, None, data))
        return _rate_limit(kind, held)

    def delete(self, kind: RecordKind[Any], key: str, change: RecordChange) -> bool:
        deleted = change.transaction.delete_throttle(key)
        if deleted:
            data = {"provider": key, **change.principal.signed}
            change.transaction.events.append(NewEvent(change.now, "throttle.deleted", None, None, data))
        return deleted


def _rate_limit(kind: RecordKind[Any], held: Throttle) -> Any:
    return kind.value(held.provider, held.resets_at, held.affects, held.reason)


POLICIES = PolicyStorage()
