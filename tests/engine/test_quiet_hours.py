"""Quiet hours: how they are described, and when they let go on every wall clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from matins.engine.calendars import read_days
from matins.engine.quiet_hours import (
    QuietHours,
    check_quiet_hours,
    describe,
    last_change_at,
    parse_windows,
    quiet_spans,
    quiet_until,
)
from matins.errors import InvalidInput

MINUTE, DAY, WEEK = 60, 86_400, 7 * 86_400


def quiet(*windows: Any, **settings: Any) -> QuietHours:
    policy = QuietHours("nights", parse_windows(list(windows)), **settings)
    check_quiet_hours(policy)
    return policy


def ms(text: str, zone: str = "UTC") -> int:
    """The instant of a wall time; an offset in the text says which pass of a repeated hour."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp() * 1000)


def until(policy: QuietHours, text: str) -> str | None:
    """As the clocks of the policy's zone show it, with their offset."""
    found = quiet_until(policy, ms(text, policy.timezone))
    return None if found is None else datetime.fromtimestamp(found / 1000, ZoneInfo(policy.timezone)).isoformat()


@pytest.mark.parametrize(
    ("windows", "settings", "sentence"),
    [
        (["22:00-07:00"], {"timezone": "Europe/Berlin"}, "22:00 to 07:00 every day, Europe/Berlin: skipped"),
        (["fri 22:00-07:00"], {"mode": "defer"}, "22:00 every Friday to 07:00 the next day, UTC: deferred"),
        (["fri 22:00-00:00"], {}, "22:00 to 24:00 every Friday, UTC: skipped"),
        (
            ["weekdays 12:00-13:00", "sat,sun 00:00-24:00"],
            {},
            "12:00 to 13:00 every weekday; all day every Saturday and Sunday, UTC: skipped",
        ),
    ],
)
def test_described_in_plain_words(windows: list[str], settings: dict[str, Any], sentence: str) -> None:
    """B3"""
    assert describe(quiet(*windows, **settings)) == sentence


# --- when they let go ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "end"),
    [
        ("2026-05-12T21:59:59.999", None),
        ("2026-05-12T22:00", "2026-05-13T07:00:00+00:00"),
        ("2026-05-12T22:00:00.001", "2026-05-13T07:00:00+00:00"),
        ("2026-05-13T06:59:59.999", "2026-05-13T07:00:00+00:00"),
        ("2026-05-13T07:00", None),
        ("1969-12-31T23:59:59.999", "1970-01-01T07:00:00+00:00"),
    ],
)
def test_the_start_is_quiet_and_the_end_is_not(at: str, end: str | None) -> None:
    """S3"""
    assert until(quiet("22:00-07:00"), at) == end


@pytest.mark.parametrize(
    ("window", "at", "end"),
    [
        ("fri 22:00-07:00", "2026-05-15T06:00", None),  # a Friday: it has not begun
        ("fri 22:00-07:00", "2026-05-15T22:00", "2026-05-16T07:00:00+00:00"),
        ("fri 22:00-07:00", "2026-05-16T06:59", "2026-05-16T07:00:00+00:00"),
        ("fri 22:00-07:00", "2026-05-16T22:00", None),
        # Saturday night runs from one week into the next.
        ("sat 22:00-07:00", "2026-05-16T21:59", None),
        ("sat 22:00-07:00", "2026-05-16T22:00", "2026-05-17T07:00:00+00:00"),
        ("sat 22:00-07:00", "2026-05-17T00:00", "2026-05-17T07:00:00+00:00"),
        ("sat 22:00-07:00", "2026-05-17T22:00", None),
    ],
)
def test_an_overnight_window_belongs_to_the_day_on_which_it_begins(window: str, at: str, end: str | None) -> None:
    """S3"""
    assert until(quiet(window), at) == end


@pytest.mark.parametrize(
    ("windows", "at", "end"),
    [
        (["08:00-10:00", "20:00-21:00"], "2026-05-12T09:00", "2026-05-12T10:00:00+00:00"),
        (["08:00-10:00", "20:00-21:00"], "2026-05-12T12:00", None),
        (["08:00-10:00", "20:00-21:00"], "2026-05-12T20:30", "2026-05-12T21:00:00+00:00"),
        (["10:00-11:00", "08:00-10:00"], "2026-05-12T08:00", "2026-05-12T11:00:00+00:00"),
        (["10:00-11:00", "08:00-10:30"], "2026-05-12T08:00", "2026-05-12T11:00:00+00:00"),
        (["08:00-12:00", "09:00-10:00"], "2026-05-12T09:30", "2026-05-12T12:00:00+00:00"),
        (["weekdays 18:00-08:00", "sat,sun 00:00-24:00"], "2026-05-15T18:00", "2026-05-18T00:00:00+00:00"),
        (["weekdays 18:00-08:00", "sat 08:00-09:00"], "2026-05-15T18:00", "2026-05-16T09:00:00+00:00"),
        (["tue-sun 00:00-24:00", "mon 00:00-09:00"], "2026-05-12T00:00", "2026-05-18T09:00:00+00:00"),
    ],
)
def test_windows_that_touch_or_overlap_are_one(windows: list[str], at: str, end: str | None) -> None:
    """S3"""
    assert until(quiet(*windows), at) == end


