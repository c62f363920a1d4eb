"""The price table: what it knows, how a model finds its price, and what tokens come to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.money import DEFAULT_PRICES, Price, estimate, price_of

KNOWN = {price.model: price for price in DEFAULT_PRICES}
TABLE = {name: Price(name, 1, 1, 1) for name in ("opus-5", "opus-5-5", "local/opus-5", "gpt-5", "gpt-5.1")}
TOKENS = st.integers(0, 10**9)
PRICES = st.builds(Price, st.just("m"), *[st.integers(0, 10**9)] * 3)


def test_b5_the_table_says_each_model_once_and_makes_sense() -> None:
    assert len(KNOWN) == len(DEFAULT_PRICES)
    for price in DEFAULT_PRICES:
        assert 0 < price.cached <= price.input < price.output, price


def test_b5_prices_are_micro_dollars_for_a_million_tokens() -> None:
    assert KNOWN["claude-opus-5-5"] == Price("claude-opus-5-5", 4_000_000, 20_000_000, 200_000)
    assert KNOWN["gpt-5.4-mini"] == Price("gpt-5.4-mini", 750_000, 4_500_000, 75_000)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("opus-5", "opus-5"),
        ("opus-5-20260724", "opus-5"),
        ("opus-5@20260724", "opus-5"),
        ("opus-5:thinking", "opus-5"),
        ("opus-5-5", "opus-5-5"),
        ("opus-5-5-20260922", "opus-5-5"),
        ("opus-5-6", "opus-5"),
        ("anthropic/opus-5", "opus-5"),
        ("openrouter/anthropic/opus-5-5:beta", "opus-5-5"),
        ("local/opus-5", "local/opus-5"),
        ("local/opus-5-5", "local/opus-5"),
        ("local/gpt-5", "gpt-5"),
        ("gpt-5.1-codex", "gpt-5.1"),
        ("gpt-5.2", None),
        ("opus-50", None),
        ("opus", None),
        ("xopus-5", None),
        ("opus-5/x", None),
        ("", None),
        ("-", None),
        ("/", None),
        ("opus-5-", "opus-5"),
    ],
)
def test_b5_a_model_has_the_price_of_the_longest_name_that_it_begins_with(model: str, found: str | None) -> None:
    price = price_of(model, TABLE)
    assert (price.model if price else None) == found


@given(st.sampled_from(DEFAULT_PRICES), st.sampled_from("-:@"), st.from_regex("[0-9]{8}", fullmatch=True))
def test_b5_dated_names_of_known_models_have_a_price(price: Price, boundary: str, day: str) -> None:
    assert price_of(price.model, KNOWN) == price
    assert price_of(f"{price.model}{boundary}{day}", KNOWN) == price
    assert price_of(f"gateway/vendor/{price.model}", KNOWN) == price


@given(st.text(max_size=60))
def test_b5_what_is_found_is_part_of_the_name(model: str) -> None:
    price = price_of(model, KNOWN)
    assert price is None or price.model in model


@pytest.mark.parametrize(
    ("tokens", "micros"),
    [
        ((0, 0, 0), 0),
        ((1_000_000, 0, 0), 4_000_000),
        ((0, 1_000_000, 0), 20_000_000),
        ((0, 0, 1_000_000), 200_000),
        ((1_000, 500, 20_000), 18_000),
        ((1, 0, 0), 4),
        ((0, 0, 1), 1),
        ((0, 0, 5), 1),
        ((0, 0, 6), 2),
    ],
)
def test_b5_an_estimate_is_rounded_up(tokens: tuple[int, int, int], micros: int) -> None:
    assert estimate(KNOWN["claude-opus-5-5"], *tokens) == micros


@given(PRICES, TOKENS, TOKENS, TOKENS, TOKENS)
def test_b5_more_tokens_never_cost_less(price: Price, fresh: int, output: int, cached: int, more: int) -> None:
    cost = estimate(price, fresh, output, cached)
    assert estimate(price, fresh + more, output, cached) >= cost
    assert estimate(price, fresh, output + more, cached) >= cost
    assert estimate(price, fresh, output, cached + more) >= cost


@given(PRICES, st.lists(st.tuples(TOKENS, TOKENS, TOKENS), min_size=1, max_size=5))
def test_b5_parts_never_come_to_less_than_the_whole(price: Price, parts: list[tuple[int, int, int]]) -> None:
    whole = estimate(price, *(sum(column) for column in zip(*parts, strict=True)))
    assert whole <= sum(estimate(price, *part) for part in parts) < whole + len(parts)
