"""Quiet hours, on every store, with a clock that the test moves. Rows S3, B1, B8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate_records import START, at, evidence, last, lines, times, told

from matins.errors import Conflict, InvalidInput
from matins.executors.job_context import JobContext
from matins.testing import ManualClock, Sandbox, instant, iso


def test_s3_what_is_due_in_quiet_hours_is_skipped_and_the_schedule_moves_on(bench: Sandbox) -> None:
    """S3: suppressed, told, and the next slot stands"""
    bench.quiet_hours.set("mornings", windows="09:00-11:00", mode="skip")
    bench.add("s", when="0 * * * *", job="work", quiet_hours="mornings")
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 skipped quiet_hours"]
    assert evidence(bench) == {"policy": "mornings", "until": instant(at("11:00"))}
    assert iso(bench.get("s").next_run_at) == at("10:00")
    bench.run_until(at("12:00"))
    assert lines(bench)[1:] == ["10:00 skipped quiet_hours", "11:00 succeeded", "12:00 succeeded"]
    assert [data["reason"] for data in told(bench, "run.skipped")] == ["quiet_hours"] * 2
    assert bench.get("s").executions == 2


def test_what_is_deferred_runs_once_at_the_end(bench: Sandbox) -> None:
    """S3 B1: the first is the run, what comes due meanwhile is one with it"""
    bench.quiet_hours.set("mornings", windows="09:00-11:00", mode="defer")
    bench.add("s", when="*/30 * * * *", job="work", quiet_hours="mornings")
    bench.run_until(at("10:59:59"))
    assert lines(bench) == [
        "08:30 succeeded",
        "09:00 quiet_hours",
        *(f"{when} skipped coalesced" for when in ("09:30", "10:00", "10:30")),
    ]
    waiting = bench.runs.list(schedule="s")[3]
    assert (waiting.state, iso(waiting.not_before)) == ("waiting", at("11:00"))
    assert evidence(bench) == {
        "policy": "mornings", "until": instant(at("11:00")), "for": "quiet_hours", "run": str(waiting.id),
    }  # fmt: skip
    bench.run_until(at("11:00"))
    assert lines(bench)[1] == "09:00 succeeded"
    assert iso(bench.runs.get(waiting.id).started_at) == at("11:00")


def test_the_slot_at_the_windows_end_waits_for_the_run_that_was_deferred(bench: Sandbox) -> None:
    """S3 C9: both are due at 11:00, and each has its record"""
    bench.quiet_hours.set("mornings", windows="09:00-11:00", mode="defer")
    bench.add("s", when="0 * * * *", job="work", quiet_hours="mornings", overlap="queue")
    bench.run_until(at("11:00"))
    assert lines(bench) == ["09:00 succeeded", "10:00 skipped coalesced", "11:00 succeeded"]


@pytest.mark.parametrize("mode", ["skip", "defer"])
def test_a_one_shot_is_always_deferred(bench: Sandbox, mode: str) -> None:
    """S3: it has no other slot"""
    bench.quiet_hours.set("mornings", windows="09:00-11:00", mode=mode)
    bench.add("s", when=at("09:30"), job="work", quiet_hours="mornings", grace="5m")
    bench.run_until(at("10:59"))
    assert lines(bench) == ["09:30 quiet_hours"]
    bench.run_until(at("11:00"))
    assert lines(bench) == ["09:30 succeeded"]
    assert bench.get("s").state == "completed"


def test_overnight(bench: Sandbox) -> None:
    """S3: from the evening to the morning after, on the days on which it begins"""
    bench.quiet_hours.set("nights", windows="fri 22:00-07:00", mode="skip")
    bench.add("s", when="0 6,7,21,22,23 * * *", job="work", quiet_hours="nights")
    bench.run_until(at("06:00", day=29))
    assert lines(bench) == [
        *("21:00 succeeded", "22:00 skipped quiet_hours", "23:00 skipped quiet_hours"),
        *("06:00 skipped quiet_hours", "07:00 succeeded", "21:00 succeeded", "22:00 succeeded", "23:00 succeeded"),
        "06:00 succeeded",
    ]


def test_a_window_has_its_own_time_zone(bench: Sandbox) -> None:
    """S3 S6: the schedule counts in UTC, the people sleep in Tokyo"""
    bench.quiet_hours.set("tokyo", windows="22:00-07:00", timezone="Asia/Tokyo", mode="defer")
    bench.add("s", when="0 13 * * *", job="work", quiet_hours="tokyo")
    bench.run_until(at("22:00"))
    assert iso(last(bench).started_at) == at("22:00")


@pytest.mark.parametrize(
    ("start", "opens"),
    [("2026-03-28T12:00:00Z", "2026-03-29T05:00:00Z"), ("2026-10-24T12:00:00Z", "2026-10-25T06:00:00Z")],
)
def test_the_night_when_the_clocks_change(url: str, open_bench: Callable[..., Sandbox], start: str, opens: str) -> None:
    """S3: 07:00 in Berlin is an hour earlier in spring and an hour later in autumn than the evening would say"""
    bench = open_bench(url, clock=ManualClock(start))
    bench.quiet_hours.set("nights", windows="22:00-07:00", timezone="Europe/Berlin", mode="defer")
    bench.add("s", when="0 23 * * *", job="work", quiet_hours="nights", timezone="Europe/Berlin")
    bench.run_until(instant(opens) - 1)
    assert last(bench).status == "quiet_hours"
    bench.run_until(opens)
    assert iso(last(bench).started_at) == opens


def test_a_window_in_the_hour_that_does_not_exist(url: str, open_bench: Callable[..., Sandbox]) -> None:
    """S3: 02:30 does not come that night; what is due at 03:00 has no quiet to wait for"""
    bench = open_bench(url, clock=ManualClock("2026-03-29T00:00:00Z"))
    bench.quiet_hours.set("gap", windows="02:00-03:00", timezone="Europe/Berlin", mode="skip")
    bench.add("s", when="30 2 * * *", job="work", quiet_hours="gap", timezone="Europe/Berlin")
    bench.run_until("2026-03-29T02:00:00Z")
    assert lines(bench) == ["01:00 succeeded"]


@pytest.mark.parametrize("mode", ["skip", "defer"])
def test_what_a_person_starts_by_hand_does_not_keep_quiet(bench: Sandbox, mode: str) -> None:
    """S3"""
    bench.quiet_hours.set("mornings", windows="07:00-11:00", mode=mode)
    bench.add("s", when="0 12 * * *", job="work", quiet_hours="mornings")
    bench.run("s")
    bench.settle()
    assert lines(bench) == ["manual succeeded"]


@pytest.mark.parametrize(
    ("overlap", "end"),
    [
        ("skip", ["09:00 skipped already_running", "manual succeeded"]),
        ("queue", ["09:00 succeeded", "manual succeeded"]),
        ("cancel_other", ["09:00 cancelled cancelled_by_newer", "manual succeeded"]),
        ("allow", ["09:00 succeeded", "manual succeeded"]),
    ],
)
def test_a_run_that_sleeps_is_not_in_a_persons_way(bench: Sandbox, overlap: str, end: list[str]) -> None:
    """S3 B8: and when it wakes, the person's run is in its way, as its schedule says"""

    @bench.job("lasts")
    def lasts(run: JobContext) -> None:
        if run.slot is None:
            bench.run_until(at("11:10"))

    bench.quiet_hours.set("mornings", windows="09:00-11:00", mode="defer")
    bench.add("s", when="0 9 * * *", job="lasts", quiet_hours="mornings", overlap=overlap)
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 quiet_hours"]
    bench.run("s")
    bench.run_until(at("12:00"))
    assert lines(bench) == end


