"""The verdict of each gate if a schedule were due now.

What the gates decided about a run, by its record: which one stopped it, and which it had passed by then.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from matins.api.results import GateReport
from matins.engine.gates import BITS, GATES, Candidate, Facts, Gate, Standing, Verdict
from matins.engine.gates.limits import reached_limits, taken_places
from matins.engine.gates.state import ACTIVE, PAUSED, Failures, objection
from matins.engine.money import charges
from matins.engine.policies import Policies
from matins.engine.reasons import NOW, Tense, sentence
from matins.model.run import GatesPassed, RunRecord, Usage
from matins.model.schedule import ScheduleRecord
from matins.model.words import Sentence
from matins.runtime import spending
from matins.runtime.capacity import Capacity
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.planner import NO_RUNS, met_runs
from matins.store.transaction import Transaction


def gate_reports(
    transaction: Transaction, policies: Policies, schedule: ScheduleRecord, compiled: CompiledSchedule, now: int
) -> list[GateReport]:
    """One report for each gate, in order. Each gate is judged by itself."""
    labels = compiled.definition.labels
    person = spending.payer(transaction, policies.budgets, compiled.schedule_id)
    charged = charges(policies.budgets, compiled.schedule_id, compiled.agent, compiled.full_name, now, labels, person)
    facts = present_facts(transaction, policies, schedule, compiled, now)._replace(
        guarded=True,  # only the engine's process knows whether there is a guard
        standing=Standing(
            schedule,
            _limits(transaction, compiled),
            [
                (charge, transaction.budget_usage(charge.budget.name, charge.subject, charge.period))
                for charge in charged
            ],
            spending.estimate(transaction, policies, compiled) if charged else Usage(),
        ),
    )
    candidate = Candidate(compiled.definition, now, facts, schedule.executions, False, now)
    own = [gate for gate in GATES if gate.explained and BITS[gate.name] & compiled.levels]
    reports = [gate_report(gate, gate.judge(candidate), candidate, NOW) for gate in own]
    for number in range(1, len(compiled.steps) + 1):
        found = gate_reports(transaction, policies, schedule, compiled.step_of(number), now)
        reports += [
            msgspec.structs.replace(report, sentence=f"Step {number}: {report.sentence}")
            for report in found
            if not report.passes
        ]
    return reports


def gate_report(gate: Gate, verdict: Verdict | None, candidate: Candidate, tense: Tense) -> GateReport:
    if verdict is not None and not gate.asks:
        zone, state = candidate.zone, verdict.state
        text = sentence(verdict.reason, verdict.evidence, zone, state=state, at=candidate.now, tense=tense)
        return GateReport(gate.name, False, text.text, verdict.evidence, text.quote)
    against = gate.objects(candidate)
    if against is not None:
        return GateReport(gate.name, False, *against)
    text = gate.sentence(candidate)
    text, quote = text if isinstance(text, Sentence) else (text, None)
    return GateReport(gate.name, None if verdict else True, text, quote=quote)


def state_report(schedule: ScheduleRecord) -> GateReport:
    """Whether the schedule is active."""
    against = objection(schedule)
    if against is not None:
        return GateReport(PAUSED.name, False, *against)
    return GateReport(PAUSED.name, True, ACTIVE)


def present_facts(
    transaction: Transaction, policies: Policies, schedule: ScheduleRecord, compiled: CompiledSchedule, now: int
) -> Facts:
    """The facts of a run that is planned now."""
    live, backfill = met_runs(transaction, [compiled.schedule_id]).get(compiled.schedule_id, NO_RUNS)
    return Facts(
        live,
        Capacity(1, transaction.limits()).is_full_for(compiled),
        compiled.agent,
        policies,
        spending.expected_charge(transaction, policies, compiled, now),
        failures=schedule.failures,
        backs_off_until=compiled.timetable.backs_off_until(Failures(schedule.failures, schedule.failed_at), now),
        backfill=backfill,
    )


def _limits(transaction: Transaction, compiled: CompiledSchedule) -> dict[str, dict[str, int]]:
    scopes = [item for item in transaction.limits() if item[0] in compiled.scopes]
    held = Counter(scope for scope, _ in transaction.held_permits()) if scopes else Counter[str]()
    return {scope: {"size": size, "taken": taken, "held": held[scope]} for scope, size, taken in scopes}


def full_limits(transaction: Transaction, compiled: CompiledSchedule) -> str | None:
    """`2 of 2 places of "nightly" are taken`, if a limit keeps runs of this schedule from starting."""
    reached = reached_limits(_limits(transaction, compiled))
    return f"{taken_places(reached)} are taken" if reached else None


_BY_REASON = {reason: gate for gate in GATES if gate.explained for reason in (gate.name, *gate.reasons)}
_CHECKS = ("guard", "pre_check", "hook")


def gate_records(compiled: CompiledSchedule, run: RunRecord, sentence: Sentence) -> list[GateReport]:
    """One report for each gate, in order; none where no gate was asked, as for a missed slot."""
    gates = [gate for gate in GATES if gate.explained and BITS[gate.name] & compiled.levels]
    stopped_by = _stopped_by(run)
    if stopped_by is None:
        return [GateReport(gate.name, True, "It passed.") for gate in gates] if run.started_at is not None else []
    return [_record(gate, stopped_by, run, sentence) for gate in gates]


def _record(gate: Gate, stopped_by: Gate, run: RunRecord, sentence: Sentence) -> GateReport:
    if gate is stopped_by:
        return GateReport(gate.name, False, sentence.text, run.evidence, sentence.quote)
    if _passed(gate, stopped_by, run):
        return GateReport(gate.name, True, "It passed.")
    return GateReport(gate.name, None, "Not reached yet." if run.state.live else "Not reached.")


def _stopped_by(run: RunRecord) -> Gate | None:
    """The gate of the run's reason. A run that reached its own limit was not stopped by the gate of budgets."""
    evidence = run.evidence or {}
    if run.reason is None or (run.reason == "over_budget" and "budget" not in evidence):
        return None
    reason = str(evidence.get("for")) if run.reason == "coalesced" else run.reason
    return _BY_REASON.get(reason)


def _passed(gate: Gate, stopped_by: Gate, run: RunRecord) -> bool:
    """Whether the run had passed a gate. What stops a run in the plan ends it there, or lets it wait."""
    if gate.name in _CHECKS and run.cleared & GatesPassed.CHECKED:
        return True
    if gate.name == "approval" and run.cleared & GatesPassed.APPROVED:
        return True
    planned = "plan" in stopped_by.stages and (run.state.live or run.ended_at == run.planned_at)
    if planned:
        return "plan" in gate.stages and gate.order < stopped_by.order
    return "plan" in gate.stages or "claim" in stopped_by.stages or gate.order < stopped_by.order
