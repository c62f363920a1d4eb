"""Prices of models: list prices, prices that users set, and the cost of a run's tokens."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from matins.engine.money import DOLLAR
from matins.model.settings import Money, Setting

_BOUNDARIES = "-:@"
_PER = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-dollars per million tokens; `cached` is the price of input from the provider's cache."""

    model: str
    input: Annotated[int, Setting(Money(), "Price of a million input tokens.", "$2", required=True)]
    output: Annotated[int, Setting(Money(), "Price of a million output tokens.", "$10", required=True)]
    cached: Annotated[
        int | None, Setting(Money(), "Price of a million cached input tokens; default: that of input.", "$0.20")
    ] = None


# Dollars per million tokens (input, output, cached), as published by the providers in November 2026.
# Where a price varies: prompts up to 200,000 tokens, peak hours, no temporary offers. Too low would be worse.
_LIST = (
    ("claude-fable-5-1", 10, 50, 0.25),
    ("claude-fable-5", 10, 50, 1),
    ("claude-opus-5-5", 4, 20, 0.20),
    ("claude-opus-5", 5, 25, 0.50),
    ("claude-opus-4-8", 5, 25, 0.50),
    ("claude-opus-4-7", 5, 25, 0.50),
    ("claude-opus-4-6", 5, 25, 0.50),
    ("claude-opus-4-5", 5, 25, 0.50),
    ("claude-opus-4-1", 15, 75, 1.50),
    ("claude-opus-4", 15, 75, 1.50),
    ("claude-sonnet-5-5", 2, 10, 0.10),
    ("claude-sonnet-5", 2, 10, 0.20),
    ("claude-sonnet-4-6", 3, 15, 0.30),
    ("claude-sonnet-4-5", 3, 15, 0.30),
    ("claude-sonnet-4", 3, 15, 0.30),
    ("claude-haiku-5-5", 0.50, 2.50, 0.05),
    ("claude-haiku-4-5", 1, 5, 0.10),
    ("gpt-6.1-sol", 2, 10, 0.10),
    ("gpt-6.1-terra", 1, 5, 0.05),
    ("gpt-6-astra", 10, 50, 1),
    ("gpt-6-sol", 2, 10, 0.20),
    ("gpt-6-luna", 0.10, 0.50, 0.01),
    ("gpt-5.6-sol", 5, 30, 0.50),
    ("gpt-5.6-terra", 2, 12, 0.20),
    ("gpt-5.6-luna", 0.20, 1.20, 0.02),
    ("gpt-5.5", 5, 30, 0.50),
    ("gpt-5.5-pro", 30, 180, 30),
    ("gpt-5.4", 2.50, 15, 0.25),
    ("gpt-5.4-mini", 0.75, 4.50, 0.075),
    ("gpt-5.4-nano", 0.20, 1.25, 0.02),
    ("gpt-5.4-pro", 30, 180, 30),
    ("gpt-5.3-codex", 1.75, 14, 0.175),
    ("gpt-5.2", 1.75, 14, 0.175),
    ("gpt-5.2-pro", 21, 168, 21),
    ("gpt-5.1", 1.25, 10, 0.125),
    ("gpt-5", 1.25, 10, 0.125),
    ("gpt-5-mini", 0.25, 2, 0.025),
    ("gpt-5-nano", 0.05, 0.40, 0.005),
    ("gpt-5-pro", 15, 120, 15),
    ("gpt-4.1", 2, 8, 0.50),
    ("gpt-4.1-mini", 0.40, 1.60, 0.10),
    ("gpt-4.1-nano", 0.10, 0.40, 0.025),
    ("gemini-4-argon", 4, 20, 0.20),
    ("gemini-4-carbon", 4, 20, 0.20),
    ("gemini-3.8-flash", 1.50, 7.50, 0.15),
    ("gemini-3.7-flash", 1.50, 7.50, 0.15),
    ("gemini-3.6-flash", 1.50, 7.50, 0.15),
    ("gemini-3.5-flash", 1.50, 9, 0.15),
    ("gemini-3.5-flash-lite", 0.30, 2.50, 0.03),
    ("gemini-3.1-pro", 2, 12, 0.20),
    ("gemini-3.1-flash-lite", 0.25, 1.50, 0.025),
    ("gemini-3-flash", 0.50, 3, 0.05),
    ("gemini-2.5-pro", 1.25, 10, 0.125),
    ("gemini-2.5-flash", 0.30, 2.50, 0.03),
    ("gemini-2.5-flash-lite", 0.10, 0.40, 0.01),
    ("grok-4.7", 2, 6, 0.50),
    ("grok-4.6", 2, 6, 0.50),
    ("grok-4.5", 2, 6, 0.50),
    ("deepseek-flash", 0.30, 1.20, 0.006),
    ("deepseek-v4-flash", 0.30, 1.20, 0.006),
    ("deepseek-v4-pro", 1.32, 3.96, 0.044),
)

DEFAULT_PRICES: tuple[Price, ...] = tuple(
    Price(model, *(round(dollars * DOLLAR) for dollars in row)) for model, *row in _LIST
)


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of the longest name in the table that starts the model's name, for any provider."""
    return next((prices[name] for name in _names(model) if name in prices), None)


def _names(model: str) -> Iterator[str]:
    """The name and its prefixes at each boundary, then the same without the provider."""
    while True:
        yield model
        yield from (model[:end] for end in range(len(model) - 1, 0, -1) if model[end] in _BOUNDARIES)
        _, slash, model = model.partition("/")
        if not slash:
            return


def estimate(price: Price, input: int, output: int, cached: int) -> int:  # noqa: A002 - the field of the price
    """Micro-dollars, rounded up; `input` does not include cached tokens."""
    total = (
        input * price.input + output * price.output + cached * (price.input if price.cached is None else price.cached)
    )
    return -(-total // _PER)
