"""The shortest interval of what agents made holds by every way: starts, retries, catch-up, and one-shots that renew
themselves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from security_cast import SCOUT, Watched, at, propose

from matins.engine.when.triggers import to_ms
from matins.errors import NotAllowed
from matins.executors.job_context import JobContext
from matins.model.access import Principal

MINUTE = 60_000


def starts(bench: Watched, *names: str) -> list[int]:
    """When attempts of these schedules started, in order."""
    with bench.store.reading() as transaction:
        runs = [int(run.id) for name in names for run in bench.all_runs(name)]
        return sorted(row.started_at for run in runs for row in transaction.attempts(run))


def gaps(found: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(found)]


def test_b7_an_agent_starts_its_schedule_no_more_often_than_the_floor(bench: Watched) -> None:
    """B7: on every store; the refusal says when it may"""
    bench.agent_rules.set("scout", min_interval="10m")
    acting = propose(bench, when="5 10 * * *")
    acting.run("s", key="1")
    bench.settle()
    with pytest.raises(NotAllowed) as refused:
        acting.run("s", key="2")
    assert refused.value.hint is not None
    assert "2026-03-27T08:09:59Z" in refused.value.hint
    assert bench.run("s", key="3").id, "a person may, and the run waits"
    bench.clock.advance(10 * MINUTE)
    acting.run("s", key="4")


def test_b7_retries_of_an_agent_s_schedule_keep_the_floor(memory: Watched) -> None:
    """B7"""

    @memory.job("failing")
    def failing(run: JobContext) -> None:
        raise RuntimeError("no")

    memory.agent_rules.set("scout", min_interval="10m")
    propose(memory, job="failing", retries=5, retry_delay="1s", max_retry_delay="1s")
    memory.run_until(at("09:00"))
    found = starts(memory, "s")
    assert len(found) == 6
    assert min(gaps(found)) >= 10 * MINUTE - 1_000


def test_b7_catch_up_of_an_agent_s_schedule_keeps_the_floor(memory: Watched) -> None:
    """B7"""
    memory.agent_rules.set("scout", min_interval="10m")
    propose(memory, when="*/10 * * * *", catch_up="run_all_capped", catch_up_limit=5, overlap="queue", grace="5h")
    memory.clock.advance(2 * 60 * MINUTE)
    memory.run_until(at("11:30"))
    found = starts(memory, "s")
    assert len(found) > 5
    assert min(gaps(found)) >= 10 * MINUTE - 1_000


def test_b7_one_shots_that_renew_themselves_keep_the_floor(memory: Watched) -> None:
    """B7: also where the owner lets one-shots through without asking; all that descends from one is one chain"""
    memory.agent_rules.set("scout", auto_approve_one_shots=True, auto_approve_jobs=["again"], max_depth=1_000,
                           min_interval="10m", max_schedules=1_000)  # fmt: skip
    names = ["first"]

    @memory.job("again")
    def again(run: JobContext) -> None:
        agent = Principal("agent", "scout", run.id)
        names.append(f"next-{len(names)}")
        memory.acting_as(agent).add(names[-1], when="in 1s", job="again")

    memory.acting_as(SCOUT).add("first", when="in 1s", job="again")
    memory.run_until(at("09:00"))
    found = starts(memory, *names)
    assert 4 <= len(found) <= 7, found
    assert min(gaps(found)) >= 10 * MINUTE - 1_000
    assert to_ms(memory.get(names[-1]).created_at)


def test_b7_what_people_made_has_no_floor(memory: Watched) -> None:
    """B7"""
    memory.add("s", when="5 10 * * *", job="work")
    for number in range(5):
        memory.run("s", key=str(number))
        memory.settle()
    assert len(memory.ran) == 5


def test_b7_a_start_of_a_clock_that_was_ahead_silences_nobody(bench: Watched) -> None:
    """B7, H2: the floor counts from starts that have been; between those it holds"""
    bench.agent_rules.set("scout", min_interval="10m")
    propose(bench, when="*/15 * * * *")
    bench.clock.step(24 * 60 * MINUTE)
    bench.run_until(bench.clock.now_ms() + 20 * MINUTE)
    assert starts(bench, "s")
    bench.clock.step(-24 * 60 * MINUTE - 20 * MINUTE)
    began = bench.clock.now_ms()
    bench.run_until(began + 120 * MINUTE)
    found = [at for at in starts(bench, "s") if began <= at <= began + 120 * MINUTE]
    assert len(found) >= 7
    assert min(gaps(found)) >= 10 * MINUTE - 1_000
