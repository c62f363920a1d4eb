"""C1, P3, H4, S4, S6: `count` and `prev_ms` say what a walk by `next_ms` says, without walking."""

from __future__ import annotations

from zoneinfo import available_timezones

import pytest
from cron_texts import five_fields, six_fields
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from walk import DAY, instant, transitions

from matins.engine.when.triggers import Trigger, compile_trigger
from matins.errors import CronParseError, RruleError
from matins.model.trigger import Cron, Daily, Interval, Once, Rrule, TriggerDefinition, Weekly, When
from steps import at_most

ZONES = sorted(available_timezones())
YEAR = 365 * DAY

minutes_of_day = st.lists(st.integers(0, 1439), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)
days_of_week = st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True).map(sorted).map(tuple)
origins = st.integers(0, instant("2040-01-01") * 1000)
FREQUENCIES = [
    "FREQ=DAILY",
    "FREQ=WEEKLY",
    "FREQ=WEEKLY;BYDAY=MO,WE,SU",
    "FREQ=MONTHLY;BYDAY=2SU,-1FR",
    "FREQ=MONTHLY;BYMONTHDAY=1,-1",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,-1",
    "FREQ=YEARLY;BYMONTH=3,10;BYDAY=-1SU",
]
rules = st.builds(
    ";".join,
    st.tuples(
        st.sampled_from(FREQUENCIES),
        st.integers(1, 4).map("INTERVAL={}".format),
        st.sampled_from(["BYHOUR=1,2,3;BYMINUTE=0,30", "BYHOUR=0;BYMINUTE=0", "BYHOUR=23;BYMINUTE=45"]),
    ),
)
ends = st.one_of(
    st.just(""),
    st.integers(1, 60).map(";COUNT={}".format),
    st.integers(1972, 2095).map(";UNTIL={}0704T120000Z".format),
)
start_walls = st.integers(0, instant("2060-01-01") // 60).map(lambda minute: minute * 60_000)

whens: st.SearchStrategy[When] = st.one_of(
    st.builds(Cron, five_fields),
    st.builds(Cron, six_fields),
    st.builds(Daily, minutes_of_day),
    st.builds(Weekly, days_of_week, minutes_of_day),
    st.builds(Interval, st.integers(60_000, 40 * DAY * 1000), origins, st.just("grid")),
    st.builds(lambda rule, end, wall: Rrule(rule + end, wall), rules, ends, start_walls),
    st.builds(Once, origins),
)
gaps = st.sampled_from(["after", "skip", "shift"])
overlaps = st.sampled_from(["first", "both"])


@st.composite
def triggers(draw: st.DrawFn, zone: str) -> Trigger:
    definition = TriggerDefinition(draw(whens), zone, draw(gaps), draw(overlaps))
    try:
        return compile_trigger(definition)
    except (CronParseError, RruleError):
        assume(False)
        raise


@st.composite
def centres(draw: st.DrawFn, zone: str) -> int:
    """An instant to look around, in milliseconds: any one, or a change of clocks."""
    start = draw(st.integers(0, 128)) * YEAR
    changes = transitions(zone, start, start + YEAR, step=5 * DAY)
    anywhere = st.integers(start, start + YEAR)
    return draw(anywhere | st.sampled_from(changes).map(lambda change: change.at) if changes else anywhere) * 1000


# Milliseconds too, so that edges fall between, on and next to fires.
nudges = st.sampled_from([-1, 0, 1, 60_000, -3_600_000]) | st.integers(-3 * DAY * 1000, 3 * DAY * 1000)
thorough = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
WALK_LIMIT = 3000


def walked(trigger: Trigger, start: int, end: int) -> list[int] | None:
    """Fires in [start, end) by `next_ms`; None where there are too many to walk."""
    fires: list[int] = []
    at = trigger.next_ms(start - 1)
    while at is not None and at < end:
        fires.append(at)
        if len(fires) > WALK_LIMIT:
            return None
        at = trigger.next_ms(at)
    return fires


@thorough
@given(st.data(), st.sampled_from(ZONES), nudges, nudges)
def test_s4_count_is_the_length_of_the_walk(data: st.DataObject, zone: str, left: int, right: int) -> None:
    trigger, centre = data.draw(triggers(zone)), data.draw(centres(zone))
    start, end = sorted((centre + left, centre + right))
    fires = walked(trigger, start, end)
    assume(fires is not None and fires == sorted(set(fires)))
    assert fires is not None
    assert trigger.count(start, end) == len(fires)


@thorough
@given(st.data(), st.sampled_from(ZONES), st.integers(1, 1500))
def test_s4_count_over_years_is_the_length_of_the_walk(data: st.DataObject, zone: str, days: int) -> None:
    trigger, start = data.draw(triggers(zone)), data.draw(centres(zone))
    end = start + days * DAY * 1000
    fires = walked(trigger, start, end)
    assume(fires is not None)
    assert fires is not None
    assert trigger.count(start, end) == len(fires)


@thorough
@given(st.data(), st.sampled_from(ZONES), nudges, nudges)
def test_s4_prev_is_the_last_fire_before(data: st.DataObject, zone: str, left: int, right: int) -> None:
    trigger, centre = data.draw(triggers(zone)), data.draw(centres(zone))
    start, end = sorted((centre + left, centre + right))
    fires = walked(trigger, start, end)
    assume(fires is not None)
    assert fires is not None
    before = trigger.prev_ms(end)
    if fires:
        assert before == fires[-1]
    else:
        assert before is None or before < start
        assert before is None or trigger.next_ms(before) in (None, trigger.next_ms(start - 1))


@thorough
@given(st.data(), st.sampled_from(ZONES), nudges)
def test_s4_prev_undoes_next(data: st.DataObject, zone: str, nudge: int) -> None:
    trigger, at = data.draw(triggers(zone)), data.draw(centres(zone)) + nudge
    following = trigger.next_ms(at)
    assume(following is not None)
    assert following is not None
    assert following > at
    assert trigger.prev_ms(following + 1) == following
    last = trigger.prev_ms(following)
    assert last is None or (last <= at and trigger.next_ms(last) == following)


@thorough
@given(st.data(), st.sampled_from(ZONES), st.lists(st.integers(0, 100 * YEAR * 1000), min_size=3, max_size=3))
def test_s4_counts_of_parts_add_up(data: st.DataObject, zone: str, edges: list[int]) -> None:
    trigger = data.draw(triggers(zone))
    start, middle, end = sorted(edges)
    assert trigger.count(start, end) == trigger.count(start, middle) + trigger.count(middle, end)


def compiled(when: When, zone: str = "UTC") -> Trigger:
    return compile_trigger(TriggerDefinition(when, zone))


THIRTY_YEARS = instant("2000-01-01") * 1000, instant("2030-01-01") * 1000
DAYS = (THIRTY_YEARS[1] - THIRTY_YEARS[0]) // (DAY * 1000)
BIG = [
    (Cron("* * * * *"), DAYS * 1440),
    (Cron("*/5 * * * *"), DAYS * 288),
    (Cron("0 * * * *"), DAYS * 24),
    (Cron("* * * * * *"), DAYS * 86_400),
    (Cron("30 2 * * *"), DAYS),
    (Cron("0 0 1 * *"), 360),
    (Cron("0 0 29 2 *"), 8),
    (Daily((0, 720)), DAYS * 2),
    (Weekly((6,), (0,)), 1566),
    (Interval(1000, 0, "grid"), DAYS * 86_400),
    (Rrule("FREQ=DAILY;BYHOUR=9;BYMINUTE=0", 0), DAYS),
    (Rrule("FREQ=WEEKLY;BYDAY=SA;BYHOUR=9;BYMINUTE=0", 0), 1566),
]


@pytest.mark.parametrize(("when", "expected"), BIG, ids=[repr(when) for when, _ in BIG])
def test_s4_count_over_thirty_years_does_not_walk_slot_by_slot(when: When, expected: int) -> None:
    trigger = compiled(when)
    with at_most(200_000):
        assert trigger.count(*THIRTY_YEARS) == expected


def test_s4_count_over_thirty_years_in_a_zone_with_daylight_saving() -> None:
    """Elapsed time does not care; a fixed time in the gap and in the overlap fires once a day."""
    with at_most(400_000):
        assert compiled(Cron("* * * * *"), "Europe/London").count(*THIRTY_YEARS) == DAYS * 1440
        assert compiled(Cron("30 1 * * *"), "Europe/London").count(*THIRTY_YEARS) == DAYS


def test_s4_counting_nothing() -> None:
    trigger = compiled(Cron("* * * * *"))
    at = instant("2026-01-01") * 1000
    assert trigger.count(at, at) == 0
    assert trigger.count(at, at + 1) == 1
    assert trigger.count(at + 1, at + 60_000) == 0
    assert trigger.count(at + 60_000, at) == 0


def test_c1_once_is_one_fire() -> None:
    at = instant("2026-01-01") * 1000
    trigger = compiled(Once(at))
    assert (trigger.next_ms(at - 1), trigger.next_ms(at)) == (at, None)
    assert (trigger.prev_ms(at + 1), trigger.prev_ms(at)) == (at, None)
    assert (trigger.count(at, at + 1), trigger.count(at - 1, at)) == (1, 0)


@example(1, 0, 5)
@given(st.integers(1, 10**9), st.integers(-(10**12), 10**13), st.integers(-(10**12), 10**13))
def test_c1_a_grid_fires_on_its_multiples(every: int, origin: int, after: int) -> None:
    """A grid counts from its origin, in both directions: it has no beginning."""
    trigger = compiled(Interval(every, origin, "grid"))
    following = trigger.next_ms(after)
    assert following is not None
    assert (following - origin) % every == 0
    assert following - every <= after < following
