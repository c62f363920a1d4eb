"""The outbox: delivers events to subscribers, at least once and in order per schedule.

Events are queued for each subscriber. An event is sent after the transaction that selected it.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from itertools import islice, zip_longest
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from matins.delivery.answers import AnswerSubscriber, ThreadChannel
from matins.delivery.incidents import IncidentSubscriber
from matins.delivery.run_texts import TextSubscriber
from matins.delivery.subscribers import (
    Callback,
    DeliveryQueue,
    DeliveryResult,
    MemorySubscriber,
    StoredSubscriber,
    Subscriber,
    Turn,
    storable_text,
)
from matins.engine.answers import DELETED
from matins.errors import StoreError
from matins.model.clock import Clock
from matins.model.destination import THREAD
from matins.model.event import ANSWERS_PREFIX, Subscription, SubscriptionKind
from matins.runtime.catalog import Catalog
from matins.runtime.signals import drained
from matins.store import Store

log = logging.getLogger("matins")
MAX_QUEUES = 32
_POLL_MS, _POLL_SHARED_MS = 1_000, 250
"""Longest time between turns without a notification: other processes write events too."""
_RETRY_S = 2.0
_FLUSH_MS, _FLUSH_BACKLOG_MS = 5_000, 1_000
"""At a stop: how long events that are being sent are waited for, and how long others are sent at all."""
_SWEEP_MS = 3_600_000
_REST = 4
"""Pause after a page of events that only incidents need, in multiples of the time that the page took."""

Send = Callable[[DeliveryQueue, Any], DeliveryResult]
Senders = Mapping[SubscriptionKind, Send]


class QueueReport(NamedTuple):
    """The results of a delivery queue."""

    queue: DeliveryQueue
    results: list[tuple[Any, DeliveryResult]]


class _Moved(IntEnum):
    """What a turn did."""

    NOTHING = 0
    INCIDENTS = 1
    """It read a page of events for incidents. No delivery waits for that."""
    EVENTS = 2


class Workers(Protocol):
    """Sends the events of delivery queues."""

    def take(self, queue: DeliveryQueue) -> None: ...
    def drain(self) -> list[QueueReport]: ...


class Outbox:
    """`run_once` does all work that is due. A started outbox does it in a thread; otherwise the caller's thread also
    sends the events."""

    def __init__(self, store: Store, clock: Clock, catalog: Catalog, senders: Senders) -> None:
        self._store = store
        self._clock = clock
        self._catalog = catalog
        self._senders = senders
        self._owner = str(uuid.uuid4()) if store.shared else None
        self._rev = -1
        """The policy revision at which the subscribers were read. A change of subscriptions increases it too."""
        self._subscribers: list[StoredSubscriber] = []
        self._listeners: list[MemorySubscriber] = []
        self._callbacks: dict[str, Callback] = {}
        self._channels: dict[str, ThreadChannel] = {}
        """Chat services that post answers into threads, by the names of their subscriptions."""
        self._under_way: set[tuple[object, int]] = set()
        """Subscriber and schedule of every queue that is being sent."""
        self._done: list[QueueReport] = []
        self._next_sweep = 0
        self._workers: Workers = InlineWorkers(senders)
        self._soon = threading.Event()
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    # -- subscribers of this process

    def subscribe(self, callback: Callback, types: tuple[str, ...], name: str | None = None) -> Callable[[], None]:
        """Call `callback` for new events; with a name, also for the events since its last call."""
        if name is None:
            with self._store.reading() as transaction:
                subscriber = MemorySubscriber(callback, types, transaction.event_horizon())
            self._listeners.append(subscriber)
            self._soon.set()
            return lambda: self._remove(subscriber)
        self._callbacks[name] = callback
        self._read_again()
        return lambda: self._unsubscribe(name, callback)

    def holds(self, name: str, now: int) -> bool:
        """Whether this process, and no other, calls the function of this name."""
        return any(one.key == name and one.is_leased(now) for one in self._subscribers)

    def post_answers(self, service: str, channel: ThreadChannel) -> Callable[[], None]:
        """Let a chat service post the answers of runs whose threads are there. Returns what ends it."""
        name = f"{ANSWERS_PREFIX}{THREAD}:{service}"
        self._channels[name] = channel
        self._read_again()

        def end() -> None:
            if self._channels.get(name) is channel:
                del self._channels[name]
                self._read_again()

        return end

    def _remove(self, subscriber: MemorySubscriber) -> None:
        with suppress(ValueError):  # the caller may unsubscribe twice
            self._listeners.remove(subscriber)

    def _unsubscribe(self, name: str, callback: Callback) -> None:
        if self._callbacks.get(name) is callback:
            del self._callbacks[name]
            self._read_again()

    def _read_again(self) -> None:
        self._rev = -1
        self._soon.set()

    # -- one turn

    def wake(self, policy_rev: int | None = None) -> None:
        """Start a turn because events were written. Without subscribers it costs almost nothing."""
        if self._hurries or self._rev != policy_rev:
            self._soon.set()

    def run_once(
        self, now: int, enough: Callable[[], bool] = lambda: False, rest: Callable[[float], object] | None = None
    ) -> int | None:
        """Do all work that is due, or until it is enough, and return the time of the next retry. After a page that only
        incidents want, `rest` for several times as long: fires need the store and the interpreter too."""
        while True:
            self._done += self._workers.drain()
            began = self._clock.boot_ms()
            try:
                moved, next_at = self._turn(now)
            except BaseException:
                self._rev = -1  # subscribers may be ahead of the store
                raise
            if not moved or enough():
                return next_at
            if rest is not None and moved is _Moved.INCIDENTS:
                rest(_REST * (self._clock.boot_ms() - began + 1) / 1000)

    @property
    def _has_subscribers(self) -> bool:
        return bool(self._subscribers or self._listeners)

    @property
    def _hurries(self) -> bool:
        """Whether a subscriber wants events at once. Incidents are looked at within a second."""
        return bool(self._listeners) or any(_hurries(one) for one in self._subscribers)

    def _turn(self, now: int) -> tuple[_Moved, int | None]:
        """Do one transaction; events are sent after it."""
        with self._store.transaction(now) as transaction:
            turn = Turn(transaction, self._catalog.policies(transaction), self._catalog, self._store.store_id, now)
            self._read_subscribers(turn)
            self._sweep(turn)
            subscribers: list[Subscriber] = [*self._listeners, *self._subscribers]
            sorted_some = [subscriber.match_events(turn) for subscriber in subscribers]
            for report in self._done:
                report.queue.subscriber.record(turn, report.results)
            going = self._under_way - {_key(report.queue) for report in self._done}
            there = [subscriber for subscriber in subscribers if not _gone(subscriber, self._done)]
            waiting = [subscriber.queues(turn, _schedules(subscriber, going)) for subscriber in there]
            # In turns: the first of each subscriber before the second of any.
            rounds = (queue for some in zip_longest(*waiting) for queue in some if queue is not None)
            queues = list(islice(rounds, max(0, MAX_QUEUES - len(going))))
            next_at = min(
                (at for subscriber in subscribers if (at := subscriber.next_at(turn)) is not None), default=None
            )
        hurried = any(found and _hurries(one) for one, found in zip(subscribers, sorted_some, strict=True))
        moved = _Moved.EVENTS if hurried or self._done or queues else _Moved(any(sorted_some))
        self._done, self._under_way = [], going
        for queue in queues:
            self._workers.take(queue)
            self._under_way.add(_key(queue))
        return moved, next_at

    def _read_subscribers(self, turn: Turn) -> None:
        """Read the subscribers again when a subscription may have changed; cursors are in the store."""
        if self._rev == turn.policies.rev:
            return
        self._rev = turn.policies.rev  # first: a subscription meanwhile causes another read
        subscribers: list[StoredSubscriber] = []
        subscriptions = {found.name: found for found in turn.transaction.subscriptions()}
        for name in self._channels.keys() - subscriptions.keys():
            made = Subscription(name, "answer", {}, (), 0, "active", None, turn.now, "matins")
            turn.transaction.insert_subscription(made)
            subscriptions[name] = made
        for name, found in subscriptions.items():
            in_chat = name.startswith(f"{ANSWERS_PREFIX}{THREAD}:")
            missing = found.kind == "function" and name not in self._callbacks
            if found.state != "active" or missing or (in_chat and name not in self._channels):
                continue
            if found.kind == "incident":
                subscribers.append(IncidentSubscriber(found, self._owner))
            elif found.kind == "text":
                subscribers.append(TextSubscriber(found, self._owner))
            elif found.kind == "answer":
                subscribers.append(AnswerSubscriber(found, self._owner, self._channels.get(name)))
            else:
                subscribers.append(StoredSubscriber(found, self._owner, self._callbacks.get(name)))
        self._subscribers = subscribers
        _discard_orphans(turn)

    def _sweep(self, turn: Turn) -> None:
        boot = self._clock.boot_ms()
        if self._subscribers and boot >= self._next_sweep:
            self._next_sweep = boot + _SWEEP_MS
            turn.transaction.delete_lost_deliveries()
            for subscriber in self._subscribers:
                subscriber.checked = False

    # -- lifecycle

    def start(self) -> None:
        self._stopping.clear()
        self._stopped = threading.Event()
        self._under_way.clear()
        self._workers = ThreadWorkers(self._senders, self._soon.set, self._stopped.is_set)
        self._thread = threading.Thread(target=self._run, name="matins-outbox", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after sending what can be sent soon. The rest is sent after the next start."""
        if self._thread is None:
            return
        self._stopping.set()
        self._soon.set()
        self._thread.join()
        self._thread = None
        try:
            self._flush()
            if self._owner is not None:
                with self._store.transaction(self._clock.now_ms()) as transaction:
                    transaction.release_leases(self._owner)
        except Exception as error:  # the rest of the scheduler must stop too
            log.warning("The outbox could not be emptied: %s: %s", type(error).__name__, error)
        self._stopped.set()
        self._workers = InlineWorkers(self._senders)
        self._rev = -1

    def _flush(self) -> None:
        deadline = self._clock.boot_ms() + _FLUSH_MS
        backlog_deadline = self._clock.boot_ms() + _FLUSH_BACKLOG_MS
        once_more = (
            self._store.shared and self._has_subscribers
        )  # a transaction of another process may hide the last events
        while True:
            self._soon.clear()
            self.run_once(self._clock.now_ms(), lambda: self._clock.boot_ms() >= backlog_deadline)
            left = deadline - self._clock.boot_ms()
            if left <= 0 or not (self._under_way or once_more):
                return
            self._soon.wait((left if self._under_way else _POLL_SHARED_MS) / 1000)
            once_more = False

    def _run(self) -> None:
        while True:
            self._soon.clear()  # before `_stopping` is read: a stop between the two would never be noticed
            if self._stopping.is_set():
                return
            self._soon.wait(self._run_turn())

    def _run_turn(self) -> float | None:
        """Do a turn, and handle its errors. Returns the seconds until the next; None without subscribers."""
        now = self._clock.now_ms()
        try:
            next_at = self.run_once(now, self._stopping.is_set, self._stopping.wait)
        except StoreError as error:
            log.warning("The outbox cannot use the store: %s", error)
        except Exception:
            log.exception("A turn of the outbox failed. The events that it sent are sent again.")
            self._under_way -= {_key(report.queue) for report in self._done}
            self._done = []
        else:
            max_delay = _POLL_SHARED_MS if self._store.shared else _POLL_MS
            delay = max_delay if next_at is None else max(0, min(next_at - now, max_delay))
            return delay / 1000 if self._has_subscribers else None
        return _RETRY_S


