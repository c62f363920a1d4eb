"""What needs a person: on every surface the same list, and the status that begins with it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import postgres_fixtures
from matins import Matins
from matins.errors import Conflict, InvalidInput
from matins.model.access import Principal
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
START = "2026-03-27T08:00:00Z"
SCOUT = Principal("agent", "scout")


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    with closing(Sandbox(url, clock=ManualClock(START))) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[Sandbox]:
    with closing(Sandbox(clock=ManualClock(START))) as made:
        made.agents.set("scout", runner="demo")
        yield made


def test_b12_what_needs_a_person(bench: Sandbox) -> None:
    """B12 P4: proposals, held runs and stopped schedules, each with what to type; nothing else"""

    @bench.job("fails")
    def fails(run: object) -> None:
        raise RuntimeError("no")

    @bench.job("works")
    def works(run: object) -> None: ...

    bench.agents.set("scout", runner="demo")
    bench.add("fine", when="every 1h", job="works")
    assert bench.system.attention() == []
    bench.add("unlucky", when="every 10m", job="fails", pause_after_failures=2, failure_backoff="none")
    bench.acting_as(SCOUT).add("nightly", when="every day at 2am", agent="scout", prompt="Look")
    bench.run_until("2026-03-27T08:30:00Z")
    items = bench.system.attention()
    assert [(item.kind, item.schedule) for item in items] == [("approval", "nightly"), ("paused", "unlucky")]
    asked, paused = items
    assert asked.sentence == f"Approval {asked.approval_id}: scout asks for the schedule nightly."
    assert asked.command == f"matins approvals show {asked.approval_id}"
    assert paused.command == "matins resume unlucky"
    status = bench.system.status()
    assert status.attention == items
    assert status.healthy is True
    assert (status.failed, status.next[0].schedule) == (2, "fine")
    assert status.summary.startswith("2 things need you; 0 runs are running; 2 failed in the last 24 hours; next: fine")


def test_a_run_that_takes_more_than_twice_as_long_as_usual(memory: Sandbox) -> None:
    """B12: shown with how long it usually takes; a run without a history is not"""
    seen: list[list[str]] = []

    @memory.job("works")
    def works(run: object) -> None:
        memory.clock.advance(120_000)
        seen.append(stuck(memory))
        if len(seen) == 4:
            memory.clock.advance(121_000)
            seen.append(stuck(memory))

    memory.add("report", when="every day at 9am", job="works")
    for _ in range(4):
        run = memory.run("report")
        memory.settle()
    assert seen[:4] == [[]] * 4
    assert seen[4] == [f"Run {run.id} of report has run for 4m; it usually takes 2m."]


def test_a_run_that_has_written_nothing_for_half_of_its_idle_timeout(tmp_path: Path) -> None:
    """B12: shown with how long it is silent and when it is ended; one that still writes is not"""
    os.mkfifo(tmp_path / "begun")
    os.mkfifo(tmp_path / "go")
    script = f"echo hello; echo > {tmp_path}/begun; cat {tmp_path}/go"
    with Matins(f"sqlite:///{tmp_path}/m.db") as m:
        m.agents.set("scout", runner="shell", command=["sh", "-c", script], idle_timeout="20m")
        m.add("quiet", when="every 1000 days", agent="scout", prompt="Go.")
        run = m.run("quiet")
        (tmp_path / "begun").read_text()
        (output,) = wait_for(lambda: [path for path in tmp_path.rglob("*.out") if path.stat().st_size])
        assert [item for item in m.system.attention() if item.kind == "stuck"] == []
        then = time.time() - 11 * 60
        for path in output.parent.glob(f"{output.stem}*"):
            os.utime(path, (then, then))
        (item,) = m.system.attention()
        assert (item.kind, item.command) == ("stuck", f"matins logs {run.id}")
        assert item.sentence == f"Run {run.id} of quiet has written nothing for 11m; it is ended after 20m."
        (tmp_path / "go").write_text("")
        assert m.runs.wait(run.id, timeout=60).state == "succeeded"
        assert m.system.attention() == []


def wait_for(look: Callable[[], list[Path]]) -> list[Path]:
    until = time.monotonic() + 60
    while not (found := look()) and time.monotonic() < until:
        os.sched_yield()
    return found


def stuck(bench: Sandbox) -> list[str]:
    return [item.sentence for item in bench.system.attention() if item.kind == "stuck"]


def test_p4_a_preview_of_a_schedule_that_does_not_exist(memory: Sandbox) -> None:
    """P4 B12: slots, cost, whether a person would be asked; nothing is written; what add refuses is refused"""
    plan = memory.preview_new("nightly", when="every day at 2am", agent="scout", prompt="Look", max_cost="$1", count=2)
    assert [slot.utc for slot in plan.forecast.slots] == ["2026-03-28T02:00:00Z", "2026-03-29T02:00:00Z"]
    assert (plan.needs_approval, plan.forecast.state, plan.forecast.cost_per_day) == (False, "active", "at most $1.00")
    asked = memory.acting_as(SCOUT).preview_new(when="every day at 2am", agent="scout", prompt="Look around", retries=2)
    assert (asked.needs_approval, asked.forecast.state) == (True, "pending")
    assert asked.forecast.schedule == "look-around"
    assert asked.settings["retries"] == 2
    with pytest.raises(InvalidInput):
        memory.preview_new("x", when="whenever", agent="scout", prompt="Look")
    with pytest.raises(InvalidInput, match="nobody"):
        memory.preview_new("x", when="1h", agent="nobody", prompt="Look")
    with pytest.raises(InvalidInput, match="5m"):
        memory.acting_as(SCOUT).preview_new("x", when="1m", agent="scout", prompt="Look")
    assert memory.list() == memory.approvals.list() == []
    memory.add("nightly", when="every day at 2am", agent="scout", prompt="Look")
    with pytest.raises(Conflict):
        memory.preview_new("nightly", when="every day at 3am", agent="scout", prompt="Look")


def test_a_store_without_an_engine_says_so_first() -> None:
    with closing(Matins("sqlite://")) as m:
        status = m.system.status()
    assert status.healthy is False
    assert [(item.kind, item.command) for item in status.attention] == [("no_engine", "matins up")]


def test_only_an_agent_in_a_run_reports(memory: Sandbox) -> None:
    assert memory.system.context().run_id is None
    with pytest.raises(Conflict, match="Only an agent in a run"):
        memory.runs.report_outcome("done")
    with pytest.raises(InvalidInput):
        memory.acting_as(SCOUT).runs.report_outcome("splendid")  # type: ignore[arg-type]
