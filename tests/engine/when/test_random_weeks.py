"""P3, H4, C1, S6: in random weeks from 1970 to 2100 the engine equals a walk over `zoneinfo`."""

from __future__ import annotations

from itertools import product
from zoneinfo import available_timezones

import pytest
from cron_texts import five_fields, six_fields
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from walk import DAY, CronText, Walk, instant, transitions

from matins.engine.when.triggers import Trigger, compile_trigger
from matins.errors import CronParseError
from matins.model.trigger import Cron, Daily, DstGap, DstOverlap, TriggerDefinition, Weekly, When

WEEK = 7 * DAY
YEAR = 365 * DAY
ZONES = sorted(available_timezones())
GAPS: list[DstGap] = ["after", "skip", "shift"]
OVERLAPS: list[DstOverlap] = ["first", "both"]

# Clocks that changed for good, or by an unusual amount: zone, the UTC day of the change.
UPHEAVALS = [
    ("Pacific/Apia", "2011-12-30"),
    ("Pacific/Fakaofo", "2011-12-30"),
    ("Pacific/Kwajalein", "1993-08-21"),
    ("Pacific/Kiritimati", "1994-12-31"),
    ("Pacific/Enderbury", "1994-12-31"),
    ("Asia/Pyongyang", "2015-08-14"),
    ("Asia/Pyongyang", "2018-05-04"),
    ("America/Caracas", "2007-12-09"),
    ("America/Caracas", "2016-05-01"),
    ("Europe/Istanbul", "2015-11-08"),
    ("Europe/Volgograd", "2018-10-27"),
    ("Europe/Volgograd", "2020-12-26"),
    ("Europe/Moscow", "2011-03-26"),
    ("Europe/Moscow", "2014-10-25"),
    ("Africa/Monrovia", "1972-01-07"),
    ("Africa/Juba", "2021-01-31"),
    ("Australia/Lord_Howe", "1981-02-28"),
    ("Australia/Lord_Howe", "1985-10-26"),
    ("Antarctica/Casey", "2018-03-10"),
    ("Antarctica/Troll", "2005-03-27"),
    ("Asia/Kathmandu", "1985-12-31"),
    ("Asia/Almaty", "2024-02-29"),
    ("America/Nuuk", "2023-03-25"),
    ("America/Metlakatla", "2015-11-01"),
    ("Asia/Gaza", "2011-08-01"),
    ("Africa/El_Aaiun", "2013-07-06"),
    ("America/St_Johns", "1988-04-03"),
]
# Summer time became the standard time: the rules changed and the clocks did not.
UNMOVED = [("Europe/Istanbul", "2016-09-06")]

zones = st.sampled_from(ZONES)
gaps = st.sampled_from(GAPS)
overlaps = st.sampled_from(OVERLAPS)
thorough = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def any_week(draw: st.DrawFn) -> tuple[str, int]:
    minute = draw(st.integers(0, instant("2100-01-01") // 60))
    return draw(zones), minute * 60


@st.composite
def week_of_change(draw: st.DrawFn) -> tuple[str, int]:
    """A week that begins up to seven days before a change of clocks."""
    zone = draw(zones)
    year = draw(st.integers(0, 129)) * YEAR
    changes = transitions(zone, year, year + YEAR, step=5 * DAY)
    assume(changes)
    before = draw(st.integers(1, WEEK // 60)) * 60
    at = draw(st.sampled_from(changes)).at
    return zone, at - at % 60 - before


@st.composite
def week_of_upheaval(draw: st.DrawFn) -> tuple[str, int]:
    zone, day = draw(st.sampled_from(UPHEAVALS + UNMOVED))
    return zone, instant(day) - draw(st.integers(0, 5 * 1440)) * 60


def engine_fires(trigger: Trigger, start: int, end: int) -> list[int]:
    fires: list[int] = []
    at = trigger.next_ms(start * 1000 - 1)
    while at is not None and at < end * 1000:
        fires.append(at)
        at = trigger.next_ms(at)
    return fires


def compare_cron(text: str, walk: Walk, zone: str, gap: DstGap, overlap: DstOverlap) -> None:
    cron = CronText(text)
    try:
        trigger = compile_trigger(TriggerDefinition(Cron(text), zone, gap, overlap))
    except CronParseError:
        assert not cron.is_possible()
        return
    assert engine_fires(trigger, walk.start, walk.end) == walk.fires(cron, gap, overlap)


@thorough
@given(any_week(), five_fields, gaps, overlaps)
def test_p3_s6_cron_in_a_random_week(week: tuple[str, int], text: str, gap: DstGap, overlap: DstOverlap) -> None:
    zone, start = week
    compare_cron(text, Walk(zone, start, start + WEEK), zone, gap, overlap)


@thorough
@given(week_of_change(), five_fields, gaps, overlaps)
def test_p3_s6_cron_in_a_week_of_change(week: tuple[str, int], text: str, gap: DstGap, overlap: DstOverlap) -> None:
    zone, start = week
    compare_cron(text, Walk(zone, start, start + WEEK), zone, gap, overlap)


@thorough
@given(week_of_upheaval(), five_fields, gaps, overlaps)
def test_s6_cron_where_a_zone_changed_its_rules(
    week: tuple[str, int], text: str, gap: DstGap, overlap: DstOverlap
) -> None:
    zone, start = week
    compare_cron(text, Walk(zone, start, start + WEEK), zone, gap, overlap)


@thorough
@given(week_of_change() | week_of_upheaval(), six_fields, gaps, overlaps)
def test_p3_cron_with_seconds(week: tuple[str, int], text: str, gap: DstGap, overlap: DstOverlap) -> None:
    zone, start = week
    compare_cron(text, Walk(zone, start, start + 2 * DAY), zone, gap, overlap)


@pytest.mark.parametrize(("zone", "day"), UPHEAVALS)
def test_s6_every_policy_through_every_upheaval(zone: str, day: str) -> None:
    start = instant(day) - 2 * DAY
    assert transitions(zone, start, start + 4 * DAY), f"no change of clocks in {zone} around {day}"
    walk = Walk(zone, start, start + 4 * DAY)
    for text in ("0,30 * * * *", "0,15,30,45 0-23 * * *", "30 0-23/2 * * *", "59 23 L * *", "0 0 * * 5,6"):
        for gap, overlap in product(GAPS, OVERLAPS):
            compare_cron(text, walk, zone, gap, overlap)


minutes_of_day = st.lists(st.integers(0, 1439), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)
days_of_week = st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)
fixed_times = st.builds(Daily, minutes_of_day) | st.builds(Weekly, days_of_week, minutes_of_day)


def as_crons(when: When) -> list[CronText]:
    """Fires are a set of instants: a trigger with several times is the union of one cron for each."""
    assert isinstance(when, Daily | Weekly)
    days = ",".join(map(str, when.days)) if isinstance(when, Weekly) else "*"
    return [CronText(f"{time % 60} {time // 60} * * {days}") for time in when.times]


@thorough
@given(any_week() | week_of_change() | week_of_upheaval(), fixed_times, gaps, overlaps)
def test_c1_daily_and_weekly_are_fixed_times(
    week: tuple[str, int], when: Daily | Weekly, gap: DstGap, overlap: DstOverlap
) -> None:
    zone, start = week
    walk = Walk(zone, start, start + WEEK)
    expected = {at for cron in as_crons(when) for at in walk.fires(cron, gap, overlap)}
    trigger = compile_trigger(TriggerDefinition(when, zone, gap, overlap))
    assert engine_fires(trigger, walk.start, walk.end) == sorted(expected)
