"""House-keeping: seals, and history that is forgotten without anything firing again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matins.testing import ManualClock, Sandbox, iso

DAY = 86_400_000
START = "2026-03-27T08:00:00Z"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Callable[..., Sandbox]]:
    made: list[Sandbox] = []

    def make(**settings: Any) -> Sandbox:
        made.append(Sandbox(f"sqlite:///{tmp_path}/{len(made)}.db", clock=ManualClock(START), **settings))
        made[-1].job("work")(lambda run: None)
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def test_old_runs_are_forgotten_and_nothing_fires_again(kept: Callable[..., Sandbox]) -> None:
    """S7 B1: the cursor is independent of history"""
    bench = kept(history_days=10)
    bench.add("s", when="0 9 * * *", job="work")
    bench.run_until("2026-04-26T12:00:00Z")
    slots = [iso(run.slot) for run in reversed(bench.runs.list(schedule="s"))]
    assert slots == [f"2026-04-{day}T09:00:00Z" for day in range(17, 27)]
    bench.engine.maintenance.prune(bench.clock.now_ms() + 100 * DAY)
    assert bench.runs.list(schedule="s") == []
    bench.settle()
    assert bench.runs.list(schedule="s") == []
    assert iso(bench.get("s").next_run_at) == "2026-04-27T09:00:00Z"
    bench.run_until("2026-04-27T09:00:00Z")
    assert len(bench.runs.list(schedule="s")) == 1


def test_history_can_be_so_many_runs_of_each_schedule(kept: Callable[..., Sandbox]) -> None:
    """S7"""
    bench = kept(history_days=None, history_runs=3)
    bench.add("often", when="0 * * * *", job="work")
    bench.add("seldom", when="0 9 * * *", job="work")
    bench.run_until("2026-03-29T08:30:00Z")
    bench.engine.maintenance.prune(bench.clock.now_ms())
    assert [iso(run.slot) for run in bench.runs.list(schedule="often")] == [
        f"2026-03-29T0{hour}:00:00Z" for hour in (8, 7, 6)
    ]
    assert len(bench.runs.list(schedule="seldom")) == 2


def test_history_can_be_kept_for_ever(kept: Callable[..., Sandbox]) -> None:
    """S7"""
    bench = kept(history_days=None)
    bench.add("s", when="0 9 1 * *", job="work")
    bench.run_until("2030-03-27T08:00:00Z")
    assert len(bench.runs.list(schedule="s")) == 48


def test_what_is_not_over_is_never_forgotten(kept: Callable[..., Sandbox]) -> None:
    """S7 B1"""
    bench = kept(history_days=1, history_runs=1)

    @bench.job("fail")
    def fail(run: object) -> None:
        raise ValueError

    bench.add("s", when="0 9 27 3 *", job="fail", retries=1, retry_delay="100d", max_retry_delay="100d")
    bench.run_until("2026-06-01T00:00:00Z")
    assert [run.state for run in bench.runs.list(schedule="s")] == ["ready"]


def test_more_than_a_batch_is_forgotten_bit_by_bit(kept: Callable[..., Sandbox]) -> None:
    """S7"""
    bench = kept(history_days=1)
    bench.add("s", when="* * * * *", job="work", overlap="allow", catch_up="run_all_capped", catch_up_limit=1000)
    for _ in range(3):
        bench.clock.advance(700 * 60_000)
        bench.settle()
    assert len(bench.all_runs("s")) == 2_100
    now = bench.clock.now_ms() + 30 * DAY
    assert [bench.engine.maintenance.prune(now) for _ in range(4)] == [1_000, 1_000, 100, 0]


def test_chains_and_seals_hold_before_and_after_forgetting(kept: Callable[..., Sandbox]) -> None:
    """S4 S7"""
    bench = kept(history_days=2)
    bench.add("s", when="0 * * * *", job="work")
    bench.run_until("2026-03-28T08:00:00Z")
    assert bench.audit.verify().problems == []
    bench.run_until("2026-04-08T08:00:00Z")
    with bench._store.reading() as transaction:
        events, seals = transaction.logged(0, 10**9), transaction.seals(0, 10**9)
    assert (seals[0].id > 200, len(seals) < 60) == (True, True), "old seals are pruned too"
    assert min(event.at for event in events) > bench.clock.now_ms() - 3 * DAY
    assert bench.audit.verify().problems == []


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
def test_tampering_is_found(kept: Callable[..., Sandbox], tamper: str) -> None:
    """S4"""
    bench = kept()
    bench.add("s", when="0 * * * *", job="work")
    bench.run_until("2026-03-27T12:00:00Z")
    with bench._store.transaction(0) as transaction:
        transaction._connection.execute(tamper)
    assert bench.audit.verify().problems


def test_seals_come_once_a_second_and_only_when_something_happened(kept: Callable[..., Sandbox]) -> None:
    """S4"""
    bench = kept()
    bench.settle()

    def seals() -> int:
        with bench._store.reading() as transaction:
            return len(transaction.seals(0, 10**9))

    before = seals()
    bench.add("s", when="0 9 * * *", job="work")
    for _ in range(100):
        bench.clock.advance(100)
        bench.engine.turn()
    assert seals() <= before + 1
    bench.run_until("2026-03-27T09:00:01Z")
    assert seals() >= before + 1


def test_the_newest_event_stays_so_that_numbers_go_on(bench: Sandbox) -> None:
    """B1: a store that was idle for long does not begin to count anew"""
    bench.add("s", when="0 0 1 1 *", job="work")
    with bench._store.reading() as transaction:
        (*_, newest) = transaction.events_after(0, 100)
    bench.engine.maintenance.prune(bench.clock.now_ms() + 200 * DAY)
    bench.pause("s")
    with bench._store.reading() as transaction:
        kept = transaction.events_after(0, 100)
    assert kept[0].id == newest.id
    assert kept[-1].id > newest.id
    bench.engine.maintenance.seal(bench.clock.now_ms())
    assert bench.audit.verify().problems == []
