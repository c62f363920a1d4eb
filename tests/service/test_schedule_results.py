"""Schedules and runs as results, and the documents that surfaces make of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import every_store
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins import parse_trigger
from matins.api.arguments import read_argument
from matins.api.use_case import USE_CASES
from matins.engine.schedules import trigger_source
from matins.errors import InvalidInput
from matins.surfaces.transports.in_process import InProcess
from matins.testing import Sandbox

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, in_memory, rows = every_store.bench, every_store.in_memory, every_store.rows


def document(bench: Sandbox, use_case: str, **arguments: Any) -> Any:
    return InProcess(bench).document(USE_CASES[use_case], arguments)


def test_a_page_of_schedules(bench: Sandbox) -> None:
    """H12: with agents, states and what happened last"""
    for number in range(5):
        bench.add(f"s{number}", when="0 9 * * *", job="work", agent="ann" if number % 2 else "bob")
    bench.pause("s1")
    bench.run_until("2026-03-27T09:30:00Z")
    first = bench.list(limit=2)
    assert [found.name for found in first] == ["s0", "s1"]
    rest = bench.list(after=first[-1].id)
    assert [found.name for found in rest] == ["s2", "s3", "s4"]
    assert [found.name for found in bench.list(select="state=paused")] == ["s1"]
    assert [found.name for found in bench.list(select="agent=ann state=active", limit=1)] == ["s3"]
    last = bench.get("s0").last_run
    assert last is not None
    assert last.state == "succeeded"
    assert bench.get("s1").last_run is None


def test_what_comes_next(bench: Sandbox) -> None:
    bench.add("late", when="0 12 * * *", job="work")
    bench.add("soon", when="0 9 * * *", job="work")
    bench.add("rests", when="0 8 * * *", job="work")
    bench.pause("rests")
    assert [found.name for found in bench.upcoming()] == ["soon", "late"]
    assert [found.name for found in bench.upcoming(limit=1)] == ["soon"]


def test_runs_of_all_schedules(bench: Sandbox) -> None:
    bench.add("good", when="0 9 * * *", job="work")
    bench.add("bad", when="0 10 * * *", job="fail")
    bench.run_until("2026-03-28T11:00:00Z")
    runs = bench.runs.list()
    assert [run.schedule for run in runs] == ["bad", "good", "bad", "good"]
    assert [run.schedule for run in bench.runs.list(before=runs[1].id, limit=1)] == ["bad"]
    assert [run.schedule for run in bench.runs.list(state="failed", limit=1)] == ["bad"]
    assert bench.runs.list(state="missed") == []
    assert [run.schedule for run in bench.runs.list(schedule="bad", state="failed")] == ["bad", "bad"]
    assert bench.runs.list(schedule="good", state="failed") == []
    assert (bench.runs.list(agent="nobody"), len(bench.runs.list(agent=""))) == ([], 4)


@pytest.mark.parametrize(
    ("use_case", "arguments"),
    [
        ("schedules.list", {"select": "state=asleep"}),
        ("runs.list", {"state": "asleep"}),
        ("runs.list", {"limit": 0}),
        ("schedules.list", {"limit": 1001}),
        ("schedules.upcoming", {"limit": True}),
    ],
)
def test_what_cannot_be_asked(in_memory: Sandbox, use_case: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        document(in_memory, use_case, **arguments)
    assert caught.value.field in arguments
    assert caught.value.allowed


def test_settings_make_the_same_schedule_again(in_memory: Sandbox) -> None:
    """B3: what is shown can be written down and used"""
    settings: dict[str, Any] = {
        "timezone": "Europe/London", "timeout": "90s", "retries": 2, "retry_delay": "1m", "overlap": "queue",
        "jitter": 5, "catch_up": "run_once", "ends_at": "2027-01-01T00:00:00Z", "approval": "council_approve",
        "approvers": ["ada"], "pre_check": ["test", "-f", "/tmp/go"], "max_cost": "$2.50", "payload": {"a": [1, None]},
    }  # fmt: skip
    in_memory.add("one", when="every weekday at 9am", job="work", **settings)
    shown = in_memory.get("one").settings
    in_memory.add("two", **shown)
    assert in_memory.get("two").settings == shown
    assert in_memory.get("two").trigger == in_memory.get("one").trigger
    assert {name: shown[name] for name in settings} == settings


@pytest.mark.parametrize(
    "text", ["0 9 * * 1-5", "every 5m", "2027-01-02T03:04:05Z", "every day at 9am", "every monday and friday at 17:30"]
)
def test_when_can_be_given_again(text: str) -> None:
    trigger = parse_trigger(text, timezone="UTC")
    again = parse_trigger(trigger_source(trigger.definition), timezone="UTC")
    assert again.describe() == trigger.describe()


@pytest.mark.parametrize(
    "text",
    [
        "0 0 9 1 1 ? 2027-2030",
        "OnCalendar=Mon *-05~07/1 18:00",
        "every other tuesday at 9am",
        "DTSTART:20260102T090030\nRRULE:FREQ=YEARLY;BYWEEKNO=20,-1;BYSECOND=1,2",
        "DTSTART:20260102T090000\nRRULE:FREQ=DAILY\nEXDATE:20260103,20260105T090000",
    ],
)
def test_the_same_times_can_be_given_again(text: str) -> None:
    """B11: exactly"""
    trigger = parse_trigger(text, timezone="Europe/Berlin")
    assert parse_trigger(trigger_source(trigger.definition), timezone="Europe/Berlin") == trigger


def test_a_schedule_as_a_document(in_memory: Sandbox) -> None:
    """P10 S9 V12: ids are texts, instants RFC 3339"""
    in_memory.agents.set("scout", runner="demo", environment={"PLAIN": "hush", "REF": "env:HOME"})
    in_memory.add("s", when="0 9 * * *", agent="scout", prompt="look around", max_executions=3)
    shown = document(in_memory, "schedules.get", name="s")
    assert shown["id"] == "1"
    assert shown["next_run_at"] == "2026-03-27T09:00:00Z"
    assert shown["settings"]["prompt"] == "look around"
    assert shown["last_run"] is None
    (agent,) = document(in_memory, "agents.list")
    assert agent["environment"] == {"PLAIN": "…", "REF": "env:HOME"}


def test_arguments_come_as_documents(in_memory: Sandbox) -> None:
    """Ids as texts, instants with an offset; nothing is guessed"""
    in_memory.add("s", when="0 9 * * *", job="work")
    run = document(in_memory, "schedules.run", name="s")
    assert document(in_memory, "runs.get", run_id=run["id"])["state"] == "ready"
    paused = document(in_memory, "schedules.pause", name="s", until="2026-03-27T10:00:00+01:00")
    assert paused["paused_until"] == "2026-03-27T09:00:00Z"


@given(st.one_of(st.text(max_size=25), st.floats(), st.booleans(), st.lists(st.integers()), st.integers(max_value=-1)))
def test_no_id_and_no_instant(value: Any) -> None:
    """What is neither is refused, whatever it is: never another error"""
    for use_case, name in (("runs.get", "run_id"), ("schedules.pause", "until")):
        with suppress(InvalidInput):
            assert isinstance(read_argument(USE_CASES[use_case].parameters[name], value), int)
