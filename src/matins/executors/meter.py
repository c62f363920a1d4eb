"""What runs have spent so far, and where one must stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from matins.engine.money import format_money, format_tokens, parse_money
from matins.engine.policies import Policies
from matins.engine.prices import estimate, price_of
from matins.errors import OverBudget
from matins.model.run import Outcome, Usage
from matins.runtime.work import Work


class Meter:
    def __init__(self, policies: Callable[[], Policies]) -> None:
        self._policies = policies
        self.used: dict[tuple[int, int], Usage] = {}

    def add(
        self, work: Work, money: str | None, tokens: int, model: str | None, put_in: int, got_out: int, cached: int
    ) -> None:
        """Count what a run tells; at its cap it must stop."""
        spent, estimated = 0, False
        if money is not None:
            spent = parse_money(money, self._policies().rates, "money")
        elif model is not None:
            price = price_of(model, self._policies().prices)
            spent, estimated = (estimate(price, put_in, got_out, cached), True) if price else (0, True)
        before = self.used.get(work.mark, Usage())
        now = Usage(
            before.money + spent,
            before.tokens + (tokens or put_in + got_out + cached),
            before.estimated or estimated,
        )
        self.used[work.mark] = now
        definition = work.known.definition
        if now.over(definition.max_cost, definition.max_tokens):
            spent_so_far = f"{format_money(now.money)} and {format_tokens(now.tokens)} tokens"
            raise OverBudget(f"This run has spent {spent_so_far}: more than it may", hint="raise max_cost, or do less")

    def read(self, work: Work, outcome: Outcome) -> Outcome:
        """The outcome with what was spent on it."""
        used = self.used.pop(work.mark, None)
        return outcome if used is None else replace(outcome, usage=used)
