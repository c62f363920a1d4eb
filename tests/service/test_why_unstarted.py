"""`why` of a run that may start and does not: its first sentence is the true reason."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from matins.testing import ManualClock, Sandbox

START, NINE = "2026-03-27T08:00:00Z", "2026-03-27T09:00:00Z"


@pytest.fixture
def bench() -> Iterator[Sandbox]:
    with closing(Sandbox(clock=ManualClock(START))) as made:
        made.job("work")(lambda run: None)
        made.settle()
        yield made


def headline(bench: Sandbox) -> str:
    summary = bench.why("s").summary
    return summary.partition(" UTC: ")[2]


def nowhere(kind: str, name: str) -> str:
    return f'No node can run it now: it needs the {kind} "{name}". {socket.gethostname()} has no {kind} "{name}".'


def stop(bench: Sandbox) -> None:
    """No engine runs any more, as after `matins up` was ended."""
    with bench.store.transaction(bench.clock.now_ms()) as transaction:
        for worker in bench.store.engines(10**9):
            transaction.stop_worker(worker.id, bench.clock.now_ms())


def without(bench: Sandbox, name: str) -> None:
    """The engine loses a job, as when its program is replaced by another."""
    del bench.jobs._own[name]
    bench.jobs._counted = False


class WithoutTools(Sandbox):
    """An engine on a machine where no agent's tool is installed."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.executor.offers = lambda: self.jobs.offers  # type: ignore[method-assign]


def test_b2_no_engine_runs(bench: Sandbox) -> None:
    """B2: a run is ready"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.run("s")
    stop(bench)
    assert headline(bench) == "Ready: no engine is running."


def test_b2_no_engine_runs_for_a_wait_that_is_over(bench: Sandbox) -> None:
    """B2: the throttle ended while no engine was running"""
    bench.throttles.set("anthropic", resets_at=datetime(2026, 3, 27, 9, 30, tzinfo=UTC))
    bench.add("s", when="0 9 * * *", job="work", provider="anthropic")
    bench.run_until(NINE)
    assert headline(bench) == 'Waiting: provider "anthropic" is throttled until 09:30 UTC.'
    stop(bench)
    assert headline(bench) == 'Waiting: provider "anthropic" is throttled until 09:30 UTC.'
    bench.clock.advance_to("2026-03-27T09:31:00Z")
    assert bench.why("s", at=datetime(2026, 3, 27, 9, tzinfo=UTC)).summary.endswith(
        "UTC: Waiting: no engine is running."
    )


def test_b2_no_engine_has_the_job(bench: Sandbox) -> None:
    """B2: there is capacity, and it does not help"""
    bench.job("elsewhere")(lambda run: None)
    bench.settle()
    bench.add("s", when="0 9 * * *", job="elsewhere")
    without(bench, "elsewhere")
    bench.run_until(NINE)
    assert headline(bench) == f"{nowhere('job', 'elsewhere')} It waits since 09:00 UTC."


def test_b2_no_engine_has_the_job_of_a_step(bench: Sandbox) -> None:
    """B2: the run of steps is running, and nothing of it runs"""
    bench.job("elsewhere")(lambda run: None)
    bench.settle()
    bench.add("s", when="0 9 * * *", steps=[{"title": "first", "job": "elsewhere"}, {"title": "second", "job": "work"}])
    without(bench, "elsewhere")
    bench.limits.set("global", size=5)
    bench.run_until(NINE)
    why = bench.why("s")
    assert 'one of its steps does not start: no node can run it now: it needs the job "elsewhere"' in why.summary
    assert why.quote == "first"


def test_b2_the_tool_is_missing() -> None:
    """B2: claude is not installed where the engine runs"""
    with closing(WithoutTools(ManualClock(START))) as bench:
        bench.agents.set("scout", runner="claude")
        bench.add("s", when="0 9 * * *", agent="scout", prompt="Look around")
        bench.run_until(NINE)
        assert headline(bench) == f"{nowhere('tool', 'claude')} It waits since 09:00 UTC."


def test_b2_a_limit_is_reached(bench: Sandbox) -> None:
    """B2: which limit; and capacity is not spoken of where there is some"""
    bench.limits.set("global", size=1)
    bench.add("s", when="0 9 * * *", job="work")
    bench.run("s")
    assert headline(bench) == "Ready: waiting for an engine to start it."
    with bench.store.transaction(bench.clock.now_ms()) as transaction:
        assert transaction.take_permits("global", [999_999])
    assert headline(bench) == 'Ready: 1 of 1 places of "global" are taken.'


def test_b2_an_engine_that_does_not_come_to_it(bench: Sandbox) -> None:
    """B2: nothing is wrong; it has not been started yet"""
    bench.add("s", when="0 9 * * *", job="work")
    bench.run("s")
    bench.clock.advance(6_000)
    assert headline(bench) == "Ready: no engine has started it yet."
