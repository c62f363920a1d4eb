"""Money and tokens: reserved before a run starts, settled when it ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from matins.engine.gates.state import BY_BUDGET
from matins.engine.jobs import MESSAGE_JOB
from matins.engine.money import (
    MAX_PAST_RUNS,
    Budget,
    BudgetShortage,
    Charge,
    Spent,
    charges,
    format_money,
    format_tokens,
    reservation,
    shortage,
)
from matins.engine.policies import DEFAULT_RESERVATION, Policies, read_policies
from matins.model.access import name_of
from matins.model.policies import Approval, BudgetUsage
from matins.model.rows import NewEvent
from matins.model.run import Usage
from matins.runtime import approval_requests
from matins.runtime.catalog import NO_LIMITS, CompiledSchedule, schedule_record
from matins.runtime.pausing import pause
from matins.store.transaction import Transaction

_NOTHING = Usage()
_MAX_APPROVALS = 1 << 31


class Spender(NamedTuple):
    """An attempt that has ended, or continues later."""

    run_id: int
    compiled: CompiledSchedule
    usage: Usage | None
    lost: bool = False
    """Whether the spending is unknown."""


class SpendingLimit(NamedTuple):
    """The spending limit of an attempt; None for no limit."""

    money: int | None
    tokens: int | None
    of: str
    """The origin of the limit, for the message."""

    def passed(self, usage: Usage) -> str | None:
        """The message when the usage exceeds the limit; None when it does not."""
        if self.money is not None and usage.money > self.money:
            spent = format_money(usage.money) + (" by the price table" if usage.estimated else "")
            return f"It spent {spent}, more than the {format_money(max(0, self.money))} {self.of}, and was stopped"
        if self.tokens is not None and usage.tokens > self.tokens:
            spent, limit = format_tokens(usage.tokens), format_tokens(max(0, self.tokens))
            return f"It used {spent} tokens, more than the {limit} {self.of}, and was stopped"
        return None


def spending_limits(
    transaction: Transaction, policies: Policies, compiled: CompiledSchedule, run_id: int, now: int
) -> list[SpendingLimit]:
    """The amounts that a run may still spend, by its own limits and by what other reservations leave of each budget."""
    before = transaction.spend_of(run_id) or _NOTHING
    money, tokens = _run_limits(policies, compiled)
    own = SpendingLimit(_less(money, before.money), _less(tokens, before.tokens), "allowed for one run")
    held = {budget_usage.budget: budget_usage for budget_usage in transaction.reservations(run_id)}
    charged = _charges(transaction, policies, compiled, now, run_id)
    found = [own, *(_budget_limit(transaction, charge, held.get(charge.budget.name)) for charge in charged)]
    return [bound for bound in found if bound.money is not None or bound.tokens is not None]


def _budget_limit(transaction: Transaction, charge: Charge, held: BudgetUsage | None) -> SpendingLimit:
    budget, period = charge.budget, held.period if held else charge.period
    budget_usage = transaction.budget_usage(budget.name, charge.subject, period)
    money, tokens = budget_usage.money + budget_usage.money_reserved, budget_usage.tokens + budget_usage.tokens_reserved
    if held is not None:
        money, tokens = money - held.money_reserved, tokens - held.tokens_reserved
    of = f'left in budget "{budget.name}"'
    return SpendingLimit(_less(budget.max_cost, money), _less(budget.max_tokens, tokens), of)


def _less(limit: int | None, taken: int) -> int | None:
    return None if limit is None else limit - taken


def estimate(transaction: Transaction, policies: Policies, compiled: CompiledSchedule) -> Usage:
    """The amount to reserve for a run: its own limit, or an estimate from past runs, or the default."""
    if compiled.steps:
        numbers = range(1, len(compiled.steps) + 1)
        steps = [estimate(transaction, policies, compiled.step_of(number)) for number in numbers]
        money, tokens = sum(usage.money for usage in steps), sum(usage.tokens for usage in steps)
        limits = compiled.definition.max_cost, compiled.definition.max_tokens  # of all steps together
        return Usage(_least(money, limits[0]) or 0, _least(tokens, limits[1]) or 0, True)
    spent = transaction.past_spend(compiled.schedule_id, compiled.step, MAX_PAST_RUNS)
    past = [Spent(usage.money, usage.tokens) for usage in spent]
    (own_money, own_tokens), (run_money, run_tokens) = _run_limits(policies, compiled), compiled.run_limits
    cap = Spent(_least(own_money, run_money) or 0, _least(own_tokens, run_tokens) or 0)
    return Usage(*reservation(cap, past, Spent(DEFAULT_RESERVATION.money, DEFAULT_RESERVATION.tokens)))


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def expected_charge(
    transaction: Transaction, policies: Policies, compiled: CompiledSchedule, now: int
) -> BudgetShortage | None:
    """The first budget that is too small for another run of this schedule."""
    charged = _charges(transaction, policies, compiled, now)
    need = estimate(transaction, policies, compiled) if charged else _NOTHING
    for charge in charged:
        lacking = shortage(
            charge, transaction.budget_usage(charge.budget.name, charge.subject, charge.period), need, now
        )
        if lacking is not None:
            return lacking
    return None


def reserve(
    transaction: Transaction, policies: Policies, compiled: CompiledSchedule, run_id: int, now: int
) -> BudgetShortage | None:
    """Reserve the estimate of a run in all its budgets, or in none and return the shortage."""
    charged = _charges(transaction, policies, compiled, now, run_id)
    if not charged:
        return None
    transaction.lock_policies()  # one run at a time: each reserves in several budgets
    need = estimate(transaction, policies, compiled)
    budget_usages = [
        transaction.lock_budget_usage(charge.budget.name, charge.subject, charge.period) for charge in charged
    ]
    for charge, budget_usage in zip(charged, budget_usages, strict=True):
        lacking = shortage(charge, budget_usage, need, now)
        if lacking is not None:
            return lacking
    for budget_usage in budget_usages:
        transaction.add_budget_usage(
            BudgetUsage(budget_usage.budget, budget_usage.of, budget_usage.period, 0, 0, need.money, need.tokens)
        )
        transaction.insert_reservation(run_id, budget_usage, need)
    transaction.reserve(run_id, compiled.schedule_id, compiled.agent, now, need)
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
                transaction.add_budget_usage(_released(held, _NOTHING))


def _settle(transaction: Transaction, policies: Policies, spender: Spender, held: list[BudgetUsage], now: int) -> None:
    compiled, usage = spender.compiled, spender.usage or _NOTHING
    if spender.lost and spender.usage is None:  # the attempt may have spent all of its reservation
        reserved = [Usage(budget_usage.money_reserved, budget_usage.tokens_reserved, True) for budget_usage in held]
        usage = max(reserved, default=_NOTHING)
    elif usage.invalid:  # what it really cost is unknown: at least the reservation
        money = max((budget_usage.money_reserved for budget_usage in held), default=0)
        usage = usage._replace(money=max(usage.money, money), estimated=True)
    transaction.record_spend(spender.run_id, compiled.schedule_id, compiled.agent, now, usage)
    for budget_usage in held:
        transaction.add_budget_usage(_released(budget_usage, usage))
    # The spending counts in the period of the reservation, even if a new day has begun.
    periods = {budget_usage.budget: budget_usage.period for budget_usage in held}
    charged = [
        charge._replace(period=periods.get(charge.budget.name, charge.period))
        for charge in _charges(transaction, policies, compiled, now, spender.run_id)
    ]
    for charge in charged:
        if charge.budget.name not in periods:  # the budget was created during the run
            fresh = BudgetUsage(charge.budget.name, charge.subject, charge.period, usage.money, usage.tokens, 0, 0)
            transaction.add_budget_usage(fresh)
    if spender.usage is not None and _over_run_limit(transaction, policies, spender):
        _breach(transaction, spender, None, now)
        return
    if usage.invalid and charged:
        _breach(transaction, spender, charged[0], now, "reported a cost that cannot be right")
        return
    for charge in charged:
        total = transaction.budget_usage(charge.budget.name, charge.subject, charge.period)
        if charge.overspent(total):
            _breach(transaction, spender, charge, now)
            return
        if charge.warns(total, usage):
            _warn(transaction, spender, charge, total, now)


def _warn(transaction: Transaction, spender: Spender, charge: Charge, total: BudgetUsage, now: int) -> None:
    """Tell that a budget will soon be spent, once in a period."""
    budget = charge.budget
    of = [] if budget.max_cost is None else [f"{format_money(total.money)} of {format_money(budget.max_cost)}"]
    if budget.max_tokens is not None:
        of.append(f"{format_tokens(total.tokens)} of {format_tokens(budget.max_tokens)} tokens")
    data = {"budget": budget.name, "whose": charge.subject, "period": charge.period, "warn_at": budget.warn_at,
            "spent": " and ".join(of)}  # fmt: skip
    transaction.events.append(NewEvent(now, "budget.warning", spender.compiled.schedule_id, spender.run_id, data))


def _over_run_limit(transaction: Transaction, policies: Policies, spender: Spender) -> bool:
    """Whether the attempts of the run together exceed the limit of one run."""
    money, tokens = _run_limits(policies, spender.compiled)
    if money is None and tokens is None:
        return False
    return (transaction.spend_of(spender.run_id) or _NOTHING).exceeds(money, tokens)


def _run_limits(policies: Policies, compiled: CompiledSchedule) -> tuple[int | None, int | None]:
    """The limits of one run, in money and tokens, by the settings of the schedule and the agent."""
    agent = policies.agents.get(compiled.agent)
    caps = (compiled.definition.max_cost, agent.max_cost if agent and compiled.wakes_agent else None)
    return min((cap for cap in caps if cap is not None), default=None), compiled.definition.max_tokens


def _released(held: BudgetUsage, usage: Usage) -> BudgetUsage:
    taken = (usage.money, usage.tokens, -held.money_reserved, -held.tokens_reserved)
    return BudgetUsage(held.budget, held.of, held.period, *taken)


def _breach(
    transaction: Transaction, spender: Spender, charge: Charge | None, now: int, problem: str | None = None
) -> None:
    """Pause the schedule and request approval. `problem` is another reason than overspending."""
    compiled = spender.compiled
    usage = transaction.spend_of(spender.run_id) or _NOTHING
    spent = f"{format_money(usage.money)} and {format_tokens(usage.tokens)} tokens"
    if problem is not None:
        note = f"run {spender.run_id} {problem}; {spent} are charged, as reserved"
    elif charge is None:
        note = f"run {spender.run_id} exceeded its limit: it spent {spent}"
    else:
        note = f'budget "{charge.budget.name}" is overspent for {charge.period}; run {spender.run_id} spent {spent}'
    place = {} if charge is None else {"budget": charge.budget.name, "whose": charge.subject, "period": charge.period}
    paused = pause(transaction, compiled.schedule_id, now, BY_BUDGET, note)
    row = transaction.schedule(compiled.schedule_id)
    if not paused and (row is None or row.state != "paused"):
        return  # the schedule is not active; if a person has paused it, approval is requested anyway
    if not _is_requested(transaction, compiled.schedule_id, place):
        approval_requests.request_budget_approval(transaction, compiled, spender.run_id, now, {"note": note, **place})
    data = {"note": note, "spent": format_money(usage.money), **place}
    transaction.events.append(NewEvent(now, "budget.exceeded", compiled.schedule_id, spender.run_id, data))


def others_waiting(transaction: Transaction, policies: Policies, approval: Approval, now: int) -> list[int]:
    """The other schedules that wait for this approval: they use the same budget, and have no request of their own."""
    if approval.kind != "budget" or "budget" not in approval.request:
        return []
    budgets = [budget for budget in policies.budgets if budget.name == approval.request["budget"]]
    found: list[int] = []
    for schedule_id, agent, name in transaction.paused_by(BY_BUDGET):
        definition = schedule_record(transaction.schedules_with([schedule_id])[0]).definition
        same = any(
            charge.subject == approval.request["whose"]
            for one in {step.agent or agent for step in definition.steps} or {agent}
            for charge in charges(
                budgets,
                schedule_id,
                one,
                f"{agent}/{name}",
                now,
                definition.labels,
                payer(transaction, budgets, schedule_id),
            )
        )
        own = any(other.kind == "budget" for other in transaction.open_approvals(schedule_id))
        if same and not own and schedule_id != approval.schedule_id:
            found.append(schedule_id)
    return found


def _is_requested(transaction: Transaction, schedule_id: int, place: dict[str, str]) -> bool:
    """Whether there is already a request about this budget: a second approval would grant the amount twice."""
    questions = (
        transaction.approvals_in("pending", 0, _MAX_APPROVALS) if place else transaction.open_approvals(schedule_id)
    )
    return any(approval.kind == "budget" and place.items() <= approval.request.items() for approval in questions)


def payer(
    transaction: Transaction, budgets: Iterable[Budget], schedule_id: int, run_id: int | None = None
) -> str | None:
    """The person whose budget a run draws on: who started it, else who made the schedule. For what agents started or
    made, and for a person who left, it is who made the schedule, or got it. None where no budget asks."""
    if not any(budget.scope == "person" for budget in budgets):
        return None
    who = ""
    if run_id is not None:
        run = transaction.run(next(iter(transaction.parents_of([run_id])), run_id))
        evidence: dict[str, Any] = orjson.loads(run.evidence) if run is not None and run.evidence else {}
        by: dict[str, Any] = evidence.get("by") or {}
        who = str(by.get("who") or "")
    if not who or who.startswith("agent:"):
        schedule = transaction.schedule(schedule_id)
        who = "owner" if schedule is None or schedule.creator_role == "agent" else schedule.created_by
    name = name_of(who)
    while (left := transaction.credential("left", name)) is not None and left.person != name:
        name = left.person
    return name


def _charges(
    transaction: Transaction, policies: Policies, compiled: CompiledSchedule, now: int, run_id: int | None = None
) -> list[Charge]:
    """The budgets that a run draws on. The limits of a run with steps are one of them, which its steps share."""
    agent = policies.agents.get(compiled.agent) if compiled.wakes_agent else None
    if compiled.definition.command is not None or compiled.emits_message:
        return []  # neither costs anything
    if agent is not None and agent.runner == MESSAGE_JOB:
        return []
    found: list[Charge] = []
    if policies.budgets:
        labels = compiled.definition.labels
        person = payer(transaction, policies.budgets, compiled.schedule_id, run_id)
        found = charges(policies.budgets, compiled.schedule_id, compiled.agent, compiled.full_name, now, labels, person)
    if run_id is not None and compiled.run_limits != NO_LIMITS:
        (parent,) = transaction.parents_of([run_id])
        money, tokens = compiled.run_limits
        budget = Budget(f"run {parent}", max_cost=money, max_tokens=tokens, timezone="UTC")
        found.append(Charge(budget, f"run:{parent}", "run"))
    return found


def _policies(transaction: Transaction) -> Policies:
    return read_policies(0, transaction.policies(), transaction.throttles())
