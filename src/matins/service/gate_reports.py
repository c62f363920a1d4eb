"""The verdict of each gate if a schedule were due now."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from matins.api.results import GateReport
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
from matins.model.schedule import CommandLine, ScheduleDefinition, ScheduleRecord
from matins.ports import Transaction
from matins.runtime import spending
from matins.runtime.catalog import Known
from matins.runtime.limits import Free
from matins.runtime.pausing import BY_BUDGET, BY_FAILURES
from matins.runtime.planner import live_runs


def gate_reports(
    transaction: Transaction, policies: Policies, schedule: ScheduleRecord, known: Known, now: int
) -> list[GateReport]:
    """One report for each gate, in order. Each gate is judged by itself."""
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
    found = {"paused": state_report(schedule, zone)}
    for name, gate in GATES:
        found[name] = said(name, gate(candidate), candidate, zone, NOW)
    if found["budget"].passes:
        found["budget"] = _budgets(transaction, policies, known, now)
    found["capacity"] = _capacity(facts.full, known, scopes, found["capacity"])
    found |= effects(known.definition, policies)
    return [found[name] for name in ORDER]


def said(gate: str, verdict: Verdict | None, candidate: Candidate, zone: str, tense: Tense) -> GateReport:
    """The report of a gate that has no side effects."""
    if verdict is None:
        return GateReport(gate, True, _PASSES[gate](candidate, zone))
    told = sentence(verdict.reason, verdict.evidence, zone, state=verdict.state, at=candidate.now, tense=tense)
    return GateReport(gate, False, told, verdict.evidence)


def state_report(schedule: ScheduleRecord, zone: str) -> GateReport:
    """Whether the schedule is active."""
    if schedule.state == "active":
        return GateReport("paused", True, "The schedule is not paused.")
    evidence = {"state": schedule.state, "by": schedule.paused_by, "note": schedule.note}
    return GateReport("paused", False, _stands(schedule, zone), evidence)


def effects(definition: ScheduleDefinition, policies: Policies) -> dict[str, GateReport]:
    """Reports of the gates between ready and started: what they would run or ask, not the answer."""
    limit = definition.check_timeout_ms
    hooks = (
        [_command(policies.hooks[BEFORE].command, policies.hooks[BEFORE].timeout_ms)]
        if BEFORE in policies.hooks
        else []
    )
    hooks += [_command(definition.before_run, limit)] if definition.before_run is not None else []
    pre_check = None if definition.pre_check is None else f"Would run: {_command(definition.pre_check, limit)}."
    found = [
        GateReport("guard", None, "If the engine has a guard, it is called before a run starts."),
        GateReport("pre_check", None if pre_check else True, pre_check or "The schedule has no pre-check."),
        GateReport("hook", None, f"Would run: {', then '.join(hooks)}.")
        if hooks
        else GateReport("hook", True, "There is no hook before a run."),
        _approval(definition),
    ]
    return {says.gate: says for says in found}


def _command(command: CommandLine, limit_ms: int) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    return f"{text} (at most {format_duration(limit_ms)})"


def _approval(definition: ScheduleDefinition) -> GateReport:
    if not needs_approval(definition):
        return GateReport("approval", True, "No approval is needed.")
    whom = ", ".join(definition.approvers) or "the owner"
    count = f"{definition.approvals_required} of " if len(definition.approvers) > 1 else ""
    limit, default = format_duration(definition.approval_timeout_ms), definition.approval_default
    return GateReport("approval", None, f"Would ask {count}{whom}. Without an answer within {limit}: {default}.")


def _stands(schedule: ScheduleRecord, zone: str) -> str:
    why = schedule.note or "no reason was given"
    match schedule.state:
        case "paused":
            return _paused(schedule, zone)
        case "pending":
            return f"Pending: {schedule.created_by} proposed the schedule, and it needs approval."
        case "rejected":
            return f"Rejected: {why.rstrip('.')}."
        case "broken":
            return f"Broken: {why.rstrip('.')}."
        case "expired":
            return "Expired: the end date is past."
        case _:
            return f"{schedule.state.capitalize()}: there is no slot left."


def _paused(schedule: ScheduleRecord, zone: str) -> str:
    by = {BY_FAILURES: "its failures", BY_BUDGET: "its budget"}.get(schedule.paused_by or "", schedule.paused_by)
    since = "" if schedule.paused_at is None else f" since {moment(schedule.paused_at, zone)}"
    until = "" if schedule.paused_until is None else f", until {moment(schedule.paused_until, zone)}"
    note = f": {schedule.note.rstrip('.')}" if schedule.note else ""
    return f"Paused by {by}{since}{until}{note}."


def _passes_ended(candidate: Candidate, zone: str) -> str:
    words = candidate.definition
    parts = [] if words.ends_at is None else [f"The schedule ends on {moment(words.ends_at, zone)}"]
    if words.max_executions is not None:
        parts.append(f"{candidate.executions} of {words.max_executions} runs are used")
    return "; ".join(parts) + "." if parts else "The schedule has no end."


def _passes_quiet_hours(candidate: Candidate, zone: str) -> str:
    name = candidate.definition.quiet_hours
    if name is None:
        return "The schedule has no quiet hours."
    policy = candidate.facts.policies.quiet_hours.get(name)
    return f'Quiet hours "{name}" are not active' + (
        f" ({quiet_hours.describe(policy)})." if policy else ": they are not defined."
    )


def _passes_overlap(candidate: Candidate, zone: str) -> str:
    live = candidate.facts.live
    if not live:
        return "No run of the schedule is in progress."
    run, state = live[0]
    return f"Run {run} is {RunState(state).label}; runs may overlap."


def _passes_throttle(candidate: Candidate, zone: str) -> str:
    agent = candidate.facts.policies.agents.get(candidate.facts.agent)
    provider = candidate.definition.provider or (agent.provider if agent else None)
    return f'Provider "{provider}" is not throttled.' if provider else "The schedule has no provider."


_PASSES: dict[str, Callable[[Candidate, str], str]] = {
    "ended": _passes_ended,
    "quiet_hours": _passes_quiet_hours,
    "overlap": _passes_overlap,
    "throttle": _passes_throttle,
    "budget": lambda candidate, zone: "No budget applies.",
    "capacity": lambda candidate, zone: "There is capacity.",
}


def _budgets(transaction: Transaction, policies: Policies, known: Known, now: int) -> GateReport:
    """What is left in the budgets that apply."""
    drawn = draws(policies.budgets, known.schedule_id, known.agent, known.name, now)
    if not drawn:
        return GateReport("budget", True, "No budget applies.")
    need = spending.wanted(transaction, policies, known)
    parts = [_left(draw, transaction.purse(draw.budget.name, draw.whose, draw.period)) for draw in drawn]
    wanted = f"a run reserves {format_money(need.money)} and {format_tokens(need.tokens)} tokens"
    return GateReport("budget", True, f"{'; '.join(parts)}; {wanted}.")


def _left(draw: Draw, purse: Purse) -> str:
    money, tokens = draw.budget.max_cost, draw.budget.max_tokens
    parts: list[str] = []
    if money is not None:
        parts.append(f"{format_money(money - purse.money - purse.money_reserved)} left of {format_money(money)}")
    if tokens is not None:
        left = format_tokens(tokens - purse.tokens - purse.tokens_reserved)
        parts.append(f"{left} tokens left of {format_tokens(tokens)}")
    return f'Budget "{draw.budget.name}" has {" and ".join(parts)}'


def _capacity(full: bool, known: Known, scopes: list[tuple[str, int, int]], verdict: GateReport) -> GateReport:
    """A run that may wait passes the gate, but would not start while the limit is reached."""
    if not full or not verdict.passes:
        return verdict
    evidence = {scope: {"size": size, "taken": taken} for scope, size, taken in scopes if scope in known.scopes}
    full_ones = [f'{n["taken"]} of {n["size"]} places of "{s}"' for s, n in evidence.items() if n["taken"] >= n["size"]]
    return GateReport("capacity", False, f"{' and '.join(full_ones)} are taken; a run would wait.", evidence)
