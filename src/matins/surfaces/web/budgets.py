"""How much of a budget is used, as parts of its meter."""

from __future__ import annotations

from typing import NamedTuple

from matins.api._results import Budget
from matins.engine.money import parse_money


class Used(NamedTuple):
    spent: str
    limit: str
    part: float
    """In percent."""
    reserved: float


def used(budget: Budget) -> Used:
    """The usage of the fullest of its periods; of tokens where the budget limits no money."""
    usage = max(budget.usage, key=lambda each: (each.money, each.tokens), default=None)
    if budget.max_cost is not None:
        limit = parse_money(budget.max_cost, {}, "max_cost")
        spent = parse_money(usage.money, {}, "money") if usage else 0
        reserved = parse_money(usage.money_reserved, {}, "money") if usage else 0
        return Used(
            usage.money if usage else "$0.00", budget.max_cost, _percent(spent, limit), _percent(reserved, limit)
        )
    limit, spent = int(budget.max_tokens or 0), usage.tokens if usage else 0
    reserved = usage.tokens_reserved if usage else 0
    return Used(f"{spent:,}", f"{limit:,} tokens", _percent(spent, limit), _percent(reserved, limit))


def _percent(part: int, whole: int) -> float:
    return round(min(part / whole, 1.0) * 100, 1) if whole else 0.0
