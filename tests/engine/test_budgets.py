"""Budgets: their periods, what fits, and what is set aside."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.money import (
    MAX_PAST_RUNS,
    Budget,
    Shortfall,
    Spent,
    percentile,
    period_end,
    period_of,
    projected_per_day,
    reservation,
    shortfall,
)

HOUR = 3_600_000
COSTS = st.builds(Spent, st.integers(0, 10**12), st.integers(0, 10**9))


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("per", "zone", "at", "period", "end"),
    [
        ("day", "UTC", "2026-11-15T22:29:14+00:00", "2026-11-15", "2026-11-16T00:00+00:00"),
        ("day", "Asia/Tokyo", "2026-11-15T22:29:14+00:00", "2026-11-16", "2026-11-17T00:00+09:00"),
        ("day", "America/New_York", "2026-11-01T00:00-04:00", "2026-11-01", "2026-11-02T00:00-05:00"),  # 25 hours
        ("day", "Europe/London", "2026-03-29T00:00+00:00", "2026-03-29", "2026-03-30T00:00+01:00"),  # 23 hours
        ("day", "America/Sao_Paulo", "2018-11-03T12:00-03:00", "2018-11-03", "2018-11-04T01:00-02:00"),  # no midnight
        ("day", "America/Sao_Paulo", "2018-02-17T23:30-02:00", "2018-02-17", "2018-02-18T00:00-03:00"),  # 23:30 twice
        ("day", "Pacific/Apia", "2011-12-29T12:00-10:00", "2011-12-29", "2011-12-31T00:00+14:00"),  # a day left out
        ("day", "America/St_Johns", "2010-11-07T00:00:30-02:30", "2010-11-07", "2010-11-07T00:01-02:30"),  # back again
        ("day", "America/St_Johns", "2010-11-06T23:30-03:30", "2010-11-06", "2010-11-07T00:00-03:30"),
        ("month", "UTC", "2026-11-15T22:29:14+00:00", "2026-11", "2026-12-01T00:00+00:00"),
        ("month", "UTC", "2026-12-31T23:59:59.999+00:00", "2026-12", "2027-01-01T00:00+00:00"),
        ("month", "Europe/London", "2026-03-01T00:00+00:00", "2026-03", "2026-04-01T00:00+01:00"),
        ("month", "America/New_York", "2026-12-01T03:00+00:00", "2026-11", "2026-12-01T00:00-05:00"),
        ("month", "UTC", "2028-02-29T12:00+00:00", "2028-02", "2028-03-01T00:00+00:00"),
    ],
)
def test_b5_a_period_is_a_day_or_month_of_the_budgets_zone(per: str, zone: str, at: str, period: str, end: str) -> None:
    budget = Budget("b", period=per, max_cost=5_000_000, timezone=zone)  # type: ignore[arg-type]
    assert period_of(budget, instant(at)) == period
    assert datetime.fromtimestamp(period_end(budget, instant(at)) / 1000, UTC) == datetime.fromisoformat(end)


ZONES = ("UTC", "Europe/London", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia",
         "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Casablanca")  # fmt: skip


@given(st.sampled_from(("day", "month")), st.sampled_from(ZONES), st.integers(0, 2_500_000_000_000))
def test_b5_a_period_is_what_the_clocks_show_until_it_ends(per: str, zone: str, at: int) -> None:
    budget = Budget("b", period=per, max_cost=5_000_000, timezone=zone)  # type: ignore[arg-type]
    period, end = period_of(budget, at), period_end(budget, at)
    shown = datetime.fromtimestamp(at / 1000, zoneinfo.ZoneInfo(zone)).date().isoformat()
    assert period == (shown if per == "day" else shown[:7])
    assert at < end <= at + (32 if per == "month" else 2) * 24 * HOUR
    assert period_of(budget, end) != period
    assert {period_of(budget, step) for step in (*range(at, end, HOUR), end - 1)} == {period}


def limited(money: int | None, tokens: int | None) -> Budget:
    return Budget("b", "all", None, "day", money, tokens, "UTC")


@pytest.mark.parametrize(
    ("budget", "settled", "reserved", "wanted", "lack"),
    [
        (limited(100, 50), Spent(40, 20), Spent(30, 10), Spent(30, 20), None),
        (limited(100, 50), Spent(40, 20), Spent(30, 10), Spent(31, 20), Shortfall("money", 100, 70, 31)),
        (limited(100, 50), Spent(40, 20), Spent(30, 10), Spent(30, 21), Shortfall("tokens", 50, 30, 21)),
        (limited(100, 50), Spent(40, 20), Spent(30, 10), Spent(31, 21), Shortfall("money", 100, 70, 31)),
        (limited(None, 50), Spent(10**9, 0), Spent(0, 0), Spent(10**9, 50), None),
        (limited(100, None), Spent(0, 10**9), Spent(0, 0), Spent(100, 10**9), None),
        (limited(100, None), Spent(100, 0), Spent(0, 0), Spent(0, 0), None),
        (limited(100, None), Spent(101, 0), Spent(0, 0), Spent(0, 0), Shortfall("money", 100, 101, 0)),
    ],
)
def test_b5_what_fits(budget: Budget, settled: Spent, reserved: Spent, wanted: Spent, lack: Shortfall | None) -> None:
    assert shortfall(budget, settled, reserved, wanted) == lack


@given(st.integers(1, 10**12), st.integers(1, 10**9), COSTS, COSTS, COSTS, COSTS)
def test_b5_what_fits_would_fit_with_less(
    money: int, tokens: int, settled: Spent, reserved: Spent, wanted: Spent, less: Spent
) -> None:
    budget = limited(money, tokens)
    smaller = Spent(min(wanted.money, less.money), min(wanted.tokens, less.tokens))
    if shortfall(budget, settled, reserved, wanted) is None:
        assert shortfall(budget, settled, reserved, smaller) is None
        assert settled.money + reserved.money + wanted.money <= money
        assert settled.tokens + reserved.tokens + wanted.tokens <= tokens


USUAL = Spent(7, 70)


@pytest.mark.parametrize(
    ("cap", "past", "set_aside"),
    [
        (None, [], USUAL),
        (Spent(0, 0), [], USUAL),
        (Spent(5, 50), [Spent(1, 10)], Spent(5, 50)),
        (Spent(5, 0), [], Spent(5, 70)),
        (Spent(5, 0), [Spent(1, 10)], Spent(5, 10)),
        (Spent(0, 50), [Spent(1, 10)], Spent(1, 50)),
        (None, [Spent(n, 1000 - n) for n in range(1, 101)], Spent(95, 994)),
        (None, [Spent(0, 3)], Spent(0, 3)),
    ],
)
def test_b5_what_is_set_aside(cap: Spent | None, past: list[Spent], set_aside: Spent) -> None:
    assert reservation(cap, past, USUAL) == set_aside


def test_b5_only_the_newest_hundred_count() -> None:
    old = [Spent(1_000_000, 1_000_000)] * 50
    assert reservation(None, [Spent(1, 1)] * MAX_PAST_RUNS + old, USUAL) == Spent(1, 1)
    assert MAX_PAST_RUNS == 100


@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [
        ([15, 20, 35, 40, 50], 5, 15),
        ([15, 20, 35, 40, 50], 30, 20),
        ([15, 20, 35, 40, 50], 40, 20),
        ([50, 40, 35, 20, 15], 50, 35),
        ([15, 20, 35, 40, 50], 100, 50),
        (list(range(1, 21)), 95, 19),
        (list(range(1, 22)), 95, 20),
        ([3], 95, 3),
        ([3, 9], 0, 3),
    ],
)
def test_b5_nearest_rank(values: list[int], percent: int, found: int) -> None:
    assert percentile(values, percent) == found


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=120), st.integers(1, 100))
def test_b5_that_share_of_the_values_is_not_above_it(values: list[int], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


@pytest.mark.parametrize(
    ("past", "fires", "spent"),
    [
        ([], 24.0, Spent(0, 0)),
        ([Spent(10, 100)], 24.0, Spent(240, 2400)),
        ([Spent(10, 100), Spent(1000, 90), Spent(20, 80)], 2.0, Spent(40, 180)),
        ([Spent(10, 100), Spent(13, 101)], 1.0, Spent(12, 101)),
        ([Spent(10, 100)], 1 / 7, Spent(2, 15)),
        ([Spent(10, 100)], 0.0, Spent(0, 0)),
    ],
)
def test_b3_what_a_day_will_cost(past: list[Spent], fires: float, spent: Spent) -> None:
    assert projected_per_day(past, fires) == spent


@given(st.lists(COSTS, min_size=1, max_size=20), st.floats(0, 1440), st.floats(0, 1440))
def test_b3_more_fires_never_cost_less(past: list[Spent], one: float, other: float) -> None:
    fewer, more = (projected_per_day(past, fires) for fires in sorted((one, other)))
    assert fewer.money <= more.money
    assert fewer.tokens <= more.tokens
