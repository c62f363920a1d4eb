"""Runs as results (`run_result`).

`Facts`: what is live and what is usual. `run_spans`: where the time of a run went, from due to end.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from matins.api.results import Check, Figures, LiveRun, MoneyFigures, Run, RunAnswer, RunFacts, RunStep, Span, Usual
from matins.engine.answers import answer_sentence, command_of, is_delivered, unsent_reason
from matins.engine.money import format_money
from matins.engine.planning import USUAL_RUNS, Timetable, past_durations
from matins.engine.reasons import run_summary
from matins.engine.when.triggers import to_datetime
from matins.model.access import Principal
from matins.model.destination import AnswerRow
from matins.model.overview import RecentRecord, RunCost
from matins.model.policies import Approval
from matins.model.rows import AttemptRow, CheckRow
from matins.model.run import RunRecord, RunState, StepId
from matins.model.schedule import ScheduleRecord, Step
from matins.runtime.catalog import Catalog, CompiledSchedule, run_record
from matins.service.core import Core
from matins.store.transaction import Transaction

_NOT_STARTED = "waiting"


def run_result(run: RunRecord, steps: list[RunStep] | None = None, answers: list[RunAnswer] | None = None) -> Run:
    return Run(
        id=str(run.id),
        schedule_id=str(run.schedule_id),
        schedule=run.schedule,
        agent=run.agent,
        rev=run.rev,
        state=run.display_state,  # type: ignore[arg-type]
        status=run.status,
        live=run.state.live,
        slot=to_datetime(run.slot),
        for_slot=to_datetime(run.for_slot),
        backfill=None if run.backfill is None else str(run.backfill),
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
        input=None if run.given is None else run.given.input,
        model=None if run.given is None else run.given.model,
        effort=None if run.given is None else run.given.effort,
        steps=steps or [],
        answers=answers or [],
    )


def whole_result(transaction: Transaction, catalog: Catalog, run: RunRecord) -> Run:
    """The result of one run, with its steps and answers."""
    compiled = None if run.step else catalog.find(transaction, (run.schedule_id, run.rev, 0))
    if not isinstance(compiled, CompiledSchedule):
        return run_result(run)
    zone = compiled.definition.trigger.timezone
    answers = [_answer(row, zone) for row in transaction.answers_of(run.id)]
    rows = {row.step: run_record(row) for row in transaction.steps_of(run.id)} if compiled.steps else {}
    steps = [_step(number, step, compiled.agent, rows.get(number)) for number, step in enumerate(compiled.steps, 1)]
    return run_result(run, steps, answers)


def _answer(row: AnswerRow, zone: str) -> RunAnswer:
    told = answer_sentence(row, zone)
    return RunAnswer(
        destination=row.destination,
        number=row.number,
        state=row.state,
        sentence=told.text,
        quote=told.quote,
        command=command_of(row),
        reason=row.reason,
        parts=row.parts,
        parts_sent=row.parts_sent,
        attempts=row.attempts,
        next_at=to_datetime(row.next_at),
        sent_at=to_datetime(row.sent_at),
        receipt=row.receipt,
        error=row.error,
    )


def unsent_sentence(
    transaction: Transaction, catalog: Catalog, run: RunRecord, compiled: CompiledSchedule | None
) -> str | None:
    """Why nobody gets the answer of a run; None for a run whose answer goes somewhere, and for a step."""
    if compiled is None or compiled.step or transaction.answers_of(run.id):
        return None
    policies = catalog.policies(transaction)
    return unsent_reason(run.state, run.outcome, compiled.definition, compiled.agent, policies)


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


SpanName = Literal["planned", "waiting", "check", "approval", "attempt", "step"]
_LEAST_GAP_MS = 2


class RunSpan(NamedTuple):
    name: SpanName
    label: str
    start: int
    end: int | None
    """None until it ends."""
    state: str | None = None
    title: str | None = None
    """Title of a step."""


class RunHistory(NamedTuple):
    """What is known of a run."""

    run: RunRecord
    due_at: int
    attempts: Sequence[AttemptRow]
    attempt_ends: Mapping[int, int]
    """The ends of attempts after which the run went on, by epoch."""
    checks: Sequence[CheckRow]
    approvals: Sequence[Approval]
    steps: Sequence[tuple[str, RunRecord]]
    """The steps with their titles."""


def run_spans(history: RunHistory) -> list[RunSpan]:
    """The spans in the order of their starts. The run waits between them."""
    run = history.run
    planned = RunSpan("planned", "Due → planned", min(history.due_at, run.planned_at), run.planned_at)
    known = sorted(
        [*map(_check, history.checks), *map(_approval, history.approvals), *_attempts(history)],
        key=lambda span: span.start,
    )
    return [planned, *_with_waits(run, known), *_steps(history.steps)]


def percentile(values: Iterable[int], share: float) -> int | None:
    """The smallest of these values that at least this share of them does not exceed; None without values."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 100) // 100) - 1)] if ordered else None


