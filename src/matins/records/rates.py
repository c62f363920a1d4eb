"""Rates: the value of one unit of a currency in dollars."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from matins.engine.money import CURRENCY_CODE, MAX_RATE
from matins.engine.validation import preview_of
from matins.errors import InvalidInput
from matins.model.settings import Decimal, Setting
from matins.records.kind import Column, RecordContext, RecordKind
from matins.records.storage import POLICIES

if TYPE_CHECKING:
    from matins.engine.policies import Policies


@dataclass(frozen=True, slots=True)
class Rate:
    currency: str
    usd: Annotated[
        float, Setting(Decimal(0, MAX_RATE, above=True), "Dollars for one unit of the currency.", 1.08, required=True)
    ]


def _check_currency(rate: Rate, context: RecordContext) -> Rate:
    if CURRENCY_CODE.fullmatch(rate.currency) and rate.currency != "USD":
        return Rate(rate.currency, float(rate.usd))
    message = f"{preview_of(rate.currency)} is not a currency code other than USD."
    raise InvalidInput(message, value=rate.currency, field="currency", hint="Use three capital letters, such as EUR.")


def _dollar(currency: str, policies: "Policies") -> Rate | None:
    return Rate("USD", 1.0) if currency == "USD" else None


def _dollars(policies: "Policies") -> Mapping[str, Rate]:
    return {"USD": Rate("USD", 1.0)}


RATES = RecordKind(
    kind="rate",
    noun="rates",
    one="rate",
    key="currency",
    value=Rate,
    help="Manage exchange rates.",
    file_help="Dollars for one unit of a currency, by its code.",
    storage=POLICIES,
    order=0,
    alone="usd",
    complete=_check_currency,
    usual=_dollar,
    listed=_dollars,
    columns=(Column("CURRENCY", "currency"), Column("DOLLARS", "usd", right=True)),
    example="matins rates set EUR 1.10",
)
