"""Reservations and spending of runs, in SQL that both stores share."""

from __future__ import annotations

from matins.model.budget import BudgetUsage, SpendingRow
from matins.model.run import Usage
from matins.store.common.statements import Statements


class SpendingQueries(Statements):
    def past_spend(self, schedule_id: int, step: int, limit: int) -> list[Usage]:
        values = {"step": step} if step else {}
        rows = self._all("past_step_spend" if step else "past_spend", id=schedule_id, limit=limit, **values)
        return [Usage(*row) for row in rows]

    def budget_usage(self, budget: str, subject: str, period: str) -> BudgetUsage:
        found = self._row(BudgetUsage, "budget_usage", budget=budget, whose=subject, period=period)
        return found or BudgetUsage(budget, subject, period, 0, 0, 0, 0)

    def lock_budget_usage(self, budget: str, subject: str, period: str) -> BudgetUsage:
        self._all("insert_budget_usage", budget=budget, whose=subject, period=period)
        return self._rows(BudgetUsage, "lock_budget_usage", budget=budget, whose=subject, period=period)[0]

    def budget_usages(self, since: str) -> list[BudgetUsage]:
        return self._rows(BudgetUsage, "budget_usages", since=since)

    def add_budget_usage(self, change: BudgetUsage) -> None:
        self._all("insert_budget_usage", budget=change.budget, whose=change.of, period=change.period)
        values = change._asdict()
        self._all("add_budget_usage", whose=values.pop("of"), **values)

    def delete_budget_usage(self, budget: str) -> None:
        self._all("delete_budget_usage", budget=budget)
        self._all("delete_reservations", budget=budget)

    def any_reservation(self) -> bool:
        return bool(self._all("any_reservation"))

    def reserve(self, run_id: int, schedule_id: int, agent: str, now: int, usage: Usage) -> None:
        values = {"run_id": run_id, "schedule_id": schedule_id, "agent": agent, "now": now}
        self._all("reserve_spend", money=usage.money, tokens=usage.tokens, **values)

    def insert_reservation(self, run_id: int, budget_usage: BudgetUsage, usage: Usage) -> None:
        place = {"budget": budget_usage.budget, "whose": budget_usage.of, "period": budget_usage.period}
        self._all("insert_reservation", run_id=run_id, money=usage.money, tokens=usage.tokens, **place)

    def reservations(self, run_id: int) -> list[BudgetUsage]:
        return [_reserved(*row) for row in self._all("reservations", run_id=run_id)]

    def take_reservations(self, run_id: int) -> list[BudgetUsage]:
        return [_reserved(*row) for row in self._all("take_reservations", run_id=run_id)]

    def record_spend(self, run_id: int, schedule_id: int, agent: str, now: int, usage: Usage) -> None:
        values = {"run_id": run_id, "schedule_id": schedule_id, "agent": agent, "now": now}
        spent = {"money": usage.money, "tokens": usage.tokens, "estimated": int(usage.estimated)}
        self._all("record_spend", **spent, **values)

    def spend_of(self, run_id: int) -> Usage | None:
        row = self._row(Usage, "spend_of", run_id=run_id)
        return None if row is None else row._replace(estimated=bool(row.estimated))

    def spend_since(self, since: int) -> list[SpendingRow]:
        return self._rows(SpendingRow, "spend_since", since=since)


def _reserved(budget: str, subject: str, period: str, money: int, tokens: int) -> BudgetUsage:
    return BudgetUsage(budget, subject, period, 0, 0, money, tokens)
