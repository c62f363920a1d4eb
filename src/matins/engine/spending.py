"""Which budgets a run draws on, and what it lacks there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from matins.engine.budgets import Budget, Lack, Spent, period_end, period_of, room
from matins.engine.money import format_money, format_tokens
from matins.model.budget import BudgetUsage
from matins.model.run import Usage


class Draw(NamedTuple):
    """A budget that a run draws on, and whose part of it."""

    budget: Budget
    whose: str
    period: str

    def lack(self, purse: BudgetUsage, wanted: Usage) -> Lack | None:
        reserved = Spent(purse.money_reserved, purse.tokens_reserved)
        return room(self.budget, Spent(purse.money, purse.tokens), reserved, Spent(wanted.money, wanted.tokens))

    def overspent(self, purse: BudgetUsage) -> bool:
        """Whether what was really spent is more than the budget allows."""
        return Usage(purse.money, purse.tokens).exceeds(self.budget.max_cost, self.budget.max_tokens)


class Shortage(NamedTuple):
    draw: Draw
    lack: Lack
    resets_at: int

    def evidence(self) -> dict[str, Any]:
        show = format_money if self.lack.what == "money" else format_tokens
        return {
            "budget": self.draw.budget.name,
            "whose": self.draw.whose,
            "period": self.draw.budget.period,
            "limit": show(self.lack.limit),
            "used": show(self.lack.used),
            "wanted": show(self.lack.wanted),
            "resets_at": self.resets_at,
        }


def draws(budgets: Iterable[Budget], schedule_id: int, agent: str, name: str, now: int) -> list[Draw]:
    """In the order of their names, which is the order in which purses are locked."""
    found: list[Draw] = []
    for budget in sorted(budgets, key=lambda budget: budget.name):
        whose = _whose(budget, schedule_id, agent, name)
        if whose is not None:
            found.append(Draw(budget, whose, period_of(budget, now)))
    return found


def shortage(draw: Draw, purse: BudgetUsage, wanted: Usage, now: int) -> Shortage | None:
    lack = draw.lack(purse, wanted)
    return None if lack is None else Shortage(draw, lack, period_end(draw.budget, now))


def _whose(budget: Budget, schedule_id: int, agent: str, name: str) -> str | None:
    if budget.scope == "all":
        return "all"
    if budget.scope == "agent":
        return f"agent:{agent}" if agent and budget.of in (None, agent) else None
    return f"schedule:{schedule_id}" if budget.of in (None, f"{agent}/{name}") else None