def test_quiet_hours_that_are_used_are_not_dropped(bench: Sandbox) -> None:
    """S3: nothing is written, and what sleeps goes on sleeping"""
    bench.quiet_hours.set("mornings", windows="09:00-11:00", mode="defer")
    bench.add("s", when="0 9 * * *", job="work", quiet_hours="mornings")
    bench.run_until(at("09:30"))
    with pytest.raises(Conflict, match="used by s"):
        bench.quiet_hours.delete("mornings")
    bench.run_until(at("10:00"))
    assert lines(bench) == ["09:00 quiet_hours"]
    bench.edit("s", quiet_hours=None)
    assert bench.quiet_hours.delete("mornings")
    bench.settle()
    assert lines(bench) == ["09:00 succeeded"]


def test_quiet_hours_that_do_not_exist_are_refused(bench: Sandbox) -> None:
    """S3: nothing is written, and the known ones are named"""
    bench.quiet_hours.set("nights", windows="22:00-07:00")
    bench.add("s", when="0 9 * * *", job="work")
    with pytest.raises(InvalidInput, match='no quiet hours policy "weekends"') as adding:
        bench.add("t", when="0 9 * * *", job="work", quiet_hours="weekends")
    with pytest.raises(InvalidInput, match='no quiet hours policy "weekends"') as editing:
        bench.edit("s", quiet_hours="weekends")
    for error in (adding.value, editing.value):
        assert (error.field, error.hint) == ("quiet_hours", "Known: nights.")
    assert [(schedule.name, schedule.rev) for schedule in bench.list()] == [("s", 1)]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"windows": "22:00-22:00"}, "windows"),
        ({"windows": "22:00-07:00", "timezone": "Europe/Atlantis"}, None),
        ({"windows": "22:00-07:00", "mode": "ignore"}, "mode"),
        ({"windows": "00:00-24:00"}, "windows"),
        ({"windows": []}, "windows"),
    ],
)
def test_bad_quiet_hours_change_nothing(bench: Sandbox, words: dict[str, Any], field: str | None) -> None:
    """S3"""
    before = bench.quiet_hours.set("nights", windows="22:00-07:00")
    with pytest.raises(InvalidInput) as caught:
        bench.quiet_hours.set("nights", **words)
    assert caught.value.hint
    assert field is None or caught.value.field == field
    assert bench.quiet_hours.list() == [before]


