"""Which slot follows when the data of a time zone change."""

from __future__ import annotations

from importlib import resources

import pytest

from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import compile_trigger, moved_slot
from matins.engine.when.zones import Zone
from matins.testing import instant, iso

NAME = "Africa/Cairo"
EARLIER, LATER = ("Etc/GMT-2", "Etc/GMT-3"), ("Etc/GMT-3", "Etc/GMT-2")
"""By the new data, local times come an hour earlier, or later."""


def moved(
    when: str, data: tuple[str, str], slot: str, since: str = "2026-01-01T00:00:00Z", **settings: str
) -> str | None:
    definition = parse_trigger(when, now_ms=instant("2026-01-01T00:00:00Z"), timezone=NAME, **settings).definition
    before, after = (compile_trigger(definition, zone=Zone(NAME, file_of(like))) for like in data)
    assert before.count(instant(slot), instant(slot) + 1), "the test begins at a slot"
    return iso(moved_slot(before, after, instant(slot), instant(since)))


def file_of(name: str) -> bytes:
    return resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()


@pytest.mark.parametrize(
    ("when", "data", "slot", "expected"),
    [
        ("0 9 * * *", EARLIER, "2026-03-27T07:00:00Z", "2026-03-27T06:00:00Z"),
        ("0 9 * * *", LATER, "2026-03-27T06:00:00Z", "2026-03-27T07:00:00Z"),
        ("every weekday at 9am", EARLIER, "2026-03-27T07:00:00Z", "2026-03-27T06:00:00Z"),
        ("FREQ=WEEKLY;BYDAY=FR;BYHOUR=9;BYMINUTE=0", LATER, "2026-03-27T06:00:00Z", "2026-03-27T07:00:00Z"),
        # 8:00 and 9:00 have run; the new 8:00 and 9:00 are an hour later, and do not run again
        ("0 8,9,10 * * *", LATER, "2026-03-27T07:00:00Z", "2026-03-27T08:00:00Z"),
        # 8:00 has run at 6:00 UTC, where the new 9:00 is; it has its record
        ("0 8,9,10 * * *", EARLIER, "2026-03-27T07:00:00Z", "2026-03-27T07:00:00Z"),
        # what follows the clock goes on without a pause and without a repeat
        ("*/15 * * * *", EARLIER, "2026-03-27T07:00:00Z", "2026-03-27T07:00:00Z"),
        ("*/15 * * * *", LATER, "2026-03-27T07:00:00Z", "2026-03-27T07:00:00Z"),
        ("*/15 9-17 * * *", LATER, "2026-03-27T06:15:00Z", "2026-03-27T07:00:00Z"),
    ],
)
def test_the_next_slot_keeps_its_place(when: str, data: tuple[str, str], slot: str, expected: str) -> None:
    """H2"""
    assert moved(when, data, slot) == expected


def test_a_schedule_gets_no_slot_from_before_it_was_made() -> None:
    """H2: 9:00 was to come when it was made; by the new data it had been"""
    assert moved("0 9 * * *", EARLIER, "2026-03-27T07:00:00Z", since="2026-03-27T06:30:00Z") == "2026-03-28T06:00:00Z"


def test_a_change_that_is_to_come_moves_what_comes_after_it() -> None:
    """H2: London loses its summer time; what is in winter stays"""
    data = "Europe/London", "Africa/Abidjan"
    assert moved("0 9 * * *", data, "2026-03-01T09:00:00Z") == "2026-03-01T09:00:00Z"
    assert moved("0 9 1 * *", data, "2026-04-01T08:00:00Z") == "2026-04-01T09:00:00Z"


def test_a_time_that_a_gap_left_out_comes_back_with_the_hour() -> None:
    """H2: by the old data, there is no 1:30 on 29 March"""
    data = "Europe/London", "Africa/Abidjan"
    assert moved("30 1 * * *", data, "2026-03-30T00:30:00Z", dst_gap="skip") == "2026-03-29T01:30:00Z"


def test_unknown_data_leave_what_is_a_slot_and_move_to_the_next() -> None:
    """H2"""
    trigger = compile_trigger(
        parse_trigger("0 9 * * *", now_ms=0, timezone=NAME).definition, zone=Zone(NAME, file_of("Etc/GMT-2"))
    )
    for slot in ("2026-03-27T07:00:00Z", "2026-03-27T06:30:00Z"):
        assert iso(moved_slot(None, trigger, instant(slot), 0)) == "2026-03-27T07:00:00Z"
