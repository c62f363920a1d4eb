"""What every trigger can do."""

from datetime import UTC, datetime, timedelta

import pytest

from matins import InstantError, RruleError, TimezoneError, TriggerError, parse_trigger, trigger_from_dict
from matins.engine.when.triggers import to_ms

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)
NOW_MS = to_ms(NOW)
TEXTS = [
    "0 9 * * 1-5",
    "30 0 9 * * *",
    "@weekly",
    "5m",
    "every other tuesday at 14:30",
    "daily at 9am and 5:30pm",
    "every monday and friday at noon",
    "in 2 hours",
    "2026-10-25T01:30:00+00:00",
    "RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18;BYMINUTE=0;COUNT=5",
]


@pytest.mark.parametrize("text", TEXTS)
def test_to_dict_and_back(text: str) -> None:
    trigger = parse_trigger(text, timezone="Europe/London", now=NOW, dst_gap="shift", dst_overlap="both")
    again = trigger_from_dict(trigger.to_dict())
    assert again == trigger
    assert hash(again) == hash(trigger)
    assert again.next_ms(NOW_MS) == trigger.next_ms(NOW_MS)


@pytest.mark.parametrize("text", TEXTS)
def test_integers_and_datetimes_agree(text: str) -> None:
    """S6"""
    trigger = parse_trigger(text, timezone="Asia/Kathmandu", now=NOW)
    at = trigger.next_after(NOW)
    assert at is not None
    assert to_ms(at) == trigger.next_ms(NOW_MS)
    assert str(at.tzinfo) == "Asia/Kathmandu"


def test_strictly_after_and_strictly_before() -> None:
    trigger = parse_trigger("0 12 * * *")
    assert trigger.next_ms(NOW_MS) == NOW_MS + 86_400_000
    assert trigger.prev_ms(NOW_MS) == NOW_MS - 86_400_000
    assert trigger.next_ms(NOW_MS - 1) == NOW_MS
    assert trigger.prev_ms(NOW_MS + 1) == NOW_MS


def test_between_holds_its_start_and_not_its_end() -> None:
    trigger = parse_trigger("0 12 * * *")
    assert list(trigger.between(NOW, NOW + timedelta(days=1))) == [NOW]
    assert trigger.count(NOW_MS, NOW_MS + 86_400_000) == 1


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(InstantError, match="has no time zone"):
        parse_trigger("0 12 * * *").next_after(datetime(2026, 1, 1))


def test_h3_interval_anchored_to_completion() -> None:
    """H3"""
    trigger = parse_trigger("5m", now=NOW)
    assert trigger.next_ms(NOW_MS + 1) == NOW_MS + 1 + 300_000
    assert trigger.first_ms(NOW_MS) == NOW_MS + 300_000
    assert parse_trigger("5m", now=NOW, first="immediately").first_ms(NOW_MS) == NOW_MS


def test_a_grid_counts_from_creation() -> None:
    trigger = parse_trigger("5m", now=NOW, anchor="grid")
    assert trigger.next_ms(NOW_MS + 1) == NOW_MS + 300_000
    assert trigger.next_ms(NOW_MS - 10**9) == NOW_MS - 10**9 + 100_000, "the clock was ahead when it was created"
    assert trigger.next_ms(NOW_MS + 300_000) == NOW_MS + 600_000
    assert trigger.prev_ms(NOW_MS + 300_000) == NOW_MS
    assert trigger.count(NOW_MS + 1, NOW_MS + 900_000) == 2
    assert trigger.count(NOW_MS + 1, NOW_MS + 10**12) == (10**12 - 1) // 300_000
    at_once = parse_trigger("5m", now=NOW, anchor="grid", first="immediately")
    assert at_once.next_ms(NOW_MS - 1) == NOW_MS


def test_intervals_are_elapsed_time_through_a_clock_change() -> None:
    trigger = parse_trigger("every 2 days", timezone="Europe/London", now=NOW)
    at = trigger.next_after(NOW)
    assert at == NOW + timedelta(hours=48)
    assert at is not None
    assert at.hour == 13


