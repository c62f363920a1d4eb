"""`stats`: the six figures that people ask for first, and those by which one sees trouble coming."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import every_store
import psycopg
import pytest

from matins import Matins
from matins.api.results import Stats, Throttled
from matins.executors.job_context import JobContext
from matins.model.access import Principal
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, in_memory, rows = every_store.bench, every_store.in_memory, every_store.rows


def test_an_empty_store(bench: Sandbox) -> None:
    """V2"""
    assert bench.system.stats() == Stats(
        running=True, active_schedules=0, paused_schedules=0, pending_schedules=0, running_executions=0,
        max_concurrent=None, recent_failures=0, planner_lag_ms=0, ready_runs=0, runs_without_node=0, waiting_runs=0,
        waiting_approvals=0,
        oldest_approval=None, spend_today="$0.00", tokens_today=0, throttles=[],
    )  # fmt: skip


def test_the_six_figures(bench: Sandbox) -> None:
    """V2: as they are while a run is on"""
    seen: list[Stats] = []
    bench.job("look")(lambda run: seen.append(bench.system.stats()))
    bench.limits.set("global", size=5)
    bench.add("look", when="0 10 * * *", job="look")
    bench.add("fails", when="0 9 * * *", job="fail")
    bench.add("rests", when="0 9 * * *", job="work")
    bench.pause("rests")
    bench.run_until("2026-03-27T10:30:00Z")
    (stats,) = seen
    assert (stats.running, stats.active_schedules, stats.paused_schedules) == (True, 2, 1)
    assert (stats.running_executions, stats.max_concurrent, stats.recent_failures) == (1, 5, 1)


def test_an_engine_that_has_stopped(bench: Sandbox) -> None:
    """V2"""
    bench.engine.close()
    assert not bench.system.stats().running


KILLED = """
import sys, matins
matins.Matins(sys.argv[1]).start()
print("up", flush=True)
sys.stdin.read()
"""


def test_an_engine_that_was_killed(tmp_path: Path) -> None:
    """V2 H8: its lock is free at once, whatever it left in the store, and whoever writes there meanwhile"""
    url = f"sqlite:///{tmp_path}/matins.db"
    with closing(Matins(url)) as matins:
        assert not matins.system.stats().running
        with Popen([sys.executable, "-c", KILLED, url], stdin=PIPE, stdout=PIPE) as engine:
            assert engine.stdout is not None
            assert engine.stdout.readline() == b"up\n"
            assert matins.system.stats().running
            engine.kill()
        assert [matins.system.stats().running, found(matins, "engine")] == [False, [False]]
        matins.add("s", when="every day at 9am", job="message")
        assert matins.store.acquire()  # as the command that added it did, for its moment
        with closing(Matins(url)) as other:
            assert not other.system.stats().running
        matins.store.release()
        with matins:
            assert [matins.system.stats().running, found(matins, "engine")] == [True, [True]]


def found(matins: Matins, what: str) -> list[bool | None]:
    return [finding.ok for finding in matins.system.doctor() if finding.what == what]


@pytest.mark.parametrize("by", [-16_000, 3_600_000], ids=["silent for a lease", "by a clock that was put back since"])
def test_an_engine_on_a_server_whose_beat_is_not_of_now(postgres_url: str, by: int) -> None:
    """V2 H8: nobody holds a lock there, but the server knows when it last gave a sign of life"""
    with closing(Sandbox(postgres_url)) as bench:
        assert bench.system.stats().running
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("UPDATE workers SET beat = beat + %s", [by])
        assert [bench.system.stats().running, found(bench, "engine")] == [False, [False]]
        bench.settle()
        assert [bench.system.stats().running, found(bench, "engine")] == [True, [True]]


def test_failures_of_a_day_ago_are_not_recent(bench: Sandbox) -> None:
    """V2"""
    bench.add("s", when="2026-03-27T09:00:00Z", job="fail")
    bench.run_until("2026-03-28T08:59:00Z")
    assert bench.system.stats().recent_failures == 1
    bench.run_until("2026-03-28T09:01:00Z")
    assert bench.system.stats().recent_failures == 0


def test_what_is_over_is_not_active(bench: Sandbox) -> None:
    """V2 V5"""
    bench.add("once", when="2026-03-27T09:00:00Z", job="work")
    assert bench.system.stats().active_schedules == 1
    bench.run_until("2026-03-27T10:00:00Z")
    assert bench.system.stats().active_schedules == 0


def test_what_waits(bench: Sandbox) -> None:
    """V2 V6 B7: proposals, questions to people, runs that are put off or wait for a place"""
    bench.acting_as(Principal("agent", "scout")).add("proposed", when="every day at 9am", job="work")
    bench.quiet_hours.set("morning", windows=["08:00-12:00"], timezone="UTC", mode="defer")
    bench.add("asks", when="30 8 * * *", job="work", approval="owner_approve", approval_jobs=["work"])
    bench.add("waits", when="0 9 * * *", job="work", quiet_hours="morning")
    bench.run_until("2026-03-27T09:00:00Z")
    bench.add("later", when="0 10 * * *", job="work")
    bench.run("later")
    stats = bench.system.stats()
    assert (stats.pending_schedules, stats.waiting_runs, stats.ready_runs) == (1, 2, 1)
    assert (stats.waiting_approvals, stats.oldest_approval) == (2, datetime(2026, 3, 27, 8, tzinfo=UTC))


def test_the_planners_lag(bench: Sandbox) -> None:
    """V2: how long the longest waiting slot is due"""
    bench.add("a", when="0 9 * * *", job="work")
    bench.add("b", when="5 9 * * *", job="work")
    bench.clock.advance_to("2026-03-27T08:59:00Z")
    assert bench.system.stats().planner_lag_ms == 0
    bench.clock.advance_to("2026-03-27T09:10:00Z")
    assert bench.system.stats().planner_lag_ms == 600_000
    bench.settle()
    assert bench.system.stats().planner_lag_ms == 0


def test_what_today_cost(bench: Sandbox) -> None:
    """V2 B5: the owner's day begins at 15:00 UTC, when it is midnight in Tokyo"""
    bench.add("s", when="0 14,16,17 * * *", job="pay")
    bench.run_until("2026-03-27T14:30:00Z")
    assert (bench.system.stats().spend_today, bench.system.stats().tokens_today) == ("$0.10", 500)
    bench.run_until("2026-03-27T17:30:00Z")
    assert (bench.system.stats().spend_today, bench.system.stats().tokens_today) == ("$0.20", 1_000)


