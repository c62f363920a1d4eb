"""Budgets as records: their settings, and what cannot be a budget."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_steps import CONTEXT, kept

from matins.engine.money import Budget
from matins.errors import InvalidInput, TimezoneError
from matins.records.money import BUDGETS


def defined(**settings: Any) -> Budget:
    return BUDGETS.parse("b", {"period": "day", "max_cost": "$5", **settings}, CONTEXT)


def test_b5_every_setting_reaches_the_budget() -> None:
    settings = {
        "scope": "schedule",
        "of": "herald/nightly",
        "period": "month",
        "max_cost": "€2",
        "max_tokens": "2M",
        "timezone": "Europe/London",
        "warn_at": 50,
    }
    assert BUDGETS.parse("nights", settings, CONTEXT) == Budget(
        "nights", "schedule", "herald/nightly", "month", 2_200_000, 2_000_000, "Europe/London", 50
    )
    assert set(settings) == set(BUDGETS.table), "a setting that this test does not know"


def test_b5_what_is_not_given() -> None:
    assert BUDGETS.parse("daily", {"period": "day", "max_cost": "$5"}, CONTEXT) == Budget(
        "daily", "all", None, "day", 5_000_000, None, "Asia/Tokyo"
    )
    assert BUDGETS.parse("daily", {"period": "day", "max_tokens": 1000}, CONTEXT).max_cost is None


def test_b5_none_is_the_same_as_leaving_it_out() -> None:
    assert defined(scope=None, of=None, max_tokens=None, timezone=None) == defined()


@pytest.mark.parametrize(
    ("scope", "of"), [("schedule", "a/b"), ("schedule", "/b"), ("schedule", "a/b/c"), ("agent", "a"), ("agent", "a/b")]
)
def test_b5_whose_it_is(scope: str, of: str) -> None:
    assert defined(scope=scope, of=of).of == of
    assert defined(scope=scope).of is None, "each by itself"


BAD: list[tuple[str, Any]] = [
    ("scope", "run"), ("period", None), ("period", "week"), ("max_cost", 5), ("max_cost", "$0"),
    ("max_cost", "$0.0000001"), ("max_tokens", 0), ("max_tokens", None), ("timezone", "Mars/Olympus"), ("of", "herald"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD, ids=range(len(BAD)))
def test_b5_a_bad_value_is_named_with_its_setting_and_a_hint(name: str, value: Any) -> None:
    settings = {"period": "day", "max_tokens": "1k", name: value}
    with pytest.raises(InvalidInput) as caught:
        BUDGETS.parse("b", settings, CONTEXT)
    assert caught.value.field == ("max_cost" if (name, value) == ("max_tokens", None) else name)
    assert caught.value.hint
    assert len(caught.value.message) < 200
    caught.value.message.encode()


def test_b5_an_unknown_zone_says_which_may_be_meant() -> None:
    with pytest.raises(TimezoneError) as caught:
        defined(timezone="london")
    assert caught.value.hint == 'Did you mean "Europe/London"?'


def test_b5_an_unknown_currency_says_how_to_add_it() -> None:
    with pytest.raises(InvalidInput, match='no rate for the currency "XYZ"') as caught:
        defined(max_cost="XYZ 3")
    assert caught.value.hint == "Known: EUR, USD. Add one: matins rates set XYZ 1.10"


def test_b5_a_budget_needs_a_limit() -> None:
    with pytest.raises(InvalidInput, match='A budget needs "max_cost", "max_tokens" or both') as caught:
        BUDGETS.parse("b", {"period": "day"}, CONTEXT)
    assert caught.value.hint == 'For example: max_cost="$5", max_tokens="2M".'


@pytest.mark.parametrize("name", ["max_cost", "max_tokens"])
def test_b5_a_budget_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=f'"{name}" must be more than 0: nothing could run'):
        defined(**{"max_cost": "$1", "max_tokens": "1k", name: "$0" if name == "max_cost" else 0})


def test_b5_a_schedule_is_named_with_its_agent() -> None:
    with pytest.raises(InvalidInput, match='"of" must name a schedule as agent/name') as caught:
        defined(scope="schedule", of="nightly")
    assert caught.value.hint == 'For example: of="herald/nightly".'


def test_b5_a_budget_of_all_is_of_nobody() -> None:
    with pytest.raises(InvalidInput, match='"of" has no meaning for a budget of all') as caught:
        defined(of="herald")
    assert caught.value.field == "of"


@pytest.mark.parametrize(
    ("name", "hint"), [("max_cots", 'Did you mean "max_cost"?'), ("zzz", f"Known: {', '.join(BUDGETS.table)}.")]
)
def test_b5_an_unknown_setting_is_named_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=f'A budget has no setting "{name}"') as caught:
        defined(**{name: "$1"})
    assert (caught.value.field, caught.value.hint) == (name, hint)


@given(
    st.builds(
        Budget,
        st.text(),
        st.sampled_from(("schedule", "agent", "all")),
        st.none() | st.text(),
        st.sampled_from(("day", "month")),
        st.none() | st.integers(1, 1 << 62),
        st.none() | st.integers(1, 1 << 62),
        st.sampled_from(("UTC", "Europe/London")),
    )
)
def test_b5_the_store_gives_back_what_was_given(budget: Budget) -> None:
    assert kept(BUDGETS, budget.name, budget) == budget


def test_b5_an_edit_keeps_the_rest() -> None:
    budget = defined(scope="agent", of="scout", timezone="Europe/London")
    assert BUDGETS.edit(budget, {"max_cost": "$7", "max_tokens": "1k"}, CONTEXT) == Budget(
        "b", "agent", "scout", "day", 7_000_000, 1_000, "Europe/London"
    )
    assert BUDGETS.edit(budget, {"timezone": None}, CONTEXT).timezone == "Asia/Tokyo"
    for missing in ({"max_cost": None}, {"period": None}, {"scope": None}):
        with pytest.raises(InvalidInput):
            BUDGETS.edit(budget, missing, CONTEXT)
