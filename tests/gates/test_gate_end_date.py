"""The end date, on every store, with a clock that the test moves. Rows P5, B1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate_records import at, evidence, lines, told

from matins.errors import InvalidInput
from matins.testing import Sandbox, instant, iso

HOURLY = "0 * * * *"


def test_p5_it_expires_with_the_first_slot_after_its_end(bench: Sandbox) -> None:
    """P5: disabled, and told"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("10:30"))
    bench.run_until(at("10:59"))
    assert bench.get("s").state == "active"
    bench.run_until(at("15:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 succeeded", "11:00 skipped end_date"]
    assert evidence(bench) == {"ends_at": instant(at("10:30"))}
    schedule = bench.get("s")
    assert (schedule.state, schedule.next_run_at, schedule.due_at) == ("expired", None, None)
    assert told(bench, "schedule.expired") == [{"name": "s", "ends_at": instant(at("10:30"))}]


def test_a_slot_at_the_very_end_runs(bench: Sandbox) -> None:
    """P5"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("10:00"))
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 succeeded", "11:00 skipped end_date"]


@pytest.mark.parametrize(
    "when", [HOURLY, "1h", "every day at 09:00", at("09:00")], ids=["cron", "interval", "daily", "once"]
)
def test_p5_an_end_that_is_past_is_accepted_and_found_at_trigger_time(bench: Sandbox, when: str) -> None:
    """P5: also for one-shots"""
    bench.add("s", when=when, job="work", ends_at=at("07:00"))
    assert bench.get("s").state == "active"
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 skipped end_date"]
    assert bench.get("s").state == "expired"
    assert len(told(bench, "schedule.expired")) == 1


def test_p5_a_one_shot_before_its_end_runs_and_is_complete(bench: Sandbox) -> None:
    """P5"""
    bench.add("s", when=at("09:00"), job="work", ends_at=at("09:00"))
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 succeeded"]
    assert bench.get("s").state == "completed"
    assert told(bench, "schedule.expired") == []


@pytest.mark.parametrize("anchor", ["completion", "start", "grid"])
def test_intervals_expire_too(bench: Sandbox, anchor: str) -> None:
    """P5"""
    bench.add("s", when="20m", job="work", anchor=anchor, ends_at=at("08:50"))
    bench.run_until(at("12:00"))
    assert lines(bench) == ["08:20 succeeded", "08:40 succeeded", "09:00 skipped end_date"]
    assert bench.get("s").state == "expired"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("skip", ["09:00 missed", "10:00 missed", "11:00 missed", "12:00 skipped end_date"]),
        ("run_once", ["11:00 succeeded", "12:00 skipped end_date"]),
        ("run_all_capped", ["09:00 missed", "10:00 succeeded", "11:00 succeeded", "12:00 skipped end_date"]),
    ],
)
def test_nobody_was_there_around_the_end(bench: Sandbox, policy: str, expected: list[str]) -> None:
    """P5 S4: what came before the end is caught up, what came after it is not"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("11:30"), catch_up=policy, catch_up_limit=2)
    bench.clock.advance_to(at("16:00"))
    bench.settle()
    assert lines(bench) == expected
    assert bench.get("s").state == "expired"
    assert len(told(bench, "schedule.expired")) == 1


def test_a_run_that_came_in_time_goes_on_after_the_end(bench: Sandbox) -> None:
    """P5: it waits for the morning, or for another attempt"""
    bench.quiet_hours.set("late", windows="10:00-12:00", mode="defer")
    bench.add("s", when="0 10 * * *", job="work", ends_at=at("11:00"), quiet_hours="late")
    tries: list[int] = []

    @bench.job("second time lucky")
    def second_time_lucky(run: Any) -> None:
        tries.append(run.attempt)
        if run.attempt == 1:
            raise ValueError

    bench.add("t", when="0 10 * * *", job="second time lucky", ends_at=at("10:00"), retries=1, retry_delay="1h")
    bench.run_until(at("13:00"))
    assert lines(bench) == ["10:00 succeeded"]
    assert tries == [1, 2]


def test_it_expires_while_a_run_waits(bench: Sandbox) -> None:
    """P5 B1: the run is not lost, and the end is told once, whatever becomes of it"""
    bench.quiet_hours.set("late", windows="10:00-12:00", mode="defer")
    words = {"ends_at": at("10:30"), "quiet_hours": "late", "max_executions": 2, "pre_check": "false"}
    bench.add("s", when=HOURLY, job="work", **words)
    bench.run_until(at("20:00"))
    assert lines(bench) == ["09:00 skipped pre_check", "10:00 skipped pre_check", "11:00 skipped end_date"]
    assert len(told(bench, "schedule.expired")) == 1
    assert bench.get("s").state == "expired"


@pytest.mark.parametrize("ends", [at("23:00"), None])
def test_p5_an_edit_of_the_end_revives_it(bench: Sandbox, ends: str | None) -> None:
    """P5: a later end, or none"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("08:30"))
    bench.run_until(at("10:30"))
    assert bench.get("s").state == "expired"
    schedule = bench.edit("s", ends_at=ends)
    assert (schedule.state, iso(schedule.next_run_at)) == ("active", at("11:00"))
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 skipped end_date", "11:00 succeeded", "12:00 succeeded"]


def test_an_edit_in_the_moment_of_the_end_revives_it_too(bench: Sandbox) -> None:
    """P5: the slot is due, and nobody has looked at it yet"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("08:30"))
    bench.clock.advance_to(at("09:00"))
    schedule = bench.edit("s", ends_at=at("23:00"))
    assert (schedule.state, iso(schedule.next_run_at)) == ("active", at("10:00"))
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 skipped end_date", "10:00 succeeded"]


def test_an_end_that_is_still_past_expires_again(bench: Sandbox) -> None:
    """P5"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("07:00"))
    bench.run_until(at("09:30"))
    assert bench.edit("s", ends_at=at("07:30")).state == "active"
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 skipped end_date", "10:00 skipped end_date"]
    assert bench.get("s").state == "expired"


def test_what_has_expired_can_be_started_by_hand_and_stays_expired(bench: Sandbox) -> None:
    """P5"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("07:00"))
    bench.run_until(at("09:30"))
    bench.run("s")
    bench.run_until(at("12:00"))
    assert lines(bench) == ["09:00 skipped end_date", "manual succeeded"]
    assert bench.get("s").state == "expired"


def test_an_interval_that_has_expired_stays_so_when_its_manual_run_ends(bench: Sandbox) -> None:
    """P5"""
    bench.add("s", when="1h", job="work", ends_at=at("07:00"))
    bench.run_until(at("09:30"))
    bench.run("s")
    bench.run_until(at("15:00"))
    assert lines(bench) == ["09:00 skipped end_date", "manual succeeded"]
    assert bench.get("s").next_run_at is None


def test_paused_over_its_end_it_expires_when_it_goes_on(bench: Sandbox) -> None:
    """P5 C10"""
    bench.add("s", when=HOURLY, job="work", ends_at=at("10:30"))
    bench.pause("s")
    bench.run_until(at("15:30"))
    assert bench.get("s").state == "paused"
    bench.resume("s")
    bench.run_until(at("18:00"))
    assert lines(bench) == ["16:00 skipped end_date"]
    assert bench.get("s").state == "expired"


def test_the_end_holds_over_a_restart(restart: Callable[..., Sandbox]) -> None:
    """P5"""
    restart().add("s", when=HOURLY, job="work", ends_at=at("09:30"))
    second = restart()
    second.run_until(at("10:00"))
    third = restart()
    third.run_until(at("13:00"))
    assert lines(third) == ["09:00 succeeded", "10:00 skipped end_date"]
    assert len(told(third, "schedule.expired")) == 1


def test_an_end_is_in_the_schedules_own_zone(bench: Sandbox) -> None:
    """P5 S6"""
    schedule = bench.add("s", when=HOURLY, job="work", ends_at="2026-03-27T19:00", timezone="Asia/Tokyo")
    assert (iso(schedule.ends_at), schedule.settings["ends_at"]) == (at("10:00"), at("10:00"))


@pytest.mark.parametrize("ends", ["soon", "every day", 5, "2026-02-30T00:00Z", ""])
def test_an_end_that_is_no_instant_is_refused(bench: Sandbox, ends: Any) -> None:
    """P5"""
    with pytest.raises(InvalidInput) as caught:
        bench.add("s", when=HOURLY, job="work", ends_at=ends)
    assert caught.value.field == "ends_at"
    assert bench.list() == []
