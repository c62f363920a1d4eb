"""What Matins ships for the tests of others: the clock and the bench."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from matins.errors import InstantError
from matins.executors.job_context import JobContext
from matins.testing import ManualClock, Sandbox, instant, iso


def test_the_clock_stands_still_until_it_is_moved() -> None:
    """P8"""
    clock = ManualClock("2026-03-27T08:00:00Z", zone="Asia/Tokyo")
    assert (clock.now_ms(), clock.boot_ms(), clock.local_zone()) == (clock.now_ms(), clock.boot_ms(), "Asia/Tokyo")
    now, boot = clock.now_ms(), clock.boot_ms()
    clock.advance(5)
    assert (clock.now_ms() - now, clock.boot_ms() - boot) == (5, 5)
    clock.step(-100)
    assert (clock.now_ms() - now, clock.boot_ms() - boot) == (-95, 5)
    clock.advance_to(now - 1_000)
    assert clock.now_ms() == now - 95, "time does not go back by advancing"


@pytest.mark.parametrize("when", ["2026-03-27T08:00:00Z", datetime(2026, 3, 27, 8, tzinfo=UTC), 1_774_598_400_000])
def test_instants_can_be_said_in_three_ways(when: str | datetime | int) -> None:
    """P8"""
    assert instant(when) == 1_774_598_400_000
    assert iso(instant(when)) == "2026-03-27T08:00:00Z"
    assert iso(None) is None


def test_an_instant_without_a_zone_is_refused() -> None:
    """P8"""
    with pytest.raises(InstantError):
        instant("2026-03-27T08:00:00")


def test_the_example_at_the_top_of_the_module() -> None:
    """P8"""
    bench = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
    times: list[str] = []

    @bench.job("report")
    def report(run: JobContext) -> None:
        times.append(str(iso(bench.clock.now_ms())))

    bench.add("morning", when="0 9 * * *", job="report")
    bench.run_until("2026-03-29T12:00:00Z")
    bench.assert_ran("morning", times=3)
    assert times == [f"2026-03-{day}T09:00:00Z" for day in (27, 28, 29)], "each at its own time"
    assert iso(bench.clock.now_ms()) == "2026-03-29T12:00:00Z"
    bench.close()


def test_assertions_say_what_there_is_instead() -> None:
    """P8"""
    bench = Sandbox()

    @bench.job("fail")
    def fail(run: JobContext) -> None:
        raise ValueError

    bench.add("s", when="0 9 * * *", job="fail")
    with pytest.raises(AssertionError, match=r"did not run\. Its records: none\."):
        bench.assert_ran("s")
    bench.run_until("2026-01-01T10:00:00Z")
    with pytest.raises(AssertionError, match=r"ran 0 times, not 1\. Its records: failed\(failed\)"):
        bench.assert_ran("s", times=1)
    bench.assert_not_ran("s")
    bench.close()


def test_async_jobs_run_too() -> None:
    """P8"""
    bench = Sandbox()

    @bench.job("later")
    async def later(run: JobContext) -> int:
        return run.attempt

    bench.add("s", when="0 9 * * *", job="later")
    bench.run_until("2026-01-01T10:00:00Z")
    assert bench.assert_ran("s", times=1)[0].outcome == {"result": 1}
    bench.close()


def test_a_job_can_use_the_bench() -> None:
    """P8"""
    bench = Sandbox()

    @bench.job("chain")
    def chain(run: JobContext) -> None:
        if run.schedule == "first":
            bench.add("second", when="in 10 minutes", job="chain")

    bench.add("first", when="0 9 * * *", job="chain", max_executions=1)
    bench.run_until("2026-01-01T10:00:00Z")
    bench.assert_ran("second", times=1)
    bench.close()


def test_time_passes_quickly_while_something_waits_for_a_place() -> None:
    """P8: from one thing to the next, never millisecond by millisecond"""
    bench = Sandbox()
    bench.job("work")(lambda run: None)
    bench.add("s", when="0 9 * * *", job="work", agent="x")
    bench.limits.set("agent:x", size=1)
    with bench._store.transaction(0) as transaction:
        assert transaction.take_permits("agent:x", [999])
    turns: list[int] = []
    turn = bench.engine.turn
    bench.engine.turn = lambda: (turns.append(1), turn())[1]  # type: ignore[method-assign]
    bench.run_until("2026-01-01T09:10:00Z")
    assert bench.runs.list(schedule="s")[0].state == "ready"
    assert len(turns) < 2_000
    bench.close()


def test_two_benches_in_turn_are_a_restart(tmp_path: Path) -> None:
    """P8 S7"""
    clock = ManualClock("2026-03-27T08:00:00Z")
    for day in (27, 28):
        bench = Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=clock)
        bench.job("work")(lambda run: None)
        if day == 27:
            bench.add("s", when="0 9 * * *", job="work")
        bench.run_until(f"2026-03-{day}T09:00:00Z")
        assert len(bench.runs.list(schedule="s")) == day - 26
        bench.close()
