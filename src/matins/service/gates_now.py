"""Gate by gate: what each would say if a schedule were due now."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matins.engine import quiet_hours
from matins.engine.approvals import needs_approval
from matins.engine.gates import GATES, ORDER, Candidate, Facts, Verdict
from matins.engine.money import format_money, format_tokens
from matins.engine.policies import BEFORE, Policies
from matins.engine.reasons import NOW, Tense, moment, sentence
from matins.engine.spending import Draw, draws
from matins.engine.when.durations import format_duration
from matins.model.policy import Purse
from matins.model.run import RunState
from matins.model.schedule import Command, Schedule, ScheduleDefinition
from matins.ports import Transaction
from matins.runtime import spending
from matins.runtime.catalog import Known
from matins.runtime.limits import Free
from matins.runtime.pausing import BY_BUDGET, BY_FAILURES
from matins.runtime.planner import live_runs


@dataclass(frozen=True, slots=True)
class GateSays:
    gate: str
    passes: bool | None
    """None when nobody can know before it is asked: somebody's code, a command, a person."""
    sentence: str
    evidence: dict[str, Any] | None = None


def gates_now(
    transaction: Transaction, policies: Policies, schedule: Schedule, known: Known, now: int
) -> tuple[GateSays, ...]:
    """In the order in which they stand, each judged by itself."""
    zone = known.definition.trigger.timezone
    scopes = transaction.scopes()
    facts = Facts(
        live_runs(transaction, [schedule.id]).get(schedule.id, ()),
        Free(1, scopes).none_for(known),
        schedule.agent,
        policies,
        spending.forecast(transaction, policies, known, now),
    )
    candidate = Candidate(known.definition, now, facts, schedule.executions, False, now)
    found = {"paused": standing(schedule, zone)}
    for name, gate in GATES:
        found[name] = said(name, gate(candidate), candidate, zone, NOW)
    if found["budget"].passes:
        found["budget"] = _budgets(transaction, policies, known, now)
    found["capacity"] = _capacity(facts.full, known, scopes, found["capacity"])
    found |= effects(known.definition, policies)
    return tuple(found[name] for name in ORDER)


def said(gate: str, verdict: Verdict | None, candidate: Candidate, zone: str, tense: Tense) -> GateSays:
    """What a pure gate says, in words."""
    if verdict is None:
        return GateSays(gate, True, _PASSES[gate](candidate, zone))
    told = sentence(verdict.reason, verdict.evidence, zone, state=verdict.state, at=candidate.now, tense=tense)
    return GateSays(gate, False, told, verdict.evidence)


def standing(schedule: Schedule, zone: str) -> GateSays:
    """Whether it runs at all."""
    if schedule.state == "active":
        return GateSays("paused", True, "It is not paused.")
    evidence = {"state": schedule.state, "by": schedule.paused_by, "note": schedule.note}
    return GateSays("paused", False, _stands(schedule, zone), evidence)


def effects(definition: ScheduleDefinition, policies: Policies) -> dict[str, GateSays]:
    """What stands between ready and started: it cannot be known without asking, but what is asked can be told."""
    limit = definition.check_ms
    hooks = [_command(*policies.hooks[BEFORE])] if BEFORE in policies.hooks else []
    hooks += [_command(definition.before, limit)] if definition.before is not None else []
    pre_check = None if definition.pre_check is None else f"Would run: {_command(definition.pre_check, limit)}."
    found = [
        GateSays("guard", None, "The engine's guard, where it has one, is asked when a run is about to start."),
        GateSays("pre_check", None if pre_check else True, pre_check or "It has no pre-check."),
        GateSays("hook", None, f"Would run: {', then '.join(hooks)}.")
        if hooks
        else GateSays("hook", True, "No hook is asked."),
        _approval(definition),
    ]
    return {says.gate: says for says in found}


def _command(command: Command, limit_ms: int) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    return f"{text} (at most {format_duration(limit_ms)})"


def _approval(definition: ScheduleDefinition) -> GateSays:
    if not needs_approval(definition):
        return GateSays("approval", True, "Nobody is asked.")
    whom = ", ".join(definition.approvers) or "the owner"
    count = f"{definition.approvals_needed} of " if len(definition.approvers) > 1 else ""
    limit, default = format_duration(definition.approval_ms), definition.approval_default
    return GateSays("approval", None, f"Would ask {count}{whom}; no answer within {limit} means {default}.")


