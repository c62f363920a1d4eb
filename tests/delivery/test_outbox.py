"""The outbox: subscribers are told at least once, and in order per schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from outbox_recorder import HOUR, Recorder, Told, deliver, let_pass, types

from matins.errors import Conflict, InvalidInput, StoreUnavailable
from matins.store.transaction import Transaction
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(params=[None, "by name"])
def name(request: pytest.FixtureRequest) -> str | None:
    return request.param


# -- subscribing


def test_v2_subscribe_returns_an_unsubscribe(bench: Sandbox, recorder: Recorder, name: str | None) -> None:
    """V2: from now on, until it is called"""
    bench.add("before", when="0 9 * * *", job="work")
    unsubscribe = bench.subscribe(recorder, name=name)
    bench.add("s", when="0 9 * * *", job="work")
    bench.pause("before")
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    assert recorder.types[-4:] == ["schedule.created", "schedule.paused", "run.started", "run.succeeded"]
    assert [event["schedulename"] for event in recorder.told[-4:]] == ["s", "before", "s", "s"]
    assert "before" not in [event["data"].get("name") for event in recorder.told]
    unsubscribe()
    unsubscribe()
    bench.run_until("2026-03-28T09:00:00Z")
    before = len(recorder.told)
    deliver(bench)
    assert len(recorder.told) == before


def test_only_what_it_wants(bench: Sandbox, recorder: Recorder, name: str | None) -> None:
    """V2 P9: in anybody's spelling"""
    bench.subscribe(recorder, ["schedule:triggered", "run.failed"], name)
    bench.add("good", when="0 9 * * *", job="work")
    bench.add("bad", when="0 9 * * *", job="fail")
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    assert sorted(recorder.types) == ["run.failed", "run.started", "run.started"]


def test_an_unknown_type_is_refused_and_nothing_written(bench: Sandbox, recorder: Recorder) -> None:
    """P9"""
    with pytest.raises(InvalidInput, match="There is no event"):
        bench.subscribe(recorder, ["run.done"], "named")
    with bench._store.reading() as transaction:
        assert [found.name for found in transaction.subscriptions()] == ["incidents", "texts"]


def test_an_async_function_is_awaited(bench: Sandbox) -> None:
    """V2"""
    told: list[Told] = []

    async def hear(event: Told) -> None:
        told.append(event)

    bench.subscribe(hear)
    bench.add("s", when="0 9 * * *", job="work")
    deliver(bench)
    assert types(told) == ["schedule.created"]


def test_a_name_remembers_its_place(tmp_path: Path, recorder: Recorder) -> None:
    """V2: what happened while nobody was there is told after the restart, and nothing twice"""
    url, clock = f"sqlite:///{tmp_path}/m.db", ManualClock(START)
    first = Sandbox(url, clock=clock)
    first.job("work")(lambda run: None)
    first.subscribe(recorder, "schedule.created", "books")
    first.add("a", when="0 9 * * *", job="work")
    deliver(first)
    first.add("b", when="0 9 * * *", job="work")
    first.close()
    second = Sandbox(url, clock=clock)
    second.job("work")(lambda run: None)
    second.add("c", when="0 9 * * *", job="work")
    second.subscribe(recorder, "schedule.created", "books")
    deliver(second)
    assert [event["schedulename"] for event in recorder.told] == ["a", "b", "c"]
    second.close()


def test_a_name_that_is_forgotten_begins_anew(bench: Sandbox, recorder: Recorder) -> None:
    """V2"""
    bench.subscribe(recorder, "schedule.created", "books")()
    bench.add("a", when="0 9 * * *", job="work")
    assert bench.subscriptions.delete("books") is True
    assert bench.subscriptions.delete("books") is False
    bench.subscribe(recorder, "schedule.created", "books")
    bench.add("b", when="0 9 * * *", job="work")
    deliver(bench)
    assert [event["schedulename"] for event in recorder.told] == ["b"]


def test_a_name_may_come_back_with_other_wishes(bench: Sandbox, recorder: Recorder) -> None:
    """V2"""
    bench.subscribe(recorder, "run.failed", "books")
    bench.subscribe(recorder, "schedule.created", "books")
    bench.add("a", when="0 9 * * *", job="work")
    deliver(bench)
    assert recorder.types == ["schedule.created"]


def test_the_name_of_the_hooks_is_taken(bench: Sandbox, recorder: Recorder) -> None:
    with pytest.raises(Conflict, match='The name "hooks" is reserved'):
        bench.subscribe(recorder, name="hooks")


# -- at least once, in order per schedule


def test_what_fails_is_tried_again_and_what_comes_after_it_waits(
    bench: Sandbox, recorder: Recorder, name: str | None
) -> None:
    """V2: but only that of the same schedule"""
    bench.subscribe(recorder, name=name)
    recorder.fails = lambda event: event.get("schedulename") == "a" and len(recorder.tried) < 12
    for schedule in ("a", "b"):
        bench.add(schedule, when="0 9 * * *", job="work")
        bench.pause(schedule)
    deliver(bench)
    assert [event["schedulename"] for event in recorder.told if "schedulename" in event] == ["b", "b"]
    let_pass(bench, 12 * HOUR)
    of_a = [event for event in recorder.told if event.get("schedulename") == "a"]
    assert types(of_a) == ["schedule.created", "schedule.paused"]
    assert len({event["id"] for event in recorder.told}) == len(recorder.told)


