"""Budgets, prices, rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated

import orjson

from matins.engine.money import CURRENCY_CODE, MAX_RATE, Budget, Price, check_budget, period_of
from matins.engine.validation import preview_of
from matins.engine.when.durations import DAY_MS
from matins.errors import InvalidInput
from matins.model.policies import BudgetUsage
from matins.model.settings import Decimal, Setting
from matins.model.words import counted
from matins.records.kind import POLICIES, Column, Document, RecordChange, RecordContext, RecordKind

if TYPE_CHECKING:
    from matins.engine.policies import Policies
    from matins.store.transaction import Transaction


_MONTH_MS = 32 * DAY_MS


def _complete(budget: Budget, context: RecordContext) -> Budget:
    check_budget(budget)
    return budget if budget.timezone else replace(budget, timezone=context.zone)


def _recount(budget: Budget, before: Budget | None, change: RecordChange) -> None:
    """Count the spending of this period again for a new or changed budget. If only the amounts change, usage stays."""
    if before is not None and budget == replace(before, max_cost=budget.max_cost, max_tokens=budget.max_tokens):
        return
    from matins.engine.money import charges
    from matins.runtime.spending import payer

    transaction = change.transaction
    transaction.delete_budget_usage(budget.name)
    since = transaction.spend_by_run_since if budget.scope == "person" else transaction.spend_since
    for spent in since(_period_start(budget, change.now)):
        schedule = transaction.schedule(spent.schedule_id)
        name = f"{schedule.agent}/{schedule.name}" if schedule else ""
        labels: Mapping[str, str] = orjson.loads(schedule.definition).get("labels", {}) if schedule else {}
        person = payer(transaction, [budget], spent.schedule_id, spent.run_id)
        for charge in charges([budget], spent.schedule_id, spent.agent, name, change.now, labels, person):
            transaction.add_budget_usage(
                BudgetUsage(budget.name, charge.subject, charge.period, spent.money, spent.tokens, 0, 0)
            )


def _period_start(budget: Budget, now: int) -> int:
    """The start of the present period, by binary search."""
    period, low, high = period_of(budget, now), now - _MONTH_MS, now
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if period_of(budget, middle) == period else (middle, high)
    return high


def _delete_usage(budget: Budget, before: Budget | None, change: RecordChange) -> None:
    change.transaction.delete_budget_usage(budget.name)


def _usage(transaction: Transaction, now: int) -> Callable[[Budget], Document]:
    since = cache(transaction.budget_usages)  # there are few periods, however many budgets

    def usage(budget: Budget) -> Document:
        period = period_of(budget, now)
        used = [each for each in since(period) if each.budget == budget.name and each.period == period]
        return {"usage": [_usage_document(each) for each in used]}

    return usage


def _usage_document(usage: BudgetUsage) -> Document:
    from matins.engine.money import format_money

    money = {"money": format_money(usage.money), "money_reserved": format_money(usage.money_reserved)}
    return {**usage._asdict(), **money}


def _rows(document: Document) -> Iterable[Document]:
    """One row for each part of the usage: the total, or each agent or schedule."""
    limit = ", ".join(text for text in (document["max_cost"], _tokens(document["max_tokens"])) if text)
    spent = [
        (used["of"], f"{used['money']}, {_tokens(used['tokens']) or 'no tokens'}", used["money_reserved"])
        for used in document["usage"]
    ]
    unused = (document["of"] or document["scope"], "nothing", "–")
    for subject, money, reserved in spent or [unused]:
        yield {**document, "for": subject, "spent": money, "reserved": reserved, "limit": limit}


def _tokens(count: int | None) -> str:
    return counted(count, "token") if count else ""


BUDGETS = RecordKind(
    kind="budget",
    noun="budgets",
    one="budget",
    value=Budget,
    help="Manage budgets; list shows what is spent.",
    file_help="How much may be spent in a day or a month, by name.",
    storage=POLICIES,
    complete=_complete,
    wakes="over_budget",
    changed=_recount,
    deleted=_delete_usage,
    state=_usage,
    state_types={"usage": "list[BudgetUsage]"},
    columns=tuple(Column(title, title.lower()) for title in ("NAME", "FOR", "PERIOD", "SPENT", "RESERVED", "LIMIT")),
    rows=_rows,
    example="matins budgets set daily --max-cost '$5' --period day",
)


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


def _dollar(currency: str, policies: Policies) -> Rate | None:
    return Rate("USD", 1.0) if currency == "USD" else None


def _dollars(policies: Policies) -> Mapping[str, Rate]:
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
