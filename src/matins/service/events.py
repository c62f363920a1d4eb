"""Use cases on who hears of events: webhooks, named functions, and what they have not got."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from matins.engine.events import canonical_types
from matins.errors import Conflict, InvalidInput, NotFound
from matins.executors.deliveries import ALLOWED_HOSTS
from matins.model.principal import Principal
from matins.model.records import NewEvent, StoredEvent
from matins.model.subscription import Delivery, DeliveryState, Subscription, SubscriptionKind, SubscriptionState
from matins.net.client import Door, check_url
from matins.net.signing import new_secret, sign
from matins.ports import Transaction
from matins.service.definitions import check_name, check_note
from matins.service.governing import Governing, origin
from matins.service.rights import needs, rights_of

HOOKS = "hooks"
"""The subscription by which hooks learn how runs end."""


class Events(Governing):
    # -- webhooks

    @needs("govern")
    def add_webhook(
        self,
        principal: Principal,
        name: str,
        url: str,
        types: str | Iterable[str] | None = None,
        secret: str | None = None,
    ) -> dict[str, Any]:
        """Events from now on, all of them or those of `types`, as signed requests. The secret is shown here only."""
        check_url(url, self.allowed_hosts(principal))
        secret = new_secret() if secret is None else secret
        sign(secret, "check", 0, b"")
        added = self._subscribe(principal, name, "webhook", {"url": url, "secret": secret}, canonical_types(types))
        return _webhook(added, whole=True) | {"secret": secret}

    @needs("read")
    def webhooks(self, principal: Principal) -> list[dict[str, Any]]:
        """Without their secrets; the path, which may hold a key, is for those who govern."""
        whole = "govern" in rights_of(principal)
        with self._store.reading() as transaction:
            return [_webhook(found, whole=whole) for found in transaction.subscriptions() if found.kind == "webhook"]

    @needs("govern")
    def pause_webhook(self, principal: Principal, name: str, note: str | None = None) -> bool:
        """Nothing is sent until it is resumed; then it goes on where it stood. False when it is paused already."""
        check_note(note)
        return self._set_state(principal, name, "paused", note)

    @needs("govern")
    def resume_webhook(self, principal: Principal, name: str) -> bool:
        """False when it is not paused."""
        return self._set_state(principal, name, "active", None)

    @needs("govern")
    def drop_webhook(self, principal: Principal, name: str) -> bool:
        """And what it has not got. False when there is none."""
        return self._drop_subscription(principal, name, "webhook")

    @needs("read")
    def deliveries(
        self, principal: Principal, name: str, state: str = "waiting", after: str | int = 0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """What a subscription has not got, the oldest first: `waiting` to be tried again, or `given_up`."""
        for known in get_args(DeliveryState):
            if state == known:
                with self._store.reading() as transaction:
                    self._found(transaction, name)
                    rows = transaction.deliveries(name, known, self._number(after), limit)
                return [self._told(row) for row in rows]
        allowed = ", ".join(get_args(DeliveryState))
        raise InvalidInput(f'Deliveries are never "{state}"', value=state, field="state", allowed=allowed)

    @needs("govern")
    def redeliver(self, principal: Principal, name: str, event_id: str | int) -> None:
        """Send an event now, whether it was given up, waits, or has arrived before."""
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            self._found(transaction, name)
            event = self._event(transaction, event_id)
            transaction.redeliver(name, event, now)
            data = {"subscription": name, "event": f"{self._store.store_id}-{event.id}", "by": principal.name}
            transaction.events.append(NewEvent(now, "delivery.requested", event.schedule_id, event.run_id, data))
        self._changed()

    # -- functions by name

    @needs("govern")
    def open_subscription(self, principal: Principal, name: str, types: str | Iterable[str] | None = None) -> None:
        """A place in the stream of events for a function that a process names: from now on, or where it stood."""
        wanted = canonical_types(types)
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            found = _named(transaction, name)
            if found is not None and found.kind == "function":
                if found.types != wanted:
                    transaction.set_types(name, wanted)
                return
        self._subscribe(principal, name, "function", {}, wanted)

    @needs("govern")
    def forget_subscription(self, principal: Principal, name: str) -> bool:
        """Where a named function stood; it begins anew when it comes again. False when there is none."""
        return self._drop_subscription(principal, name, "function")

    # -- where webhooks may lead

    @needs("govern")
    def set_allowed_hosts(self, principal: Principal, hosts: Sequence[str]) -> None:
        """Hosts ("host" or "host:port") that webhooks may lead to whatever their address, such as one's own."""
        if isinstance(hosts, str):
            raise InvalidInput('"hosts" must be a list', value=hosts, field="hosts", hint=f'["{hosts}"]')
        Door(hosts)
        self._put(principal, "setting", ALLOWED_HOSTS, list(hosts))

    @needs("read")
    def allowed_hosts(self, principal: Principal) -> list[str]:
        return list(self._policies().settings.get(ALLOWED_HOSTS, []))

    # -- how they are kept

    def _subscribe(
        self, principal: Principal, name: str, kind: SubscriptionKind, target: dict[str, Any], types: tuple[str, ...]
    ) -> Subscription:
        check_name("name", name)
        if name == HOOKS:
            raise Conflict(f'"{HOOKS}" is the name under which hooks run', value=name, field="name", hint="another one")
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            horizon = transaction.event_horizon()
            made = Subscription(name, kind, target, types, horizon, "active", None, now, principal.name)
            if not transaction.put_subscription(made):
                raise Conflict(
                    f'There is a subscription "{name}" already', value=name, field="name", hint="drop it first"
                )
            tell(transaction, "subscription.created", made, principal, now)
        self._changed()
        return made

    def _set_state(self, principal: Principal, name: str, state: SubscriptionState, note: str | None) -> bool:
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            found = self._found(transaction, name, "webhook")
            changed = transaction.set_subscription(name, state, note)
            if changed:
                kind = "subscription.resumed" if state == "active" else "subscription.paused"
                tell(transaction, kind, found, principal, now, note)
        self._changed()
        return changed

    def _drop_subscription(self, principal: Principal, name: str, kind: SubscriptionKind) -> bool:
        now = self._clock.now_ms()
        with self._store.transaction(now) as transaction:
            found = _named(transaction, name)
            if found is None or found.kind != kind:
                return False
            self._refuse_of_file(transaction, "webhook", name)
            transaction.drop_subscription(name)
            tell(transaction, "subscription.dropped", found, principal, now)
        self._changed()
        return True

    def _found(self, transaction: Transaction, name: str, kind: SubscriptionKind | None = None) -> Subscription:
        among = {found.name: found for found in transaction.subscriptions() if kind in (None, found.kind)}
        if name not in among:
            hint = f"known: {', '.join(among)}" if among else "there is none yet: add_webhook"
            raise NotFound(f'There is no {kind or "subscription"} "{name}"', value=name, field="name", hint=hint)
        return among[name]

    def _event(self, transaction: Transaction, event_id: str | int) -> StoredEvent:
        event = transaction.event(self._number(event_id))
        if event is None:
            raise NotFound(f'There is no event "{event_id}"', value=event_id, field="event", hint="it may be too old")
        return event

    def _number(self, event_id: str | int) -> int:
        """Of the id by which an event is told, or of the number alone."""
        text = str(event_id).removeprefix(f"{self._store.store_id}-")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            hint = f'as it was told: "{self._store.store_id}-17"'
            raise InvalidInput(f'"{event_id}" is not an event of this store', value=event_id, field="event", hint=hint)
        return int(text)

    def _told(self, row: Delivery) -> dict[str, Any]:
        return {
            "event": f"{self._store.store_id}-{row.event_id}",
            "schedule_id": str(row.schedule_id) if row.schedule_id else None,
            "attempts": row.attempts,
            "next_at": row.next_at,
            "last_error": row.last_error,
            "state": row.state,
        }


def _named(transaction: Transaction, name: str) -> Subscription | None:
    return next((found for found in transaction.subscriptions() if found.name == name), None)


def _webhook(found: Subscription, *, whole: bool) -> dict[str, Any]:
    url = found.target["url"]
    return {
        "name": found.name,
        "url": url if whole else origin(url),
        "types": list(found.types),
        "state": found.state,
        "note": found.note,
        "created_at": found.created_at,
        "created_by": found.created_by,
    }


def tell(
    transaction: Transaction, kind: str, found: Subscription, principal: Principal, now: int, note: str | None = None
) -> None:
    """Neither secret nor path: events are for all to read."""
    data: dict[str, Any] = {"subscription": found.name, "kind": found.kind, "by": principal.name}
    if found.kind == "webhook":
        data |= {"to": origin(found.target["url"]), "types": found.types}
    if note is not None:
        data["note"] = note
    transaction.events.append(NewEvent(now, kind, None, None, data))