def test_the_waits_double(bench: Sandbox, recorder: Recorder, name: str | None) -> None:
    """V2: 5 s, 10 s, 20 s, … with up to a tenth more"""
    tried_at: list[int] = []

    def fail(event: Told) -> bool:
        tried_at.append(bench.clock.now_ms())
        return True

    recorder.fails = fail
    bench.subscribe(recorder, "schedule.created", name)
    bench.add("a", when="0 9 * * *", job="work")
    let_pass(bench, HOUR)
    waits = [later - earlier for earlier, later in pairwise(tried_at)]
    assert len(waits) == 9
    for n, wait in enumerate(waits):
        assert 5_000 * 2**n <= wait < 5_000 * 2**n * 1.1


def test_after_twenty_attempts_it_is_given_up_and_told(bench: Sandbox, recorder: Recorder, name: str | None) -> None:
    """V2: and the next one of that schedule goes on"""
    others: list[Told] = []
    bench.subscribe(others.append, "delivery.discarded")
    bench.subscribe(recorder, name=name)
    deliver(bench)
    recorder.fails = lambda event: event["type"] == "matins.schedule.created"
    bench.add("a", when="0 9 * * *", job="work")
    bench.pause("a")
    recorder.tried = []
    let_pass(bench, 24 * HOUR)
    assert len([kind for _, kind in recorder.tried if kind == "matins.schedule.created"]) == 20
    (given_up,) = others
    assert given_up["scheduleid"] == recorder.told[-1]["scheduleid"]
    assert given_up["data"]["attempts"] == 20
    assert given_up["data"]["type"] == "schedule.created"
    assert given_up["data"]["error"].startswith("ValueError: not \ufffd now")
    assert "schedule.paused" in recorder.types
    if name:
        (row,) = bench.subscriptions.deliveries(name, state="discarded")
        assert (row.event, row.attempts) == (given_up["data"]["event"], 20)


def test_a_process_that_dies_in_between_tells_again(tmp_path: Path, recorder: Recorder) -> None:
    """V2: at least once"""
    url, clock = f"sqlite:///{tmp_path}/m.db", ManualClock(START)

    def die(event: Told) -> None:
        recorder(event)
        raise KeyboardInterrupt

    first = Sandbox(url, clock=clock)
    first.job("work")(lambda run: None)
    first.subscribe(die, "schedule.created", "books")
    first.add("a", when="0 9 * * *", job="work")
    with pytest.raises(KeyboardInterrupt):
        deliver(first)
    first.close()
    second = Sandbox(url, clock=clock)
    second.subscribe(recorder, "schedule.created", "books")
    deliver(second)
    deliver(second)
    assert len(recorder.told) == 2
    assert len({event["id"] for event in recorder.told}) == 1
    second.close()


class Unsure:
    """A store whose commits come to nothing when a test says so."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.failing = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(self, now: int) -> Iterator[Transaction]:
        with self._store.transaction(now) as transaction:
            yield transaction
            if self.failing:
                self.failing -= 1
                raise StoreUnavailable("no answer")


@pytest.mark.parametrize("turn", range(3))
def test_a_store_that_fails_loses_nothing(bench: Sandbox, recorder: Recorder, name: str | None, turn: int) -> None:
    """V2: whichever of the outbox's transactions comes to nothing"""
    bench.subscribe(recorder, "schedule.created", name)
    bench.outbox._store = store = Unsure(bench._store)  # type: ignore[assignment]
    for schedule in "abc":
        bench.add(schedule, when="0 9 * * *", job="work")
    count = iter(range(100))
    transaction = store.transaction

    def fail_once(now: int) -> Any:
        store.failing = int(next(count) == turn)
        return transaction(now)

    store.transaction = fail_once  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        deliver(bench)
    deliver(bench)
    assert sorted({event["schedulename"] for event in recorder.told}) == ["a", "b", "c"]


def test_nothing_is_sent_inside_a_transaction(bench: Sandbox, name: str | None) -> None:
    """V2: who is told may use the scheduler"""
    inside: list[bool] = []

    def hear(event: Told) -> None:
        inside.append(bench._store._connection.in_transaction)  # type: ignore[attr-defined]
        if event["data"]["name"] == "a":
            bench.add("b", when="0 9 * * *", job="work")

    bench.subscribe(hear, "schedule.created", name)
    bench.add("a", when="0 9 * * *", job="work")
    deliver(bench)
    assert inside == [False, False]


