"""Previews of what would be: after an edit, after an absence. What they say comes true, and they write nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import every_store
import pytest

import postgres_fixtures
from matins.api.results import Forecast
from matins.errors import InvalidInput, NotAllowed
from matins.model.access import Principal
from matins.testing import Sandbox, instant

url = postgres_fixtures.url
bench, in_memory, rows = every_store.bench, every_store.in_memory, every_store.rows


def verdicts(forecast: Forecast) -> list[tuple[str, str]]:
    return [(slot.local[5:16], slot.verdict) for slot in forecast.slots]


# -- what an edit would alter


def test_an_edit_before_it_is_made(bench: Sandbox, rows: Callable[[], list[Any]]) -> None:
    """B3: slots before and after, the settings that differ, and nothing written"""
    bench.quiet_hours.set("night", windows=["22:00-07:00"], timezone="UTC")
    bench.add("s", when="0 9 * * *", job="work", retries=1)
    before = rows()
    change = bench.preview_edit(
        "s",
        count=2,
        when="every 12 hours",
        anchor="grid",
        quiet_hours="night",
        retry_delay="1m",
        max_cost="$2",
        retries=None,
    )
    assert rows() == before
    assert verdicts(change.before) == [("03-27T09:00", "runs"), ("03-28T09:00", "runs")]
    assert verdicts(change.after) == [("03-27T20:00", "runs"), ("03-28T08:00", "runs")]
    assert [(one.setting, one.before, one.after) for one in change.settings] == [
        ("when", "every day at 09:00 (UTC)", "every 12 hours, counted from 2026-03-27T08:00:00Z (UTC)"),
        ("retries", 1, 0),
        ("retry_delay", "10s", "1m"),
        ("quiet_hours", None, "night"),
        ("max_cost", None, "$2.00"),
    ]
    assert change.voids == []


@pytest.mark.parametrize(
    "settings",
    [
        {"when": "0 */5 * * *"},
        {"when": "40m"},
        {"jitter": 5},
        {"max_executions": 4},
        {"ends_at": "2026-03-27T15:00"},
        {"timezone": "Asia/Tokyo", "when": "0 8 * * *"},
        {"payload": {"depth": 3}},
    ],
)
@pytest.mark.parametrize("made", [{"when": "0 */2 * * *"}, {"when": "30m"}, {"when": "0 9 * * *", "max_executions": 1}])
def test_the_edit_does_what_its_preview_said(
    in_memory: Sandbox, made: dict[str, Any], settings: dict[str, Any]
) -> None:
    """B3"""
    bench = in_memory
    bench.add("s", job="work", **made)
    bench.run_until("2026-03-27T10:10:00Z")
    foreseen = bench.preview_edit("s", **settings).after
    bench.edit("s", **settings)
    assert bench.preview("s") == foreseen


def test_settings_are_told_as_people_write_them(in_memory: Sandbox) -> None:
    """B3"""
    in_memory.add("s", when="0 9 * * *", job="work")
    ops = {"kind": "channel", "channel": "ops"}
    change = in_memory.preview_edit("s", ends_at="2026-12-31T18:00", timeout="90s", pre_check=["true", "1"], target=ops)
    assert {one.setting: one.after for one in change.settings} == {
        "ends_at": "2026-12-31T18:00:00Z",
        "timeout": "90s",
        "pre_check": ["true", "1"],
        "target": ops,
    }


def test_an_edit_leaves_the_question_of_a_run_that_waits(bench: Sandbox) -> None:
    """B3 V6 V7"""
    bench.add("s", when="0 9 * * *", job="work", approval="council_approve", approvers=["ada"])
    bench.run_until("2026-03-27T09:00:00Z")
    (asked,) = bench.approvals.list()
    assert bench.preview_edit("s", retries=1).voids == []
    bench.edit("s", retries=1)
    assert [one.id for one in bench.approvals.list()] == [asked.id]


def test_an_edit_that_would_be_refused_is_refused_here(bench: Sandbox) -> None:
    """B3 B7: also for what an agent or an operator may not say"""
    bench.add("s", when="0 9 * * *", job="work")
    with pytest.raises(InvalidInput, match='There is no quiet hours policy "day"'):
        bench.preview_edit("s", quiet_hours="day")
    with pytest.raises(InvalidInput, match='A schedule has no setting "retrys"'):
        bench.preview_edit("s", retrys=1)
    with pytest.raises(NotAllowed, match='Only the owner can set "max_cost"'):
        bench.acting_as(Principal("operator", "ada")).preview_edit("s", max_cost="$2")
    scout = bench.acting_as(Principal("agent", "scout"))
    scout.add("mine", when="every day at 9am", job="work")
    with pytest.raises(NotAllowed, match="is too short for an agent's schedule"):
        scout.preview_edit("mine", when="* * * * *")
    after = scout.preview_edit("mine", when="0 10 * * *", count=1).after
    assert verdicts(after) == [("03-27T10:00", "pending")]


# -- what a catch-up would do


@pytest.mark.parametrize(
    ("settings", "runs", "missed", "answer"),
    [
        ({}, 0, 6, "6 slots since 2026-03-27 09:00 UTC: 6 missed."),
        ({"catch_up": "run_once"}, 1, 0, "6 slots since 2026-03-27 09:00 UTC: 1 to run."),
        (
            {"catch_up": "run_all_capped", "catch_up_limit": 2},
            2,
            4,
            "6 slots since 2026-03-27 09:00 UTC: 4 missed, 2 to run.",
        ),
        ({"quiet_hours": "siesta", "catch_up": "run_once"}, 1, 0, "6 slots since 2026-03-27 09:00 UTC: 1 to run."),
        ({"ends_at": "2026-03-27T11:30"}, 0, 3, "3 slots since 2026-03-27 09:00 UTC: 3 missed."),
        ({"max_executions": 1, "catch_up": "run_once"}, 1, 0, "6 slots since 2026-03-27 09:00 UTC: 1 to run."),
    ],
)
def test_what_is_overdue_comes_to_what_was_said(
    bench: Sandbox, rows: Callable[[], list[Any]], settings: dict[str, Any], runs: int, missed: int, answer: str
) -> None:
    """B3 S4: record by record, and nothing is written before"""
    bench.quiet_hours.set("siesta", windows=["14:00-16:00"], timezone="UTC")
    bench.add("s", when="0 * * * *", job="work", **settings)
    bench.clock.advance_to("2026-03-27T14:45:00Z")
    before = rows()
    foreseen = bench.preview_catch_up("s")
    assert rows() == before
    assert (foreseen.runs, foreseen.missed, foreseen.summary) == (runs, missed, answer)
    bench.engine.turn()
    made = [(run.slot, run.first_slot, run.slots) for run in reversed(bench.runs.list(schedule="s"))]
    assert [(record.slot, record.first, record.slots) for record in foreseen.records] == made
    assert bench.get("s").next_run_at == foreseen.next_slot


def test_a_window_that_is_used_up(bench: Sandbox) -> None:
    """B3 S4: the cap is for the whole window, also when it is looked at twice"""
    bench.add("s", when="0 * * * *", job="work", catch_up="run_all_capped", catch_up_limit=2, grace="1m")
    bench.clock.advance_to("2026-03-27T14:45:00Z")
    assert bench.preview_catch_up("s").runs == 2
    bench.settle()
    bench.clock.advance_to("2026-03-27T15:45:00Z")
    assert bench.preview_catch_up("s").summary == "1 slot since 2026-03-27 15:00 UTC: 1 missed."
    assert bench.preview_catch_up("s", since=instant("2026-03-27T14:30:00Z")).runs == 1


def test_an_absence_that_did_not_happen(bench: Sandbox, rows: Callable[[], list[Any]]) -> None:
    """B3: above a thousand missed slots there is one record for the range"""
    bench.add("s", when="* * * * *", job="work", catch_up="run_all_capped", catch_up_limit=3)
    before = rows()
    foreseen = bench.preview_catch_up("s", since=datetime(2026, 3, 20, 8, tzinfo=UTC))
    assert rows() == before
    assert [(record.slots, record.verdict) for record in foreseen.records] == [
        (7 * 1_440 - 4, "missed"), (1, "runs"), (1, "queued"), (1, "queued"), (1, "queued"),
    ]  # fmt: skip
    assert foreseen.records[0].sentence == (
        "Missed: no engine was running for 10,076 slots, from 2026-03-20 08:01 UTC to 2026-03-27 07:56 UTC."
    )
    assert foreseen.summary == "10,080 slots since 2026-03-20 08:00 UTC: 10076 missed, 4 to run."


def test_nothing_is_overdue(bench: Sandbox) -> None:
    """B3"""
    bench.add("s", when="0 9 * * *", job="work")
    assert bench.preview_catch_up("s").summary == "Nothing is overdue."
    assert bench.preview_catch_up("s", since=instant("2026-03-27T07:00:00Z")).summary == "Nothing is overdue."
    bench.pause("s")
    paused = bench.preview_catch_up("s", since=instant("2026-03-20T07:00:00Z"))
    assert (paused.records, paused.summary) == ([], "Paused by owner since 2026-03-27 08:00 UTC.")


def test_an_absence_in_the_future_is_refused(bench: Sandbox) -> None:
    """B3"""
    bench.add("s", when="0 9 * * *", job="work")
    with pytest.raises(InvalidInput) as caught:
        bench.preview_catch_up("s", since=instant("2026-03-28T00:00:00Z"))
    assert caught.value.field == "since"
