"""The usage of budgets."""

from __future__ import annotations

from typing import NamedTuple


class BudgetUsage(NamedTuple):
    """The usage of a budget in one period."""

    budget: str
    of: str
    period: str
    money: int
    tokens: int
    money_reserved: int
    tokens_reserved: int