def _hurries(subscriber: Subscriber) -> bool:
    """Answers hurry with the messages of their destinations, which have a subscriber of their own."""
    return not isinstance(subscriber, (IncidentSubscriber, AnswerSubscriber, TextSubscriber))


def _discard_orphans(turn: Turn) -> None:
    """Discard answers to destinations and chats that were deleted while their runs ended."""
    chats = {f"{THREAD}:{service}" for service in turn.policies.records.get("chat", {})}
    for name in turn.transaction.waiting_destinations():
        if name not in turn.policies.destinations and name not in chats:
            turn.transaction.discard_answers(name, DELETED)


def _key(queue: DeliveryQueue) -> tuple[object, int]:
    return queue.subscriber.key, queue.schedule_id


def _schedules(subscriber: Subscriber, marks: set[tuple[object, int]]) -> set[int]:
    return {schedule_id for key, schedule_id in marks if key == subscriber.key}


def _gone(subscriber: Subscriber, reports: list[QueueReport]) -> bool:
    """Whether the subscriber is gone, by these reports."""
    found = (sent for report in reports if report.queue.subscriber.key == subscriber.key for _, sent in report.results)
    return any(sent.verdict == "gone" for sent in found)


# -- sending


def deliver(queue: DeliveryQueue, senders: Senders, stopped: Callable[[], bool] = lambda: False) -> QueueReport:
    """Send the events one after the other. After one that does not arrive, skip those of the same schedule."""
    report, stuck = QueueReport(queue, []), set[int | None]()
    for delivery in queue.deliveries:
        if delivery.schedule_id in stuck:
            continue
        if stopped():
            break
        sent = _send(senders[queue.kind], queue, delivery)
        report.results.append((delivery, sent))
        if sent.verdict == "gone":
            break
        if sent.verdict == "again":
            stuck.add(delivery.schedule_id)
    return report