# -- a policy that changes while a run waits


@pytest.fixture
def waiting(bench: Sandbox) -> Sandbox:
    """A run is put off from 09:00 to 11:00; it is 09:30."""
    bench.quiet_hours.set("mornings", windows="09:00-11:00", mode="defer")
    bench.add("s", when="0 9 * * *", job="work", quiet_hours="mornings")
    bench.run_until(at("09:30"))
    assert lines(bench) == ["09:00 quiet_hours"]
    return bench


def test_quiet_hours_that_get_longer_hold_it_longer(waiting: Sandbox) -> None:
    """S3"""
    waiting.quiet_hours.set("mornings", windows="09:00-12:00", mode="defer")
    waiting.run_until(at("11:59"))
    assert lines(waiting) == ["09:00 quiet_hours"]
    assert evidence(waiting)["until"] == instant(at("12:00"))
    waiting.run_until(at("12:00"))
    assert lines(waiting) == ["09:00 succeeded"]


def test_quiet_hours_that_get_shorter_let_it_go_earlier(waiting: Sandbox) -> None:
    """S3"""
    waiting.quiet_hours.set("mornings", windows="09:00-10:00", mode="defer")
    waiting.run_until(at("10:00"))
    assert lines(waiting) == ["09:00 succeeded"]


def test_quiet_hours_that_are_over_let_it_go_at_once(waiting: Sandbox) -> None:
    """S3"""
    waiting.quiet_hours.set("mornings", windows="20:00-21:00", mode="defer")
    waiting.settle()
    assert lines(waiting) == ["09:00 succeeded"]


def test_quiet_hours_that_skip_from_now_on_drop_it(waiting: Sandbox) -> None:
    """S3 B1"""
    waiting.quiet_hours.set("mornings", windows="09:00-11:00", mode="skip")
    waiting.run_until(at("11:00"))
    assert lines(waiting) == ["09:00 skipped quiet_hours"]
    assert iso(waiting.get("s").next_run_at) == at("09:00", day=28)


