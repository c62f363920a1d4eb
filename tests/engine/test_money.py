"""Money and tokens: what people write, what it comes to, and what is said about what cannot be used."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.engine.money import MAX_MONEY, MAX_TOKENS, format_money, format_tokens, parse_money, parse_tokens
from matins.errors import InvalidInput

RATES = {"EUR": 1.1, "GBP": 1.25}
HUGE = 10**5000


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("$2", 2_000_000),
        ("$0.50", 500_000),
        ("$.5", 500_000),
        ("2 USD", 2_000_000),
        ("USD 2", 2_000_000),
        ("usd2", 2_000_000),
        ("  $ 2 ", 2_000_000),
        ("2$", 2_000_000),
        ("$0", 0),
        ("$0.000001", 1),
        ("$0.0000014", 1),
        ("€3.50", 3_850_000),
        ("3.50 €", 3_850_000),
        ("EUR 3.50", 3_850_000),
        ("£2", 2_500_000),
        ("gbp 2", 2_500_000),
        ("$1000000000", MAX_MONEY),
    ],
)
def test_b5_money_as_people_write_it(text: str, micros: int) -> None:
    assert parse_money(text, RATES, "money") == micros


def test_b5_the_dollar_needs_no_rate_and_takes_none() -> None:
    assert parse_money("$2", {}, "money") == 2_000_000
    assert parse_money("2 USD", {"USD": 7.0}, "money") == 2_000_000


def test_b5_rates_are_reckoned_exactly() -> None:
    """B5: 16.5 rounds to 16; with 1.1 as a binary fraction, which is a little more, it would be 17"""
    assert parse_money("€0.000015", {"EUR": 1.1}, "money") == 16


@pytest.mark.parametrize(("value", "hint"), [(2, "$2"), (0.5, "$0.5"), (1e-7, "$0.0000001"), ("2", "$2"), ("-2", "$2")])
def test_b5_a_bare_number_is_refused_with_what_to_write(value: Any, hint: str) -> None:
    with pytest.raises(InvalidInput, match="an amount with its currency") as caught:
        parse_money(value, RATES, "money")
    assert (caught.value.field, caught.value.hint) == ("money", f'Write "{hint}".')


@pytest.mark.parametrize(("text", "currency"), [("XYZ 5", "XYZ"), ("5XYZ", "XYZ"), ("chf 5", "CHF")])
def test_b5_an_unknown_currency_is_named_with_how_to_add_it(text: str, currency: str) -> None:
    with pytest.raises(InvalidInput, match=r'There is no rate for the currency "(XYZ|chf)"\.') as caught:
        parse_money(text, RATES, "money")
    assert caught.value.hint == f"Known: EUR, GBP, USD. Add one: matins rates set {currency} 1.10"
    assert (caught.value.field, caught.value.value) == ("money", text)


@pytest.mark.parametrize(("text", "name"), [("€5", "EUR"), ("¥5", "¥"), ("5 euros", "euros"), ("5 uſd", "uſd")])
def test_b5_a_currency_without_a_rate(text: str, name: str) -> None:
    with pytest.raises(InvalidInput, match=f'no rate for the currency "{name}"') as caught:
        parse_money(text, {}, "money")
    assert str(caught.value.hint).startswith("Known: USD. Add one: matins rates set ")


@pytest.mark.parametrize("text", ["-$2", "$-2", "-2 USD", "- $2", "−$2", "USD -2"])
def test_b5_negative_money_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match='"money" must not be negative'):
        parse_money(text, RATES, "money")


@pytest.mark.parametrize("text", ["$1000000000.01", "€1000000000", "$" + "9" * 50])
def test_b5_more_than_a_thousand_million_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r'"money" must be at most \$1000000000\.00') as caught:
        parse_money(text, RATES, "money")
    assert caught.value.hint


NOT_MONEY: list[Any] = [
    *("", " ", "$", "money", "$1,000", "1.000,50 EUR", "$2 USD", "$1e3", "$1_000", "$2.", "$+2", "2 3", "$٣"),
    *("nan", "$nan", "NaN USD", "$inf", "inf", "$Infinity", "$2\n", "$2\0", "\ud800 5", "$" + "1" * 70),
    *(math.nan, math.inf, -math.inf, -1, 0, HUGE, -HUGE, True, None, b"$2", ["$2"], {"usd": 2}, [HUGE], object()),
]


@pytest.mark.parametrize("value", NOT_MONEY, ids=range(len(NOT_MONEY)))
def test_b5_what_is_not_money_is_refused_with_a_hint(value: Any) -> None:
    with pytest.raises(InvalidInput, match='"money" must be an amount') as caught:
        parse_money(value, RATES, "money")
    assert caught.value.field == "money"
    assert caught.value.hint == 'For example: "$2" or "0.50 USD".'
    assert len(caught.value.message) < 200
    caught.value.message.encode()


@given(st.text(max_size=80) | st.text("$€£USDEUR0123456789.,- ", max_size=12))
def test_b5_any_text_is_money_or_refused(text: str) -> None:
    try:
        found: int | str | None = parse_money(text, RATES, "money")
    except InvalidInput as error:
        found = error.hint
    assert found if isinstance(found, str) else found is not None and 0 <= found <= MAX_MONEY


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (3_100, "$0.0031"),
        (3_149, "$0.0031"),
        (9_960, "$0.01"),
        (15_800, "$0.016"),
        (50_000, "$0.05"),
        (99_999, "$0.10"),
        (500_000, "$0.50"),
        (999_999, "$1.00"),
        (12_340_000, "$12.34"),
        (12_345_678, "$12.35"),
        (123_456, "$0.12"),
        (1_234_567_890_000, "$1234567.89"),
        (-3_100, "-$0.0031"),
        (-2_000_000, "-$2.00"),
    ],
)
def test_b5_money_as_people_read_it(micros: int, text: str) -> None:
    assert format_money(micros) == text


@given(st.integers(0, MAX_MONEY // 10_000))
def test_b5_whole_cents_parse_back(cents: int) -> None:
    assert parse_money(format_money(cents * 10_000), {}, "money") == cents * 10_000


@given(st.integers(1, MAX_MONEY))
def test_b5_what_is_shown_is_something_and_within_five_percent(micros: int) -> None:
    text = format_money(micros)
    shown = parse_money(text, {}, "money")
    assert 0.95 <= shown / micros <= 1.05, text
    assert format_money(-micros) == f"-{text}"


@given(st.integers(0, MAX_MONEY), st.integers(0, MAX_MONEY))
def test_b5_more_money_never_looks_like_less(one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert parse_money(format_money(less), {}, "money") <= parse_money(format_money(more), {}, "money")


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (500_000, 500_000),
        (0, 0),
        ("500k", 500_000),
        ("500K", 500_000),
        ("2M", 2_000_000),
        ("2m", 2_000_000),
        ("1.5 M", 1_500_000),
        (" 1200 ", 1_200),
        ("0.5k", 500),
        (MAX_TOKENS, MAX_TOKENS),
    ],
)
def test_b5_tokens_as_people_write_them(value: Any, tokens: int) -> None:
    assert parse_tokens(value, "tokens") == tokens


NOT_TOKENS: list[Any] = [
    *(-1, "-1", "-5k", True, False, 2.0, 0.5, math.nan, math.inf, None, "", "k", "M", "2G", "2kk", "two", "1,000"),
    *("1.5", "1.0005k", "nan", "1e6", "5k\n", "٣k", "$2", ["5k"], b"5k", MAX_TOKENS + 1, "1000001M", HUGE, -HUGE),
]


@pytest.mark.parametrize("value", NOT_TOKENS, ids=range(len(NOT_TOKENS)))
def test_b5_what_is_not_a_number_of_tokens_is_refused_with_a_hint(value: Any) -> None:
    with pytest.raises(InvalidInput, match='"tokens" must be a number of tokens from 0 to 1000000M') as caught:
        parse_tokens(value, "tokens")
    assert (caught.value.field, caught.value.hint) == ("tokens", 'For example: 500000, "500k" or "2M".')
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("tokens", "text"), [(0, "0"), (999, "999"), (500_000, "500k"), (2_000_000, "2M"), (1_500, "1500"), (1, "1")]
)
def test_b5_tokens_as_people_read_them(tokens: int, text: str) -> None:
    assert format_tokens(tokens) == text


@given(st.integers(0, MAX_TOKENS))
def test_b5_tokens_parse_back(tokens: int) -> None:
    assert parse_tokens(format_tokens(tokens), "tokens") == tokens