@pytest.mark.parametrize(
    ("zone", "window", "at", "end"),
    [
        # 29 March 2026, 02:00 becomes 03:00; 25 October, 03:00 becomes 02:00 again.
        ("Europe/Berlin", "22:00-07:00", "2026-03-28T22:00", "2026-03-29T07:00:00+02:00"),
        ("Europe/Berlin", "22:00-02:30", "2026-03-28T22:00", "2026-03-29T03:00:00+02:00"),
        ("Europe/Berlin", "02:00-03:00", "2026-03-29T01:59:59.999", None),
        ("Europe/Berlin", "02:00-03:00", "2026-03-29T03:00", None),
        ("Europe/Berlin", "02:30-04:00", "2026-03-29T03:00", "2026-03-29T04:00:00+02:00"),
        ("Europe/Berlin", "22:00-07:00", "2026-10-24T22:00", "2026-10-25T07:00:00+01:00"),
        ("Europe/Berlin", "22:00-02:30", "2026-10-24T22:00", "2026-10-25T02:30:00+02:00"),
        ("Europe/Berlin", "22:00-02:30", "2026-10-25T02:45+02:00", None),
        ("Europe/Berlin", "22:00-02:30", "2026-10-25T02:15+01:00", "2026-10-25T02:30:00+01:00"),
        ("Europe/Berlin", "22:00-03:00", "2026-10-24T22:00", "2026-10-25T03:00:00+01:00"),
        ("Europe/Berlin", "02:30-03:00", "2026-10-25T02:30+02:00", "2026-10-25T02:00:00+01:00"),
        # 8 March 2026, 02:00 becomes 03:00; 1 November, 02:00 becomes 01:00 again.
        ("America/New_York", "22:00-02:00", "2026-03-07T23:00", "2026-03-08T03:00:00-04:00"),
        ("America/New_York", "22:00-02:59", "2026-03-07T23:00", "2026-03-08T03:00:00-04:00"),
        ("America/New_York", "01:30-06:00", "2026-03-08T01:30", "2026-03-08T06:00:00-04:00"),
        ("America/New_York", "01:30-06:00", "2026-11-01T01:30-04:00", "2026-11-01T01:00:00-05:00"),
        ("America/New_York", "22:00-01:30", "2026-10-31T22:00", "2026-11-01T01:30:00-04:00"),
        ("America/New_York", "22:00-01:30", "2026-11-01T01:00-05:00", "2026-11-01T01:30:00-05:00"),
        # 4 October 2026, 02:00 becomes 02:30; 5 April, 02:00 becomes 01:30 again.
        ("Australia/Lord_Howe", "22:00-02:15", "2026-10-03T22:00", "2026-10-04T02:30:00+11:00"),
        ("Australia/Lord_Howe", "02:00-02:30", "2026-10-04T02:30", None),
        ("Australia/Lord_Howe", "22:00-01:45", "2026-04-04T22:00", "2026-04-05T01:45:00+11:00"),
        ("Australia/Lord_Howe", "22:00-01:45", "2026-04-05T01:30+10:30", "2026-04-05T01:45:00+10:30"),
        ("Australia/Lord_Howe", "22:00-02:00", "2026-04-04T22:00", "2026-04-05T02:00:00+10:30"),
        # There was no Friday, 30 December 2011.
        ("Pacific/Apia", "fri 00:00-24:00", "2011-12-29T23:59", None),
        ("Pacific/Apia", "fri 00:00-24:00", "2011-12-31T00:00", None),
        ("Pacific/Apia", "thu 22:00-12:00", "2011-12-29T22:00", "2011-12-31T00:00:00+14:00"),
        ("Pacific/Apia", "fri 22:00-07:00", "2011-12-31T06:00", "2011-12-31T07:00:00+14:00"),
        ("Pacific/Apia", "thu-sat 00:00-24:00", "2011-12-29T12:00", "2012-01-01T00:00:00+14:00"),
        ("Pacific/Apia", "sat-thu 00:00-24:00", "2011-12-29T12:00", "2012-01-06T00:00:00+14:00"),
    ],
)
def test_the_wall_clock_decides_when_the_clocks_change(zone: str, window: str, at: str, end: str | None) -> None:
    """S3 B3"""
    assert until(quiet(window, timezone=zone), at) == end


# --- against a walk that asks zoneinfo minute by minute -----------------------------------------------------

Written = tuple[set[int], int, int]
ZONES = sorted(available_timezones())
ABBREVIATIONS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def as_text(window: Written) -> str:
    days, start, end = window
    names = ",".join(ABBREVIATIONS[day] for day in days)
    return f"{names} {start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"


