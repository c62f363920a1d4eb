"""Prices as records."""

from __future__ import annotations

from typing import Any

import pytest
from record_steps import CONTEXT

from matins.engine.money import Price, estimate
from matins.errors import InvalidInput
from matins.records.money import PRICES


def test_b5_a_price_of_ones_own() -> None:
    assert PRICES.parse("m", {"input": "$2", "output": "10 USD", "cached": "€0.10"}, CONTEXT) == Price(
        "m", 2_000_000, 10_000_000, 110_000
    )


@pytest.mark.parametrize("cached", [{}, {"cached": None}])
def test_b5_cached_input_costs_the_same_where_it_is_not_given(cached: dict[str, Any]) -> None:
    price = PRICES.parse("m", {"input": "$2", "output": "$10", **cached}, CONTEXT)
    assert price.cached == 2_000_000
    assert PRICES.edit(price, {"input": "$3"}, CONTEXT).cached == 3_000_000
    assert PRICES.edit(price, {"input": "$3", "cached": "$1"}, CONTEXT).cached == 1_000_000


def test_b5_a_model_at_home_is_free() -> None:
    price = PRICES.parse("local", {"input": "$0", "output": "$0"}, CONTEXT)
    assert estimate(price, 10**9, 10**9, 10**9) == 0


@pytest.mark.parametrize("missing", ["input", "output"])
@pytest.mark.parametrize("given", [{}, None])
def test_b5_a_price_needs_input_and_output(missing: str, given: dict[str, Any] | None) -> None:
    settings: dict[str, Any] = {"input": "$2", "output": "$10"}
    if given is None:
        settings[missing] = None
    else:
        del settings[missing]
    with pytest.raises(InvalidInput, match=f'A price needs "{missing}"') as caught:
        PRICES.parse("m", settings, CONTEXT)
    example = {"input": "$2", "output": "$10"}[missing]
    assert (caught.value.field, caught.value.hint) == (missing, f'For example: {missing}="{example}".')


@pytest.mark.parametrize(
    ("name", "hint"), [("ouput", 'Did you mean "output"?'), ("zzz", "Known: input, output, cached.")]
)
def test_b5_an_unknown_setting_of_a_price(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=f'A price has no setting "{name}"') as caught:
        PRICES.parse("m", {"input": "$2", "output": "$10", name: "$1"}, CONTEXT)
    assert (caught.value.field, caught.value.hint) == (name, hint)
