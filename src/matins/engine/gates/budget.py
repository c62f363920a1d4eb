"""The budget gate: whether the run fits into every budget."""

from __future__ import annotations

from matins.engine.catch_up import grace_of
from matins.engine.charges import Charge
from matins.engine.gates.gate import Candidate, Gate, Verdict
from matins.engine.money import format_money, format_tokens
from matins.model.budget import BudgetUsage
from matins.model.run import RunState
from matins.model.trigger import Once


def _judge(candidate: Candidate) -> Verdict | None:
    """The verdict. A one-shot has no next slot: it waits for the next period if that starts within its grace."""
    shortage, slot = candidate.facts.shortage, candidate.slot
    if shortage is None:
        return None
    definition = candidate.definition
    latest = None if slot is None else slot + grace_of(definition, slot, None)
    if latest is not None and isinstance(definition.trigger.when, Once) and shortage.resets_at <= latest:
        return Verdict(RunState.WAITING, "over_budget", shortage.evidence(), until=shortage.resets_at)
    return Verdict(RunState.OVER_BUDGET, "over_budget", shortage.evidence())


def _sentence(candidate: Candidate) -> str:
    standing = candidate.facts.standing
    if standing is None or not standing.usages:
        return "No budget applies."
    left = "; ".join(_left(charge, usage) for charge, usage in standing.usages)
    wanted = f"{format_money(standing.wanted.money)} and {format_tokens(standing.wanted.tokens)} tokens"
    return f"{left}; a run reserves {wanted}."


def _left(charge: Charge, usage: BudgetUsage) -> str:
    money, tokens = charge.budget.max_cost, charge.budget.max_tokens
    parts: list[str] = []
    if money is not None:
        parts.append(f"{format_money(money - usage.money - usage.money_reserved)} left of {format_money(money)}")
    if tokens is not None:
        left = format_tokens(tokens - usage.tokens - usage.tokens_reserved)
        parts.append(f"{left} tokens left of {format_tokens(tokens)}")
    return f'Budget "{charge.budget.name}" has {" and ".join(parts)}'


BUDGET = Gate(
    name="budget",
    order=60,
    stages=("plan", "claim"),
    level="step",
    settings="`m.budgets.set`; `max_cost`, `max_tokens` of one run",
    refusal="The run is `over_budget`.",
    reasons=("over_budget",),
    active=lambda surroundings: bool(surroundings.policies.budgets),
    touched=lambda facts: facts.shortage is not None,
    judge=_judge,
    predictable=False,
    sentence=_sentence,
)
