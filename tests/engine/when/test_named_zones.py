"""Zones in the text of a trigger."""

from __future__ import annotations

import pytest

from matins import parse_trigger
from matins.engine.when.zones import names_zone
from matins.errors import MatinsError

NINE = "every day at 09:00"


@pytest.mark.parametrize(
    ("text", "zone", "means"),
    [
        ("every day at 9am Europe/London", "Europe/London", NINE),
        ("every day at 9am america/new_york", "America/New_York", NINE),
        ("every day at 9am New York time", "America/New_York", NINE),
        ("every day at 9am London time", "Europe/London", NINE),
        ("every day at 9am Pacific time", "America/Los_Angeles", NINE),
        ("every day at 9am UTC", "UTC", NINE),
        ("every day at 9am GMT", "UTC", NINE),
        ("every day at 9am PST", "America/Los_Angeles", NINE),
        ("every day at 9am ET", "America/New_York", NINE),
        ("TZ=Asia/Tokyo 0 9 * * *", "Asia/Tokyo", NINE),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", "Asia/Tokyo", NINE),
        ("TZ=Asia/Tokyo @daily", "Asia/Tokyo", "every day at 00:00"),
    ],
)
def test_s6_a_text_names_its_zone(text: str, zone: str, means: str) -> None:
    """S6"""
    trigger = parse_trigger(text)
    assert (trigger.timezone, trigger.describe()) == (zone, means)
    assert names_zone(text)
    assert parse_trigger(text, timezone=zone).timezone == zone
    with pytest.raises(MatinsError, match="but the schedule is in Asia/Kolkata"):
        parse_trigger(text, timezone="Asia/Kolkata")


@pytest.mark.parametrize(
    "text", ["every day at 9am", "0 9 * * *", "*/5 * * * *", "5m", "every weekday at noon", "never"]
)
def test_most_texts_name_none(text: str) -> None:
    assert not names_zone(text)
    assert parse_trigger(text, timezone="Asia/Tokyo").timezone == "Asia/Tokyo"


def test_what_a_short_name_means_is_said() -> None:
    """S6: PST is Pacific time, in summer too"""
    assert parse_trigger("every day at 9am PST").notes == ('"PST" read as America/Los_Angeles, with its clock changes',)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("every day at 9am IST", '"IST" is the name of several time zones'),
        ("every day at 9am Europe/Lundon", '"europe/lundon" cannot be used'),
        ("every day at 9am Gotham time", '"gotham" cannot be used'),
        ("TZ=Europe/Lundon 0 9 * * *", 'Unknown time zone "Europe/Lundon"'),
    ],
)
def test_an_unknown_or_ambiguous_zone_is_refused(text: str, message: str) -> None:
    with pytest.raises(MatinsError, match=message):
        parse_trigger(text)


def test_strict_cron_has_no_zone() -> None:
    with pytest.raises(MatinsError, match="expected 5 fields"):
        parse_trigger("TZ=Asia/Tokyo 0 9 * * *", strict=True)