def _stands(schedule: Schedule, zone: str) -> str:
    why = schedule.note or "no reason was given"
    match schedule.state:
        case "paused":
            return _paused(schedule, zone)
        case "pending":
            return f"{schedule.created_by} proposed it, and it waits for approval."
        case "rejected":
            return f"It was rejected: {why}."
        case "broken":
            return f"It is set aside because it cannot be used: {why}."
        case "expired":
            return "It has come to its end."
        case _:
            return f"It is {schedule.state}: there is no slot left."


def _paused(schedule: Schedule, zone: str) -> str:
    by = {BY_FAILURES: "its failures", BY_BUDGET: "its budget"}.get(schedule.paused_by or "", schedule.paused_by)
    since = "" if schedule.paused_at is None else f" since {moment(schedule.paused_at, zone)}"
    until = "" if schedule.paused_until is None else f", until {moment(schedule.paused_until, zone)}"
    note = f": {schedule.note}" if schedule.note else ""
    return f"It is paused by {by}{since}{until}{note}."


def _passes_ended(candidate: Candidate, zone: str) -> str:
    words = candidate.definition
    parts = [] if words.ends_at is None else [f"It ends on {moment(words.ends_at, zone)}"]
    if words.max_executions is not None:
        parts.append(f"{candidate.executions} of {words.max_executions} runs are used up")
    return "; ".join(parts) + "." if parts else "It has no end."


def _passes_quiet_hours(candidate: Candidate, zone: str) -> str:
    name = candidate.definition.quiet_hours
    if name is None:
        return "It keeps no quiet hours."
    policy = candidate.facts.policies.quiet_hours.get(name)
    return f'Quiet hours "{name}" are not on' + (f" ({quiet_hours.describe(policy)})." if policy else ": no policy.")


def _passes_overlap(candidate: Candidate, zone: str) -> str:
    live = candidate.facts.live
    if not live:
        return "No run of it is under way."
    run, state = live[0]
    return f"Run {run} is {RunState(state).word}, and it may run beside it."


def _passes_throttle(candidate: Candidate, zone: str) -> str:
    agent = candidate.facts.policies.agents.get(candidate.facts.agent)
    provider = candidate.definition.provider or (agent.provider if agent else None)
    return f'Provider "{provider}" serves it.' if provider else "It names no provider whose limits hold for it."


_PASSES: dict[str, Callable[[Candidate, str], str]] = {
    "ended": _passes_ended,
    "quiet_hours": _passes_quiet_hours,
    "overlap": _passes_overlap,
    "throttle": _passes_throttle,
    "budget": lambda candidate, zone: "No budget holds for it.",
    "capacity": lambda candidate, zone: "There is a place for it.",
}


def _budgets(transaction: Transaction, policies: Policies, known: Known, now: int) -> GateSays:
    """Those that have room for it, and how much."""
    drawn = draws(policies.budgets, known.schedule_id, known.agent, known.name, now)
    if not drawn:
        return GateSays("budget", True, "No budget holds for it.")
    need = spending.wanted(transaction, policies, known)
    parts = [_left(draw, transaction.purse(draw.budget.name, draw.whose, draw.period)) for draw in drawn]
    wanted = f"a run is taken to need {format_money(need.money)} and {format_tokens(need.tokens)} tokens"
    return GateSays("budget", True, f"{'; '.join(parts)}; {wanted}.")


def _left(draw: Draw, purse: Purse) -> str:
    money, tokens = draw.budget.money, draw.budget.tokens
    parts: list[str] = []
    if money is not None:
        parts.append(f"{format_money(money - purse.money - purse.money_reserved)} left of {format_money(money)}")
    if tokens is not None:
        left = format_tokens(tokens - purse.tokens - purse.tokens_reserved)
        parts.append(f"{left} tokens left of {format_tokens(tokens)}")
    return f'Budget "{draw.budget.name}" has {" and ".join(parts)}'


def _capacity(full: bool, known: Known, scopes: list[tuple[str, int, int]], verdict: GateSays) -> GateSays:
    """A full house is no verdict on what may wait, but it would not start now either."""
    if not full or not verdict.passes:
        return verdict
    evidence = {scope: {"size": size, "taken": taken} for scope, size, taken in scopes if scope in known.scopes}
    full_ones = [f'{n["taken"]} of {n["size"]} places of "{s}"' for s, n in evidence.items() if n["taken"] >= n["size"]]
    return GateSays("capacity", False, f"{' and '.join(full_ones)} are taken; it would wait for one.", evidence)
