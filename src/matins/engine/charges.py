"""The budgets that a run draws on, and its shortfalls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from matins.engine.budgets import Budget, Shortfall, Spent, period_end, period_of, shortfall
from matins.engine.money import format_money, format_tokens
from matins.model.budget import BudgetUsage
from matins.model.run import Usage


class Charge(NamedTuple):
    """A budget that a run draws on, and the subject of its usage."""

    budget: Budget
    subject: str
    period: str

    def shortfall(self, usage: BudgetUsage, wanted: Usage) -> Shortfall | None:
        reserved = Spent(usage.money_reserved, usage.tokens_reserved)
        return shortfall(self.budget, Spent(usage.money, usage.tokens), reserved, Spent(wanted.money, wanted.tokens))

    def overspent(self, usage: BudgetUsage) -> bool:
        """Whether the actual spending exceeds the budget."""
        return Usage(usage.money, usage.tokens).exceeds(self.budget.max_cost, self.budget.max_tokens)


class BudgetShortage(NamedTuple):
    charge: Charge
    shortfall: Shortfall
    resets_at: int

    def evidence(self) -> dict[str, Any]:
        show = format_money if self.shortfall.what == "money" else format_tokens
        return {
            "budget": self.charge.budget.name,
            "whose": self.charge.subject,
            "period": self.charge.budget.period,
            "limit": show(self.shortfall.limit),
            "used": show(self.shortfall.used),
            "wanted": show(self.shortfall.wanted),
            "resets_at": self.resets_at,
        }


def charges(budgets: Iterable[Budget], schedule_id: int, agent: str, schedule: str, now: int) -> list[Charge]:
    """The charges of a run, by budget name. Their usage is locked in this order. `schedule` is agent/name; the agent of
    a step may be another one."""
    found: list[Charge] = []
    for budget in sorted(budgets, key=lambda budget: budget.name):
        subject = _subject(budget, schedule_id, agent, schedule)
        if subject is not None:
            found.append(Charge(budget, subject, period_of(budget, now)))
    return found


def shortage(charge: Charge, usage: BudgetUsage, wanted: Usage, now: int) -> BudgetShortage | None:
    shortfall = charge.shortfall(usage, wanted)
    return None if shortfall is None else BudgetShortage(charge, shortfall, period_end(charge.budget, now))


def _subject(budget: Budget, schedule_id: int, agent: str, schedule: str) -> str | None:
    if budget.scope == "all":
        return "all"
    if budget.scope == "agent":
        return f"agent:{agent}" if agent and budget.of in (None, agent) else None
    return f"schedule:{schedule_id}" if budget.of in (None, schedule) else None