def test_relative_phrases_are_frozen_when_made() -> None:
    """B10: a reload an hour later from the stored definition moves nothing."""
    made = parse_trigger("in 2 hours", now=NOW)
    assert trigger_from_dict(made.to_dict()).next_after(NOW) == NOW + timedelta(hours=2)
    fortnightly = parse_trigger("every other tuesday at 14:30", now=NOW)
    stored = trigger_from_dict(fortnightly.to_dict())
    first = datetime(2026, 3, 31, 14, 30, tzinfo=UTC)
    assert [stored.next_after(NOW), stored.next_after(first)] == [first, first + timedelta(weeks=2)]
    later = parse_trigger("every other tuesday at 14:30", now=NOW + timedelta(weeks=1))
    assert later.next_after(first + timedelta(hours=1)) == first + timedelta(weeks=1)


def test_an_instant_without_offset_is_in_the_zone_and_said() -> None:
    trigger = parse_trigger("2026-07-01T09:00", timezone="Europe/London", now=NOW)
    assert trigger.next_after(NOW) == datetime(2026, 7, 1, 8, tzinfo=UTC)
    assert trigger.notes == ("no offset given: read as the time in Europe/London",)


def test_an_instant_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InstantError) as caught:
        parse_trigger("2026-03-29T01:30", timezone="Europe/London", now=NOW)
    assert caught.value.hint == "The first time after it is 2026-03-29T02:00:00."


def test_an_instant_that_occurs_twice_is_the_first_and_said() -> None:
    trigger = parse_trigger("2026-10-25T01:30", timezone="Europe/London", now=NOW)
    # On integers: Python holds ambiguous datetimes of different zones to be unequal, whatever they say.
    assert trigger.next_ms(NOW_MS) == to_ms(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    assert "occurs twice" in trigger.notes[1]


@pytest.mark.parametrize(
    "text", ["2026-13-01T00:00", "2026-02-30T00:00", "2026-03-24", "2026-03-24T25:00", "2026-03-24 9"]
)
def test_bad_instants(text: str) -> None:
    with pytest.raises(InstantError) as caught:
        parse_trigger(text)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "   ", "x" * 1001])
def test_no_text_and_too_much(text: str) -> None:
    with pytest.raises(TriggerError):
        parse_trigger(text)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europe/Londn", 'Did you mean "Europe/London"?'),
        ("london", 'Did you mean "Europe/London"?'),
        ("../../etc/passwd", None),
        ("", None),
        ("Mars/Olympus", None),
    ],
)
def test_unknown_zones(zone: str, hint: str | None) -> None:
    """S6"""
    with pytest.raises(TimezoneError) as caught:
        parse_trigger("0 9 * * *", timezone=zone)
    assert caught.value.value == zone
    assert caught.value.hint
    assert hint is None or caught.value.hint == hint


def test_local_is_the_machines_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert parse_trigger("0 9 * * *", timezone="local").timezone == "Asia/Tokyo"


def test_a_dtstart_brings_its_zone() -> None:
    trigger = parse_trigger("DTSTART;TZID=Europe/Paris:20260401T090000\nRRULE:FREQ=DAILY;COUNT=2")
    assert [f"{at:%m-%d %H:%M %Z}" for at in trigger.between(NOW, NOW + timedelta(days=30))] == [
        "04-01 09:00 CEST",
        "04-02 09:00 CEST",
    ]
    with pytest.raises(RruleError, match="The rule is in Europe/Paris"):
        parse_trigger("DTSTART;TZID=Europe/Paris:20260401T090000 RRULE:FREQ=DAILY", timezone="UTC")


