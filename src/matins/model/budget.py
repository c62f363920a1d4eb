"""What is spent, and how much of a budget."""

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


class SpendingRow(NamedTuple):
    """Micro-dollars and tokens that a schedule spent."""

    schedule_id: int
    agent: str
    money: int
    tokens: int
