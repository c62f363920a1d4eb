"""The price table: what it knows, how a model finds its price, and what tokens come to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.prices import DEFAULT_PRICES, Price, define_price, estimate, price_of
from matins.errors import InvalidInput

RATES = {"EUR": 1.1}
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


def test_b5_a_price_of_ones_own() -> None:
    assert define_price("m", {"input": "$2", "output": "10 USD", "cached": "€0.10"}, RATES) == Price(
        "m", 2_000_000, 10_000_000, 110_000
    )


@pytest.mark.parametrize("cached", [{}, {"cached": None}])
def test_b5_cached_input_costs_the_same_where_it_is_not_said(cached: dict[str, Any]) -> None:
    assert define_price("m", {"input": "$2", "output": "$10", **cached}, RATES).cached == 2_000_000


def test_b5_a_model_at_home_is_free() -> None:
    assert estimate(define_price("local", {"input": "$0", "output": "$0"}, {}), 10**9, 10**9, 10**9) == 0


@pytest.mark.parametrize("missing", ["input", "output"])
@pytest.mark.parametrize("given", [{}, None])
def test_b5_a_price_needs_input_and_output(missing: str, given: dict[str, Any] | None) -> None:
    words: dict[str, Any] = {"input": "$2", "output": "$10"}
    if given is None:
        words[missing] = None
    else:
        del words[missing]
    with pytest.raises(InvalidInput, match=f'A price needs "{missing}"') as caught:
        define_price("m", words, RATES)
    assert (caught.value.field, caught.value.hint) == (missing, f'{missing}="$2"')


@pytest.mark.parametrize("word", ["input", "output", "cached"])
@pytest.mark.parametrize("value", [2, 0.5, "2", "-$2", "XYZ 2", "", "$nan", True, ["$2"]])
def test_b5_a_bad_price_is_named_with_its_word(word: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        define_price("m", {"input": "$2", "output": "$10", word: value}, RATES)
    assert caught.value.field == word
    assert caught.value.hint


@pytest.mark.parametrize(
    ("word", "hint"), [("ouput", 'did you mean "output"?'), ("zzz", "known: input, output, cached")]
)
def test_b5_an_unknown_word_of_a_price(word: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=f'A price has no "{word}"') as caught:
        define_price("m", {"input": "$2", "output": "$10", word: "$1"}, RATES)
    assert (caught.value.field, caught.value.hint) == (word, hint)


@pytest.mark.parametrize("model", ["", " ", "a\nb", "\ud800", "x" * 201, None, 5, ["m"]])
def test_b5_a_price_needs_a_model(model: Any) -> None:
    with pytest.raises(InvalidInput, match='"model" must be a text') as caught:
        define_price(model, {"input": "$2", "output": "$10"}, RATES)
    assert (caught.value.field, caught.value.hint) == ("model", 'model="claude-opus-5-5"')
