"""Pausing, editing and removing schedules: what it changes, and what it leaves alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from matins.errors import Conflict, InvalidInput, NotFound
from matins.executors.job_context import JobContext
from matins.service.schedules import Schedules
from matins.testing import ManualClock, Sandbox, iso

START = "2026-03-27T08:00:00Z"
Rows = Callable[[], list[Any]]
Slots = Callable[..., list[str]]


# -- pause and resume


def test_nothing_is_due_while_it_is_paused(bench: Sandbox) -> None:
    """B8: with a note, and who, and when"""
    bench.add("s", when="*/5 * * * *", job="work")
    shown = bench.pause("s", note="the database moves")
    assert (shown.state, shown.due_at, shown.note, shown.paused_by) == ("paused", None, "the database moves", "owner")
    assert iso(shown.paused_at) == START
    bench.run_until("2026-03-27T10:01:00Z")
    assert bench.runs.list(schedule="s") == []


@pytest.mark.parametrize(
    ("when", "following"), [("*/5 * * * *", "2026-03-27T10:05:00Z"), ("7m", "2026-03-27T10:08:00Z")]
)
def test_resume_goes_on_from_now(bench: Sandbox, when: str, following: str) -> None:
    """B8: now + interval, or the next occurrence"""
    bench.add("s", when=when, job="work")
    bench.pause("s")
    bench.run_until("2026-03-27T10:01:00Z")
    shown = bench.resume("s")
    assert (shown.state, iso(shown.next_run_at), iso(shown.due_at)) == ("active", following, following)
    assert (shown.note, shown.paused_by, shown.paused_at) == (None, None, None)
    bench.run_until(following)
    bench.assert_ran("s", times=1)
    assert len(bench.runs.list(schedule="s")) == 1, "slots of the pause are nobody's"


def test_a_one_shot_that_was_paused_over_its_time(bench: Sandbox, slots: Slots) -> None:
    """B8"""
    bench.add("soon", when="2026-03-27T09:00:00Z", job="work")
    bench.add("late", when="2026-03-27T09:00:00Z", job="work", grace="1m")
    for name in ("soon", "late"):
        bench.pause(name)
    bench.run_until("2026-03-27T10:00:00Z")
    for name in ("soon", "late"):
        bench.resume(name)
    bench.settle()
    assert slots("soon") == ["09:00 succeeded"]
    assert slots("late") == ["09:00 missed"]


def test_pause_first_records_what_was_due_and_holds_what_waits(bench: Sandbox, slots: Slots) -> None:
    """B8 B1"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.clock.advance_to("2026-03-27T08:05:01Z")
    bench.pause("s")
    bench.run_until("2026-03-27T08:30:00Z")
    assert slots() == ["08:05 waiting"]
    bench.resume("s")
    bench.settle()
    assert slots() == ["08:05 succeeded"]


def test_a_slot_whose_jitter_is_not_over_gets_its_record_too(bench: Sandbox, slots: Slots) -> None:
    """B8 B1"""
    bench.add("s", when="0 * * * *", job="work", jitter=10)
    due = bench.get("s").due_at
    assert due is not None
    bench.clock.advance_to(due - timedelta(milliseconds=1))
    bench.pause("s")
    bench.resume("s")
    bench.settle()
    assert slots() == ["09:00 succeeded"]


def test_an_interval_whose_run_ends_during_the_pause_stays_paused(bench: Sandbox, slots: Slots) -> None:
    """B8 H3"""

    @bench.job("pauses itself")
    def pauses_itself(run: JobContext) -> None:
        bench.pause("s")

    bench.add("s", when="5m", job="pauses itself")
    bench.run_until("2026-03-27T09:00:00Z")
    assert slots() == ["08:05 succeeded"]
    assert bench.get("s").due_at is None
    bench.resume("s")
    assert iso(bench.get("s").due_at) == "2026-03-27T09:05:00Z"


def test_pause_and_resume_twice_are_no_trouble(bench: Sandbox, slots: Slots) -> None:
    """B8"""
    bench.add("s", when="5m", job="work")
    bench.resume("s")
    assert iso(bench.get("s").next_run_at) == "2026-03-27T08:05:00Z"
    first = bench.pause("s", note="a")
    bench.clock.advance(1_000)
    second = bench.pause("s", note="b")
    assert (second.note, second.paused_at) == ("a", first.paused_at)
    bench.resume("s")
    bench.run_until("2026-03-27T08:06:00Z")
    assert len(slots()) == 1


@pytest.mark.parametrize("note", ["x" * 2_001, "\ud800", 5])
def test_a_bad_note_is_refused(bench: Sandbox, note: Any) -> None:
    """B8"""
    bench.add("s", when="5m", job="work")
    with pytest.raises(InvalidInput) as caught:
        bench.pause("s", note=note)
    assert caught.value.field == "note"
    assert bench.get("s").state == "active"


