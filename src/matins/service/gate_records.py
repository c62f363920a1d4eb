"""What the gates decided about a run, by its record: which one stopped it, and which it had passed by then."""

from __future__ import annotations

from matins.api.results import GateReport
from matins.engine.gates import BITS, GATES, Gate
from matins.model.run import GatesPassed, RunRecord
from matins.model.sentence import Sentence
from matins.runtime.catalog import CompiledSchedule

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
