"""Reservations and spending of runs, in SQL that both stores share."""

from __future__ import annotations

from typing import Any

from matins.model.policy import Purse
from matins.model.run import Usage


class Ledger:
    """Part of a transaction. The store implements `_common`, which runs a named query."""

    def _common(self, query: str, /, **values: Any) -> list[Any]:
        raise NotImplementedError

    def past_spend(self, schedule_id: int, limit: int) -> list[Usage]:
        """What the last runs of a schedule cost, the newest first."""
        return [Usage(*row) for row in self._common("past_spend", id=schedule_id, limit=limit)]

    def purse(self, budget: str, whose: str, period: str) -> Purse:
        rows = self._common("purse", budget=budget, whose=whose, period=period)
        return Purse(*rows[0]) if rows else Purse(budget, whose, period, 0, 0, 0, 0)

    def locked_purse(self, budget: str, whose: str, period: str) -> Purse:
        self._common("open_purse", budget=budget, whose=whose, period=period)
        return Purse(*self._common("lock_purse", budget=budget, whose=whose, period=period)[0])

    def purses(self, since: str) -> list[Purse]:
        return [Purse(*row) for row in self._common("purses", since=since)]

    def fill_purse(self, change: Purse) -> None:
        """Add `change`, whose numbers may be negative."""
        self._common("open_purse", budget=change.budget, whose=change.of, period=change.period)
        values = change._asdict()
        self._common("fill_purse", whose=values.pop("of"), **values)

    def drop_purses(self, budget: str) -> None:
        """Delete the usage and reservations of a budget, when it is deleted or recounted."""
        self._common("drop_purses", budget=budget)
        self._common("drop_reservations", budget=budget)

    def any_reservation(self) -> bool:
        return bool(self._common("any_reservation"))

    def reserve(self, run_id: int, schedule_id: int, agent: str, now: int, usage: Usage) -> None:
        values = {"run_id": run_id, "schedule_id": schedule_id, "agent": agent, "now": now}
        self._common("reserve_spend", money=usage.money, tokens=usage.tokens, **values)

    def insert_reservation(self, run_id: int, purse: Purse, usage: Usage) -> None:
        place = {"budget": purse.budget, "whose": purse.of, "period": purse.period}
        self._common("insert_reservation", run_id=run_id, money=usage.money, tokens=usage.tokens, **place)

    def reservations(self, run_id: int) -> list[Purse]:
        """The reservations of a run in each budget."""
        return [_reserved(*row) for row in self._common("reservations", run_id=run_id)]

    def take_reservations(self, run_id: int) -> list[Purse]:
        """Delete the reservations of a run, and return them."""
        return [_reserved(*row) for row in self._common("take_reservations", run_id=run_id)]

    def settle_spend(self, run_id: int, schedule_id: int, agent: str, now: int, usage: Usage) -> None:
        values = {"run_id": run_id, "schedule_id": schedule_id, "agent": agent, "now": now}
        spent = {"money": usage.money, "tokens": usage.tokens, "estimated": int(usage.estimated)}
        self._common("settle_spend", **spent, **values)

    def spend_of(self, run_id: int) -> Usage | None:
        rows = self._common("spend_of", run_id=run_id)
        return Usage(rows[0][0], rows[0][1], bool(rows[0][2])) if rows else None

    def spend_since(self, since: int) -> list[tuple[int, str, int, int]]:
        """(schedule, agent, micro-dollars, tokens)."""
        return [(s, a, int(m), int(t)) for s, a, m, t in self._common("spend_since", since=since)]


def _reserved(budget: str, whose: str, period: str, money: int, tokens: int) -> Purse:
    return Purse(budget, whose, period, 0, 0, money, tokens)
