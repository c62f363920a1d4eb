"""The outbox on every store, with a clock that the test moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from store_records import NOW

from matins.delivery.outbox import Outbox
from matins.delivery.subscribers import LEASE_MS, DeliveryQueue, DeliveryResult, EventDelivery
from matins.model.event import Subscription
from matins.model.rows import NewEvent
from matins.runtime.catalog import Catalog
from matins.store import Store
from matins.store.postgres.store import PostgresStore
from matins.store.transaction import Transaction
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"
HOUR = 3_600_000


class Post:
    """Stands for the way to a webhook."""

    def __init__(self) -> None:
        self.tried: list[EventDelivery] = []
        self.arrived: list[EventDelivery] = []
        self.says: Callable[[EventDelivery], DeliveryResult] = lambda letter: DeliveryResult()

    def __call__(self, lane: DeliveryQueue, letter: EventDelivery) -> DeliveryResult:
        self.tried.append(letter)
        sent = self.says(letter)
        if sent.verdict == "arrived":
            self.arrived.append(letter)
        return sent

    @property
    def lines(self) -> list[str]:
        return [f"{letter.cloud_event.get('schedulename')} {letter.event.type}" for letter in self.arrived]


def outbox_on(store: Store, post: Post, clock: ManualClock) -> Outbox:
    return Outbox(store, clock, Catalog(), {"webhook": post, "hook": post, "function": post})


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def bench(url: str, post: Post) -> Iterator[Sandbox]:
    bench = Sandbox(url, clock=ManualClock(START))
    bench.job("work")(lambda run: None)
    bench.outbox._senders = bench.outbox._workers._senders = {  # type: ignore[attr-defined]
        **bench.outbox._senders,
        "webhook": post,
    }
    yield bench
    assert bench.audit.verify().problems == []
    bench.close()


def until(bench: Sandbox, there: Callable[[], object]) -> None:
    """On PostgreSQL events come when no older transaction of any user is under way."""
    while not there():
        bench.outbox.run_once(bench.clock.now_ms())


def test_in_order_per_schedule_and_others_go_on(bench: Sandbox, post: Post) -> None:
    """V2"""
    bench.webhooks.add("ops", "https://example.com/", types=["schedule.created", "schedule.paused"])
    post.says = lambda letter: (
        DeliveryResult("again", "no") if letter.cloud_event["schedulename"] == "a" else DeliveryResult()
    )
    for name in ("a", "b"):
        bench.add(name, when="0 9 * * *", job="work")
        bench.pause(name)
    until(bench, lambda: len(post.lines) == 2 and len(bench.subscriptions.deliveries("ops")) == 2)
    assert post.lines == ["b schedule.created", "b schedule.paused"]
    assert [row.attempts for row in bench.subscriptions.deliveries("ops")] == [1, 0]
    assert bench.subscriptions.deliveries("ops")[0].last_error == "no"
    post.says = lambda letter: DeliveryResult()
    bench.clock.advance(6_000)
    until(bench, lambda: not bench.subscriptions.deliveries("ops"))
    assert post.lines[2:] == ["a schedule.created", "a schedule.paused"]


def test_another_process_goes_on_where_the_first_stood(bench: Sandbox, post: Post, url: str) -> None:
    """V2: what had failed keeps its count"""
    bench.webhooks.add("ops", "https://example.com/", types=["schedule.created"])
    post.says = lambda letter: DeliveryResult("again", "no")
    bench.add("a", when="0 9 * * *", job="work")
    until(bench, lambda: [row.attempts for row in bench.subscriptions.deliveries("ops")] == [1])
    bench.clock.advance(LEASE_MS + 1)
    other = outbox_on(bench._store, post, bench.clock)
    while [row.attempts for row in bench.subscriptions.deliveries("ops")] != [2]:
        other.run_once(bench.clock.now_ms())
    assert [letter.attempts for letter in post.tried] == [0, 1]
    assert len({letter.event.id for letter in post.tried}) == 1


def test_given_up_told_and_sent_again(bench: Sandbox, post: Post) -> None:
    """V2"""
    told: list[dict[str, Any]] = []
    bench.subscribe(told.append, "delivery.discarded")
    bench.webhooks.add("ops", "https://example.com/", types=["schedule.created"])
    post.says = lambda letter: DeliveryResult("again", "no \0 and \ud800")
    bench.add("a", when="0 9 * * *", job="work")
    for _ in range(20):
        before = len(post.tried)
        until(bench, lambda before=before: len(post.tried) > before)
        bench.clock.advance(2 * HOUR)
    until(bench, lambda: told)
    (row,) = bench.subscriptions.deliveries("ops", state="discarded")
    assert (row.event, row.attempts) == (told[0]["data"]["event"], 20)
    post.says = lambda letter: DeliveryResult()
    bench.subscriptions.redeliver("ops", row.event)
    until(bench, lambda: post.lines)
    assert bench.subscriptions.deliveries("ops", state="discarded") == []


def test_a_function_by_name_gets_what_happened_meanwhile(bench: Sandbox, post: Post) -> None:
    """V2: in the order in which it was committed"""
    told: list[str] = []
    bench.subscribe(lambda event: told.append("x"), "schedule.created", "books")()
    for name in ("a", "b", "c"):
        bench.add(name, when="0 9 * * *", job="work")
    bench.subscribe(lambda event: told.append(event["schedulename"]), "schedule.created", "books")
    until(bench, lambda: len(told) == 3)
    assert told == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["own", "for all", "by an edit"])
def test_p7_hooks_have_a_subscription_as_soon_as_one_is_set(bench: Sandbox, tmp_path: Path, how: str) -> None:
    """P7"""
    tell = f"cat > {tmp_path}/heard"
    bench.add("s", when="0 9 * * *", job="work", **({"after_run": tell} if how == "own" else {}))
    if how == "for all":
        bench.hooks.set("after:run", command=tell)
    if how == "by an edit":
        bench.edit("s", after_run=tell)
    bench.run_until("2026-03-27T09:00:00Z")
    until(bench, (tmp_path / "heard").exists)
    until(bench, lambda: bench.runs.checks(bench.runs.list(schedule="s")[0].id))
    assert json.loads((tmp_path / "heard").read_text())["state"] == "succeeded"


def _of_people(transaction: Transaction) -> list[Subscription]:
    return [found for found in transaction.subscriptions() if found.created_by != "matins"]


def test_statements_of_subscriptions(store: Store) -> None:
    """V2: names are taken once, states change once, and the revision rises with each change"""
    made = Subscription("ops", "webhook", {"url": "u"}, ("run.failed",), 7, "active", None, NOW, "owner")
    with store.transaction(NOW) as transaction:
        revs = [transaction.policy_rev()]
        assert transaction.insert_subscription(made) is True
        assert transaction.insert_subscription(made._replace(cursor=9)) is False
        assert _of_people(transaction) == [made]
        revs.append(transaction.policy_rev())
        assert transaction.set_subscription("ops", "paused", "why") is True
        assert transaction.set_subscription("ops", "paused", "again") is False
        revs.append(transaction.policy_rev())
        assert _of_people(transaction) == [made._replace(state="paused", note="why")]
        assert transaction.delete_subscription("ops") is True
        assert transaction.delete_subscription("ops") is False
        revs.append(transaction.policy_rev())
    assert revs == list(range(revs[0], revs[0] + 4))


def test_what_waits_for_nothing_is_set_going(bench: Sandbox, post: Post) -> None:
    """V2: two processes that worked on a lane at once may have left it without a first"""
    bench.webhooks.add("ops", "https://example.com/", types=["schedule.created"])
    bench.add("a", when="0 9 * * *", job="work")
    post.says = lambda letter: DeliveryResult("again", "no")
    until(bench, lambda: post.tried)
    until(bench, lambda: bench.subscriptions.deliveries("ops")[0].attempts == 1)
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        (row,) = transaction.deliveries("ops", "retrying", 0, 9)
        event = transaction.event(row.event_id)
        assert event is not None
        transaction.defer_delivery("ops", event._replace(id=-1), 0, 0, None)
        assert [row.next_at for row in transaction.deliveries("ops", "retrying", 0, 9)] == [None]
    post.says = lambda letter: DeliveryResult()
    bench.clock.advance(HOUR)
    until(bench, lambda: post.arrived)


def test_statements_of_leases(store: Store) -> None:
    """V2: one at a time; a lease that ends too late to be true is none"""
    made = Subscription("ops", "webhook", {}, (), 7, "active", None, NOW, "owner")
    with store.transaction(NOW) as transaction:
        transaction.insert_subscription(made)
        assert transaction.lease_subscription("ops", "me", NOW, NOW + 60) == 7
        assert transaction.lease_subscription("ops", "me", NOW + 30, NOW + 90) == 7
        assert transaction.lease_subscription("ops", "you", NOW + 29, NOW + 89) is None  # a turn that began earlier
        assert transaction.lease_subscription("ops", "you", NOW + 89, NOW + 149) is None
        assert transaction.lease_subscription("ops", "you", NOW + 90, NOW + 150) == 7
        assert transaction.lease_subscription("ops", "me", NOW - 1_000, NOW - 940) == 7
        transaction.release_leases("you")
        assert transaction.lease_subscription("ops", "you", NOW - 1_000, NOW - 940) is None
        transaction.release_leases("me")
        assert transaction.lease_subscription("ops", "you", NOW - 1_000, NOW - 940) == 7


# -- several processes


@pytest.fixture
def pair(postgres_store: PostgresStore, other: PostgresStore) -> tuple[Outbox, Outbox, Post, Post]:
    """Two processes on one store, and what each has sent."""
    clock, mine, theirs = ManualClock(NOW), Post(), Post()
    with postgres_store.transaction(NOW) as transaction:
        transaction.insert_subscription(
            Subscription("ops", "webhook", {}, (), transaction.event_horizon(), "active", None, NOW, "owner")
        )
    return outbox_on(postgres_store, mine, clock), outbox_on(other, theirs, clock), mine, theirs


def say(store: Store, count: int, first: int = 0) -> None:
    with store.transaction(NOW) as transaction:
        transaction.events += [NewEvent(NOW, "run.started", n % 3, n, None) for n in range(first, first + count)]


def test_one_process_at_a_time_delivers(
    pair: tuple[Outbox, Outbox, Post, Post], postgres_store: PostgresStore, other: PostgresStore
) -> None:
    """V2: whoever wrote the event"""
    ours, others, mine, theirs = pair
    say(postgres_store, 5)
    while len(mine.arrived) < 5:
        ours.run_once(NOW)
        others.run_once(NOW)
    say(other, 5, 5)
    while len(mine.arrived) < 10:
        others.run_once(NOW + LEASE_MS // 2)
        ours.run_once(NOW + LEASE_MS // 2)
    assert theirs.tried == []


def told(*posts: Post) -> list[int | None]:
    return [letter.event.run_id for post in posts for letter in post.arrived]


def test_another_process_takes_over_when_the_lease_is_over(
    pair: tuple[Outbox, Outbox, Post, Post], postgres_store: PostgresStore
) -> None:
    """V2: nothing is lost, and what was recorded is not sent again"""
    ours, others, mine, theirs = pair
    ours.run_once(NOW)
    others.run_once(NOW)
    say(postgres_store, 5)
    while len(mine.arrived) < 5:
        ours.run_once(NOW)
    say(postgres_store, 5, 5)
    while len(theirs.arrived) < 5:
        others.run_once(NOW + LEASE_MS)
    assert sorted(told(mine)) == list(range(5))
    assert sorted(told(theirs)) == list(range(5, 10))


def test_another_process_takes_over_at_once_from_one_that_stops(
    pair: tuple[Outbox, Outbox, Post, Post], postgres_store: PostgresStore
) -> None:
    """V2"""
    ours, others, mine, theirs = pair
    ours.start()
    ours.stop()
    say(postgres_store, 5)
    while len(theirs.arrived) < 5:
        others.run_once(NOW)
    assert sorted(told(mine, theirs)) == list(range(5))


def test_what_is_being_written_while_somebody_subscribes_is_told(
    postgres_store: PostgresStore, other: PostgresStore
) -> None:
    """V2: its id may be below that of an event that everybody has seen"""
    heard: list[int | None] = []

    def hear(lane: DeliveryQueue, letter: EventDelivery) -> DeliveryResult:
        heard.append(letter.event.run_id)
        return DeliveryResult()

    outbox = Outbox(postgres_store, ManualClock(NOW), Catalog(), {"function": hear})
    with other.transaction(NOW) as slow:
        slow.upsert_policy("setting", "x", "1", NOW, "owner")
        say(postgres_store, 1, 100)
        outbox.subscribe(lambda event: None, ())
        slow.events.append(NewEvent(NOW, "run.started", 1, 7, None))
    while 7 not in heard:
        outbox.run_once(NOW)
    assert heard[0] == 7
