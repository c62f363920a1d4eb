"""Descriptions: true to what a trigger does, and parsing back to it wherever the grammar has the words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins import Trigger, parse_trigger, trigger_from_dict
from matins.engine.english.describe import explain
from matins.engine.when.triggers import to_ms

NOW = datetime(2026, 3, 25, 12, tzinfo=UTC)
ZONE = "Europe/London"


def fires(trigger: Trigger, days: int = 800) -> list[int]:
    start, end = to_ms(NOW), to_ms(NOW + timedelta(days=days))
    found: list[int] = []
    at = trigger.next_ms(start)
    while at is not None and at < end and len(found) < 400:
        found.append(at)
        at = trigger.next_ms(at)
    return found


def parse(text: str) -> Trigger:
    return parse_trigger(text, timezone=ZONE, now=NOW)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 9 * * 1-5", "every weekday at 09:00"),
        ("0 9 * * *", "every day at 09:00"),
        ("30 8,12,18 * * *", "every day at 08:30, 12:30 and 18:30"),
        ("0 9 * * 1,3,5", "every Monday, Wednesday and Friday at 09:00"),
        ("0 10 * * 0,6", "every Saturday and Sunday at 10:00"),
        ("*/5 * * * *", "every 5 minutes on the clock"),
        ("* * * * *", "every minute on the clock"),
        ("*/5 * * * 1-5", "every 5 minutes on the clock on weekdays"),
        ("*/7 * * * *", "at 0, 7, 14, 21, 28, 35, 42, 49 and 56 minutes past every hour"),
        ("0 * * * *", "every hour on the hour"),
        ("0 */2 * * *", "every 2 hours on the hour"),
        ("15,45 * * * *", "at 15 and 45 minutes past every hour"),
        ("0 9-17 * * 1-5", "every hour between 09:00 and 17:00 on weekdays"),
        ("0,15,30,45 9-17 * * *", "every 15 minutes between 09:00 and 17:45"),
        ("0 12 1 * *", "on the 1st of every month at 12:00"),
        ("0 9 1,15 * *", "on the 1st and 15th of every month at 09:00"),
        ("0 18 L * *", "on the last day of every month at 18:00"),
        ("0 9 LW * *", "on the last weekday of every month at 09:00"),
        ("0 9 15W * *", "on the weekday nearest the 15th of every month at 09:00"),
        ("0 18 * * 5L", "on the last Friday of every month at 18:00"),
        ("0 9 * * 1#1", "on the first Monday of every month at 09:00"),
        ("0 9 25 12 *", "on the 25th of every December at 09:00"),
        ("0 9 1 1,7 *", "on the 1st of every January and July at 09:00"),
        ("0 9 29 2 *", "on the 29th of every February at 09:00"),
        ("5m", "every 5 minutes"),
        ("90s", "every 90 seconds"),
        ("1h", "every hour"),
        ("1d", "every 24 hours"),
        ("2d", "every 2 days"),
        ("every other tuesday at 14:30", "every other Tuesday at 14:30 starting 2026-03-31"),
        (
            "every 2 weeks on monday and friday at 9:00",
            "every other week on Monday and Friday at 09:00 starting 2026-03-27",
        ),
        ("every 2 days at 9am", "every other day at 09:00 starting 2026-03-26"),
        ("every 3 months on the 1st at 09:00", "every 3 months on the 1st at 09:00 starting 2026-04-01"),
        (
            "every other month on the last friday at 9:00",
            "every other month on the last Friday at 09:00 starting 2026-03-27",
        ),
        ("in 2 hours", "once on 2026-03-25 at 14:00"),
        ("0 11-13 15 * *", "on the 15th of every month at 11:00, 12:00 and 13:00"),
        (
            "RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=9;BYMINUTE=0",
            "every month on the last weekday at 09:00 starting 2026-03-25",
        ),
        ("2026-07-01T09:30:15Z", "once on 2026-07-01 at 10:30:15"),
        ("daily at 9am and 5:30pm", "every day at 09:00 and 17:30"),
    ],
)
def test_b10_words_that_parse_back(text: str, says: str) -> None:
    """B10"""
    trigger = parse(text)
    assert trigger.describe() == says
    assert fires(parse(says)) == fires(trigger)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("*/15 9-17 * * *", "every 15 minutes on the clock in the hours 9 to 17"),
        ("5 */3 * * *", "at 5 minutes past the hours 0, 3, 6, 9, 12, 15, 18 and 21"),
        ("0 0 13 * 5", "on the 13th of every month or on every Friday at 00:00"),
        ("0 0 */2 * 1", "on every 2nd day from the 1st to the 31st of every month where it is a Monday at 00:00"),
        ("30 0 9 * * *", "every day at 09:00, at second 30"),
        ("* * * * * *", "every minute on the clock, every second of that minute"),
        ("0 9 * 1 1", "every Monday at 09:00 in January"),
        ("2026-10-25T01:30:00+00:00", "once at 2026-10-25T01:30:00+00:00"),
        ("RRULE:FREQ=YEARLY;COUNT=3", "every year in March on the 25th at 12:00 starting 2026-03-25, 3 times"),
        (
            "RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0;UNTIL=20261231",
            "every day at 09:00 starting 2026-03-25 at 12:00, until 2026-12-31",
        ),
        ("RRULE:FREQ=HOURLY;INTERVAL=5", "every 5 hours starting 2026-03-25 at 12:00"),
    ],
)
def test_b10_true_where_the_grammar_has_no_words(text: str, says: str) -> None:
    """B10"""
    assert parse(text).describe() == says


def test_a_grid_and_a_first_run_at_once_are_said() -> None:
    assert (
        parse_trigger("5m", now=NOW, anchor="grid").describe() == "every 5 minutes, counted from 2026-03-25T12:00:00Z"
    )
    assert parse_trigger("5m", now=NOW, anchor="start").describe() == "every 5 minutes, from start to start"
    assert parse_trigger("5m", now=NOW, first="immediately").describe() == "every 5 minutes, the first time at once"


_TIMES = st.lists(st.integers(0, 1439), min_size=1, max_size=12, unique=True)
_DAYS = st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True)


@given(_DAYS, _TIMES)
def test_b10_any_weekly_trigger_parses_back(days: list[int], times: list[int]) -> None:
    """B10"""
    clocks = [f"{t // 60:02}:{t % 60:02}" for t in times]
    trigger = trigger_from_dict({"kind": "weekly", "days": days, "times": clocks, "timezone": ZONE})
    assert fires(parse(trigger.describe()), days=15) == fires(trigger, days=15)


@given(st.integers(1, 3600 * 24 * 40))
def test_b10_any_interval_parses_back(seconds: int) -> None:
    """B10"""
    trigger = parse(f"{seconds}s")
    assert parse(trigger.describe()).smallest_gap() == trigger.smallest_gap()


@pytest.mark.parametrize(
    ("expression", "zone", "options", "says"),
    [
        ("30 1 * * *", ZONE, {}, ["2026-03-29 01:30 does not exist: fires at 02:00"]),
        ("0,30 1 * * *", ZONE, {}, ["2026-03-29 01:00 and 2026-03-29 01:30 do not exist: fire once, at 02:00"]),
        ("30 1 * * *", ZONE, {"dst_gap": "skip"}, ["2026-03-29 01:30 does not exist: nothing fires for it"]),
        ("30 1 * * *", ZONE, {"dst_gap": "shift"}, ["2026-03-29 01:30 does not exist: fires at 02:30"]),
        (
            "*/15 * * * *",
            ZONE,
            {},
            [
                "2026-03-29 01:00, 2026-03-29 01:15, 2026-03-29 01:30 and 1 more do not exist: nothing fires for them",
            ],
        ),
        ("0 9 * * *", ZONE, {}, []),
        ("30 1 * * *", "UTC", {}, []),
    ],
)
def test_b3_surprises_of_spring(expression: str, zone: str, options: dict, says: list[str]) -> None:
    """B3"""
    trigger = parse_trigger(expression, timezone=zone, **options)
    dst_changes = trigger.dst_changes(NOW, NOW + timedelta(days=30))
    assert [explain(surprise, trigger.zone) for surprise in dst_changes] == says


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "2026-10-25 01:30 occurs twice: only the first fires"),
        ({"dst_overlap": "both"}, "2026-10-25 01:30 occurs twice: both fire"),
    ],
)
def test_b3_surprises_of_autumn(options: dict, says: str) -> None:
    """B3"""
    trigger = parse_trigger("30 1 * * *", timezone=ZONE, **options)
    (surprise,) = trigger.dst_changes(NOW + timedelta(days=200), NOW + timedelta(days=230))
    assert explain(surprise, trigger.zone) == says
    assert surprise.jump_ms == -3_600_000


def test_b3_intervals_have_no_surprises() -> None:
    """B3"""
    assert parse("5m").dst_changes(NOW, NOW + timedelta(days=300)) == []
