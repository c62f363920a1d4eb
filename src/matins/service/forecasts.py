"""The next slots, the verdict of each gate on them, and the cost of a day."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from matins.api.results import Forecast, ForecastStep, GateReport, Slot
from matins.engine.budgets import MAX_PAST_RUNS, Spent, projected_per_day
from matins.engine.charges import BudgetShortage
from matins.engine.forecast import ForecastSlot, ForecastStart, Waiting, forecast
from matins.engine.gates import BITS
from matins.engine.gates.backing_off import Failures
from matins.engine.gates.budget import BUDGET
from matins.engine.money import format_money
from matins.engine.planning import Timetable
from matins.engine.policies import Policies
from matins.engine.reasons import FUTURE, local_time, rfc3339, sentence
from matins.engine.schedules import UNREADABLE
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import to_datetime
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.sentence import Sentence
from matins.runtime import spending
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.uncovered_slots import next_uncovered_slot
from matins.service.gate_reports import gate_report, state_report
from matins.store.transaction import Transaction

_HORIZON_DAYS = 28
_UNKNOWN = "unknown"
_FEW, _MAX_STEPS = 2_000, 20_000


class _Start(NamedTuple):
    forecast: ForecastStart
    overdue: int
    waits: bool
    """Whether the next slot is known only after a run has ended."""


def forecast_result(
    transaction: Transaction,
    policies: Policies,
    schedule: ScheduleRecord,
    timetable: Timetable,
    count: int,
    now: int,
    shortage: BudgetShortage | None = None,
) -> Forecast:
    """`shortage` is the budget that is too small for another run now."""
    zone = timetable.definition.trigger.timezone
    report = state_report(schedule)
    start = _start(transaction, policies, schedule, timetable, now)
    held = None if report.passes or schedule.paused_until is not None else report
    seen = list(islice(forecast(timetable, start.forecast._replace(shortage=shortage)), count))
    slots = [
        slot_of(timetable, item, held=held, earliest=timetable.from_completion and (n > 0 or start.waits))
        for n, item in enumerate(seen)
    ]
    per_day = _runs_per_day(timetable, start.forecast)
    definition = timetable.definition
    past = _past_costs(transaction, schedule.id, definition, per_day)
    cost, tokens = _cost([spent for spent in past if spent], definition.max_cost, per_day)
    steps = _steps(schedule, definition, past, per_day) if definition.steps else []
    return Forecast(
        str(schedule.id) if schedule.id else None, schedule.name, schedule.agent, schedule.state, report.sentence,
        report.quote, timetable.trigger.describe(), zone, slots,
        None if len(seen) == count else _then(timetable, seen, report), start.overdue, per_day, cost, tokens, steps,
    )  # fmt: skip


def slot_at(
    transaction: Transaction,
    policies: Policies,
    schedule: ScheduleRecord,
    compiled: CompiledSchedule,
    at: int,
    now: int,
) -> Slot | None:
    """The forecast of one future slot; None when the schedule has ended by then."""
    timetable = compiled.timetable
    report = state_report(schedule)
    held = None if report.passes or schedule.paused_until is not None else report
    start = _nearer(timetable, _start(transaction, policies, schedule, timetable, now).forecast, at)
    start = start._replace(shortage=budget_shortage(transaction, policies, compiled, now))
    for seen in forecast(timetable, start):
        if seen.slot >= at:
            return slot_of(timetable, seen, held=held) if seen.slot == at else None
    return None


def budget_shortage(
    transaction: Transaction, policies: Policies, compiled: CompiledSchedule, now: int
) -> BudgetShortage | None:
    """The budget that is too small for another run now. A run of steps reserves nothing: its steps do."""
    return spending.forecast(transaction, policies, compiled, now) if BITS[BUDGET.name] & compiled.levels else None


def _nearer(timetable: Timetable, start: ForecastStart, at: int) -> ForecastStart:
    """The start of the forecast, moved near a distant slot. Skipped slots before it are too few to matter."""
    first = start.slot
    if first is None or timetable.trigger.count(first, at) <= _FEW:
        return start
    slot = at
    for _ in range(_FEW):
        slot = timetable.trigger.prev_ms(slot) or slot
    return start._replace(slot=slot, executions=start.executions + timetable.trigger.count(first, slot))


def slot_of(
    timetable: Timetable, seen: ForecastSlot, *, held: GateReport | None = None, earliest: bool = False
) -> Slot:
    zone = timetable.definition.trigger.timezone
    gates = [gate_report(gate, verdict, seen.candidate, FUTURE) for gate, verdict in seen.verdicts]
    label, text = seen.label, _report(seen, zone, earliest=earliest)
    if held is not None and held.evidence is not None:
        label, text = held.evidence["state"], Sentence(held.sentence, held.quote)
    local, utc = rfc3339(seen.slot, zone), rfc3339(seen.slot)
    return Slot(
        at=to_datetime(seen.slot),
        local=local,
        utc=utc,
        due_at=to_datetime(seen.due_at),
        dst=timetable.trigger.dst_effect(seen.slot),
        verdict=label,
        sentence=text.text,
        quote=text.quote,
        until=to_datetime(seen.until),
        gates=gates,
    )


def _report(seen: ForecastSlot, zone: str, *, earliest: bool) -> Sentence:
    if seen.verdict is None:
        at = f" at {local_time(seen.due_at, zone)}" if seen.due_at != seen.slot else ""
        earliest_text = " at the earliest: the interval starts at the end of the previous run." if earliest else "."
        return Sentence(f"Runs{at}{earliest_text}")
    verdict = seen.verdict
    text = sentence(verdict.reason, verdict.evidence, zone, state=verdict.state, at=seen.candidate.now, tense=FUTURE)
    if seen.until in (None, verdict.until):
        return text
    return text._replace(text=f"{text.text} It continues at {local_time(seen.until, zone)}.")


def _start(
    transaction: Transaction, policies: Policies, schedule: ScheduleRecord, timetable: Timetable, now: int
) -> _Start:
    """The start of the forecast: the cursor, or the first slot after a pause."""
    slot, overdue, waits = schedule.next_slot, 0, False
    if schedule.definition is UNREADABLE:
        slot = None
    elif schedule.state != "active":
        if slot is not None and timetable.trigger.kind != "once":
            slot = next_uncovered_slot(
                transaction, schedule.id, timetable.trigger, max(now, schedule.paused_until or now)
            )
    elif slot is not None and schedule.due_at is None:
        slot, waits = max(slot, timetable.after_completion(schedule.id, None, now)[0]), True
    elif (
        slot is not None
        and schedule.due_at is not None
        and schedule.due_at <= now
        and not _is_past_end(timetable, slot)
    ):
        caught_up = timetable.catch_up(slot, transaction.window_used(schedule.id), policies, now)
        gone = (*caught_up.missed, *caught_up.late, *(group.slot_range for group in caught_up.skipped))
        overdue = sum(slot_range.slots for slot_range in gone)
        slot = caught_up.next_slot if caught_up.on_time is None else caught_up.on_time
    waiting = _waiting(transaction, schedule.id)
    start = ForecastStart(schedule.id, schedule.agent, slot, schedule.executions, policies, now, waiting)
    until = timetable.backs_off_until(Failures(schedule.failures, schedule.failed_at), now)
    return _Start(start._replace(failures=schedule.failures, backs_off_until=until), overdue, waits)


def _is_past_end(timetable: Timetable, slot: int) -> bool:
    return timetable.definition.ends_at is not None and slot > timetable.definition.ends_at


def _waiting(transaction: Transaction, schedule_id: int) -> Waiting:
    """The runs of a schedule that wait for a known time."""
    waiting = tuple((run.id, run.state) for run in transaction.live([schedule_id]) if run.state <= RunState.QUEUED)
    rows = [transaction.run(run_id) for run_id, state in waiting if state == RunState.WAITING]
    until = [row.not_before for row in rows if row is not None and row.not_before is not None]
    return Waiting(waiting, max(until)) if until else Waiting()


def _runs_per_day(timetable: Timetable, start: ForecastStart) -> float:
    """The average over four weeks or the rest of the schedule's life; over one day when there are many runs."""
    few = timetable.trigger.count(start.now, start.now + _HORIZON_DAYS * DAY_MS) <= _FEW
    days = _HORIZON_DAYS if few else 1
    runs, last = 0, start.now
    for seen in islice(forecast(timetable, start), _MAX_STEPS):
        if seen.slot > start.now + days * DAY_MS:
            return runs / days
        runs, last = runs + seen.runs, seen.slot
    return runs / max(1.0, (last - start.now) / DAY_MS)


