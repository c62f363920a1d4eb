"""Counts the spending of runs, and stops a run at its limit."""

from __future__ import annotations

from dataclasses import replace

from matins.engine.money import format_money, format_tokens, parse_money, parse_tokens
from matins.engine.prices import estimate, price_of
from matins.errors import OverBudget
from matins.model.run import Outcome, Usage
from matins.runtime.attempt import Attempt, Mark
from matins.runtime.run_context import ContextLoader


class UsageMeter:
    def __init__(self, loader: ContextLoader) -> None:
        self._loader = loader
        self._before: dict[Mark, Usage] = {}
        self.used: dict[Mark, Usage] = {}

    def add(
        self,
        attempt: Attempt,
        money: str | None,
        tokens: int,
        model: str | None,
        input_tokens: int,
        output_tokens: int,
        cached: int,
    ) -> None:
        """Add reported usage. Raises OverBudget at the limit of the run."""
        counts = {"tokens": tokens, "input": input_tokens, "output": output_tokens, "cached": cached}
        tokens, input_tokens, output_tokens, cached = (parse_tokens(count, name) for name, count in counts.items())
        spent, estimated = 0, False
        if money is not None:
            spent = parse_money(money, self._loader.policies().rates, "money")
        elif model is not None:
            price = price_of(model, self._loader.policies().prices)
            spent, estimated = (estimate(price, input_tokens, output_tokens, cached), True) if price else (0, True)
        before = self.used.get(attempt.mark, Usage())
        now = Usage(
            before.money + spent,
            before.tokens + (tokens or input_tokens + output_tokens + cached),
            before.estimated or estimated,
        )
        self.used[attempt.mark] = now
        self._stop_at_cap(attempt, now)

    def _stop_at_cap(self, attempt: Attempt, now: Usage) -> None:
        """Raise OverBudget at the limit. It applies to the run, so earlier attempts count."""
        definition = attempt.compiled.definition
        if definition.max_cost is None and definition.max_tokens is None:
            return
        if attempt.mark not in self._before:
            self._before[attempt.mark] = Usage() if attempt.epoch == 1 else self._loader.spent_before(attempt)
        before = self._before[attempt.mark]
        total = Usage(before.money + now.money, before.tokens + now.tokens)
        if total.exceeds(definition.max_cost, definition.max_tokens):
            spent_so_far = f"{format_money(total.money)} and {format_tokens(total.tokens)} tokens"
            raise OverBudget(
                f"The run has spent {spent_so_far}: more than its limit.", hint="Raise the limit, or do less."
            )

    def read(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """The outcome with its usage."""
        self._before.pop(attempt.mark, None)
        used = self.used.pop(attempt.mark, None)
        return outcome if used is None else replace(outcome, usage=used)