@pytest.mark.parametrize(
    "text",
    [
        "RRULE:FREQ=SECONDLY;INTERVAL=7;BYHOUR=9",
        "RRULE:FREQ=YEARLY;BYWEEKNO=3;BYDAY=1MO",
        "RRULE:FREQ=DAILY;FREQ=DAILY",
        "RRULE:INTERVAL=2",
        "RRULE:FREQ=DAILY;INTERVAL=0",
        "RRULE:FREQ=DAILY;BYHOUR=24",
        "RRULE:FREQ=DAILY;BYMONTHDAY=0",
        "RRULE:FREQ=WEEKLY;BYDAY=2MO",
        "RRULE:FREQ=YEARLY;BYYEARDAY=367",
        "RRULE:FREQ=DAILY;COUNT=3;UNTIL=20270101",
        "RRULE:FREQ=DAILY;UNTIL=20261301",
        "RRULE:FREQ=MONTHLY;BYSETPOS=1",
        "RRULE:FREQ=HOURLY;INTERVAL=5;BYDAY=MO",
        "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "RRULE:FREQ=DAILY;UNTIL=20200101",
        "DTSTART:20260101T090000Z",
        "DTSTART:20261301T090000Z RRULE:FREQ=DAILY",
        "RRULE:FREQ=DAILY EXRULE:FREQ=WEEKLY",
        "RRULE:FREQ=DAILY RDATE:20260101",
        "RRULE:FREQ=DAILY;BYEASTER=1",
        "RRULE:FREQ=DAILY EXDATE:20261301",
        "RRULE:FREQ",
        "FREQ=DAILY;BYDAY=XX",
    ],
)
def test_bad_rules_are_refused_by_name(text: str) -> None:
    with pytest.raises(RruleError) as caught:
        parse_trigger(text, now=NOW)
    assert caught.value.message


def test_bysetpos_counts_through_days_and_times() -> None:
    trigger = parse_trigger(
        "DTSTART:20260401T000000Z RRULE:FREQ=MONTHLY;BYDAY=MO,TU;BYHOUR=9,17;BYMINUTE=0;BYSETPOS=1,2,3,-1"
    )
    april = trigger.between(datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC))
    assert [f"{at:%d %H}" for at in april] == ["06 09", "06 17", "07 09", "28 17"]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "moonphase"},
        {"kind": "cron"},
        {"kind": "cron", "expression": 5},
        {"kind": "cron", "expression": "0 9 * * *", "colour": "red"},
        {"kind": "daily", "times": []},
        {"kind": "daily", "times": ["9:0"]},
        {"kind": "weekly", "days": [], "times": ["09:00"]},
        {"kind": "weekly", "days": [True], "times": ["09:00"]},
        {"kind": "once", "at": "2026-03-24T14:00"},
        {"kind": "once", "at": "noon"},
        {"kind": "interval", "every_ms": 0, "origin": "2026-03-24T14:00:00Z"},
        {"kind": "cron", "expression": "0 9 * * *", "dst": "after"},
        {"kind": "cron", "expression": "0 9 * * *", "dst": {"gap": "before"}},
        {"kind": "cron", "expression": "0 9 * * *", "dst": {"gaps": "after"}},
    ],
)
def test_bad_definitions_say_which_key(data: dict) -> None:
    with pytest.raises(TriggerError) as caught:
        trigger_from_dict(data)
    assert caught.value.field


def test_time_ends_in_the_year_9999() -> None:
    """No answer is better than a wrong one or a crash."""
    end = datetime(9999, 12, 31, tzinfo=UTC)
    for text in ("0 9 * * *", "0 0 29 2 *", "5m", "FREQ=DAILY;BYHOUR=9"):
        trigger = parse_trigger(text, now=NOW, timezone="Pacific/Kiritimati")
        assert trigger.next_after(end) is None
        assert trigger.next_ms(1 << 70) is None
        assert trigger.prev_ms(-(1 << 70)) is None
        trigger.count(-(1 << 50), NOW_MS)


def test_far_years_follow_the_zones_closing_rule() -> None:
    """S6"""
    trigger = parse_trigger("0 9 * * *", timezone="America/New_York")
    summer, winter = datetime(2399, 7, 1, tzinfo=UTC), datetime(2399, 1, 1, tzinfo=UTC)
    assert trigger.next_after(summer) == summer + timedelta(hours=13)
    assert trigger.next_after(winter) == winter + timedelta(hours=14)


def test_never_has_no_instant_and_reads_back() -> None:
    """A draft has no time of its own."""
    trigger = parse_trigger("Never", now=NOW)
    assert (trigger.kind, trigger.describe(), trigger.smallest_gap()) == ("never", "never", None)
    assert trigger.next_ms(NOW_MS) is None
    assert trigger.prev_ms(NOW_MS) is None
    assert trigger.count(0, NOW_MS) == 0
    assert trigger_from_dict(trigger.to_dict()) == trigger
