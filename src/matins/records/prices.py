"""Prices: the cost of a million tokens of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from matins.engine.prices import Price
from matins.records.kind import Column, RecordContext, RecordKind
from matins.records.storage import POLICIES

if TYPE_CHECKING:
    from matins.engine.policies import Policies


def _cached_as_input(price: Price, context: RecordContext) -> Price:
    """The price with a price for cached input; the default is the price of input."""
    return price if price.cached is not None else replace(price, cached=price.input)


def _as_written(price: Price) -> Price:
    return replace(price, cached=None) if price.cached == price.input else price


def _all_prices(policies: Policies) -> Mapping[str, Price]:
    return policies.prices


def _list_price(model: str, policies: Policies) -> Price | None:
    return policies.prices.get(model)


PRICES = RecordKind(
    kind="price",
    noun="prices",
    one="price",
    key="model",
    key_has_slashes=True,
    value=Price,
    help="Manage model prices.",
    file_help="What models cost, by name.",
    storage=POLICIES,
    complete=_cached_as_input,
    as_written=_as_written,
    usual=_list_price,
    listed=_all_prices,
    columns=(
        Column("MODEL", "model"),
        Column("INPUT", "input", right=True),
        Column("OUTPUT", "output", right=True),
        Column("CACHED", "cached", right=True),
    ),
    example="matins prices set house/small --input '$1' --output '$2'",
)
