"""Exchange rates as records."""

from __future__ import annotations

import math
from typing import Any

import pytest
from record_steps import CONTEXT

from matins.engine.money import MAX_RATE
from matins.errors import InvalidInput
from matins.records.money import RATES, Rate

HUGE = 10**5000


def rate(currency: Any, usd: Any) -> Rate:
    return RATES.parse(currency, {"usd": usd}, CONTEXT)


def test_b5_a_rate() -> None:
    assert rate("CHF", 1.13) == Rate("CHF", 1.13)
    assert (rate("JPY", 1).usd, type(rate("JPY", 1).usd)) == (1.0, float)
    assert rate("IRR", 0.000_000_001).usd == 1e-9
    assert rate("XAU", MAX_RATE).usd == MAX_RATE


@pytest.mark.parametrize("currency", ["EURO", "E1R", "eur", "USD", "usd", "$", "ſſſ"])
def test_b5_a_rate_needs_a_code(currency: str) -> None:
    with pytest.raises(InvalidInput, match="is not a currency code other than USD") as caught:
        rate(currency, 1.1)
    assert (caught.value.field, caught.value.hint) == ("currency", "Use three capital letters, such as EUR.")


@pytest.mark.parametrize("usd", [0, -1, math.nan, math.inf, "1.1", True, MAX_RATE + 1, HUGE], ids=range(8))
def test_b5_a_rate_needs_a_number(usd: Any) -> None:
    with pytest.raises(InvalidInput, match='"usd" must be a number above 0 and at most 1000000') as caught:
        rate("CHF", usd)
    assert (caught.value.field, caught.value.hint) == ("usd", "For example: usd=1.08.")


def test_b5_a_rate_needs_a_value() -> None:
    for settings in ({}, {"usd": None}):
        with pytest.raises(InvalidInput, match='A rate needs "usd"') as caught:
            RATES.parse("CHF", settings, CONTEXT)
        assert (caught.value.field, caught.value.hint) == ("usd", "For example: usd=1.08.")