def _past_costs(
    transaction: Transaction, schedule_id: int, definition: ScheduleDefinition, per_day: float
) -> list[tuple[int, int] | None]:
    """The money and tokens of a day by the past runs, or by those of each step; None while there are none."""
    found: list[tuple[int, int] | None] = []
    for step in range(1, len(definition.steps) + 1) if definition.steps else [0]:
        past = [Spent(usage.money, usage.tokens) for usage in transaction.past_spend(schedule_id, step, MAX_PAST_RUNS)]
        found.append(projected_per_day(past, per_day) if past else None)
    return found


def cost_of_day(
    transaction: Transaction, schedule_id: int, definition: ScheduleDefinition, per_day: float
) -> str | None:
    """The cost of a day with so many runs, by the past runs or by the limit of each; None if neither is known."""
    past = [spent for spent in _past_costs(transaction, schedule_id, definition, per_day) if spent]
    cost, _ = _cost(past, definition.max_cost, per_day)
    return None if cost == _UNKNOWN else cost


def _cost(known: Sequence[tuple[int, int]], max_cost: int | None, per_day: float) -> tuple[str, int | None]:
    """The cost of a day, as text and in tokens."""
    if known:
        return format_money(sum(money for money, _ in known)), sum(tokens for _, tokens in known)
    if max_cost is not None:
        return f"at most {format_money(math.ceil(max_cost * per_day))}", None
    return _UNKNOWN, None


def _steps(
    schedule: ScheduleRecord, definition: ScheduleDefinition, past: Sequence[tuple[int, int] | None], per_day: float
) -> list[ForecastStep]:
    return [
        ForecastStep(
            number, step.title, list(step.after), step.agent or schedule.agent, step.job,
            *_cost([spent] if spent else [], step.max_cost, per_day),
        )
        for number, (step, spent) in enumerate(zip(definition.steps, past, strict=True), 1)
    ]  # fmt: skip


def _then(timetable: Timetable, seen: list[ForecastSlot], report: GateReport) -> str:
    if not report.passes:
        return report.sentence
    if seen and seen[-1].verdict is not None and seen[-1].verdict.reason == "end_date":
        return "Then the schedule ends."
    maximum = timetable.definition.max_executions
    if maximum is not None and timetable.trigger.kind != "once":
        return f"Then the schedule has run {maximum} times, the maximum."
    return "There are no more slots."