def test_many_events_come_in_order(bench: Sandbox, recorder: Recorder, name: str | None) -> None:
    """V2: over pages, and for a function in the order in which they were committed"""
    bench.subscribe(recorder, name=name)
    deliver(bench)
    recorder.told = []
    for schedule in ("a", "b", "c"):
        bench.add(schedule, when="* * * * *", job="work")
    bench.run_until("2026-03-27T10:30:00Z")
    deliver(bench)
    assert len(recorder.told) == 3 * (1 + 2 * 150)
    numbers = [int(event["id"].split("-")[1]) for event in recorder.told]
    assert numbers == sorted(numbers)


def test_a_clock_that_goes_back_does_not_put_deliveries_off(bench: Sandbox, recorder: Recorder) -> None:
    """V2"""
    recorder.fails = lambda event: len(recorder.tried) < 2
    bench.subscribe(recorder, "schedule.created", "books")
    bench.add("a", when="0 9 * * *", job="work")
    deliver(bench)
    bench.clock.step(-24 * HOUR)
    bench.clock.advance(HOUR)
    deliver(bench)
    assert recorder.types == ["schedule.created"]


def test_deliveries_of_events_that_are_forgotten_go_with_them(bench: Sandbox, recorder: Recorder) -> None:
    """V2"""
    recorder.fails = lambda event: True
    bench.subscribe(recorder, "schedule.created", "books")
    bench.add("a", when="0 9 * * *", job="work")
    deliver(bench)
    assert len(bench.subscriptions.deliveries("books")) == 1
    bench.pause("a")  # the newest event of all stays
    bench.engine.maintenance.prune(bench.clock.now_ms() + 91 * 24 * HOUR)
    bench.clock.advance(2 * HOUR)
    deliver(bench)
    assert bench.subscriptions.deliveries("books") == []


def test_where_nobody_listens_nothing_is_done(bench: Sandbox, recorder: Recorder) -> None:
    """V2: one comparison after a turn, until somebody does"""
    deliver(bench)
    bench.engine.wrote_events = bench.outbox.wake
    bench.add("a", when="0 9 * * *", job="work")
    bench.outbox._soon.clear()
    bench.run_until("2026-03-27T09:00:00Z")
    assert not bench.outbox._soon.is_set()
    bench.subscribe(recorder)
    bench.outbox._soon.clear()
    bench.run_until("2026-03-28T09:00:00Z")
    assert bench.outbox._soon.is_set()


def test_a_subscription_made_elsewhere_is_noticed_by_the_next_events(bench: Sandbox) -> None:
    """V2: another process raised the revision of the policies"""
    deliver(bench)
    bench.engine.wrote_events = bench.outbox.wake
    bench.add("a", when="0 9 * * *", job="work")
    bench.outbox._soon.clear()
    bench.webhooks.add("ops", "https://example.com/in")
    bench.outbox._soon.clear()
    bench.run_until("2026-03-27T09:00:00Z")
    assert bench.outbox._soon.is_set()


class Held:
    """Takes lanes, and never says what became of them."""

    def __init__(self) -> None:
        self.lanes: list[Any] = []

    def take(self, queue: Any) -> None:
        self.lanes.append(queue)

    def drain(self) -> list[Any]:
        return []


def test_many_slow_subscribers_have_each_a_share(bench: Sandbox) -> None:
    """V2: so many at once over all, few for each, and nobody is left out"""
    for n in range(12):
        bench.webhooks.add(f"ops{n}", "https://example.com/", types=["schedule.created"])
    for n in range(6):
        bench.add(f"s{n}", when="0 9 * * *", job="work")
    bench.outbox._workers = held = Held()
    deliver(bench)
    deliver(bench)
    shares = Counter(queue.subscriber.key for queue in held.lanes)
    assert len(held.lanes) == 32
    assert len(shares) == 12
    assert max(shares.values()) <= 4
    assert len({(queue.subscriber.key, queue.schedule_id) for queue in held.lanes}) == 32


def test_a_subscriber_of_rare_events_does_not_begin_from_afar_after_a_restart(
    bench: Sandbox, recorder: Recorder
) -> None:
    """V2: its cursor is saved now and then"""
    bench.subscribe(recorder, "schedule.deleted", "books")
    with bench._store.reading() as transaction:
        (before, *_) = transaction.subscriptions()
    bench.add_many([{"name": f"s{n}", "when": "0 9 * * *", "job": "work"} for n in range(1_500)])
    deliver(bench)
    with bench._store.reading() as transaction:
        (after, *_) = transaction.subscriptions()
    assert after.cursor > before.cursor + 1_000


def test_a_function_that_is_far_behind_does_not_fill_the_memory(bench: Sandbox, recorder: Recorder) -> None:
    """V2: what it has not got is safe in the store"""
    bench.subscribe(recorder, "schedule.created")
    bench.add_many([{"name": f"s{n}", "when": "0 9 * * *", "job": "work"} for n in range(10_500)])
    hands, bench.outbox._workers = bench.outbox._workers, Held()
    deliver(bench)
    (line,) = bench.outbox._listeners
    assert 10_000 < len(line._waiting) <= 10_200
    bench.outbox._workers, bench.outbox._under_way = hands, set()
    deliver(bench)
    assert len({event["schedulename"] for event in recorder.told}) == 10_500