def test_a_pause_survives_a_restart(tmp_path: Path) -> None:
    """H8: disabled is persisted"""
    clock = ManualClock(START)
    first = Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=clock)
    first.job("work")(lambda run: None)
    first.add("s", when="*/5 * * * *", job="work")
    first.pause("s", note="why")
    second = Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=clock)
    second.run_until("2026-03-27T09:00:00Z")
    assert (second.get("s").state, second.get("s").note, second.runs.list(schedule="s")) == ("paused", "why", [])
    first.close()
    second.close()


# -- edit


def test_an_edit_does_not_fire_again(bench: Sandbox, slots: Slots) -> None:
    """V7"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:05:00Z")
    for words in ({"payload": 1}, {"when": "*/5 * * * *"}, {"overlap": "allow"}, {"when": "*/10 * * * *"}):
        assert bench.edit("s", **words).rev > 1
        bench.settle()
    assert slots() == ["08:05 succeeded"]
    bench.run_until("2026-03-27T08:20:00Z")
    assert slots() == ["08:05 succeeded", "08:10 succeeded", "08:20 succeeded"]


def test_an_edit_plans_first_what_was_due(bench: Sandbox, slots: Slots) -> None:
    """V7 B1: under the old settings"""
    told: list[object] = []
    bench.job("tell")(lambda run: told.append(run.payload))
    bench.add("s", when="*/5 * * * *", job="tell", payload="old")
    bench.clock.advance_to("2026-03-27T08:05:01Z")
    bench.edit("s", payload="new", when="*/7 * * * *")
    bench.run_until("2026-03-27T08:07:00Z")
    assert told == ["old", "new"]
    assert slots() == ["08:05 succeeded", "08:07 succeeded"]


def test_runs_in_flight_keep_the_settings_they_were_planned_under(bench: Sandbox) -> None:
    """V7"""
    told: list[object] = []

    @bench.job("tell")
    def tell(run: JobContext) -> None:
        told.append(run.payload)
        if run.attempt == 1:
            bench.edit("s", payload="new", retries=0)
            raise ValueError

    bench.add("s", when="0 9 * * *", job="tell", payload="old", retries=1)
    bench.run_until("2026-03-27T10:00:00Z")
    assert told == ["old", "old"]
    assert [run.rev for run in bench.runs.list(schedule="s")] == [1]
    bench.run_until("2026-03-28T10:00:00Z")
    assert told[2:] == ["new"]


@pytest.mark.parametrize("first", ["after_interval", "immediately"])
def test_an_edit_leaves_an_interval_where_it_stands(bench: Sandbox, first: str) -> None:
    """V7 H3"""
    bench.add("s", when="5m", job="work", first=first)
    bench.settle()
    before = bench.get("s").next_run_at
    bench.clock.advance(240_000)
    assert bench.edit("s", payload=1).next_run_at == before


def test_settings_that_are_not_named_stay(bench: Sandbox) -> None:
    """V7"""
    bench.add("s", when="0 9 * * *", job="work", timezone="Asia/Tokyo", retries=3, grace="1m", payload={"a": 1})
    edited = bench.edit("s", retries=5)
    assert edited.settings == {
        "when": "0 9 * * *",
        "timezone": "Asia/Tokyo",
        "job": "work",
        "retries": 5,
        "grace": "1m",
        "payload": {"a": 1},
    }
    assert edited.timezone == "Asia/Tokyo"


def test_a_bad_edit_changes_nothing(bench: Sandbox, rows: Rows) -> None:
    """V7"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.clock.advance(600_000)
    before = rows()
    for words in ({"retries": -1}, {"when": "sometimes"}, {"colour": 1}):
        with pytest.raises(InvalidInput):
            bench.edit("s", **words)
    assert rows() == before


