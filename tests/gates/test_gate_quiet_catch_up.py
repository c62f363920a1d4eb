"""Catch-up after an absence that went through quiet hours, on every store. Rows S3, S4, B1, B2, B3."""

from __future__ import annotations

from typing import Any

import pytest
from gate_records import at, check_ledger, lines, moment, told

from matins.testing import Sandbox, instant

_SKIPPED = [f"{hour} skipped quiet_hours" for hour in ("10:00", "11:00", "12:00")]


@pytest.mark.parametrize(
    ("words", "records"),
    [
        ({}, ["09:00 missed", *_SKIPPED, "13:00 missed"]),
        ({"catch_up": "run_all_capped", "catch_up_limit": 2}, ["09:00 succeeded", *_SKIPPED, "13:00 succeeded"]),
        ({"catch_up": "run_all_capped", "catch_up_limit": 1}, ["09:00 missed", *_SKIPPED, "13:00 succeeded"]),
        ({"catch_up": "run_once"}, ["13:00 succeeded"]),
    ],
)
def test_slots_that_were_quiet_are_not_made_up_for(bench: Sandbox, words: dict[str, Any], records: list[str]) -> None:
    """S3 S4 B1 B3: each has the record that it would have had, and the preview said so"""
    bench.quiet_hours.set("naps", windows="09:30-12:30", mode="skip")
    bench.add("s", when="0 * * * *", job="work", quiet_hours="naps", **words)
    bench.clock.advance_to(at("13:40"))
    foreseen = bench.preview_catch_up("s")
    assert bench.preview("s").overdue == 5
    bench.settle()
    assert lines(bench) == records
    made = [(run.slot, run.first_slot, run.slots) for run in reversed(bench.runs.list(schedule="s"))]
    assert [(record.slot, record.first, record.slots) for record in foreseen.records] == made
    skips = [(data["slot"], data["policy"], data["until"]) for data in told(bench, "run.skipped")]
    quiet = [line for line in records if line.endswith("quiet_hours")]
    assert skips == [(instant(at(line[:5])), "naps", instant(at("12:30"))) for line in quiet]
    check_ledger(bench)


def test_a_window_that_was_quiet_throughout_has_no_run(bench: Sandbox) -> None:
    """S3 S4: neither to make up for it, nor for a slot that is still within its grace"""
    bench.quiet_hours.set("naps", windows="08:30-12:10", mode="skip")
    bench.add("s", when="0 * * * *", job="work", quiet_hours="naps", catch_up="run_once")
    bench.clock.advance_to(at("12:20"))
    foreseen = bench.preview_catch_up("s")
    assert (foreseen.runs, foreseen.summary) == (0, "4 slots since 2026-03-27 09:00 UTC: 4 not to run.")
    assert (
        foreseen.records[0].sentence == 'Would be skipped: quiet hours "naps" were active until 2026-03-27 12:10 UTC.'
    )
    assert bench.preview("s").slots[0].sentence == (
        'Will be skipped: quiet hours "naps" were active until 2026-03-27 12:10 UTC.'
    )
    bench.settle()
    assert lines(bench) == [f"{hour} skipped quiet_hours" for hour in ("09:00", "10:00", "11:00", "12:00")]
    why = bench.why("s", at=moment("10:00"))
    assert why.summary == '2026-03-27 10:00 UTC: Skipped: quiet hours "naps" were active until 12:10 UTC.'
    bench.run_until(at("13:00"))
    assert lines(bench)[-1] == "13:00 succeeded"
    assert bench.get("s").executions == 1


def test_who_is_back_in_quiet_hours_makes_up_for_the_time_before_when_they_end(bench: Sandbox) -> None:
    """S3 S4 B3: what came due while it was not quiet was not to be skipped"""
    bench.quiet_hours.set("naps", windows="10:30-12:30", mode="skip")
    bench.add(
        "s", when="0 9,10,11,15 * * *", job="work", quiet_hours="naps", catch_up="run_all_capped", catch_up_limit=1
    )
    bench.clock.advance_to(at("11:45"))
    assert bench.preview_catch_up("s").summary == (
        "3 slots since 2026-03-27 09:00 UTC: 1 missed, 1 not to run, 1 to run."
    )
    bench.settle()
    assert sorted(lines(bench)) == ["09:00 missed", "10:00 quiet_hours", "11:00 skipped quiet_hours"]
    bench.run_until(at("12:29"))
    assert bench.get("s").executions == 1
    bench.run_until(at("12:31"))
    assert sorted(lines(bench)) == ["09:00 missed", "10:00 succeeded", "11:00 skipped quiet_hours"]
    check_ledger(bench)


def test_many_slots_of_a_night_are_one_record(bench: Sandbox) -> None:
    """B1 B2: and what is asked about any of them finds it"""
    bench.quiet_hours.set("nights", windows="22:00-07:00", mode="skip")
    bench.add("s", when="* * * * *", job="work", quiet_hours="nights", catch_up="run_all_capped", catch_up_limit=1)
    bench.clock.advance_to("2026-03-28T09:00:45Z")
    foreseen = bench.preview_catch_up("s")
    assert foreseen.summary == "1,500 slots since 2026-03-27 08:01 UTC: 959 missed, 540 not to run, 1 to run."
    bench.settle()
    runs = reversed(bench.runs.list(schedule="s"))
    assert [(line, run.slots) for line, run in zip(lines(bench), runs, strict=True)] == [
        ("21:59 missed", 839), ("06:59 skipped quiet_hours", 540), ("08:59 missed", 120), ("09:00 succeeded", 1),
    ]  # fmt: skip
    why = bench.why("s", at=moment("03:33", day=28))
    assert why.summary == (
        '2026-03-28 06:59 UTC: Skipped: quiet hours "nights" were active until 07:00 UTC '
        "(540 slots from 2026-03-27 22:00 UTC)."
    )
    check_ledger(bench)


def test_hours_that_defer_are_made_up_for(bench: Sandbox) -> None:
    """S3 S4: they would have come to a run at their end"""
    bench.quiet_hours.set("naps", windows="08:30-12:10", mode="defer")
    bench.add("s", when="0 * * * *", job="work", quiet_hours="naps", catch_up="run_once")
    bench.clock.advance_to(at("12:40"))
    bench.settle()
    assert lines(bench) == ["12:00 succeeded"]
    assert bench.runs.list(schedule="s")[0].slots == 4
