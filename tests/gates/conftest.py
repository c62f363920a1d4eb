"""Benches on every store: the production engine under a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gate_records import START, check_ledger, check_log

import postgres_fixtures
from matins.executors.job_context import JobContext
from matins.testing import ManualClock, Sandbox

postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
url = postgres_fixtures.url
kept_url = postgres_fixtures.kept_url

Open = Callable[..., Sandbox]


def failing(run: JobContext) -> None:
    raise ValueError("no luck")


@pytest.fixture
def open_bench() -> Iterator[Open]:
    """A bench on a store; a second one on the same store is what comes after a crash of the first.

    Jobs: `work` succeeds, `fail` raises.
    """
    opened: list[Sandbox] = []

    def open_one(url: str, **options: Any) -> Sandbox:
        clock = opened[-1].clock if opened else ManualClock(START)
        made = Sandbox(url, **{"clock": clock, **options})
        opened.append(made)
        made.job("work")(lambda run: None)
        made.job("fail")(failing)
        return made

    yield open_one
    if opened:
        check_ledger(opened[-1])
        check_log(opened[-1])
    for bench in opened:
        bench.close()


@pytest.fixture
def bench(url: str, open_bench: Open) -> Sandbox:
    return open_bench(url)


@pytest.fixture
def restart(kept_url: str, open_bench: Open) -> Open:
    """A bench on the same store as the one before, which is dropped as a crash would drop it."""
    return lambda **options: open_bench(kept_url, **options)


@pytest.fixture
def shop(bench: Sandbox) -> list[Any]:
    """What the job "buy" spends, one run after the other; the last price stays."""
    prices: list[Any] = ["$0.10"]

    @bench.job("buy")
    def buy(run: JobContext) -> None:
        price = prices.pop(0) if len(prices) > 1 else prices[0]
        run.spend(price) if isinstance(price, str) else run.spend(tokens=price)

    return prices