def _check(row: CheckRow) -> RunSpan:
    return RunSpan("check", row.kind.replace("_", "-"), row.at - row.duration_ms, row.at, row.verdict)


def _approval(approval: Approval) -> RunSpan:
    return RunSpan(
        "approval", f"Approval {approval.id}", approval.requested_at, approval.decided_at, approval.state
    )  # fmt: skip


def _attempts(history: RunHistory) -> Iterable[RunSpan]:
    run, rows = history.run, history.attempts
    if history.steps and run.started_at is not None:
        yield RunSpan("attempt", "Steps", run.started_at, run.ended_at, run.display_state)
    for number, row in enumerate(rows):
        following = rows[number + 1].started_at if number + 1 < len(rows) else None
        ended = history.attempt_ends.get(row.epoch)
        last = following is None and ended is None
        end = run.ended_at if last else ended if ended is not None else following
        yield RunSpan("attempt", f"Attempt {number + 1}", row.started_at, end, run.display_state if last else "retried")


def _steps(steps: Sequence[tuple[str, RunRecord]]) -> Iterable[RunSpan]:
    for title, step in steps:
        if step.started_at is not None:
            yield RunSpan("step", f"Step {step.step}", step.started_at, step.ended_at, step.display_state, title)


def _with_waits(run: RunRecord, known: Sequence[RunSpan]) -> Iterable[RunSpan]:
    """The spans, with a wait before each that does not begin where the one before it ended."""
    at: int | None = run.planned_at
    for span in known:
        if at is not None and span.start - at >= _LEAST_GAP_MS:
            yield RunSpan("waiting", "Waiting", at, span.start)
        yield span
        at = None if at is None or span.end is None else max(at, span.end)
    if at is None or run.state in (RunState.STARTING, RunState.RUNNING):
        return
    end = run.ended_at
    if run.state.live or (end is not None and end - at >= _LEAST_GAP_MS):
        yield RunSpan("waiting", "Waiting", at, end, run.status if run.state.live else None)


_LIVE_USUAL_RUNS = 30
_MAX_LIVE = 1_000


