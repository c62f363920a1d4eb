"""Lists of schedules and runs with filters, tabs, bars and counts, and the search: on both dialects."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import every_store
import pytest

from matins.api.results import ScheduleCounts
from matins.errors import InvalidInput
from matins.executors.job_context import JobContext
from matins.model.access import Principal
from matins.testing import Sandbox

postgres_server, postgres_url = every_store.postgres_server, every_store.postgres_url
url = every_store.each_dialect
bench, in_memory = every_store.bench, every_store.in_memory
SCOUT = Principal("agent", "scout")


def names(schedules: list[Any]) -> list[str]:
    return [schedule.name for schedule in schedules]


def fill(bench: Sandbox) -> None:
    bench.agents.set("ann", runner="demo")
    bench.add("reports", when="0 9 * * *", job="work", description="100% of the_figures", agent="ann")
    bench.add("backup", when="30 8 * * *", job="work")
    bench.add("broken-build", when="15 * * * *", job="fail", retries=0)
    bench.add("asks", when="0 9 * * *", job="work", approval="owner_approve")
    bench.add("holidays", when="0 12 * * *", job="work")
    bench.pause("holidays", note="until January")
    bench.acting_as(SCOUT).add("made", when="0 13 * * *", job="work")


def test_tabs_and_their_counts(bench: Sandbox) -> None:
    """B12: a tab has as many schedules as it says"""
    fill(bench)
    bench.run_until("2026-03-27T09:30:00Z")
    found = {tab: names(bench.list(tab=tab)) for tab in ("all", "active", "attention", "paused", "agents")}
    assert found["attention"] == ["broken-build", "asks", "made"]  # failing, with a run that waits, and pending
    assert found["paused"] == ["holidays"]
    assert found["agents"] == ["made"]
    counted = bench.counts()
    assert counted == ScheduleCounts(6, 4, 3, 1, 1)
    assert {tab: len(items) for tab, items in found.items()} == {
        tab: getattr(counted, tab) for tab in found
    }  # fmt: skip
    assert bench.counts(select="text=BUILD").attention == bench.counts(select="text=build").all == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [("REP", ["reports"]), ("ann", ["reports"]), ("january", ["holidays"]), ("30 8", ["backup"]), ("100%", ["reports"]),
     ("the_fig", ["reports"]), ("the-fig", []), ("100_", []), ("!", []), ("  ", None)],
)  # fmt: skip
def test_a_text_anywhere(in_memory: Sandbox, query: str, expected: list[str] | None) -> None:
    """B12: in name, agent, settings and note; signs of patterns mean themselves"""
    fill(in_memory)
    assert names(in_memory.list(select=f'text="{query}"')) == (
        names(in_memory.list()) if expected is None else expected
    )


@pytest.mark.parametrize("sort", ["created", "name", "next"])
def test_pages_in_each_order(bench: Sandbox, sort: Any) -> None:
    """B12: pages have everything once, in order; those that have no next slot are the last"""
    fill(bench)
    whole = bench.list(sort=sort)
    paged: list[Any] = []
    while page := bench.list(sort=sort, limit=2, after=paged[-1].id if paged else None):
        paged += page
    assert names(paged) == names(whole)
    expected = {
        "created": ["reports", "backup", "broken-build", "asks", "holidays", "made"],
        "name": ["asks", "backup", "broken-build", "holidays", "made", "reports"],
        "next": ["broken-build", "backup", "reports", "asks", "holidays", "made"],
    }
    assert names(whole) == expected[sort]


def test_bars_are_the_last_records(bench: Sandbox) -> None:
    """B12 V3: the oldest first, skipped ones with their reason, and manual runs too"""
    bench.quiet_hours.set("early", windows=["09:00-10:00"])
    bench.add("s", when="*/15 * * * *", job="work", quiet_hours="early")
    bench.add("other", when="0 12 * * *", job="work")
    bench.run_until("2026-03-27T09:20:00Z")
    bench.run("s")
    bench.run_until("2026-03-27T09:21:00Z")
    first, other = bench.list(bars=4)
    assert [(f"{bar.at:%H:%M}", bar.state, bar.reason) for bar in first.bars] == [
        ("08:45", "succeeded", None),
        ("09:00", "skipped", "quiet_hours"),
        ("09:15", "skipped", "quiet_hours"),
        ("09:20", "succeeded", None),
    ]
    assert other.bars == bench.get("s").bars == []
    with pytest.raises(InvalidInput, match="bars"):
        bench.list(bars=101)


def test_completed_schedules_are_found(in_memory: Sandbox) -> None:
    """B12: although the store does not know that state"""
    in_memory.add("once", when="2026-03-27T08:30:00Z", job="work")
    in_memory.add("daily", when="0 9 * * *", job="work")
    in_memory.run_until("2026-03-27T08:31:00Z")
    assert names(in_memory.list(select="state=completed")) == ["once"]
    assert names(in_memory.list(select="state=active")) == ["daily"]


def test_runs_by_reason_and_day(bench: Sandbox) -> None:
    """B12 V3"""
    bench.quiet_hours.set("early", windows=["09:00-10:00"])
    bench.add("quiet", when="30 * * * *", job="work", quiet_hours="early", agent="ann")
    bench.add("fails", when="0 * * * *", job="fail", retries=0)
    bench.run_until("2026-03-28T11:00:00Z")
    skipped = bench.runs.list(reason="quiet_hours")
    assert [f"{run.slot:%d %H:%M}" for run in skipped] == ["28 09:30", "27 09:30"]
    day = bench.runs.list(since="2026-03-28T00:00:00Z", until="2026-03-28T02:00:00Z")
    assert [(run.schedule, f"{run.slot:%H:%M}") for run in day] == [
        ("quiet", "01:30"), ("fails", "01:00"), ("quiet", "00:30"), ("fails", "00:00"),
    ]  # fmt: skip
    assert {run.schedule for run in bench.runs.list(state="failed", limit=1000)} == {"fails"}
    assert len(bench.runs.list(schedule="quiet", state="skipped", since="2026-03-28T00:00:00Z")) == 1
    assert {run.schedule for run in bench.runs.list(agent="ann", limit=1000)} == {"quiet"}
    assert bench.runs.list(schedule="fails", until="2026-03-27T08:00:00Z") == []


def test_runs_by_label_name_states_and_cost(bench: Sandbox) -> None:
    """B12: each alone and together; steps count for the cost"""
    bench.add("report-a", when="0 9 * * *", job="fail", retries=0, labels={"team": "ops"})
    bench.add("report-b", when="0 9 * * *", job="pay", agent="ann")
    bench.add("stepped", when="0 9 * * *", steps=[{"title": "One", "job": "pay"}, {"title": "Two", "job": "pay"}])
    bench.add("waits", when="0 9 * * *", job="work", approval="owner_approve")
    bench.run_until("2026-03-27T10:00:00Z")

    def found(**filters: Any) -> list[str]:
        return sorted(run.schedule for run in bench.runs.list(**filters))

    assert found(select="report-*") == ["report-a", "report-b"]
    assert found(select="label.team=ops") == ["report-a"]
    assert found(state=["failed", "waiting"]) == found(state="failed,waiting") == ["report-a", "waits"]
    assert found(min_cost="$0.10") == ["report-b", "stepped"]
    assert found(min_cost="$0.15") == ["stepped"]
    assert found(min_cost="$0.10", select="report-*", since="2026-03-27T08:00:00Z") == ["report-b"]
    for name, wrong in (("min_cost", "much"), ("min_duration", "long"), ("state", "failed,lost"), ("text", "x" * 201)):
        with pytest.raises(InvalidInput) as caught:
            bench.runs.list(**{name: wrong})
        assert caught.value.field == name


def test_runs_by_duration(in_memory: Sandbox) -> None:
    """B12: ended ones by what they took, live ones by what they took so far"""
    so_far: list[Any] = []

    def slow(run: JobContext) -> None:
        in_memory.clock.advance(600_000)
        so_far.extend(in_memory.runs.list(min_duration="10m"))

    in_memory.job("slow")(slow)
    in_memory.add("slow", when="0 9 * * *", job="slow")
    in_memory.add("quick", when="0 12 * * *", job="work")
    in_memory.run_until("2026-03-27T12:30:00Z")
    assert [run.schedule for run in in_memory.runs.list(min_duration="10m")] == ["slow"]
    assert in_memory.runs.list(min_duration="11m") == []
    assert [(run.schedule, run.state) for run in so_far] == [("slow", "running")]


def test_search(bench: Sandbox) -> None:
    """B12: runs by number, agents and schedules by name, a name that begins with the text first"""
    fill(bench)
    bench.run_until("2026-03-27T08:40:00Z")
    run = bench.runs.list(schedule="backup")[0].id
    assert [(hit.kind, hit.title) for hit in bench.search(f"run {run}")] == [("run", f"backup, run {run}")]
    assert [(hit.kind, hit.title) for hit in bench.search("an")][:2] == [("agent", "ann"), ("schedule", "holidays")]
    assert [hit.title for hit in bench.search("b")][:2] == ["backup", "broken-build"]
    for text in ("", " ", "x" * 201):
        with pytest.raises(InvalidInput) as caught:
            bench.search(text)
        assert caught.value.field == "text"


def test_the_number_of_statements_does_not_grow(in_memory: Sandbox) -> None:
    """B12: no statement per row"""
    in_memory.add_many([{"name": f"s{n}", "when": "0 9 * * *", "job": "work"} for n in range(40)])
    in_memory.run_until("2026-03-27T09:30:00Z")
    calls: list[Callable[[int], list[Any]]] = [
        lambda n: in_memory.list(limit=n, bars=30, sort="next", select="text=s"),
        lambda n: in_memory.runs.list(limit=n),
        lambda n: in_memory.search("s", limit=n), lambda n: in_memory.upcoming(limit=n),
    ]  # fmt: skip
    for call in calls:
        numbers: list[int] = []
        for limit in (2, 30):
            with counted(in_memory) as statements:
                assert len(call(limit)) == limit
            numbers.append(len(statements))
        assert numbers[0] == numbers[1]
    with counted(in_memory) as statements:
        in_memory.timeline()
        in_memory.runs.live()
    assert len(statements) < 25


@contextmanager
def counted(bench: Sandbox) -> Generator[list[str]]:
    """The statements that are executed meanwhile."""
    statements: list[str] = []
    connection: Any = bench._store._connection  # type: ignore[attr-defined]

    def trace(cursor: Any, sql: str, bindings: Any) -> bool:
        statements.append(sql)
        return True

    connection.exec_trace = trace
    yield statements
    connection.exec_trace = None