def test_quiet_hours_in_use_cannot_be_dropped(waiting: Sandbox) -> None:
    """S3"""
    with pytest.raises(Conflict, match='"mornings" is used by s') as caught:
        waiting.quiet_hours.delete("mornings")
    assert caught.value.hint
    assert [policy.name for policy in waiting.quiet_hours.list()] == ["mornings"]


def test_dropped_quiet_hours_hold_nothing(waiting: Sandbox) -> None:
    """S3: the schedule names them no more, the run that waits still does"""
    waiting.edit("s", quiet_hours=None)
    assert waiting.quiet_hours.delete("mornings") is True
    assert waiting.quiet_hours.delete("mornings") is False
    waiting.settle()
    assert lines(waiting) == ["09:00 succeeded"]
    waiting.run_until(at("10:00", day=28))
    assert iso(last(waiting).started_at) == at("09:00", day=28)


def test_a_run_waits_for_the_morning_over_a_restart(restart: Callable[..., Sandbox]) -> None:
    """S3"""
    first = restart()
    first.quiet_hours.set("mornings", windows="09:00-11:00", mode="defer")
    first.add("s", when="0 9 * * *", job="work", quiet_hours="mornings")
    first.run_until(at("09:30"))
    second = restart()
    second.run_until(at("10:59"))
    assert lines(second) == ["09:00 quiet_hours"]
    second.run_until(at("11:00"))
    assert lines(second) == ["09:00 succeeded"]


def test_nobody_was_there_at_the_windows_end(restart: Callable[..., Sandbox]) -> None:
    """S3: it goes on when somebody is"""
    first = restart()
    first.quiet_hours.set("mornings", windows="09:00-11:00", mode="defer")
    first.add("s", when="0 9 * * *", job="work", quiet_hours="mornings")
    first.run_until(at("09:30"))
    first.clock.advance_to(at("18:00"))
    second = restart()
    second.settle()
    assert lines(second) == ["09:00 succeeded"]


def test_what_is_caught_up_keeps_quiet_too(bench: Sandbox) -> None:
    """S3 S4: whatever its slot, it would begin now"""
    bench.quiet_hours.set("noon", windows="12:00-13:00", mode="defer")
    bench.add("s", when="0 * * * *", job="work", quiet_hours="noon", catch_up="run_once")
    bench.clock.advance_to(at("12:45"))
    bench.settle()
    (run,) = bench.runs.list(schedule="s")
    assert (run.status, run.slots, iso(run.slot)) == ("quiet_hours", 4, at("12:00"))
    bench.run_until(at("13:00"))
    assert lines(bench)[0] == "12:00 succeeded"


def test_a_queued_run_does_not_begin_in_quiet_hours(bench: Sandbox) -> None:
    """S3 B8: it came due before them, and its turn comes in them"""

    @bench.job("long")
    def long(run: Any) -> None:
        if run.slot.hour == 8:
            bench.run_until(at("09:30"))

    bench.quiet_hours.set("mornings", windows="09:15-11:00", mode="defer")
    bench.add("s", when="55 8 * * *", job="long", quiet_hours="mornings", overlap="queue")
    bench.edit("s", when="55,59 8 * * *")
    bench.run_until(at("10:59"))
    assert lines(bench) == ["08:55 succeeded", "08:59 quiet_hours"]
    bench.run_until(at("11:00"))
    assert lines(bench) == ["08:55 succeeded", "08:59 succeeded"]
    assert times(bench, "run.started")[1] == at("11:00")


def test_a_window_that_began_in_between_is_told(bench: Sandbox) -> None:
    """S3: made known, changed and dropped by whom"""
    bench.quiet_hours.set("mornings", windows="09:00-11:00")
    bench.quiet_hours.delete("mornings")
    (made,), (gone,) = told(bench, "policy.set"), told(bench, "policy.deleted")
    assert (made["kind"], made["name"], made["by"]) == ("quiet_hours", "mornings", "owner")
    assert made["definition"]["windows"] == ["09:00-11:00"]
    assert gone == {"kind": "quiet_hours", "name": "mornings", "by": "owner", "who": "owner"}
    assert iso(bench.clock.now_ms()) == START
