"""Budgets: the spending limits of a day or a month."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from matins.engine.budgets import Budget, check_budget, period_of
from matins.engine.when.durations import DAY_MS
from matins.model.budget import BudgetUsage
from matins.model.counting import counted
from matins.records.kind import Column, Document, RecordChange, RecordContext, RecordKind
from matins.records.storage import POLICIES

if TYPE_CHECKING:
    from matins.store.transaction import Transaction

_MONTH_MS = 32 * DAY_MS


def _complete(budget: Budget, context: RecordContext) -> Budget:
    check_budget(budget)
    return budget if budget.timezone else replace(budget, timezone=context.zone)


def _recount(budget: Budget, before: Budget | None, change: RecordChange) -> None:
    """Count the spending of this period again for a new or changed budget. If only the amounts change, usage stays."""
    if before is not None and budget == replace(before, max_cost=budget.max_cost, max_tokens=budget.max_tokens):
        return
    from matins.engine.charges import charges

    transaction = change.transaction
    transaction.delete_budget_usage(budget.name)
    for spent in transaction.spend_since(_period_start(budget, change.now)):
        schedule = transaction.schedule(spent.schedule_id)
        name = f"{schedule.agent}/{schedule.name}" if schedule else ""
        for charge in charges([budget], spent.schedule_id, spent.agent, name, change.now):
            transaction.add_budget_usage(
                BudgetUsage(budget.name, charge.subject, charge.period, spent.money, spent.tokens, 0, 0)
            )


def _period_start(budget: Budget, now: int) -> int:
    """The start of the present period, by binary search."""
    period, low, high = period_of(budget, now), now - _MONTH_MS, now
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if period_of(budget, middle) == period else (middle, high)
    return high


def _delete_usage(budget: Budget, before: Budget | None, change: RecordChange) -> None:
    change.transaction.delete_budget_usage(budget.name)


def _usage(transaction: Transaction, now: int) -> Callable[[Budget], Document]:
    since = cache(transaction.budget_usages)  # there are few periods, however many budgets

    def usage(budget: Budget) -> Document:
        period = period_of(budget, now)
        used = [each for each in since(period) if each.budget == budget.name and each.period == period]
        return {"usage": [_usage_document(each) for each in used]}

    return usage


def _usage_document(usage: BudgetUsage) -> Document:
    from matins.engine.money import format_money

    money = {"money": format_money(usage.money), "money_reserved": format_money(usage.money_reserved)}
    return {**usage._asdict(), **money}


def _rows(document: Document) -> Iterable[Document]:
    """One row for each part of the usage: the total, or each agent or schedule."""
    limit = ", ".join(text for text in (document["max_cost"], _tokens(document["max_tokens"])) if text)
    spent = [
        (used["of"], f"{used['money']}, {_tokens(used['tokens']) or 'no tokens'}", used["money_reserved"])
        for used in document["usage"]
    ]
    unused = (document["of"] or document["scope"], "nothing", "–")
    for subject, money, reserved in spent or [unused]:
        yield {**document, "for": subject, "spent": money, "reserved": reserved, "limit": limit}


def _tokens(count: int | None) -> str:
    return counted(count, "token") if count else ""


BUDGETS = RecordKind(
    kind="budget",
    noun="budgets",
    one="budget",
    value=Budget,
    help="Manage budgets; list shows what is spent.",
    file_help="How much may be spent in a day or a month, by name.",
    storage=POLICIES,
    complete=_complete,
    wakes="over_budget",
    changed=_recount,
    deleted=_delete_usage,
    state=_usage,
    state_types={"usage": "list[BudgetUsage]"},
    columns=tuple(Column(title, title.lower()) for title in ("NAME", "FOR", "PERIOD", "SPENT", "RESERVED", "LIMIT")),
    rows=_rows,
    example="matins budgets set daily --max-cost '$5' --period day",
)
