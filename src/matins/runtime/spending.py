"""Money and tokens: reserved before a run starts, settled when it ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from matins.engine.budgets import MAX_PAST_RUNS, Spent, reservation
from matins.engine.charges import BudgetShortage, Charge, charges, shortage
from matins.engine.gates.paused import BY_BUDGET
from matins.engine.money import format_money, format_tokens
from matins.engine.policies import DEFAULT_RESERVATION, Policies, read_policies
from matins.model.approval import Approval
from matins.model.budget import BudgetUsage
from matins.model.rows import NewEvent
from matins.model.run import Usage
from matins.ports import ApprovalRows, PolicyRows, SpendingRows, Transaction
from matins.runtime import asking
from matins.runtime.catalog import Known
from matins.runtime.pausing import pause

_NOTHING = Usage()
_MOST = 1 << 31


class Spender(NamedTuple):
    """An attempt that has ended, or continues later."""

    run_id: int
    known: Known
    usage: Usage | None
    lost: bool = False
    """Whether the spending is unknown."""


class Bound(NamedTuple):
    """The most that an attempt may spend; None for no limit."""

    money: int | None
    tokens: int | None
    of: str
    """Where the limit comes from, for the message."""

    def passed(self, usage: Usage) -> str | None:
        """The message when the usage exceeds the limit; None when it does not."""
        if self.money is not None and usage.money > self.money:
            spent = format_money(usage.money) + (" by the price table" if usage.estimated else "")
            return f"It spent {spent}, more than the {format_money(max(0, self.money))} {self.of}, and was stopped"
        if self.tokens is not None and usage.tokens > self.tokens:
            spent, most = format_tokens(usage.tokens), format_tokens(max(0, self.tokens))
            return f"It used {spent} tokens, more than the {most} {self.of}, and was stopped"
        return None


def bounds(transaction: Transaction, policies: Policies, known: Known, run_id: int, now: int) -> list[Bound]:
    """What a run may still spend: by its own limits, and by what each budget has left besides other reservations."""
    before = transaction.spend_of(run_id) or _NOTHING
    money, tokens = _caps(policies, known)
    own = Bound(_less(money, before.money), _less(tokens, before.tokens), "allowed for one run")
    held = {purse.budget: purse for purse in transaction.reservations(run_id)}
    drawn = _draws(policies, known, now)
    found = [own, *(_bound(transaction, draw, held.get(draw.budget.name)) for draw in drawn)]
    return [bound for bound in found if bound.money is not None or bound.tokens is not None]


def _bound(transaction: SpendingRows, draw: Charge, held: BudgetUsage | None) -> Bound:
    budget, period = draw.budget, held.period if held else draw.period
    purse = transaction.budget_usage(budget.name, draw.subject, period)
    money, tokens = purse.money + purse.money_reserved, purse.tokens + purse.tokens_reserved
    if held is not None:
        money, tokens = money - held.money_reserved, tokens - held.tokens_reserved
    of = f'left in budget "{budget.name}"'
    return Bound(_less(budget.max_cost, money), _less(budget.max_tokens, tokens), of)


def _less(limit: int | None, taken: int) -> int | None:
    return None if limit is None else limit - taken


def wanted(transaction: SpendingRows, policies: Policies, known: Known) -> Usage:
    """The amount to reserve for a run: its own limit, or an estimate from past runs, or the default."""
    past = [Spent(usage.money, usage.tokens) for usage in transaction.past_spend(known.schedule_id, MAX_PAST_RUNS)]
    money, tokens = _caps(policies, known)
    cap = Spent(money or 0, tokens or 0)
    return Usage(*reservation(cap, past, Spent(DEFAULT_RESERVATION.money, DEFAULT_RESERVATION.tokens)))


def forecast(transaction: Transaction, policies: Policies, known: Known, now: int) -> BudgetShortage | None:
    """The first budget that is too small for another run of this schedule."""
    drawn = _draws(policies, known, now)
    need = wanted(transaction, policies, known) if drawn else _NOTHING
    for draw in drawn:
        lacking = shortage(draw, transaction.budget_usage(draw.budget.name, draw.subject, draw.period), need, now)
        if lacking is not None:
            return lacking
    return None


def reserve(transaction: Transaction, policies: Policies, known: Known, run_id: int, now: int) -> BudgetShortage | None:
    """Reserve what a run may spend in all its budgets; or in none, and return the shortage."""
    drawn = _draws(policies, known, now)
    if not drawn:
        return None
    transaction.lock_policies()  # one run at a time: each reserves in several budgets
    need = wanted(transaction, policies, known)
    purses = [transaction.lock_budget_usage(draw.budget.name, draw.subject, draw.period) for draw in drawn]
    for draw, purse in zip(drawn, purses, strict=True):
        lacking = shortage(draw, purse, need, now)
        if lacking is not None:
            return lacking
    for purse in purses:
        transaction.add_budget_usage(BudgetUsage(purse.budget, purse.of, purse.period, 0, 0, need.money, need.tokens))
        transaction.insert_reservation(run_id, purse, need)
    transaction.reserve(run_id, known.schedule_id, known.agent, now, need)
    return None


def settle(transaction: Transaction, spender: Spender, now: int, *, reserved: bool) -> None:
    """Release the reservations and record the spending. A schedule that spent too much is paused, pending approval."""
    transaction.lock_policies()
    held = transaction.take_reservations(spender.run_id) if reserved else []
    if held or spender.usage is not None:
        _settle(transaction, _policies(transaction), spender, held, now)


def release(transaction: Transaction, run_ids: Iterable[int]) -> None:
    """Release the reservations of runs that never started."""
    if transaction.any_reservation():
        transaction.lock_policies()
        for run_id in run_ids:
            for held in transaction.take_reservations(run_id):
                transaction.add_budget_usage(_given_back(held, _NOTHING))


def _settle(transaction: Transaction, policies: Policies, spender: Spender, held: list[BudgetUsage], now: int) -> None:
    known, usage = spender.known, spender.usage or _NOTHING
    if spender.lost and spender.usage is None:  # it may have spent all of its reservation
        reserved = [Usage(purse.money_reserved, purse.tokens_reserved, True) for purse in held]
        usage = max(reserved, default=_NOTHING)
    transaction.record_spend(spender.run_id, known.schedule_id, known.agent, now, usage)
    for purse in held:
        transaction.add_budget_usage(_given_back(purse, usage))
    # The spending counts in the period of the reservation, even if a new day has begun.
    periods = {purse.budget: purse.period for purse in held}
    drawn = [draw._replace(period=periods.get(draw.budget.name, draw.period)) for draw in _draws(policies, known, now)]
    for draw in drawn:
        if draw.budget.name not in periods:  # the budget was created during the run
            fresh = BudgetUsage(draw.budget.name, draw.subject, draw.period, usage.money, usage.tokens, 0, 0)
            transaction.add_budget_usage(fresh)
    if spender.usage is not None and _capped(transaction, policies, spender):
        _breach(transaction, spender, None, now)
        return
    for draw in drawn:
        if draw.overspent(transaction.budget_usage(draw.budget.name, draw.subject, draw.period)):
            _breach(transaction, spender, draw, now)
            return


def _capped(transaction: SpendingRows, policies: Policies, spender: Spender) -> bool:
    """Whether the attempts of the run together spent more than one run may."""
    money, tokens = _caps(policies, spender.known)
    if money is None and tokens is None:
        return False
    return (transaction.spend_of(spender.run_id) or _NOTHING).exceeds(money, tokens)


def _caps(policies: Policies, known: Known) -> tuple[int | None, int | None]:
    """What one run may spend, in money and tokens, by the settings of the schedule and the agent."""
    agent = policies.agents.get(known.agent)
    caps = (known.definition.max_cost, agent.max_cost if agent and known.talks else None)
    return min((cap for cap in caps if cap is not None), default=None), known.definition.max_tokens


def _given_back(held: BudgetUsage, usage: Usage) -> BudgetUsage:
    taken = (usage.money, usage.tokens, -held.money_reserved, -held.tokens_reserved)
    return BudgetUsage(held.budget, held.of, held.period, *taken)


def _breach(transaction: Transaction, spender: Spender, draw: Charge | None, now: int) -> None:
    known = spender.known
    usage = transaction.spend_of(spender.run_id) or _NOTHING
    spent = f"{format_money(usage.money)} and {format_tokens(usage.tokens)} tokens"
    if draw is None:
        note = f"run {spender.run_id} exceeded its limit: it spent {spent}"
    else:
        note = f'budget "{draw.budget.name}" is overspent for {draw.period}; run {spender.run_id} spent {spent}'
    place = {} if draw is None else {"budget": draw.budget.name, "whose": draw.subject, "period": draw.period}
    paused = pause(transaction, known.schedule_id, now, BY_BUDGET, note)
    row = transaction.schedule(known.schedule_id)
    if not paused and (row is None or row.state != "paused"):
        return  # it is not active; but if a person has paused it, approval is requested anyway
    if not _asked(transaction, known.schedule_id, place):
        asking.ask_about_budget(transaction, known, spender.run_id, now, {"note": note, **place})
    data = {"note": note, "spent": format_money(usage.money), **place}
    transaction.events.append(NewEvent(now, "budget.exceeded", known.schedule_id, spender.run_id, data))


def stopped_with(transaction: Transaction, policies: Policies, asked: Approval, now: int) -> list[int]:
    """The other schedules that wait for this approval: they use the same budget, and have no request of their own."""
    if asked.kind != "budget" or "budget" not in asked.request:
        return []
    budgets = [budget for budget in policies.budgets if budget.name == asked.request["budget"]]
    found: list[int] = []
    for schedule_id, agent, name in transaction.paused_by(BY_BUDGET):
        same = any(draw.subject == asked.request["whose"] for draw in charges(budgets, schedule_id, agent, name, now))
        own = any(other.kind == "budget" for other in transaction.open_approvals(schedule_id))
        if same and not own and schedule_id != asked.schedule_id:
            found.append(schedule_id)
    return found


def _asked(transaction: ApprovalRows, schedule_id: int, place: dict[str, str]) -> bool:
    """Whether there is already a request about this budget: a second approval would grant the amount twice."""
    questions = transaction.approvals_in("pending", 0, _MOST) if place else transaction.open_approvals(schedule_id)
    return any(asked.kind == "budget" and place.items() <= asked.request.items() for asked in questions)


def _draws(policies: Policies, known: Known, now: int) -> list[Charge]:
    if not policies.budgets:
        return []
    return charges(policies.budgets, known.schedule_id, known.agent, known.name, now)


def _policies(transaction: PolicyRows) -> Policies:
    return read_policies(0, transaction.policies(), transaction.throttles())
