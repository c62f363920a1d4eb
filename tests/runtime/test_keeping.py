"""House-keeping: seals, and history that is forgotten without anything firing again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matins.testing import Bench, ManualClock, iso

DAY = 86_400_000
START = "2026-03-27T08:00:00Z"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**settings: Any) -> Bench:
        made.append(Bench(f"sqlite:///{tmp_path}/{len(made)}.db", clock=ManualClock(START), **settings))
        made[-1].job("work")(lambda run: None)
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def test_old_runs_are_forgotten_and_nothing_fires_again(kept: Callable[..., Bench]) -> None:
    """S7 B1: the cursor is independent of history"""
    bench = kept(history_days=10)
    bench.add("s", when="0 9 * * *", do="work")
    bench.run_until("2026-04-26T12:00:00Z")
    slots = [iso(run.slot) for run in reversed(bench.runs("s"))]
    assert slots == [f"2026-04-{day}T09:00:00Z" for day in range(17, 27)]
    bench.engine.keeping.prune(bench.clock.now_ms() + 100 * DAY)
    assert bench.runs("s") == []
    bench.settle()
    assert bench.runs("s") == []
    assert iso(bench.get("s").next_slot) == "2026-04-27T09:00:00Z"
    bench.run_until("2026-04-27T09:00:00Z")
    assert len(bench.runs("s")) == 1


def test_history_can_be_so_many_runs_of_each_schedule(kept: Callable[..., Bench]) -> None:
    """S7"""
    bench = kept(history_days=None, history_runs=3)
    bench.add("often", when="0 * * * *", do="work")
    bench.add("seldom", when="0 9 * * *", do="work")
    bench.run_until("2026-03-29T08:30:00Z")
    bench.engine.keeping.prune(bench.clock.now_ms())
    assert [iso(run.slot) for run in bench.runs("often")] == [f"2026-03-29T0{hour}:00:00Z" for hour in (8, 7, 6)]
    assert len(bench.runs("seldom")) == 2


def test_history_can_be_kept_for_ever(kept: Callable[..., Bench]) -> None:
    """S7"""
    bench = kept(history_days=None)
    bench.add("s", when="0 9 1 * *", do="work")
    bench.run_until("2030-03-27T08:00:00Z")
    assert len(bench.runs("s")) == 48


def test_what_is_not_over_is_never_forgotten(kept: Callable[..., Bench]) -> None:
    """S7 B1"""
    bench = kept(history_days=1, history_runs=1)

    @bench.job("fail")
    def fail(run: object) -> None:
        raise ValueError

    bench.add("s", when="0 9 27 3 *", do="fail", retries=1, retry="100d", retry_most="100d")
    bench.run_until("2026-06-01T00:00:00Z")
    assert [run.state.word for run in bench.runs("s")] == ["ready"]


def test_more_than_a_batch_is_forgotten_bit_by_bit(kept: Callable[..., Bench]) -> None:
    """S7"""
    bench = kept(history_days=1)
    bench.add("s", when="* * * * *", do="work", overlap="allow", catch_up="run_all_capped", cap=1000)
    for _ in range(3):
        bench.clock.advance(700 * 60_000)
        bench.settle()
    assert len(bench.runs("s", limit=10_000)) == 2_100
    now = bench.clock.now_ms() + 30 * DAY
    assert [bench.engine.keeping.prune(now) for _ in range(4)] == [1_000, 1_000, 100, 0]


def test_chains_and_seals_hold_before_and_after_forgetting(kept: Callable[..., Bench]) -> None:
    """S4 S7"""
    bench = kept(history_days=2)
    bench.add("s", when="0 * * * *", do="work")
    bench.run_until("2026-03-28T08:00:00Z")
    assert bench.verify_audit() == []
    bench.run_until("2026-04-08T08:00:00Z")
    with bench._store.reading() as transaction:
        events, _, seals = transaction.audit()
    assert len(seals) > 100
    assert min(event.at for event in events) > bench.clock.now_ms() - 3 * DAY
    assert bench.verify_audit() == []


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE events SET data = '{}' WHERE seq = 3",
        "UPDATE events SET at = at + 1 WHERE seq = 3",
        "DELETE FROM events WHERE seq = 3",
        "UPDATE seals SET at = at + 1 WHERE id = 1",
        "DELETE FROM events WHERE seq >= 3",
    ],
)
def test_tampering_is_found(kept: Callable[..., Bench], tamper: str) -> None:
    """S4"""
    bench = kept()
    bench.add("s", when="0 * * * *", do="work")
    bench.run_until("2026-03-27T12:00:00Z")
    with bench._store.transaction(0) as transaction:
        transaction._connection.execute(tamper)
    assert bench.verify_audit()


def test_seals_come_once_a_second_and_only_when_something_happened(kept: Callable[..., Bench]) -> None:
    """S4"""
    bench = kept()
    bench.settle()

    def seals() -> int:
        with bench._store.reading() as transaction:
            return len(transaction.audit()[2])

    before = seals()
    bench.add("s", when="0 9 * * *", do="work")
    for _ in range(100):
        bench.clock.advance(100)
        bench.engine.turn()
    assert seals() <= before + 1
    bench.run_until("2026-03-27T09:00:01Z")
    assert seals() >= before + 1


def test_the_newest_event_stays_so_that_numbers_go_on(bench: Bench) -> None:
    """B1: a store that was idle for long does not begin to count anew"""
    bench.add("s", when="0 0 1 1 *", do="work")
    with bench._store.reading() as transaction:
        (*_, newest) = transaction.events_after(0, 100)
    bench.engine.keeping.prune(bench.clock.now_ms() + 200 * DAY)
    bench.pause("s")
    with bench._store.reading() as transaction:
        kept = transaction.events_after(0, 100)
    assert kept[0].id == newest.id
    assert kept[-1].id > newest.id
    bench.engine.keeping.seal(bench.clock.now_ms())
    assert bench.verify_audit() == []
