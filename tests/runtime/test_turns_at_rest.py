"""A turn asks the store nothing while nothing can have changed, and everything else as soon as something may have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"


class Resting:
    """An engine after a turn that found nothing to do, and the transactions of its next turns."""

    def __init__(self, folder: Path | None) -> None:
        url = "sqlite://" if folder is None else f"sqlite:///{folder}/matins.db"
        self.bench = Sandbox(url, clock=ManualClock(START))
        self.bench.job("work")(lambda run: None)
        self.bench.add("hourly", when="0 * * * *", job="work", timezone="UTC")
        self.bench.settle()
        self.bench.engine.turn()
        self.begun = 0
        transaction = self.bench._store.transaction

        def counted(now: int) -> Any:
            self.begun += 1
            return transaction(now)

        self.bench._store.transaction = counted  # type: ignore[method-assign]

    def turns(self) -> int:
        """How many transactions the next turn has."""
        self.begun = 0
        self.bench.clock.advance(10)
        self.bench.engine.turn()
        return self.begun


@pytest.fixture(params=["memory", "file"])
def resting(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = Resting(tmp_path if request.param == "file" else None)
    yield made
    made.bench.close()


def test_a_turn_at_rest_has_no_transaction(resting: Resting) -> None:
    """E1"""
    assert [resting.turns() for _ in range(3)] == [0, 0, 0]


CHANGES: dict[str, Callable[[Sandbox], Any]] = {
    "a schedule is added": lambda bench: bench.add("other", when="0 9 * * *", job="work"),
    "a schedule is paused": lambda bench: bench.pause("hourly"),
    "a limit is set": lambda bench: bench.limits.set("global", size=3),
    "a run is requested": lambda bench: bench.run("hourly"),
    "a job is registered": lambda bench: bench.job("another")(lambda run: None),
    "there is less capacity": lambda bench: setattr(bench.executor, "capacity", lambda *, for_agents=False: 2),
    "it starts nothing any more": lambda bench: setattr(bench.engine, "accepting", False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_turn_after_a_change_looks_again(resting: Resting, change: str) -> None:
    """E1"""
    CHANGES[change](resting.bench)
    assert resting.turns() >= 1


def test_a_turn_looks_again_when_an_instant_has_come(resting: Resting) -> None:
    """E1: and the slot runs"""
    bench = resting.bench
    bench.clock.advance_to("2026-03-27T08:59:59.900Z")
    resting.turns()
    assert resting.turns() == 0
    bench.clock.advance_to("2026-03-27T09:00:00Z")
    bench.settle()
    bench.assert_ran("hourly", times=1)


def test_a_turn_looks_again_when_another_process_has_written(tmp_path: Path) -> None:
    """E1: it should ask the engine's socket; if it does not, it is heard nevertheless"""
    resting = Resting(tmp_path)
    assert resting.turns() == 0
    other = apsw.Connection(str(tmp_path / "matins.db"))
    other.execute("UPDATE due SET due_at = due_at")
    other.close()
    assert resting.turns() == 1
    assert resting.turns() == 0
    resting.bench.close()


def test_a_transaction_asks_once_and_again_after_a_change() -> None:
    """C12"""
    bench = Sandbox(clock=ManualClock(START))
    now = bench.clock.now_ms()
    with bench._store.transaction(now) as transaction:
        before = transaction.turn_facts().policy_rev
        assert transaction.policy_rev() == before
        transaction.upsert_policy("agents", "scout", '{"runner": "demo"}', now, "me")
        assert transaction.policy_rev() == before + 1
        with suppress(ZeroDivisionError), transaction.savepoint():
            transaction.upsert_policy("agents", "other", '{"runner": "demo"}', now, "me")
            assert transaction.policy_rev() == before + 2
            raise ZeroDivisionError
        assert transaction.policy_rev() == before + 1
    bench.close()