@dataclass(frozen=True)
class Facts:
    core: Core

    def live(self, principal: Principal) -> builtins.list[LiveRun]:
        with self.core.store.reading() as transaction:
            runs = [run_record(row) for row in transaction.live_whole_runs(_MAX_LIVE)]
            ids = sorted({run.schedule_id for run in runs})
            past = by_schedule(transaction.last_records(ids, _LIVE_USUAL_RUNS)) if ids else {}
            spent = {cost.run_id: cost for cost in transaction.spent_by([run.id for run in runs])} if runs else {}
            places = {place.id: place for place in transaction.run_places([run.id for run in runs])} if runs else {}
        made: builtins.list[LiveRun] = []
        for run in runs:
            durations = past_durations(past.get(run.schedule_id, ()))
            cost, place = spent.get(run.id), places[run.id]
            made.append(
                LiveRun(
                    run=run_result(run),
                    agent=place.agent,
                    worker=place.worker,
                    usual_ms=percentile(durations, 0.5),
                    slow_ms=percentile(durations, 0.95),
                    cost=None if cost is None else format_money(cost.money),
                    tokens=None if cost is None else cost.tokens,
                )
            )
        return made

    def usual(self, principal: Principal, name: str, *, agent: str | None = None) -> Usual:
        with self.core.store.reading() as transaction:
            return self._usual(transaction, self.core.find(transaction, name, agent))

    def _usual(self, transaction: Transaction, schedule: ScheduleRecord) -> Usual:
        compiled = self.core.catalog.find(transaction, (schedule.id, schedule.rev, 0))
        timetable = compiled.timetable if isinstance(compiled, CompiledSchedule) else None
        records = transaction.last_records([schedule.id], USUAL_RUNS)
        costs = transaction.run_costs(schedule.id, USUAL_RUNS)
        # A retry starts later, and not because Matins was late.
        first_starts = [record for record in records if record.started_at is not None and record.attempt == 1]
        return Usual(
            schedule_id=str(schedule.id),
            schedule=schedule.name,
            agent=schedule.agent,
            runs=sum(record.started_at is not None for record in records),
            succeeded=sum(record.state == RunState.SUCCEEDED for record in records),
            duration_ms=_figures(past_durations(records)),
            delay_ms=_figures([_delay(record, timetable) for record in first_starts]),
            cost=_money_figures([cost for cost in costs if cost.money]),
            tokens=_figures([cost.tokens for cost in costs if cost.tokens]),
        )

    def facts(self, principal: Principal, run_id: int | StepId) -> RunFacts:
        core = self.core
        with core.store.reading() as transaction:
            run = core.run(transaction, run_id)
            schedule = core.schedule(transaction, run.schedule_id)
            compiled = core.catalog.find(transaction, (run.schedule_id, run.rev, run.step))
            compiled = compiled if isinstance(compiled, CompiledSchedule) else None
            due_at = run.planned_at
            if run.slot is not None:
                due_at = (compiled.timetable.due_at(run.schedule_id, run.slot) if compiled else None) or run.slot
            steps = [run_record(row) for row in transaction.steps_of(run.id)] if compiled and compiled.steps else []
            history = RunHistory(
                run=run,
                due_at=due_at,
                attempts=transaction.attempts(run.id),
                attempt_ends=transaction.attempt_ends(run.id),
                checks=transaction.checks(run.id),
                approvals=transaction.approvals_of_run(run.id),
                steps=[(compiled.steps[step.step - 1].title, step) for step in steps] if compiled else [],
            )
            spent = transaction.spent_by([run.id])
            usage = transaction.spend_of(run.id)
            place = transaction.run_places([run.id])[0]
            earlier = transaction.last_success(run.schedule_id, run.slot or run.planned_at)
            zone = "UTC" if compiled is None else compiled.definition.trigger.timezone
            summary = run_summary(run, zone)
            return RunFacts(
                run=whole_result(transaction, core.catalog, run),
                agent=place.agent if compiled is None else compiled.agent,
                sentence=summary.text,
                quote=summary.quote,
                due_at=to_datetime(history.due_at),
                executed=bool(history.attempts) or any(step.started_at for _, step in history.steps),
                succeeded=None if run.state.live else run.state is RunState.SUCCEEDED,
                delivered=is_delivered(transaction.answers_of(run.id)),
                unsent=unsent_sentence(transaction, core.catalog, run, compiled),
                cost=format_money(spent[0].money) if spent else None,
                tokens=spent[0].tokens if spent else None,
                estimated=usage is not None and usage.estimated,
                worker=place.worker,
                spans=[_span(span) for span in run_spans(history)],
                usual=self._usual(transaction, schedule),
                last_success=None if earlier is None else str(earlier),
            )


def by_schedule(records: Sequence[RecentRecord]) -> dict[int, builtins.list[RecentRecord]]:
    grouped: dict[int, builtins.list[RecentRecord]] = defaultdict(list)
    for record in records:
        grouped[record.schedule_id].append(record)
    return grouped


def _delay(record: RecentRecord, timetable: Timetable | None) -> int:
    due_at = record.planned_at if record.slot is None else record.slot
    if timetable is not None and record.slot is not None:
        due_at = timetable.due_at(record.schedule_id, record.slot) or record.slot
    return max(0, (record.started_at or due_at) - due_at)


def _figures(values: Sequence[int]) -> Figures:
    return Figures(percentile(values, 0.5), percentile(values, 0.95))


def _money_figures(costs: Sequence[RunCost]) -> MoneyFigures:
    figures = _figures([cost.money for cost in costs])
    if figures.p50 is None or figures.p95 is None:
        return MoneyFigures(None, None)
    return MoneyFigures(format_money(figures.p50), format_money(figures.p95))


def _span(span: RunSpan) -> Span:
    return Span(
        name=span.name,
        label=span.label,
        title=span.title,
        start=to_datetime(span.start),
        end=to_datetime(span.end),
        duration_ms=None if span.end is None else span.end - span.start,
        state=span.state,
    )
