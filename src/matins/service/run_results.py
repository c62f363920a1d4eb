"""Results of runs, with their steps."""

from __future__ import annotations

from matins.api.results import Check, Run, RunStep
from matins.engine.when.triggers import to_datetime
from matins.model.run import RunRecord
from matins.model.schedule import Step
from matins.runtime.catalog import Catalog, CompiledSchedule, run_record
from matins.store.transaction import Transaction

_NOT_STARTED = "waiting"


def run_result(run: RunRecord, steps: list[RunStep] | None = None) -> Run:
    return Run(
        id=str(run.id),
        schedule_id=str(run.schedule_id),
        schedule=run.schedule,
        rev=run.rev,
        state=run.display_state,  # type: ignore[arg-type]
        status=run.status,
        live=run.state.live,
        slot=to_datetime(run.slot),
        request_key=run.request_key,
        slots=run.slots,
        first_slot=to_datetime(run.first_slot),
        attempt=run.attempt,
        epoch=run.epoch,
        not_before=to_datetime(run.not_before),
        planned_at=to_datetime(run.planned_at),
        started_at=to_datetime(run.started_at),
        ended_at=to_datetime(run.ended_at),
        duration_ms=_duration(run),
        reason=run.reason,
        evidence=run.evidence,
        outcome=run.outcome,
        parent=None if run.parent is None else str(run.parent),
        step=run.step or None,
        retry_of=None if run.retry_of is None else str(run.retry_of),
        steps=steps or [],
    )


def whole_result(transaction: Transaction, catalog: Catalog, run: RunRecord) -> Run:
    """The result of one run, with its steps."""
    compiled = None if run.step else catalog.find(transaction, (run.schedule_id, run.rev, 0))
    if not isinstance(compiled, CompiledSchedule) or not compiled.steps:
        return run_result(run)
    rows = {row.step: run_record(row) for row in transaction.steps_of(run.id)}
    steps = [_step(number, step, compiled.agent, rows.get(number)) for number, step in enumerate(compiled.steps, 1)]
    return run_result(run, steps)


def _step(number: int, step: Step, agent: str, run: RunRecord | None) -> RunStep:
    return RunStep(
        number=number,
        title=step.title,
        after=list(step.after),
        agent=step.agent or agent,
        job=step.job,
        run_id=None if run is None else str(run.id),
        state=_NOT_STARTED if run is None else run.display_state,  # type: ignore[arg-type]
        status=_NOT_STARTED if run is None else run.status,
        reason=None if run is None else run.reason,
        attempt=0 if run is None else run.attempt,
        started_at=None if run is None else to_datetime(run.started_at),
        ended_at=None if run is None else to_datetime(run.ended_at),
        duration_ms=None if run is None else _duration(run),
        outcome=None if run is None else run.outcome,
    )


def _duration(run: RunRecord) -> int | None:
    return run.ended_at - run.started_at if run.ended_at and run.started_at else None


def check_results(transaction: Transaction, run_id: int) -> list[Check]:
    return [
        Check(
            row.epoch,
            row.kind,
            to_datetime(row.at),
            row.duration_ms,
            row.exit_code,
            row.verdict,  # type: ignore[arg-type]
            row.reason,
            row.output,
        )
        for row in transaction.checks(run_id)
    ]
