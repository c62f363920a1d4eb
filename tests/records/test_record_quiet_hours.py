"""Quiet hours as records: what their settings mean, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_steps import CONTEXT, kept

from matins.engine.quiet_hours import QuietHours, Window
from matins.errors import InvalidInput, TimezoneError
from matins.records.policies import QUIET_HOURS

EVERY_DAY, WEEKDAYS, WEEKEND, FRIDAY = 0b111_1111, 0b011_1110, 0b100_0001, 0b010_0000
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia")


def quiet(*windows: Any, **settings: Any) -> QuietHours:
    return QUIET_HOURS.parse("nights", {"windows": list(windows), **settings}, CONTEXT)


@pytest.mark.parametrize(
    ("given", "window"),
    [
        ("22:00-07:00", (EVERY_DAY, 1320, 420)),
        ("7:05-7:06", (EVERY_DAY, 425, 426)),
        ("22:00-24:00", (EVERY_DAY, 1320, 1440)),
        ("22:00-00:00", (EVERY_DAY, 1320, 1440)),
        ("fri 22:00-07:00", (FRIDAY, 1320, 420)),
        ("FRIDAY 22:00 - 07:00", (FRIDAY, 1320, 420)),
        ("weekdays 12:00-13:00", (WEEKDAYS, 720, 780)),
        ("Weekend 12:00-13:00", (WEEKEND, 720, 780)),
        ("sat,sun 00:00-24:00", (WEEKEND, 0, 1440)),
        ("  Sat, sunday  00:00-24:00 ", (WEEKEND, 0, 1440)),
        ("sat, weekend 00:00-24:00", (WEEKEND, 0, 1440)),
        ("mon-fri 18:00-08:00", (WEEKDAYS, 1080, 480)),
        ("Mon - Fri 18:00-08:00", (WEEKDAYS, 1080, 480)),
        ("sat-sun 10:00-11:00", (WEEKEND, 600, 660)),
        ("fri-mon 10:00-11:00", (0b110_0011, 600, 660)),
        ("tues,thur,thurs,weekend 10:00-11:00", (0b101_0101, 600, 660)),
        ({"from": "22:00", "to": "07:00"}, (EVERY_DAY, 1320, 420)),
        ({"days": None, "from": "22:00", "to": "07:00"}, (EVERY_DAY, 1320, 420)),
        ({"days": "mon-fri", "from": "22:00", "to": "24:00"}, (WEEKDAYS, 1320, 1440)),
        ({"days": ["mon", "Wed-Fri", "tuesday"], "from": "22:00", "to": "07:00"}, (WEEKDAYS, 1320, 420)),
    ],
)
def test_windows_as_people_write_them(given: Any, window: tuple[int, int, int]) -> None:
    """S3"""
    expected = QuietHours("nights", (Window(*window),), "UTC", "skip")
    assert quiet(given) == expected
    assert QUIET_HOURS.parse("nights", {"windows": given}, CONTEXT) == expected, "one window needs no list"


def test_every_setting_reaches_the_policy() -> None:
    """S3"""
    windows = ["22:00-07:00", {"days": "fri", "from": "12:00", "to": "13:00"}]
    expected = (Window(EVERY_DAY, 1320, 420), Window(FRIDAY, 720, 780))
    policy = quiet(*windows, timezone="Europe/Berlin", mode="defer")
    assert policy == QuietHours("nights", expected, "Europe/Berlin", "defer")


def test_none_is_the_same_as_leaving_it_out() -> None:
    """S3"""
    assert quiet("22:00-07:00", timezone=None, mode=None) == quiet("22:00-07:00")


def test_the_document_has_the_same_settings() -> None:
    """S3"""
    policy = quiet("22:00-07:00", {"days": "sun-tue", "from": "9:00", "to": "00:00"}, mode="defer")
    assert QUIET_HOURS.document(policy) == {
        "name": "nights",
        "windows": ["22:00-07:00", "mon,tue,sun 09:00-24:00"],
        "timezone": "UTC",
        "mode": "defer",
        "calendars": [],
    }


@given(
    st.lists(
        st.builds(Window, st.integers(1, 127), st.integers(0, 1439), st.integers(1, 1440)).filter(
            lambda window: window.start != window.end
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(ZONES),
    st.sampled_from(["skip", "defer"]),
)
def test_there_and_back(windows: list[Window], zone: str, mode: Any) -> None:
    """S3: through the store, and through what people write"""
    policy = QuietHours("nights", tuple(windows), zone, mode)
    assert kept(QUIET_HOURS, "nights", policy) == policy
    if policy.open_minutes:
        document = QUIET_HOURS.document(policy)
        assert QUIET_HOURS.parse(document.pop("name"), document, CONTEXT) == policy


NIGHT = "22:00-07:00"


@pytest.mark.parametrize(
    ("settings", "message", "field", "hint"),
    [
        ({"windows": "22:00-22:00"}, "has no length", "windows", "00:00-24:00 is a whole day"),
        ({"windows": [NIGHT, "fri 00:00-00:00"]}, "has no length", "windows[1]", "00:00-24:00 is a whole day"),
        ({"windows": {"from": "9:00", "to": "09:00"}}, "has no length", "windows.to", "00:00-24:00 is a whole day"),
        ({"windows": "someday 22:00-07:00"}, 'Unknown day "someday"', "windows", 'Did you mean "sunday"?'),
        ({"windows": "xyzzy 22:00-07:00"}, 'Unknown day "xyzzy"', "windows", "Known: sun, mon,"),
        ({"windows": "mon,, 22:00-07:00"}, 'Unknown day ""', "windows", "Known: sun, mon,"),
        ({"windows": "mon-weekdays 22:00-07:00"}, 'Unknown day "weekdays"', "windows", "Did you mean"),
        ({"windows": "mon-Mon 22:00-07:00"}, '"mon-mon" begins and ends on one day', "windows", '"mon" for that day'),
        ({"windows": [{"days": [1], "from": "22:00", "to": "07:00"}]}, 'day "1"', "windows[0].days", "Known: sun,"),
        ({"windows": [{"days": 1, "from": "22:00", "to": "07:00"}]}, "not name days", "windows[0].days", '"mon-fri"'),
        ({"windows": [{"days": [], "from": "22:00", "to": "07:00"}]}, "not name days", "windows[0].days", "every day"),
        ({"windows": "25:00-07:00"}, "'25:00' is not a time from 00:00 to 23:59", "windows", "22:00-07:00"),
        ({"windows": "24:00-07:00"}, "'24:00' is not a time from 00:00 to 23:59", "windows", "22:00-07:00"),
        ({"windows": "22:00-24:01"}, "'24:01' is not a time from 00:00 to 24:00", "windows", "22:00-07:00"),
        ({"windows": "22:60-07:00"}, "'22:60' is not a time", "windows", "22:00-07:00"),
        ({"windows": "7pm-07:00"}, "'7pm' is not a time", "windows", "22:00-07:00"),
        ({"windows": "22:00-07:00 fri"}, "'07:00 fri' is not a time", "windows", "22:00-07:00"),
        ({"windows": "٢٢:٠٠-07:00"}, "is not a time", "windows", "22:00-07:00"),
        ({"windows": {"from": 1320, "to": "07:00"}}, "1320 is not a time", "windows.from", "in quotes"),
        ({"windows": {"from": "22:00", "to": 420}}, "420 is not a time", "windows.to", "in quotes"),
        ({"windows": {"from": "22:00"}}, "not a window of time", "windows", '"to": "07:00"'),
        ({"windows": {"days": "fri", "to": "22:00"}}, "not a window of time", "windows", '"from": "22:00"'),
        ({"windows": "22:00"}, "'22:00' is not a window of time", "windows", '"22:00-07:00"'),
        ({"windows": "22:00-"}, "'22:00-' is not a window of time", "windows", '"22:00-07:00"'),
        ({"windows": ["-07:00"]}, "'-07:00' is not a window of time", "windows[0]", '"22:00-07:00"'),
        ({"windows": ""}, "'' is not a window of time", "windows", '"22:00-07:00"'),
        ({"windows": [NIGHT, 7]}, "7 is not a window of time", "windows[1]", '"22:00-07:00"'),
        ({"windows": {"form": "22:00", "to": "07:00"}}, 'no "form"', "windows.form", 'Did you mean "from"?'),
        ({"windows": []}, '"windows" must be a list of windows', "windows", "windows=["),
        ({"windows": 5}, '"windows" must be a list of windows, not 5', "windows", "windows=["),
        ({"windows": None}, 'need "windows"', "windows", "windows=["),
        ({}, 'need "windows"', "windows", "windows=["),
        ({"windows": [NIGHT] * 101}, "at most 100 windows, not 101", "windows", "several days"),
        ({"windows": NIGHT, "timezome": "UTC"}, 'has no setting "timezome"', "timezome", '"timezone"?'),
        ({"windows": NIGHT, "colour": "red"}, 'no setting "colour"', "colour", "Known: windows, timezone, mode, cal"),
        ({"windows": NIGHT, 7: "red"}, 'no setting "7"', "7", "Known: windows, timezone, mode, calendars."),
        ({"windows": NIGHT, "mode": "queue"}, "must be skip or defer, not 'queue'", "mode", "the default, skip"),
        ({"windows": NIGHT, "mode": ["skip"]}, '"mode" must be skip or defer', "mode", "the default, skip"),
        ({"windows": NIGHT, "timezone": 2}, 'such as "Europe/London", not 2', "timezone", "the default, UTC"),
        ({"windows": "00:00-24:00"}, "cover the whole week", "windows", "Leave some time free"),
        ({"windows": [NIGHT, "06:00-22:01"]}, "cover the whole week", "windows", "Leave some time free"),
        ({"windows": ["mon-sat 00:00-24:00", "sun 00:00-23:59", "sat,sun 23:59-00:01"]}, "cover the whole week",
         "windows", "Leave some time free"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_with_a_way_to_mend_it(
    settings: dict[Any, Any], message: str, field: str, hint: str
) -> None:
    """S3"""
    with pytest.raises(InvalidInput) as refused:
        QUIET_HOURS.parse("nights", settings, CONTEXT)
    error = refused.value
    assert (type(error), error.field) == (InvalidInput, field)
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(("zone", "hint"), [("Europe/Berlim", "Europe/Berlin"), ("new york", "America/New_York")])
def test_an_unknown_zone(zone: str, hint: str) -> None:
    """S3"""
    with pytest.raises(TimezoneError, match=f'Unknown time zone "{zone}"') as refused:
        quiet(NIGHT, timezone=zone)
    assert (refused.value.field, refused.value.hint) == ("timezone", f'Did you mean "{hint}"?')
