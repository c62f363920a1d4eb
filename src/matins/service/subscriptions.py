"""Use cases on subscriptions: webhooks, named functions, and their deliveries."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from matins.api.results import Delivery, NewWebhook
from matins.engine.events import canonical_types
from matins.engine.setting_values import REFERENCES, ParseContext
from matins.engine.settings import parse_settings
from matins.engine.validation import check_name, nearest
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotFound
from matins.model import subscription as model
from matins.model.access import Principal, name_of
from matins.model.audit import StoredEvent
from matins.model.rows import NewEvent
from matins.model.subscription import (
    DeliveryState,
    Subscription,
    SubscriptionKind,
    SubscriptionState,
    is_reserved,
)
from matins.net.signing import new_secret, sign
from matins.records.kind import RecordChange
from matins.records.storage import find_subscription, note_subscription
from matins.records.webhooks import WEBHOOKS, Webhook
from matins.service.core import Core
from matins.service.drafts import check_note
from matins.service.records import Records
from matins.store.transaction import Transaction


@dataclass(frozen=True)
class Webhooks:
    """Use cases of webhooks beyond those of every record."""

    core: Core
    records: Records

    def add(
        self,
        principal: Principal,
        name: str,
        url: str,
        *,
        types: Iterable[str] | None = None,
        secret: str | None = None,
    ) -> NewWebhook:
        secret = new_secret() if secret is None else secret
        if not secret.startswith(REFERENCES):
            sign(secret, "check", 0, b"")
        settings: dict[str, Any] = {"url": url, **({} if types is None else {"types": list(types)})}
        context = self.records.context()
        fields = parse_settings(WEBHOOKS.owner, WEBHOOKS.table, settings, ParseContext(context.now))
        hook = WEBHOOKS.complete(Webhook(name, secret=secret, **fields), context)
        target = {"url": hook.url, "secret": secret}
        made = subscribe(self.core, principal, name, "webhook", target, hook.types)
        return NewWebhook(
            name=name,
            url=hook.url,
            types=list(hook.types),
            secret=secret,
            state=made.state,
            created_at=to_datetime(made.created_at),
            created_by=name_of(made.created_by),
        )

    def pause(self, principal: Principal, name: str, *, note: str | None = None) -> Any:
        check_note(note)
        self._set_state(principal, name, "paused", note)
        return self.records.result(WEBHOOKS, principal, name)

    def resume(self, principal: Principal, name: str) -> Any:
        self._set_state(principal, name, "active", None)
        return self.records.result(WEBHOOKS, principal, name)

    def _set_state(self, principal: Principal, name: str, state: SubscriptionState, note: str | None) -> None:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            found = _found(transaction, name, "webhook")
            if transaction.set_subscription(name, state, note):
                event = "subscription.resumed" if state == "active" else "subscription.paused"
                note_subscription(event, found, _change(self.core, transaction, principal, now), note)
        self.core.notify()


@dataclass(frozen=True)
class Subscriptions:
    core: Core

    def open(self, principal: Principal, name: str, *, types: Iterable[str] | None = None) -> None:
        wanted = canonical_types(types)
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            found = find_subscription(transaction, name)
            if found is not None and found.kind == "function":
                if found.types != wanted:
                    transaction.set_types(name, wanted)
                    change = _change(self.core, transaction, principal, now)
                    note_subscription("subscription.updated", found._replace(types=wanted), change)
                return
        subscribe(self.core, principal, name, "function", {}, wanted)

    def delete(self, principal: Principal, name: str) -> bool:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            found = find_subscription(transaction, name)
            if found is None or found.kind != "function":
                return False
            transaction.delete_subscription(name)
            note_subscription("subscription.deleted", found, _change(self.core, transaction, principal, now))
        self.core.notify()
        return True

    def deliveries(
        self,
        principal: Principal,
        name: str,
        *,
        state: DeliveryState = "retrying",
        after: str | None = None,
        limit: int = 100,
    ) -> builtins.list[Delivery]:
        with self.core.store.reading() as transaction:
            _found(transaction, name)
            rows = transaction.deliveries(name, state, self._number(after or "0"), limit)
        return [self._result(row) for row in rows]

    def redeliver(self, principal: Principal, name: str, event_id: str) -> None:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            _found(transaction, name)
            event = self._event(transaction, event_id)
            transaction.redeliver(name, event, now)
            data = {"subscription": name, "event": f"{self.core.store.store_id}-{event.id}", **principal.signed}
            transaction.events.append(NewEvent(now, "delivery.requested", event.schedule_id, event.run_id, data))
        self.core.notify()

    def _event(self, transaction: Transaction, event_id: str) -> StoredEvent:
        event = transaction.event(self._number(event_id))
        if event is None:
            hint = "It may be older than the history that is kept."
            raise NotFound(f'There is no event "{event_id}".', value=event_id, field="event", hint=hint)
        return event

    def _number(self, event_id: str) -> int:
        """The number of an event, from its id or from the number alone."""
        text = event_id.removeprefix(f"{self.core.store.store_id}-")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            hint = f'For example: "{self.core.store.store_id}-17".'
            raise InvalidInput(f'"{event_id}" is not an event of this store.', value=event_id, field="event", hint=hint)
        return int(text)

    def _result(self, row: model.Delivery) -> Delivery:
        return Delivery(
            event=f"{self.core.store.store_id}-{row.event_id}",
            schedule_id=str(row.schedule_id) if row.schedule_id else None,
            attempts=row.attempts,
            next_at=to_datetime(row.next_at),
            last_error=row.last_error,
            state=row.state,
        )


def subscribe(
    core: Core, principal: Principal, name: str, kind: SubscriptionKind, target: dict[str, Any], types: tuple[str, ...]
) -> Subscription:
    check_name("name", name)
    if is_reserved(name):
        raise Conflict(
            f'The name "{name}" is reserved.',
            value=name,
            field="name",
            hint="Use another name.",
        )
    now = core.clock.now_ms()
    with core.store.transaction(now) as transaction:
        horizon = transaction.event_horizon()
        made = Subscription(name, kind, target, types, horizon, "active", None, now, principal.who)
        if not transaction.insert_subscription(made):
            hint = "Delete it first, or use another name."
            raise Conflict(f'There is a subscription "{name}" already.', value=name, field="name", hint=hint)
        note_subscription("subscription.created", made, _change(core, transaction, principal, now))
    core.notify()
    return made


def _change(core: Core, transaction: Transaction, principal: Principal, now: int) -> RecordChange:
    return RecordChange(transaction, principal, core.catalog.policies(transaction), now)


def _found(transaction: Transaction, name: str, kind: SubscriptionKind | None = None) -> Subscription:
    among = {found.name: found for found in transaction.subscriptions() if kind in (None, found.kind)}
    if name not in among:
        hint = nearest(name, among) if among else f"Create one: {WEBHOOKS.example}"
        raise NotFound(f'There is no {kind or "subscription"} "{name}".', value=name, field="name", hint=hint)
    return among[name]
