"""Several processes end, claim and cancel the steps of one run at the same moment. Rows P6, P8, B8, H2."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest
from store_records import NOW, page_of_events
from test_postgres_races import wait_for_lock

from matins.api.results import Run
from matins.engine.policies import NO_POLICIES
from matins.model.run import Outcome
from matins.runtime import recorder
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.runtime.capacity import Capacity, Placement
from matins.runtime.catalog import Catalog
from matins.runtime.clearance import Clearance
from matins.runtime.dispatcher import Dispatcher
from matins.store.postgres.session import SQL, integers
from matins.store.postgres.store import PostgresStore
from matins.store.postgres.transaction import PostgresTransaction
from matins.store.transaction import Transaction
from matins.testing import ManualClock, Sandbox

ENGINES = 4


@pytest.fixture
def bench(postgres_url: str) -> Iterator[Sandbox]:
    made = Sandbox(postgres_url, clock=ManualClock(NOW))
    made.job("work")(lambda run: None)
    yield made
    made.close()


@pytest.fixture
def stores(bench: Sandbox, postgres_url: str) -> Iterator[list[PostgresStore]]:
    """Four processes, as far as the database can tell."""
    made = [PostgresStore(postgres_url, NOW) for _ in range(ENGINES)]
    yield made
    for store in made:
        store.close()


def add(bench: Sandbox, siblings: int, *last: str, **settings: Any) -> None:
    """Steps side by side, and what waits for all of them."""
    titles = [f"S{number}" for number in range(siblings)]
    steps = [{"title": title, "job": "work"} for title in titles]
    steps += [{"title": title, "job": "work", "after": titles} for title in last]
    bench.add("m", overlap="allow", steps=steps, **settings)


def claimed(transaction: Transaction, most: int) -> list[Attempt]:
    """What an engine that has the job claims."""
    placement = Placement()
    placement.renew(transaction, transaction.turn_facts().places, frozenset(["job:work"]))
    free, places = Capacity(most), placement.batch(transaction)
    return Dispatcher(Catalog(), Clearance(), placement).claim(transaction, NOW, 1, free, places)


def claim(store: PostgresStore) -> list[Attempt]:
    with store.transaction(NOW) as transaction:
        return claimed(transaction, 1_000)


def record(store: PostgresStore, *ended: Attempt) -> None:
    with store.transaction(NOW) as transaction:
        recorder.record(transaction, [AttemptEnd(one, Outcome(True)) for one in ended], NOW, NO_POLICIES)


def ends(store: PostgresStore) -> Counter[str]:
    return Counter(event.type for event in page_of_events(store, limit=100_000) if event.type.endswith(".succeeded"))


def recorded_at_once(bench: Sandbox, stores: list[PostgresStore], url: str) -> Run:
    """Two processes record the last two steps of a run: the second one while the first has not committed."""
    add(bench, 2)
    run = bench.run("m")
    claim(stores[0])
    one, two = claim(stores[0])
    with ThreadPoolExecutor(1) as threads:
        with stores[0].transaction(NOW) as transaction:
            recorder.record(transaction, [AttemptEnd(one, Outcome(True))], NOW, NO_POLICIES)
            other = threads.submit(record, stores[1], two)
            wait_for_lock(url, other)
        other.result()
    return bench.runs.get(run.id)


def test_of_two_siblings_that_end_at_once_one_ends_the_run(
    bench: Sandbox, stores: list[PostgresStore], postgres_url: str
) -> None:
    """P6: the second waits for the first, and sees its end."""
    assert recorded_at_once(bench, stores, postgres_url).state == "succeeded"
    assert ends(stores[0]) == {"step.succeeded": 2, "run.succeeded": 1}


def test_without_the_lock_each_sibling_sees_the_other_alive(
    bench: Sandbox, stores: list[PostgresStore], postgres_url: str
) -> None:
    """P6: the locks on the schedule's cursor and on the run are what keeps a run from running for ever."""
    unlocked = {"live_runs": SQL["live_runs"].replace(b" FOR UPDATE", b"")}
    no_lock = patch.object(PostgresTransaction, "_lock_due_of", lambda self, run_ids: integers(run_ids))
    with no_lock, patch.dict(SQL, unlocked):
        assert recorded_at_once(bench, stores, postgres_url).state == "running"


def test_four_engines_end_siblings_at_once(bench: Sandbox, stores: list[PostgresStore]) -> None:
    """P6, H2: many times; each run ends once, and so does the step that waits for all."""
    runs = 40
    add(bench, ENGINES, "Last")
    for _ in range(runs):
        bench.run("m")
    claim(stores[0])
    shares: list[list[Attempt]] = [[] for _ in stores]
    for attempt in claim(stores[0]):
        shares[attempt.compiled.step - 1].append(attempt)
    assert [len(share) for share in shares] == [runs] * ENGINES
    together = threading.Barrier(ENGINES)

    def end(store: PostgresStore, share: list[Attempt]) -> None:
        for attempt in sorted(share):
            together.wait()
            record(store, attempt)

    with ThreadPoolExecutor(ENGINES) as threads:
        list(threads.map(end, stores, shares))
    last = claim(stores[0])
    assert len({attempt.run_id for attempt in last}) == len(last) == runs
    record(stores[1], *last)
    assert {run.state for run in bench.all_runs("m")} == {"succeeded"}
    assert ends(stores[0]) == {"step.succeeded": runs * (ENGINES + 1), "run.succeeded": runs}


def test_a_run_cancelled_while_it_unfolds_ends_with_its_steps(
    bench: Sandbox, stores: list[PostgresStore], postgres_url: str
) -> None:
    """B8: whoever cancels waits for the steps that are being created, and cancels them too."""
    add(bench, 2, "Last")
    run = bench.run("m")
    with ThreadPoolExecutor(1) as threads:
        with stores[0].transaction(NOW) as transaction:
            claimed(transaction, 10)
            cancelled = threads.submit(bench.runs.cancel, run.id)
            wait_for_lock(postgres_url, cancelled)
        cancelled.result()
    run = bench.runs.get(run.id)
    assert (run.state, {step.status for step in run.steps}) == ("cancelled", {"cancelled"})
    assert claim(stores[0]) == []


def test_a_run_cancelled_while_a_step_is_claimed_ends_with_that_step(
    bench: Sandbox, stores: list[PostgresStore], postgres_url: str
) -> None:
    """B8: the step that has just been claimed is told to stop, and nothing starts behind it."""
    add(bench, 2, "Last", retries=3)
    run = bench.run("m")
    claim(stores[0])
    with ThreadPoolExecutor(1) as threads:
        with stores[0].transaction(NOW) as transaction:
            attempts = claimed(transaction, 10)
            cancelled = threads.submit(bench.runs.cancel, run.id)
            wait_for_lock(postgres_url, cancelled)
        cancelled.result()
    assert len(attempts) == 2
    types = Counter(event.type for event in page_of_events(stores[0]))
    assert (types["step.cancelling"], types["run.cancelling"], types["step.cancelled"]) == (2, 1, 1)
    record(stores[1], *attempts)
    assert (bench.runs.get(run.id).state, claim(stores[0])) == ("cancelled", [])
