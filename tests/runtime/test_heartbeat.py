"""Signs of life, and what the heart learns from them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from matins.errors import StoreUnavailable
from matins.runtime.heartbeat import Heartbeat
from matins.store.transaction import Transaction
from matins.testing import Sandbox

LEASE = 15_000


class Shared:
    """A store that several engines share, as far as the heart can tell; it can stop answering."""

    shared = True
    knows = 1

    def __init__(self, bench: Sandbox) -> None:
        self._bench = bench
        self.store_id = bench._store.store_id
        self.answers = True

    @contextmanager
    def transaction(self, now: int) -> Iterator[Transaction]:
        if not self.answers:
            raise StoreUnavailable("gone")
        with self._bench._store.transaction(now) as transaction:
            yield transaction


def heart(
    bench: Sandbox, store: Any, cancelled: list[int], fenced: list[bool], renewed: list[Any] | None = None
) -> Heartbeat:
    return Heartbeat(
        store,
        bench.clock,
        worker=lambda: bench.engine.worker,
        every_ms=3_600_000,
        lease_ms=LEASE,
        cancel=cancelled.extend,
        renew=lambda marks, since: None if renewed is None else renewed.append((marks, since)),
        fenced=fenced.append,
        outdated=lambda: None,
    )


@pytest.mark.parametrize("shared", [True, False])
def test_a_beat_tells_which_runs_shall_end(theatre: Sandbox, shared: bool) -> None:
    """B8: cancelling reaches the worker"""
    theatre.add("s", when="*/5 * * * *", job="work", overlap="allow")
    theatre.run_until("2026-03-27T08:10:00Z")
    second, _ = theatre.runs.list(schedule="s")
    theatre.runs.cancel(second.id)
    cancelled: list[int] = []
    heart(theatre, Shared(theatre) if shared else theatre._store, cancelled, []).beat()
    assert cancelled == [int(second.id)]


def test_a_beat_moves_on_a_shared_store(theatre: Sandbox) -> None:
    """S2"""
    beating = heart(theatre, Shared(theatre), [], [])
    beating.beat()
    beating.beat()
    with theatre._store.reading() as transaction:
        assert [worker.beat for worker in transaction.workers()] == [2]


def test_who_was_declared_dead_starts_nothing_more(theatre: Sandbox) -> None:
    """S2"""
    with theatre._store.transaction(0) as transaction:
        transaction.stop_worker(theatre.engine.worker, 0)
    fenced: list[bool] = []
    heart(theatre, Shared(theatre), [], fenced).beat()
    assert fenced == [True]


def test_without_an_answer_for_two_thirds_of_the_lease_it_starts_nothing_more(theatre: Sandbox) -> None:
    """S2: by its own boot time; others may think it dead soon"""
    store, fenced = Shared(theatre), []
    beating = heart(theatre, store, [], fenced)
    store.answers = False
    for _ in range(4):
        theatre.clock.advance(3_000)
        beating.beat()
    assert fenced == [False, False, False, True]
    store.answers = True
    beating.beat()
    assert fenced[-1] is False


def test_leases_are_renewed_only_when_the_store_has_answered(theatre: Sandbox) -> None:
    """B9 S2: since the question, however late the answer is heard; and only of what still belongs to this engine"""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until("2026-03-27T08:05:00Z")
    store, renewed = Shared(theatre), list[Any]()
    beating = heart(theatre, store, [], [], renewed)
    since, send = theatre.clock.boot_ms(), beating._send
    beating._send = lambda: (send(), theatre.clock.advance(9_000))[0]  # type: ignore[method-assign]
    beating.beat()
    assert renewed == [({(int(theatre.runs.list(schedule="s")[0].id), 1)}, since)]
    store.answers = False
    beating.beat()
    store.answers = True
    with theatre._store.transaction(0) as transaction:
        transaction.stop_worker(theatre.engine.worker, 0)
    beating.beat()
    assert len(renewed) == 1


def test_whom_others_took_for_dead_goes_on_as_a_new_worker(theatre: Sandbox) -> None:
    """S2: what it claimed as the old one, nobody would ever look for"""
    theatre.add("s", when="*/5 * * * *", job="work")
    before = theatre.engine.worker
    with theatre._store.transaction(0) as transaction:
        transaction.stop_worker(before, 0)
    theatre.engine.fenced = True
    theatre.run_until("2026-03-27T08:05:00Z")
    assert theatre.engine.worker != before
    assert not theatre.engine.fenced
    with theatre._store.reading() as transaction:
        assert [row.owner for row in transaction.started(theatre.engine.worker, mine=True)] == [theatre.engine.worker]


def test_b1_an_engine_that_lost_its_lock_for_a_while_keeps_what_it_runs(theatre: Sandbox) -> None:
    """B1, S2: on a file another engine held the lock meanwhile, and declared it dead. As a worker that has stopped it
    would take its own runs for lost, beat after beat, and start them again."""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until("2026-03-27T08:05:00Z")
    engine, before = theatre.engine, theatre.engine.worker
    with theatre._store.transaction(0) as transaction:
        transaction.stop_worker(before, 0)
    theatre.run_until(theatre.clock.now_ms() + 3_000)
    assert [(run.state, run.epoch) for run in theatre.runs.list(schedule="s")] == [("running", 1)]
    fenced: list[bool] = []
    heart(theatre, theatre._store, [], fenced).beat()
    assert fenced == [True]
    engine.fenced = True
    theatre.run_until(theatre.clock.now_ms() + 9_000)
    assert (engine.worker != before, engine.fenced) == (True, False)
    heart(theatre, theatre._store, [], fenced).beat()
    assert fenced == [True, False]
    theatre.end("s")
    theatre.assert_ran("s", times=1)


def test_an_engine_that_is_fenced_on_a_shared_store_starts_nothing_in_that_turn(theatre: Sandbox) -> None:
    """S2: it learns so from the transaction itself"""
    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.clock.advance_to("2026-03-27T08:05:00Z")
    theatre._store.shared = True  # as PostgreSQL is
    with theatre._store.transaction(0) as transaction:
        transaction.stop_worker(theatre.engine.worker, 0)
    theatre.engine.turn()
    assert theatre.runs.list(schedule="s") == []
    theatre.engine.turn()
    assert theatre.stage.names() == ["s"]


def test_its_own_thread_beats_at_once_when_nudged_and_ends_when_stopped(theatre: Sandbox) -> None:
    """S2: no job and no slow turn can hold it back"""
    seen = threading.Event()

    class Seen(list[int]):
        def extend(self, runs: Any) -> None:
            seen.set()

    theatre.add("s", when="*/5 * * * *", job="work")
    theatre.run_until("2026-03-27T08:05:00Z")
    before = set(threading.enumerate())
    beating = heart(theatre, theatre._store, Seen(), [])
    beating.start()
    theatre.runs.cancel(theatre.runs.list(schedule="s")[0].id)
    beating.beat_now()
    assert seen.wait(90)
    beating.stop()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "matins-heart"]