def test_a_day_that_begins_with_a_jump_of_the_clocks() -> None:
    """V2: in Beirut there was no midnight on the 29th of March 2026"""
    bench = Sandbox(clock=ManualClock("2026-03-28T20:30:00Z", zone="Asia/Beirut"))
    bench.job("pay")(lambda run: run.spend("$0.10", tokens=1))
    bench.add("s", when="0 * * * *", job="pay")
    bench.run_until("2026-03-28T21:30:00Z")  # 23:30 there
    before = bench.system.stats().tokens_today
    bench.run_until("2026-03-28T23:30:00Z")  # 02:30 there: the day began with 01:00, an hour and a half ago
    after = bench.system.stats().tokens_today
    bench.close()
    assert (before, after) == (1, 2)


def test_throttles_that_hold(bench: Sandbox) -> None:
    """V2 C16"""
    bench.throttles.set(
        "anthropic", resets_at=datetime(2026, 3, 27, 12, tzinfo=UTC), affects=["scout"], reason="rate limited"
    )
    assert bench.system.stats().throttles == [Throttled("anthropic", datetime(2026, 3, 27, 12, tzinfo=UTC))]
    assert [(throttle.provider, throttle.affects) for throttle in bench.throttles.list()] == [("anthropic", ["scout"])]
    bench.clock.advance_to("2026-03-27T12:00:00Z")
    assert bench.system.stats().throttles == bench.throttles.list() == []


def test_looking_at_the_figures_writes_nothing(bench: Sandbox, rows: Callable[[], list[Any]]) -> None:
    """V2: a viewer may"""
    bench.add("s", when="0 9 * * *", job="pay")
    bench.run_until("2026-03-27T09:30:00Z")
    before = rows()
    bench.acting_as(Principal("viewer", "vera")).system.stats()
    assert rows() == before


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Apia"])
def test_spend_of_a_day_in_any_zone(zone: str) -> None:
    """V2"""
    bench = Sandbox(clock=ManualClock("2026-07-01T00:00:00Z", zone=zone))

    @bench.job("pay")
    def pay(run: JobContext) -> None:
        run.spend("$0.01")

    bench.add("s", when="0 * * * *", job="pay")
    bench.run_until("2026-07-02T12:30:00Z")
    offset = {"UTC": 0, "America/New_York": -4, "Pacific/Apia": 13}[zone]
    hours = (12 + offset) % 24 + 1
    cents = bench.system.stats().spend_today
    bench.close()
    assert cents == f"$0.{hours:02}"
