"""Schedules and runs as people look at them, and the documents that surfaces hand out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import every_store
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins import parse_trigger
from matins.errors import InvalidInput
from matins.service.documents import document, inside
from matins.service.wording import when_text
from matins.surfaces.door import OwnDoor
from matins.testing import Bench

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, in_memory, rows = every_store.bench, every_store.in_memory, every_store.rows


def test_a_page_of_schedules(bench: Bench) -> None:
    """H12: with agents, states and what happened last"""
    for number in range(5):
        bench.add(f"s{number}", when="0 9 * * *", do="work", agent="ann" if number % 2 else "bob")
    bench.pause("s1")
    bench.run_until("2026-03-27T09:30:00Z")
    first = bench.overview(limit=2)
    assert [found.schedule.name for found in first] == ["s0", "s1"]
    rest = bench.overview(after=first[-1].schedule.id)
    assert [found.schedule.name for found in rest] == ["s2", "s3", "s4"]
    assert [found.schedule.name for found in bench.overview(state="paused")] == ["s1"]
    assert [found.schedule.name for found in bench.overview(agent="ann", state="active", limit=1)] == ["s3"]
    last = bench.look("s0").last
    assert last is not None
    assert last.state.word == "succeeded"
    assert bench.look("s1").last is None


def test_what_comes_next(bench: Bench) -> None:
    bench.add("late", when="0 12 * * *", do="work")
    bench.add("soon", when="0 9 * * *", do="work")
    bench.add("rests", when="0 8 * * *", do="work")
    bench.pause("rests")
    assert [found.schedule.name for found in bench.upcoming()] == ["soon", "late"]
    assert [found.schedule.name for found in bench.upcoming(limit=1)] == ["soon"]


def test_runs_of_all_schedules(bench: Bench) -> None:
    bench.add("good", when="0 9 * * *", do="work")
    bench.add("bad", when="0 10 * * *", do="fail")
    bench.run_until("2026-03-28T11:00:00Z")
    runs = bench.recent()
    assert [run.schedule for run in runs] == ["bad", "good", "bad", "good"]
    assert [run.schedule for run in bench.recent(before=runs[1].id, limit=1)] == ["bad"]
    assert [run.schedule for run in bench.recent(state="failed", limit=1)] == ["bad"]
    assert bench.recent(state="missed") == []


@pytest.mark.parametrize(
    ("use_case", "words"),
    [("overview", {"state": "asleep"}), ("recent", {"state": "asleep"}), ("recent", {"limit": 0}),
     ("overview", {"limit": 1001}), ("upcoming", {"limit": True})],
)  # fmt: skip
def test_what_cannot_be_asked(in_memory: Bench, use_case: str, words: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        getattr(in_memory, use_case)(**words)
    assert caught.value.field in words
    assert caught.value.allowed


def test_words_make_the_same_schedule_again(in_memory: Bench) -> None:
    """B3: what is shown can be written down and used"""
    words = {
        "timezone": "Europe/London", "timeout": "90s", "retries": 2, "retry": "1m", "overlap": "queue", "jitter": 5,
        "catch_up": "run_once", "ends": "2027-01-01T00:00:00Z", "approval": "council_approve", "approvers": ["ada"],
        "pre_check": ["test", "-f", "/tmp/go"], "max_cost": "$2.50", "payload": {"a": [1, None]},
    }  # fmt: skip
    in_memory.add("one", when="every weekday at 9am", do="work", **words)
    shown = in_memory.look("one").words
    in_memory.add("two", **shown)
    assert in_memory.get("two").definition == in_memory.get("one").definition
    assert {word: shown[word] for word in words} == words


@pytest.mark.parametrize(
    "text", ["0 9 * * 1-5", "every 5m", "2027-01-02T03:04:05Z", "every day at 9am", "every monday and friday at 17:30"]
)
def test_when_in_words(text: str) -> None:
    trigger = parse_trigger(text, timezone="UTC")
    again = parse_trigger(when_text(trigger.definition), timezone="UTC")
    assert again.describe() == trigger.describe()


def test_a_schedule_as_a_document(in_memory: Bench) -> None:
    """P10 S9 V12: ids are texts, instants RFC 3339"""
    in_memory.set_agent("scout", runner="demo", environment={"PLAIN": "hush", "REF": "env:HOME"})
    in_memory.add("s", when="0 9 * * *", agent="scout", prompt="look around", max_executions=3)
    shown = OwnDoor(in_memory, "here").call("look", name="s")
    assert shown["id"] == "1"
    assert shown["next_run_at"] == "2026-03-27T09:00:00Z"
    assert shown["words"]["prompt"] == "look around"
    assert shown["last_run"] is None
    (agent,) = OwnDoor(in_memory, "here").call("agents")
    assert agent["environment"] == {"PLAIN": "…", "REF": "env:HOME"}


def test_arguments_come_as_documents(in_memory: Bench) -> None:
    """Ids as texts, instants with an offset; nothing is guessed"""
    in_memory.add("s", when="0 9 * * *", do="work")
    door = OwnDoor(in_memory, "here")
    run = door.call("run", name="s")
    assert door.call("get_run", run_id=run["id"])["state"] == "ready"
    paused = door.call("pause", name="s", until="2026-03-27T10:00:00+01:00")
    assert paused["paused_until"] == "2026-03-27T09:00:00Z"


@given(st.one_of(st.text(max_size=25), st.floats(), st.booleans(), st.lists(st.integers()), st.integers(max_value=-1)))
def test_no_id_and_no_instant(value: Any) -> None:
    """What is neither is refused, whatever it is: never another error"""
    for name in ("run_id", "until"):
        with suppress(InvalidInput):
            assert isinstance(inside("pause", name, value), int)


def test_everything_becomes_a_document() -> None:
    assert document({"a": (1, {2}), 3: None}) == {"a": [1, [2]], "3": None}
