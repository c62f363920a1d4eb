"""Use cases on events and on subscriptions: webhooks and named functions, with their deliveries."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from matins.api.results import Delivery, Event, NewWebhook
from matins.engine.events import canonical_types
from matins.engine.settings import REFERENCES, ParseContext, parse_settings
from matins.engine.validation import check_name, nearest
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotFound
from matins.model import event as model
from matins.model.access import Principal, name_of
from matins.model.event import (
    DeliveryState,
    StoredEvent,
    Subscription,
    SubscriptionKind,
    SubscriptionState,
    is_reserved,
)
from matins.model.rows import NewEvent, ScheduleRow
from matins.net.signing import new_secret, sign
from matins.records.calls import WEBHOOKS, Webhook
from matins.records.kind import RecordChange, find_subscription, note_subscription
from matins.service.core import Core
from matins.service.drafts import check_note
from matins.service.records import Records
from matins.store import Store
from matins.store.transaction import Transaction

_PAGE = 2_000


@dataclass(frozen=True)
class Events:
    core: Core

    def list(
        self,
        principal: Principal,
        *,
        types: Iterable[str] | None = None,
        after: int | None = None,
        limit: int = 100,
        schedule: str | None = None,
        agent: str | None = None,
        run_id: int | None = None,
    ) -> builtins.list[Event]:
        with self.core.store.reading() as transaction:
            schedule_id = None if schedule is None else self.core.find(transaction, schedule, agent, deleted=True).id
        wanted = _Filter(self.core.store, canonical_types(types), schedule_id, agent, run_id)
        size = limit if wanted.all else _PAGE
        found = _first(self._newest(size) if after is None else self._onwards(after, size), wanted, limit)
        if after is None:
            found.reverse()
        with self.core.store.reading() as transaction:
            ids = {event.schedule_id for event in found if event.schedule_id is not None}
            named = {row.id: row for row in transaction.schedules_with(ids)} if ids else {}
        return [_event_result(event, named.get(event.schedule_id or 0)) for event in found]

    def _newest(self, size: int) -> Iterator[builtins.list[StoredEvent]]:
        """Pages of events, the newest first."""
        with self.core.store.reading() as transaction:
            horizon = transaction.event_horizon() + 1
        return self._pages(lambda transaction, before: transaction.events_before(before, size), horizon, size)

    def _onwards(self, after: int, size: int) -> Iterator[builtins.list[StoredEvent]]:
        return self._pages(lambda transaction, last: transaction.events_after(last, size), after, size)

    def _pages(
        self, read: Callable[[Transaction, int], builtins.list[StoredEvent]], last: int, size: int
    ) -> Iterator[builtins.list[StoredEvent]]:
        """Each page is read in its own transaction, which lets the engine work."""
        full = True
        while full:
            with self.core.store.reading() as transaction:
                page = read(transaction, last)
            yield page
            full = len(page) == size
            last = page[-1].id if page else last


class _Filter:
    def __init__(
        self, store: Store, types: tuple[str, ...], schedule_id: int | None, agent: str | None, run_id: int | None
    ) -> None:
        self._store = store
        self._types = types
        self._schedule_id = schedule_id
        self._run_id = run_id
        self._agent = agent if schedule_id is None else None
        self._agents: dict[int | None, str | None] = {None: None}
        self.all = not types and schedule_id is None and agent is None and run_id is None

    def __call__(self, event: StoredEvent) -> bool:
        return (
            (not self._types or event.type in self._types)
            and self._schedule_id in (None, event.schedule_id)
            and self._run_id in (None, event.run_id)
            and (self._agent is None or self._agent_of(event.schedule_id) == self._agent)
        )

    def _agent_of(self, schedule_id: int | None) -> str | None:
        if schedule_id not in self._agents:
            with self._store.reading() as transaction:
                row = transaction.schedule(schedule_id or 0)
            self._agents[schedule_id] = None if row is None else row.agent
        return self._agents[schedule_id]


def _first(pages: Iterator[list[StoredEvent]], wanted: _Filter, limit: int) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    for page in pages:
        found += [event for event in page if wanted(event)]
        if len(found) >= limit:
            break
    return found[:limit]


def _event_result(event: StoredEvent, row: ScheduleRow | None) -> Event:
    name, agent = (None, None) if row is None else (row.name, row.agent)
    return Event(
        id=str(event.id),
        at=to_datetime(event.at),
        type=event.type,
        schedule_id=None if event.schedule_id is None else str(event.schedule_id),
        schedule=name,
        agent=agent,
        run_id=None if event.run_id is None else str(event.run_id),
        data=orjson.loads(event.data) if event.data else {},
    )


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
