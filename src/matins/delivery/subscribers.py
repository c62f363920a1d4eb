"""Deliveries for each subscriber: events arrive in commit order, and leave in order per schedule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

from matins.delivery.decisions import DISCARDED, MAX_DELAY_MS, is_told, matches, next_delivery_at
from matins.engine.events import NOTICE_EVENTS, PING_EVENTS, PIPELINE_EVENTS, TERMINAL_EVENTS, to_cloudevent
from matins.engine.policies import AFTER_RUN, Policies
from matins.model.event import StoredEvent, Subscription, SubscriptionKind, destination_of
from matins.model.rows import CheckRow, NewEvent
from matins.model.run import RunRecord
from matins.runtime.approval_requests import UnusedItem, allowed_files, unused_items
from matins.runtime.catalog import Catalog, CompiledSchedule, run_record
from matins.store.transaction import Transaction

Callback = Callable[[dict[str, Any]], Any]
"""Called with an event as a CloudEvent; the event is delivered when the function returns."""
LEASE_MS = 60_000
_PAGE = 200
_MAX_UNSAVED = 1_000
"""Number of unwanted events after which the cursor is saved."""
_MAX_DELIVERIES = 20
_MAX_WAITING = 10_000
_MAX_QUEUES: dict[SubscriptionKind, int] = {"webhook": 4, "hook": 8, "pipeline": 4, "notice": 4, "ping": 8}
"""Number of schedules that are delivered to one subscriber at once. One thread at a time calls a function."""
_ALL = 0
"""The queue of a function: events of all schedules, in commit order."""
LATEST_MS = MAX_DELAY_MS * 11 // 10
_MAX_ERROR_LENGTH = 500


class EventDelivery(NamedTuple):
    """An event for a subscriber."""

    event: StoredEvent
    cloud_event: dict[str, Any]
    attempts: int
    run: RunRecord | None = None
    """For hooks: the run that ended, and its settings."""
    compiled: CompiledSchedule | None = None
    allowed: Mapping[str, Collection[str]] = {}
    """For hooks: by path, the digests that a person set or approved of files that commands run."""
    unused_items: tuple[UnusedItem, ...] = ()
    """For hooks: the work items that the run claimed for a request, and did not start with."""

    @property
    def schedule_id(self) -> int | None:
        return self.event.schedule_id

    @property
    def label(self) -> str:
        return f"Event {self.event.id}"


class DeliveryQueue(NamedTuple):
    """The next events for a subscriber, of one schedule or of all. Events of a schedule are sent one by one."""

    subscriber: Subscriber
    kind: SubscriptionKind
    schedule_id: int
    target: Any
    deliveries: tuple[Any, ...]
    """Each an EventDelivery, or of answers an AnswerDelivery."""
    policies: Policies


class HookResult(NamedTuple):
    """The result of a command that runs after a run."""

    kind: Literal["file_after", "after"]
    failure: str | None
    duration_ms: int
    exit_code: int | None
    output: str


class DeliveryResult(NamedTuple):
    """The result of a delivery: arrived, to be retried, refused for good, or the subscriber is gone."""

    verdict: Literal["arrived", "again", "refused", "gone"] = "arrived"
    error: str | None = None
    hooks: tuple[HookResult, ...] = ()
    after_ms: int = 0
    """How long the subscriber wants to be left alone before the next attempt."""


QueueResults = Sequence[tuple[Any, DeliveryResult]]
"""Deliveries of a queue, and what became of them."""


class Turn(NamedTuple):
    """The context of one turn of the outbox."""

    transaction: Transaction
    policies: Policies
    catalog: Catalog
    store_id: str
    now: int

    def record_event(self, kind: str, event: StoredEvent, data: dict[str, Any]) -> None:
        self.transaction.events.append(NewEvent(self.now, kind, event.schedule_id, event.run_id, data))

    def deliveries(
        self, events: Sequence[tuple[int, StoredEvent]], *, with_run: bool = False, with_files: bool = False
    ) -> tuple[EventDelivery, ...]:
        rows = {s: self.transaction.schedule(s) for s in {event.schedule_id for _, event in events} if s is not None}
        names = {schedule_id: row.name for schedule_id, row in rows.items() if row is not None}
        found: list[EventDelivery] = []
        for attempts, event in events:
            run, compiled = self.ended(event) if with_run else (None, None)
            cloud_event = to_cloudevent(event, self.store_id, names.get(event.schedule_id or 0))
            allowed = allowed_files(self.transaction, compiled, self.policies) if with_files else {}
            unused = self.unused_items(event) if with_files else ()
            found.append(EventDelivery(event, cloud_event, attempts, run, compiled, allowed, unused))
        return tuple(found)

    def unused_items(self, event: StoredEvent) -> tuple[UnusedItem, ...]:
        row = None if event.run_id is None else self.transaction.run(event.run_id)
        return () if row is None else tuple(unused_items(self.transaction, self.catalog, row))

    def ended(self, event: StoredEvent) -> tuple[RunRecord | None, CompiledSchedule | None]:
        """The run of an event; None when the run is deleted."""
        row = None if event.run_id is None else self.transaction.run(event.run_id)
        if row is None:
            return None, None
        run = run_record(row)
        compiled = self.catalog.of_run(self.transaction, run)
        return run, compiled if isinstance(compiled, CompiledSchedule) else None


class Subscriber(Protocol):
    @property
    def key(self) -> object:
        """The identity of the subscriber, which stays the same when subscribers are read again."""
        ...

    def match_events(self, turn: Turn) -> bool:
        """Take the wanted events from a page of new ones. False when there are no new events."""
        ...

    def queues(self, turn: Turn, under_way: set[int]) -> list[DeliveryQueue]:
        """The queues that may be sent now, except those of the schedules in `under_way`."""
        ...

    def record(self, turn: Turn, sent: QueueResults) -> None: ...
    def next_at(self, turn: Turn) -> int | None:
        """The time of the next retry."""
        ...


class StoredSubscriber:
    """A subscription in the store. The process with its lease delivers the events."""

    def __init__(self, subscription: Subscription, owner: str | None, target: Any = None) -> None:
        """`target`: what this process calls; None for what the subscription itself names."""
        self.subscription = subscription
        self._owner = owner
        """The id under which this process takes the lease; None if the store is not shared."""
        self._target = target or subscription.target
        self._seen = subscription.cursor
        self._unsaved = 0
        self._ours_until = 0
        """The end of the lease; 0 while another process has it."""
        self.checked = False
        """Whether events that wait without a cause were released."""

    @property
    def key(self) -> object:
        return self.subscription.name

    def match_events(self, turn: Turn) -> bool:
        if not self._lease(turn):
            return False
        transaction, name = turn.transaction, self.subscription.name
        if not self.checked:
            transaction.unblock_queues(name, turn.now, turn.now + LATEST_MS)
            self.checked = True
        events = transaction.events_after(self._seen, _PAGE)
        if not events:
            return False
        followed = _followed(turn) if self.subscription.kind == "pipeline" else frozenset[int]()
        wanted = [event for event in events if self._matches(turn, event, followed)]
        self._seen = events[-1].id
        self._unsaved += len(events)
        if wanted or self._unsaved > _MAX_UNSAVED:
            transaction.insert_deliveries(name, wanted, turn.now)
            transaction.move_subscription(name, self._seen)
            self._unsaved = 0
        return True

    def queues(self, turn: Turn, under_way: set[int]) -> list[DeliveryQueue]:
        kind, name, transaction = self.subscription.kind, self.subscription.name, turn.transaction
        limit = _MAX_QUEUES.get(kind, 1)
        if not self._ours or len(under_way) >= limit:
            return []
        if kind == "function":
            return self._queue(turn, _ALL, self._merged(turn))
        found = transaction.due_queues(name, turn.now, limit)
        free = [schedule_id for schedule_id in found if schedule_id not in under_way][: limit - len(under_way)]
        queues = (self._queue(turn, s, transaction.queue_events(name, s, _MAX_DELIVERIES)) for s in free)
        return [queue for some in queues for queue in some]

    def _queue(self, turn: Turn, schedule_id: int, events: list[tuple[int, StoredEvent]]) -> list[DeliveryQueue]:
        kind = self.subscription.kind
        has_text = kind == "webhook" and self._target.get("text", False)
        with_run = has_text or kind in ("hook", "pipeline", "ping")
        deliveries = turn.deliveries(events, with_run=with_run, with_files=kind == "hook")
        return [DeliveryQueue(self, kind, schedule_id, self._target, deliveries, turn.policies)] if deliveries else []

    def _merged(self, turn: Turn) -> list[tuple[int, StoredEvent]]:
        """The next events of all schedules that do not wait for a retry, in commit order."""
        transaction, name = turn.transaction, self.subscription.name
        heads = transaction.due_queues(name, turn.now, _MAX_DELIVERIES)
        found = [
            event for schedule_id in heads for event in transaction.queue_events(name, schedule_id, _MAX_DELIVERIES)
        ]
        return sorted(found, key=lambda pair: pair[1].id)[:_MAX_DELIVERIES]

    def record(self, turn: Turn, sent: QueueResults) -> None:
        for delivery, result in sent:
            self._record(turn, delivery, result)
        for schedule_id in {delivery.event.schedule_id or 0 for delivery, _ in sent}:
            turn.transaction.unblock_queue(self.subscription.name, schedule_id, turn.now)

    def _record(self, turn: Turn, delivery: EventDelivery, sent: DeliveryResult) -> None:
        transaction, name, event = turn.transaction, self.subscription.name, delivery.event
        if sent.verdict == "arrived":
            transaction.delete_delivery(name, event.id)
            for ran in sent.hooks:
                _record_hook(turn, delivery, ran)
        elif sent.verdict == "gone":
            if transaction.set_subscription(name, "paused", storable_text(sent.error)):
                data = {"subscription": name, "by": "matins", "note": storable_text(sent.error)}
                transaction.events.append(NewEvent(turn.now, "subscription.paused", None, None, data))
        else:
            self._retry_later(turn, delivery, sent)

    def next_at(self, turn: Turn) -> int | None:
        return turn.transaction.next_delivery(self.subscription.name, turn.now) if self._ours else None

    def _retry_later(self, turn: Turn, delivery: EventDelivery, sent: DeliveryResult) -> None:
        name, event, attempts = self.subscription.name, delivery.event, delivery.attempts + 1
        again = None if sent.verdict == "refused" else next_delivery_at(name, event.id, attempts, turn.now)
        if again is not None:
            at = max(again, turn.now + sent.after_ms)
            turn.transaction.defer_delivery(name, event, attempts, at, storable_text(sent.error))
            return
        turn.transaction.discard_delivery(name, event, attempts, storable_text(sent.error))
        _record_discarded(turn, name, delivery, attempts, sent)

    def _matches(self, turn: Turn, event: StoredEvent, followed: Set[int]) -> bool:
        if self.subscription.kind == "pipeline":
            return event.type in PIPELINE_EVENTS and event.schedule_id in followed
        if self.subscription.kind == "notice":
            return event.type in NOTICE_EVENTS and is_told(destination_of(self.subscription.name), event)
        if self.subscription.kind not in ("hook", "ping"):
            return matches(self.subscription.name, self.subscription.types, event)
        if event.type not in (PING_EVENTS if self.subscription.kind == "ping" else TERMINAL_EVENTS):
            return False
        if self.subscription.kind == "ping":
            _, compiled = turn.ended(event)
            return compiled is not None and compiled.definition.ping is not None
        if AFTER_RUN in turn.policies.hooks:
            return True
        _, compiled = turn.ended(event)
        hooked = compiled is not None and compiled.definition.after_run is not None
        works = compiled is not None and bool(compiled.wakes_agent or compiled.steps)
        return hooked or (works and bool(turn.unused_items(event)))

    def is_leased(self, now: int) -> bool:
        """Whether this process has the lease for a while."""
        return self._owner is None or self._ours_until > now

    @property
    def _ours(self) -> bool:
        return self._owner is None or self._ours_until > 0

    def _lease(self, turn: Turn) -> bool:
        if self._owner is None or self._ours_until - turn.now > LEASE_MS // 2:
            return True
        until = turn.now + LEASE_MS
        cursor = turn.transaction.lease_subscription(self.subscription.name, self._owner, turn.now, until)
        if cursor is not None and not self._ours:
            self._seen, self.checked = cursor, False  # another process may have had the lease
        self._ours_until = 0 if cursor is None else until
        return self._ours


class MemorySubscriber:
    """An unnamed function, which gets the events while this process runs."""

    def __init__(self, callback: Callback, types: tuple[str, ...], seen: int) -> None:
        self.name = getattr(callback, "__qualname__", type(callback).__name__)
        self._callback = callback
        self._types = frozenset(types)
        self._seen = seen
        self._waiting: dict[int, StoredEvent] = {}
        """Events by id, in order."""
        self._attempted: dict[int, tuple[int, int]] = {}
        """Attempts of an event, and the time of the next one."""

    @property
    def key(self) -> object:
        return self

    def match_events(self, turn: Turn) -> bool:
        if len(self._waiting) > _MAX_WAITING:
            return False  # the rest stays in the store
        events = turn.transaction.events_after(self._seen, _PAGE)
        for event in events:
            self._seen = event.id
            if not self._types or event.type in self._types:
                self._waiting[event.id] = event
        return bool(events)

    def queues(self, turn: Turn, under_way: set[int]) -> list[DeliveryQueue]:
        deferred = {
            self._waiting[event_id].schedule_id for event_id, (_, at) in self._attempted.items() if at > turn.now
        }
        events = (event for event in self._waiting.values() if event.schedule_id not in deferred)
        due = [] if under_way else list(islice(events, _MAX_DELIVERIES))
        deliveries = turn.deliveries([(self._attempted.get(event.id, (0, 0))[0], event) for event in due])
        return [DeliveryQueue(self, "function", _ALL, self._callback, deliveries, turn.policies)] if deliveries else []

    def record(self, turn: Turn, sent: QueueResults) -> None:
        for delivery, result in sent:
            self._record(turn, delivery, result)

    def _record(self, turn: Turn, delivery: EventDelivery, sent: DeliveryResult) -> None:
        event_id, attempts = delivery.event.id, delivery.attempts + 1
        if event_id not in self._waiting:
            return  # the result was recorded in a transaction that was rolled back
        again = next_delivery_at(self.name, event_id, attempts, turn.now)
        if sent.verdict != "arrived" and again is not None:
            self._attempted[event_id] = attempts, again
            return
        if sent.verdict != "arrived":
            _record_discarded(turn, self.name, delivery, attempts, sent)
        del self._waiting[event_id]
        self._attempted.pop(event_id, None)

    def next_at(self, turn: Turn) -> int | None:
        return min((at for _, at in self._attempted.values() if at > turn.now), default=None)


def _followed(turn: Turn) -> frozenset[int]:
    """The schedules that others follow."""
    return frozenset(source for source, _ in turn.transaction.pipelines())


def storable_text(text: str | None) -> str | None:
    """The text, shortened and without characters that a store cannot hold."""
    if text is None:
        return None
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:_MAX_ERROR_LENGTH]


def _record_discarded(turn: Turn, name: str, delivery: EventDelivery, attempts: int, sent: DeliveryResult) -> None:
    data = {
        "subscription": name,
        "event": delivery.cloud_event["id"],
        "type": delivery.event.type,
        "attempts": attempts,
        "error": storable_text(sent.error),
    }
    turn.record_event(DISCARDED, delivery.event, data)


def _record_hook(turn: Turn, delivery: EventDelivery, ran: HookResult) -> None:
    assert delivery.run is not None
    run, reason = delivery.run, storable_text(ran.failure)
    verdict = "pass" if reason is None else "fail"
    turn.transaction.insert_check(
        CheckRow(run.id, run.epoch, ran.kind, turn.now, ran.duration_ms, ran.exit_code, verdict, reason, ran.output)
    )
    if reason is not None:
        data = {"hook": ran.kind, "run_state": run.state.label, "message": reason, "exit_code": ran.exit_code}
        turn.record_event("hook.failed", delivery.event, data)