def test_an_edit_of_a_paused_schedule_does_not_wake_it(bench: Sandbox) -> None:
    """B8"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.pause("s")
    assert bench.edit("s", when="* * * * *").due_at is None
    bench.run_until("2026-03-27T09:00:00Z")
    assert bench.runs.list(schedule="s") == []
    assert iso(bench.resume("s").next_run_at) == "2026-03-27T09:01:00Z"


# -- remove


def test_remove_is_idempotent(bench: Sandbox, rows: Rows) -> None:
    """P8"""
    bench.add("s", when="*/5 * * * *", job="work")
    assert bench.delete("s") is True
    before = rows()
    assert bench.delete("s") is False
    assert bench.delete("never was") is False
    assert rows() == before
    bench.run_until("2026-03-27T09:00:00Z")
    with pytest.raises(NotFound):
        bench.get("s")
    assert bench.list() == []


def test_the_name_of_what_was_removed_is_free(bench: Sandbox) -> None:
    """P8"""
    old = bench.add("s", when="*/5 * * * *", job="work")
    bench.run_until("2026-03-27T08:05:00Z")
    bench.delete("s")
    new = bench.add("s", when="*/5 * * * *", job="work")
    assert new.id != old.id
    assert bench.runs.list(schedule="s") == []
    bench.run_until("2026-03-27T08:10:00Z")
    bench.assert_ran("s", times=1)


def test_remove_ends_what_waits(bench: Sandbox) -> None:
    """P8"""

    @bench.job("fail")
    def fail(run: JobContext) -> None:
        raise ValueError

    schedule = bench.add("s", when="5m", job="fail", retries=1, retry_delay="1h")
    bench.run_until("2026-03-27T08:05:00Z")
    run_id = bench.runs.list(schedule="s")[0].id
    bench.delete("s")
    bench.run_until("2026-03-27T12:00:00Z")
    with bench._store.reading() as transaction:
        row = transaction.run(int(run_id))
        assert transaction.schedule(int(schedule.id)) is not None, "its history stays"
    assert row is not None
    assert (row.state, row.reason) == (14, "schedule_removed")


def test_what_an_edit_does_not_say_of_the_times_stays(bench: Sandbox) -> None:
    """S6: another time is in the same zone; another zone keeps the time"""
    bench.add("s", when="every day at 9am", timezone="Asia/Tokyo", job="work", dst_gap="skip")
    trigger = bench.edit("s", when="every day at 10am").trigger
    assert (trigger["timezone"], trigger["dst"]["gap"]) == ("Asia/Tokyo", "skip")
    moved = bench.edit("s", timezone="America/New_York")
    assert moved.trigger == {**trigger, "timezone": "America/New_York"}
    assert iso(moved.next_run_at) == "2026-03-27T14:00:00Z"
    usual = bench.edit("s", timezone=None, dst_gap=None)
    assert (usual.timezone, usual.settings.get("dst_gap", "after")) == ("UTC", "after")


def test_an_interval_keeps_its_anchor(bench: Sandbox) -> None:
    """H3: however else its times are edited"""
    bench.add("s", when="every 5m", anchor="start", first="immediately", job="work")
    edited = bench.edit("s", timezone="Asia/Tokyo").trigger
    assert (edited["kind"], edited["anchor"], edited["first"]) == ("interval", "start", "immediately")


def test_an_edit_that_changes_nothing_makes_no_revision(bench: Sandbox) -> None:
    """B8, B7: and voids no approval"""
    bench.add("s", when="5m", job="work", retries=2)
    before = len(bench.events.list(limit=1000))
    assert bench.edit("s", retries=2).rev == 1
    assert len(bench.events.list(limit=1000)) == before
    assert bench.edit("s", retries=3).rev == 2


def test_an_edit_that_changes_nothing_voids_no_approval(bench: Sandbox) -> None:
    """B8, B7: the question stays; one that changes something asks again"""
    bench.add("s", when="0 9 * * *", job="work", approval="owner_approve", retries=2)
    bench.run_until("2026-03-27T09:00:00Z")
    (asked,) = bench.approvals.list()
    bench.edit("s", retries=2)
    assert bench.approvals.list() == [asked]
    bench.approvals.approve(asked.id)
    bench.settle()
    assert bench.runs.list(schedule="s")[0].state == "succeeded"


def test_an_edit_answers_with_its_own_revision(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """B8: the answer is read in the transaction that edits, not after another edit"""
    bench.add("s", when="5m", job="work")
    monkeypatch.setattr(Schedules, "get", lambda *arguments, **options: pytest.fail("it is read again"))
    found = bench.edit("s", retries=1)
    assert (found.rev, found.settings["retries"]) == (2, 1)


def test_what_is_over_cannot_be_paused(bench: Sandbox) -> None:
    """B8"""
    bench.add("s", when="2026-03-27 08:05", job="work")
    bench.run_until("2026-03-27T08:05:00Z")
    with pytest.raises(Conflict, match="completed"):
        bench.pause("s")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [1, float("-inf")]}])
def test_numbers_that_json_does_not_have_are_refused(bench: Sandbox, value: Any) -> None:
    """S7: they would come back as something else"""
    with pytest.raises(InvalidInput, match="which JSON does not have") as caught:
        bench.add("s", when="5m", job="work", payload=value)
    assert caught.value.field == "payload"


@pytest.mark.parametrize(
    "given",
    [
        {"job": "work", "payload": [math.nan]},
        {"steps": [{"title": "A", "job": "work", "payload": math.inf}]},
    ],
)
def test_those_of_many_and_of_steps_are_refused_too(bench: Sandbox, given: dict[str, Any]) -> None:
    """S7"""
    with pytest.raises(InvalidInput, match="which JSON does not have") as caught:
        bench.add_many([{"name": "s", "when": "5m", **given}])
    assert (caught.value.field or "").endswith("payload")
    assert bench.list() == []


def test_add_with_replace_is_the_same_however_often(bench: Sandbox) -> None:
    """H2: a program adds its schedules whenever it starts"""
    for _ in range(3):
        added = bench.add("s", when="5m", job="work", retries=2, replace=True)
        bench.clock.advance(1_000)
    assert (added.rev, iso(added.next_run_at)) == (1, "2026-03-27T08:05:00Z")
    changed = bench.add("s", when="5m", job="work", payload={"a": 1}, replace=True)
    assert (changed.rev, changed.settings.get("retries"), changed.settings["payload"]) == (2, None, {"a": 1})
    assert iso(changed.next_run_at) == "2026-03-27T08:05:00Z"
    assert bench.add("s", when="10m", job="work", replace=True).trigger_text == "every 10 minutes"
    assert len(bench.list()) == 1