def holds(window: Written, day: int, minute: int) -> bool:
    days, start, end = window
    if start < end:
        return day in days and start <= minute < end
    return (day in days and minute >= start) or ((day - 1) % 7 in days and minute < end)


def cover_the_week(windows: list[Written]) -> bool:
    return all(any(holds(window, day, minute) for window in windows) for day in range(7) for minute in range(1440))


def shown(zone: ZoneInfo, at: int) -> tuple[int, int]:
    """Day of the week (Sunday 0) and minute of the day on the wall clock."""
    wall = datetime.fromtimestamp(at, zone)
    return wall.isoweekday() % 7, wall.hour * 60 + wall.minute


def walked(windows: list[Written], zone: ZoneInfo, at_ms: int) -> int | None:
    start = at_ms // 1000
    minutes = range(start - start % MINUTE, start + 3 * WEEK, MINUTE)
    opens = next(at for at in minutes if not any(holds(window, *shown(zone, at)) for window in windows))
    return None if opens <= start else opens * 1000


def change_of_clocks(zone: ZoneInfo, year: int) -> int | None:
    """The first day of a year, in seconds, in the course of which the clocks change."""
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    offsets = [datetime.fromtimestamp(start + n * DAY, zone).utcoffset() for n in range(366)]
    return next((start + n * DAY for n in range(365) if offsets[n] != offsets[n + 1]), None)


days = st.sets(st.integers(0, 6), min_size=1)
starts = st.integers(0, 1439) | st.sampled_from(range(0, 300, 15))
ends = st.integers(1, 1440) | st.sampled_from(range(15, 300, 15))
any_time = st.integers(ms("1973-01-01"), ms("2400-01-01"))
written = st.tuples(days, starts, ends).filter(lambda window: window[1] != window[2])


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, int]:
    """A zone and an instant near a change of its clocks, since all offsets are whole minutes (1973)."""
    zone = draw(st.sampled_from(ZONES) | st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"]))
    change = change_of_clocks(ZoneInfo(zone), draw(st.integers(1973, 2099)))
    assume(change is not None)
    return zone, change * 1000 + draw(st.integers(-2 * DAY * 1000, 3 * DAY * 1000))


def compare(windows: list[Written], zone: str, at_ms: int) -> None:
    try:
        policy = quiet(*map(as_text, windows), timezone=zone)
    except InvalidInput:
        assert cover_the_week(windows)
        return
    assert quiet_until(policy, at_ms) == walked(windows, ZoneInfo(zone), at_ms)


@settings(max_examples=400)
@given(st.lists(written, min_size=1, max_size=5), moments())
def test_equals_a_walk_near_changes_of_clocks(windows: list[Written], moment: tuple[str, int]) -> None:
    """S3 B3"""
    compare(windows, *moment)


@settings(max_examples=100)
@given(st.lists(written, min_size=1, max_size=5), st.sampled_from(ZONES), any_time)
def test_equals_a_walk_at_any_time(windows: list[Written], zone: str, at_ms: int) -> None:
    """S3 B3"""
    compare(windows, zone, at_ms)


def test_a_hundred_windows_and_one_open_minute() -> None:
    """S3: the most that is allowed"""
    policy = quiet(*["00:00-23:59"] * 99, "mon-sat 23:59-24:00")
    assert until(policy, "2026-05-11T00:00") == "2026-05-17T23:59:00+00:00"
    assert until(policy, "2026-05-17T23:59:59.999") is None


def test_whole_days_are_quiet_beside_the_windows() -> None:
    """S3, B11: hour by hour, over a change of the clocks"""
    zone = "Europe/Berlin"
    policy = replace(quiet("22:00-07:00", timezone=zone), days=(read_days(("2026-03-28..2026-03-29", "04-01")),))
    first, hours = ms("2026-03-26T00:00", zone), range(9 * 24)
    calm = [at.hour >= 22 or at.hour < 7 or (at.month, at.day) in ((3, 28), (3, 29), (4, 1)) for at in (
        datetime.fromtimestamp(first / 1000 + n * 3600, ZoneInfo(zone)) for n in hours
    )]  # fmt: skip
    spans = quiet_spans(policy, first, first + len(hours) * 3_600_000)
    for n in hours[:-24]:
        at = first + n * 3_600_000
        opens = next(later for later in hours[n:] if not calm[later])
        assert quiet_until(policy, at) == (first + opens * 3_600_000 if calm[n] else None)
        assert any(start <= at < end for start, end in spans) == calm[n]
        since = next((m + 1 for m in range(n - 1, -1, -1) if calm[m] != calm[n]), None)
        assert since is None or last_change_at(policy, at) == first + since * 3_600_000
    assert describe(replace(policy, calendars=("closing",))).startswith("22:00 to 07:00 every day; the days of closing")