def _send(send: Send, queue: DeliveryQueue, delivery: Any) -> DeliveryResult:
    try:
        return send(queue, delivery)
    except Exception as error:  # a subscriber must not harm the outbox
        log.warning("%s could not be delivered: %s", delivery.label, storable_text(f"{type(error).__name__}: {error}"))
        return DeliveryResult("again", f"{type(error).__name__}: {error}")


class InlineWorkers:
    """Sends queues in the calling thread, one after the other."""

    def __init__(self, senders: Senders) -> None:
        self._senders = senders
        self._reports: list[QueueReport] = []

    def take(self, queue: DeliveryQueue) -> None:
        self._reports.append(deliver(queue, self._senders))

    def drain(self) -> list[QueueReport]:
        reports, self._reports = self._reports, []
        return reports


class ThreadWorkers:
    """Sends each queue in its own thread, so that a slow subscriber delays no other."""

    def __init__(self, senders: Senders, wake: Callable[[], None], stopped: Callable[[], bool]) -> None:
        self._senders = senders
        self._wake = wake
        self._stopped = stopped
        self._reports: SimpleQueue[QueueReport] = SimpleQueue()

    def take(self, queue: DeliveryQueue) -> None:
        threading.Thread(target=self._deliver, args=(queue,), name="matins-delivery", daemon=True).start()

    def drain(self) -> list[QueueReport]:
        return drained(self._reports)

    def _deliver(self, queue: DeliveryQueue) -> None:
        self._reports.put(deliver(queue, self._senders, self._stopped))
        self._wake()
