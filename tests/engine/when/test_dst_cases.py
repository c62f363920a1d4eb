"""P3, S6, C1: what happens when the clocks change, one named case a row, each with the instants spelled out.

The same rows are put to the oracle, so that the walk which judges the engine elsewhere is itself judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from walk import CronText, Walk, instant

from matins.engine.when.triggers import compile_trigger
from matins.model.trigger import Cron, Daily, DstGap, DstOverlap, Rrule, TriggerDefinition, Weekly, When


@dataclass(frozen=True)
class Change:
    """A zone and a span of UTC time in which its clocks change."""

    zone: str
    start: str
    end: str


# 01:00 GMT becomes 02:00 BST; 02:00 BST becomes 01:00 GMT.
LONDON_SPRING = Change("Europe/London", "2026-03-28T12:00", "2026-03-29T23:00")
LONDON_AUTUMN = Change("Europe/London", "2026-10-24T12:00", "2026-10-26T00:30")
# 02:00 EST becomes 03:00 EDT; 02:00 EDT becomes 01:00 EST.
NEW_YORK_SPRING = Change("America/New_York", "2026-03-08T00:00", "2026-03-09T05:00")
NEW_YORK_AUTUMN = Change("America/New_York", "2026-11-01T00:00", "2026-11-02T05:00")
# 02:00 at +10:30 becomes 02:30 at +11; 02:00 at +11 becomes 01:30 at +10:30.
LORD_HOWE_SPRING = Change("Australia/Lord_Howe", "2026-10-03T12:00", "2026-10-04T12:00")
LORD_HOWE_AUTUMN = Change("Australia/Lord_Howe", "2026-04-04T12:00", "2026-04-05T12:00")
# 02:45 at +12:45 becomes 03:45 at +13:45.
CHATHAM_SPRING = Change("Pacific/Chatham", "2026-09-26T12:00", "2026-09-27T10:00")
# 01:00 at +0 becomes 03:00 at +2; 03:00 at +2 becomes 01:00 at +0.
TROLL_SPRING = Change("Antarctica/Troll", "2026-03-28T12:00", "2026-03-29T22:00")
TROLL_AUTUMN = Change("Antarctica/Troll", "2026-10-24T12:00", "2026-10-25T12:00")
# Midnight at the end of 29 December at -10 is followed by 31 December at +14.
APIA_LOST_DAY = Change("Pacific/Apia", "2011-12-29T00:00", "2011-12-31T12:00")
# Midnight of 24 April does not exist: the day begins at 01:00. The last hour of 29 October occurs twice.
CAIRO_SPRING = Change("Africa/Cairo", "2026-04-23T00:00", "2026-04-24T21:00")
CAIRO_AUTUMN = Change("Africa/Cairo", "2026-10-28T20:30", "2026-10-30T00:00")

Case = tuple[str, str, Change, str, str, str]

# name, expression, change, gap, overlap, fires (UTC)
CRON_CASES: list[Case] = [
    ("fires right after the jump", "30 1 * * *", LONDON_SPRING, "after", "first", "2026-03-29T01:00"),
    ("is skipped", "30 1 * * *", LONDON_SPRING, "skip", "first", ""),
    ("keeps the old offset", "30 1 * * *", LONDON_SPRING, "shift", "first", "2026-03-29T01:30"),
    ("the jump's own minute is in the gap", "0 1 * * *", LONDON_SPRING, "after", "first", "2026-03-29T01:00"),
    ("and by the old offset is the same", "0 1 * * *", LONDON_SPRING, "shift", "first", "2026-03-29T01:00"),
    ("the last minute before", "59 0 * * *", LONDON_SPRING, "after", "first", "2026-03-29T00:59"),
    ("the first minute after exists", "0 2 * * *", LONDON_SPRING, "skip", "first", "2026-03-29T01:00"),
    ("swallowed times coalesce", "0,15,30,45 1 * * *", LONDON_SPRING, "after", "first", "2026-03-29T01:00"),
    ("with the time after the jump", "30 1,2 * * *", LONDON_SPRING, "after", "first",
     "2026-03-29T01:00 2026-03-29T01:30"),
    ("shifted onto one that fires anyway", "30 1,2 * * *", LONDON_SPRING, "shift", "first",
     "2026-03-29T01:30"),
    ("shifted times do not coalesce", "0,15,30,45 1 * * *", LONDON_SPRING, "shift", "first",
     "2026-03-29T01:00 2026-03-29T01:15 2026-03-29T01:30 2026-03-29T01:45"),
    ("a star in the hour has nothing in the gap", "30 * 29 3 *", LONDON_SPRING, "after", "first",
     " ".join(["2026-03-29T00:30"] + [f"2026-03-29T{hour:02}:30" for hour in range(1, 23)])),
    ("a stepped star in the hour too", "30 */1 29 3 *", LONDON_SPRING, "shift", "first",
     " ".join(["2026-03-29T00:30"] + [f"2026-03-29T{hour:02}:30" for hour in range(1, 23)])),
    ("a star in the minute has nothing in the gap", "*/30 0-2 29 3 *", LONDON_SPRING, "after", "first",
     "2026-03-29T00:00 2026-03-29T00:30 2026-03-29T01:00 2026-03-29T01:30"),
    ("a star in the minute, all in the gap", "*/15 1 29 3 *", LONDON_SPRING, "after", "first", ""),
    ("seconds coalesce", "*/10 30 1 * * *", LONDON_SPRING, "after", "first", "2026-03-29T01:00"),
    ("seconds shift", "*/30 30 1 * * *", LONDON_SPRING, "shift", "first",
     "2026-03-29T01:30:00 2026-03-29T01:30:30"),

    ("fires the first time only", "30 1 * * *", LONDON_AUTUMN, "after", "first", "2026-10-25T00:30"),
    ("fires both times", "30 1 * * *", LONDON_AUTUMN, "after", "both", "2026-10-25T00:30 2026-10-25T01:30"),
    ("the first repeated minute", "0 1 * * *", LONDON_AUTUMN, "after", "both",
     "2026-10-25T00:00 2026-10-25T01:00"),
    ("the last repeated minute", "59 1 * * *", LONDON_AUTUMN, "after", "both",
     "2026-10-25T00:59 2026-10-25T01:59"),
    ("the minute after occurs once", "0 2 * * *", LONDON_AUTUMN, "after", "both", "2026-10-25T02:00"),
    ("a list across the overlap", "0,30 0-2 25 10 *", LONDON_AUTUMN, "after", "first",
     "2026-10-24T23:00 2026-10-24T23:30 2026-10-25T00:00 2026-10-25T00:30 2026-10-25T02:00 2026-10-25T02:30"),
    ("a list across the overlap, both", "0,30 0-2 25 10 *", LONDON_AUTUMN, "after", "both",
     " ".join(["2026-10-24T23:00", "2026-10-24T23:30"]
              + [f"2026-10-25T{hour:02}:{minute}" for hour in range(3) for minute in ("00", "30")])),
    ("a star in the minute follows elapsed time", "*/30 1 * * *", LONDON_AUTUMN, "after", "first",
     "2026-10-25T00:00 2026-10-25T00:30 2026-10-25T01:00 2026-10-25T01:30"),
    ("a star in the hour follows elapsed time", "30 * 25 10 *", LONDON_AUTUMN, "skip", "first",
     " ".join(["2026-10-24T23:30"] + [f"2026-10-25T{hour:02}:30" for hour in range(24)])),
    ("a star not in front is fixed", "0,30 1-1 * * *", LONDON_AUTUMN, "after", "first",
     "2026-10-25T00:00 2026-10-25T00:30"),

    ("New York jumps at two", "30 2 * * *", NEW_YORK_SPRING, "after", "first", "2026-03-08T07:00"),
    ("New York skips", "30 2 * * *", NEW_YORK_SPRING, "skip", "first", ""),
    ("New York shifts", "30 2 * * *", NEW_YORK_SPRING, "shift", "first", "2026-03-08T07:30"),
    ("a Sunday job", "30 2 * * SUN", NEW_YORK_SPRING, "after", "first", "2026-03-08T07:00"),
    ("the second Sunday of March", "30 2 * 3 0#2", NEW_YORK_SPRING, "after", "first", "2026-03-08T07:00"),
    ("not on a Monday job", "30 2 * * 1", NEW_YORK_SPRING, "after", "first", ""),
    ("New York falls back, first", "30 1 * * *", NEW_YORK_AUTUMN, "after", "first", "2026-11-01T05:30"),
    ("New York falls back, both", "30 1 * * *", NEW_YORK_AUTUMN, "after", "both",
     "2026-11-01T05:30 2026-11-01T06:30"),

    ("half an hour is lost", "15 2 * * *", LORD_HOWE_SPRING, "after", "first", "2026-10-03T15:30"),
    ("and shifted by half an hour", "15 2 * * *", LORD_HOWE_SPRING, "shift", "first", "2026-10-03T15:45"),
    ("and skipped", "15 2 * * *", LORD_HOWE_SPRING, "skip", "first", ""),
    ("half past is not lost", "30 2 * * *", LORD_HOWE_SPRING, "skip", "first", "2026-10-03T15:30"),
    ("coalesces with half past", "0,15,30 2 * * *", LORD_HOWE_SPRING, "after", "first", "2026-10-03T15:30"),
    ("half an hour twice, first", "45 1 * * *", LORD_HOWE_AUTUMN, "after", "first", "2026-04-04T14:45"),
    ("half an hour twice, both", "45 1 * * *", LORD_HOWE_AUTUMN, "after", "both",
     "2026-04-04T14:45 2026-04-04T15:15"),
    ("a quarter past occurs once", "15 1 * * *", LORD_HOWE_AUTUMN, "after", "both", "2026-04-04T14:15"),
    ("a star over the half hour", "*/30 1 * * *", LORD_HOWE_AUTUMN, "after", "first",
     "2026-04-04T14:00 2026-04-04T14:30 2026-04-04T15:00"),

    ("Chatham jumps at a quarter to three", "0 3 * * *", CHATHAM_SPRING, "after", "first",
     "2026-09-26T14:00"),
    ("Chatham before the jump", "44 2 * * *", CHATHAM_SPRING, "skip", "first", "2026-09-26T13:59"),
    ("Chatham shifts", "0 3 * * *", CHATHAM_SPRING, "shift", "first", "2026-09-26T14:15"),

    ("two hours are lost in one fire", "30 1,2 * * *", TROLL_SPRING, "after", "first", "2026-03-29T01:00"),
    ("two hours are shifted", "30 1,2 * * *", TROLL_SPRING, "shift", "first",
     "2026-03-29T01:30 2026-03-29T02:30"),
    ("two hours are skipped", "30 1,2,3 * * *", TROLL_SPRING, "skip", "first", "2026-03-29T01:30"),
    ("two hours twice, first", "30 1,2 * * *", TROLL_AUTUMN, "after", "first",
     "2026-10-24T23:30 2026-10-25T00:30"),
    ("two hours twice, both", "30 1,2 * * *", TROLL_AUTUMN, "after", "both",
     "2026-10-24T23:30 2026-10-25T00:30 2026-10-25T01:30 2026-10-25T02:30"),

    ("a whole day is lost in one fire", "0 9 30 * *", APIA_LOST_DAY, "after", "first", "2011-12-30T10:00"),
    ("a whole day's fires coalesce", "0 9,12,18 30 * *", APIA_LOST_DAY, "after", "first", "2011-12-30T10:00"),
    ("a whole day is skipped", "0 9 30 * *", APIA_LOST_DAY, "skip", "first", ""),
    ("a whole day is shifted", "0 9 30 * *", APIA_LOST_DAY, "shift", "first", "2011-12-30T19:00"),
    ("every day, across the lost one", "0 9 * * *", APIA_LOST_DAY, "after", "first",
     "2011-12-29T19:00 2011-12-30T10:00 2011-12-30T19:00"),
    ("every day, the lost one shifted onto the next", "0 9 * * *", APIA_LOST_DAY, "shift", "first",
     "2011-12-29T19:00 2011-12-30T19:00"),
    ("a Friday that never was", "0 9 * * FRI", APIA_LOST_DAY, "after", "first", "2011-12-30T10:00"),
    ("hours by a star see no lost day", "0 */12 * * *", APIA_LOST_DAY, "after", "first",
     "2011-12-29T10:00 2011-12-29T22:00 2011-12-30T10:00 2011-12-30T22:00 2011-12-31T10:00"),

    ("no midnight", "0 0 * * *", CAIRO_SPRING, "after", "first", "2026-04-23T22:00"),
    ("the 24th's midnight belongs to the 24th", "0 0 24 * *", CAIRO_SPRING, "after", "first",
     "2026-04-23T22:00"),
    ("no midnight, shifted", "30 0 24 * *", CAIRO_SPRING, "shift", "first", "2026-04-23T22:30"),
    ("an evening twice", "30 23 29 * *", CAIRO_AUTUMN, "after", "both", "2026-10-29T20:30 2026-10-29T21:30"),
    ("an evening, first", "30 23 29 * *", CAIRO_AUTUMN, "after", "first", "2026-10-29T20:30"),
    ("midnight after the repeated evening", "0 0 30 * *", CAIRO_AUTUMN, "after", "both", "2026-10-29T22:00"),
]  # fmt: skip

# The same for triggers that are fixed times without being cron.
START_2026 = instant("2026-01-01") * 1000
WHEN_CASES: list[tuple[str, When, Change, str, str, str]] = [
    ("daily after", Daily((90,)), LONDON_SPRING, "after", "first", "2026-03-29T01:00"),
    ("daily skip", Daily((90,)), LONDON_SPRING, "skip", "first", ""),
    ("daily shift", Daily((90,)), LONDON_SPRING, "shift", "first", "2026-03-29T01:30"),
    ("daily first", Daily((90,)), LONDON_AUTUMN, "after", "first", "2026-10-25T00:30"),
    ("daily both", Daily((90,)), LONDON_AUTUMN, "after", "both", "2026-10-25T00:30 2026-10-25T01:30"),
    ("daily times coalesce", Daily((60, 90, 120)), LONDON_SPRING, "after", "first", "2026-03-29T01:00"),
    ("weekly after", Weekly((0,), (150,)), NEW_YORK_SPRING, "after", "first", "2026-03-08T07:00"),
    ("weekly on another day", Weekly((1,), (150,)), NEW_YORK_SPRING, "after", "first", ""),
    ("weekly both", Weekly((0, 3), (90,)), NEW_YORK_AUTUMN, "after", "both",
     "2026-11-01T05:30 2026-11-01T06:30"),
    ("weekly on the lost day", Weekly((5,), (540,)), APIA_LOST_DAY, "after", "first", "2011-12-30T10:00"),
    ("rrule after", Rrule("FREQ=DAILY;BYHOUR=1;BYMINUTE=30", START_2026), LONDON_SPRING, "after", "first",
     "2026-03-29T01:00"),
    ("rrule skip", Rrule("FREQ=DAILY;BYHOUR=1;BYMINUTE=30", START_2026), LONDON_SPRING, "skip", "first", ""),
    ("rrule shift", Rrule("FREQ=WEEKLY;BYDAY=SU;BYHOUR=1;BYMINUTE=30", START_2026), LONDON_SPRING, "shift",
     "first", "2026-03-29T01:30"),
    ("rrule first", Rrule("FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=1;BYMINUTE=30", START_2026), LONDON_AUTUMN, "after",
     "first", "2026-10-25T00:30"),
    ("rrule both", Rrule("FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=1;BYMINUTE=30", START_2026), LONDON_AUTUMN, "after",
     "both", "2026-10-25T00:30 2026-10-25T01:30"),
]  # fmt: skip


def names(cases: list[Case] | list[tuple[str, When, Change, str, str, str]]) -> list[str]:
    return [f"{case[2].zone.split('/')[1]}: {case[0]}" for case in cases]


def instants(text: str) -> list[str]:
    return [datetime.fromtimestamp(instant(word), UTC).isoformat() for word in text.split()]


def iso(fires: list[int]) -> list[str]:
    return [datetime.fromtimestamp(at / 1000, UTC).isoformat() for at in fires]


def engine_fires(when: When, change: Change, gap: DstGap, overlap: DstOverlap) -> list[str]:
    trigger = compile_trigger(TriggerDefinition(when, change.zone, gap, overlap))
    start, end = (datetime.fromtimestamp(instant(text), UTC) for text in (change.start, change.end))
    return [at.astimezone(UTC).isoformat() for at in trigger.between(start, end)]


@pytest.mark.parametrize(("name", "text", "change", "gap", "overlap", "fires"), CRON_CASES, ids=names(CRON_CASES))
def test_p3_s6_cron_when_the_clocks_change(
    name: str, text: str, change: Change, gap: DstGap, overlap: DstOverlap, fires: str
) -> None:
    assert engine_fires(Cron(text), change, gap, overlap) == instants(fires)


@pytest.mark.parametrize(("name", "text", "change", "gap", "overlap", "fires"), CRON_CASES, ids=names(CRON_CASES))
def test_s6_the_oracle_says_the_same(
    name: str, text: str, change: Change, gap: DstGap, overlap: DstOverlap, fires: str
) -> None:
    walk = Walk(change.zone, instant(change.start), instant(change.end))
    assert iso(walk.fires(CronText(text), gap, overlap)) == instants(fires)


@pytest.mark.parametrize(("name", "when", "change", "gap", "overlap", "fires"), WHEN_CASES, ids=names(WHEN_CASES))
def test_c1_s6_daily_weekly_and_rrule_when_the_clocks_change(
    name: str, when: When, change: Change, gap: DstGap, overlap: DstOverlap, fires: str
) -> None:
    start = instant(change.start) * 1000
    if isinstance(when, Rrule) and when.start_wall > start:
        pytest.fail("the rule begins after the change")
    assert engine_fires(when, change, gap, overlap) == instants(fires)


def test_s6_neighbouring_days_are_untouched() -> None:
    """The jump moves one fire; the day before and the day after keep 01:30 on the wall."""
    week = Change("Europe/London", "2026-03-27T12:00", "2026-03-31T12:00")
    assert engine_fires(Cron("30 1 * * *"), week, "after", "first") == instants(
        "2026-03-28T01:30 2026-03-29T01:00 2026-03-30T00:30 2026-03-31T00:30"
    )
