"""What comes: next slots, the verdict of each gate, the cost of a day.

`CatchUps`: what a start now would record and run. `frequent_wakes`: schedules that wake a paid agent more than once a
minute, often by a wrong cron field.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec

from matins.api.results import CatchUp, CatchUpAll, CatchUpRun, Forecast, ForecastStep, GateReport, Slot
from matins.engine.answers import UNSENT, deliver_command, reaches_nobody
from matins.engine.forecast import ForecastSlot, ForecastStart, Waiting, count_runs, forecast
from matins.engine.gates import BITS, Facts
from matins.engine.gates.limits import BUDGET
from matins.engine.gates.state import Failures
from matins.engine.jobs import wakes_agent
from matins.engine.money import MAX_PAST_RUNS, BudgetShortage, Spent, format_money, projected_per_day
from matins.engine.planning import Plan, PlannedRun, Timetable
from matins.engine.policies import Policies
from matins.engine.reasons import FUTURE, NOW, local_time, rfc3339, sentence
from matins.engine.schedules import UNREADABLE
from matins.engine.steps import parts_of
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput
from matins.executors.agent_checks import is_paid
from matins.executors.registry import runners
from matins.model.access import Principal
from matins.model.agent import Agent
from matins.model.rows import ScheduleRow
from matins.model.run import RunState
from matins.model.schedule import ScheduleDefinition, ScheduleRecord
from matins.model.trigger import Cron, Interval
from matins.model.words import Sentence, counted
from matins.runtime import spending
from matins.runtime.catalog import CompiledSchedule, schedule_record
from matins.runtime.new_runs import next_uncovered_slot
from matins.runtime.planner import live_runs
from matins.service.core import Core
from matins.service.gate_reports import gate_report, present_facts, state_report
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
    unsent = reaches_nobody(definition, schedule.agent, policies)
    return Forecast(
        str(schedule.id) if schedule.id else None, schedule.name, schedule.agent, schedule.state, report.sentence,
        report.quote, timetable.trigger.describe(), zone, slots,
        None if len(seen) == count else _then(timetable, seen, report), start.overdue, per_day, cost, tokens, steps,
        UNSENT if unsent else None, deliver_command(policies) if unsent else None,
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
    return (
        spending.expected_charge(transaction, policies, compiled, now) if BITS[BUDGET.name] & compiled.levels else None
    )


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
    """The average over four weeks or the rest of the schedule's life; over one day, or what a walk sees of it, when
    there are many runs that a gate may stop."""
    trigger, until = timetable.trigger, start.now + _HORIZON_DAYS * DAY_MS
    goes_on = timetable.elapsed or trigger.next_ms(until) is not None
    counted = count_runs(timetable, start, until + 1) if goes_on else None
    if counted is not None:
        return counted / _HORIZON_DAYS
    days = _HORIZON_DAYS if trigger.count(start.now, until) <= _FEW else 1
    runs, last, walk = 0, start.now, forecast(timetable, start)
    for seen in islice(walk, _MAX_STEPS):
        if seen.slot > start.now + days * DAY_MS:
            return runs / days
        runs, last = runs + seen.runs, seen.slot
    passed = (last - start.now) / DAY_MS
    return runs / (max(1.0, passed) if next(walk, None) is None else passed)


def _past_costs(
    transaction: Transaction, schedule_id: int, definition: ScheduleDefinition, per_day: float
) -> list[tuple[int, int] | None]:
    """The money and tokens of a day by the past runs, or by those of each step; None while there are none."""
    found: list[tuple[int, int] | None] = []
    for step in range(1, len(definition.steps) + 1) if definition.steps else [0]:
        past = [Spent(usage.money, usage.tokens) for usage in transaction.past_spend(schedule_id, step, MAX_PAST_RUNS)]
        found.append(projected_per_day(past, per_day) if past else None)
    return found


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


_MAX_SCHEDULES = 1_000
_SHOWN_RECORDS = 5
_COST_DAYS = 30


@dataclass(frozen=True)
class CatchUps:
    core: Core

    def preview_catch_up(
        self, principal: Principal, name: str, *, since: int | None = None, agent: str | None = None
    ) -> CatchUp:
        now = self.core.clock.now_ms()
        _check_past(since, now)
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent)
            compiled, number = self.core.compiled(transaction, schedule), str(schedule.id)
            if schedule.state != "active":
                report = state_report(schedule)
                return CatchUp(number, schedule.name, to_datetime(since or now), report.sentence, report.quote)
            slot = _first_slot(schedule, compiled, since, now)
            if slot is None:
                following = to_datetime(schedule.next_slot)
                since_at = to_datetime(since or now)
                return CatchUp(number, schedule.name, since_at, "Nothing is overdue.", next_slot=following)
            used = transaction.window_used(schedule.id) if since is None else 0
            facts = present_facts(transaction, self.core.catalog.policies(transaction), schedule, compiled, now)
        plan = compiled.timetable.plan(schedule.id, slot, used, schedule.executions, facts, now)
        zone = compiled.definition.trigger.timezone
        return _made_up(schedule, slot if since is None else since, plan, zone, now)

    def preview_catch_up_all(self, principal: Principal, *, since: int | None = None) -> CatchUpAll:
        now = self.core.clock.now_ms()
        _check_past(since, now)
        with self.core.store.reading() as transaction:
            rows = transaction.overdue_schedules(since is not None, now, _MAX_SCHEDULES + 1)
            found = self._all(transaction, rows[:_MAX_SCHEDULES], since, now)
            spent = transaction.spend_by_name("schedule", now - _COST_DAYS * DAY_MS, now + 1, _MAX_SCHEDULES)
            mean_costs = {(row.name, row.agent): row.money // row.runs for row in spent}
            omitted = len(rows) - _MAX_SCHEDULES
            omitted = transaction.count_coming(now + 1) - _MAX_SCHEDULES if omitted > 0 else 0
        runs, missed = sum(item.runs for _, item in found), sum(item.missed for _, item in found)
        cost = sum(mean_costs.get(key, 0) * item.runs for key, item in found)
        return CatchUpAll(
            since=to_datetime(since),
            summary=_summary([item for _, item in found], runs, missed),
            runs=runs,
            missed=missed,
            cost=format_money(cost),
            schedules=[msgspec.structs.replace(item, records=item.records[:_SHOWN_RECORDS]) for _, item in found],
            omitted=max(0, omitted),
        )

    def _all(
        self, transaction: Transaction, rows: Sequence[ScheduleRow], since: int | None, now: int
    ) -> list[tuple[tuple[str, str], CatchUp]]:
        """What each schedule has to catch up, by its key. Limits and budgets are looked at when runs start."""
        policies = self.core.catalog.policies(transaction)
        live = live_runs(transaction, [row.id for row in rows]) if rows else {}
        found: list[tuple[tuple[str, str], CatchUp]] = []
        for row in rows:
            schedule = schedule_record(row)
            if schedule.state != "active":
                continue
            compiled = CompiledSchedule(row.id, row.rev, row.name, row.agent, row.definition)
            slot = _first_slot(schedule, compiled, since, now)
            if slot is None:
                continue
            timetable = compiled.timetable
            backs_off = timetable.backs_off_until(Failures(schedule.failures, schedule.failed_at), now)
            facts = Facts(live.get(row.id, ()), False, compiled.agent, policies, failures=schedule.failures)
            facts = facts._replace(backs_off_until=backs_off)
            plan = timetable.plan(row.id, slot, 0, schedule.executions, facts, now)
            zone = compiled.definition.trigger.timezone
            made = _made_up(schedule, slot if since is None else since, plan, zone, now)
            found.append(((schedule.name, schedule.agent), made))
        return found


def _check_past(since: int | None, now: int) -> None:
    if since is not None and since > now:
        raise InvalidInput('"since" is in the future.', value=since, field="since", hint="Give a time in the past.")


def _first_slot(schedule: ScheduleRecord, compiled: CompiledSchedule, since: int | None, now: int) -> int | None:
    """The first slot to catch up; None if there is none."""
    slot = schedule.next_slot if since is None else compiled.timetable.trigger.next_ms(since)
    early = since is None and (schedule.due_at is None or schedule.due_at > now)
    return None if slot is None or slot > now or early else slot


def _summary(found: Sequence[CatchUp], runs: int, missed: int) -> str:
    if not found:
        return "Nothing is overdue."
    schedules = f"{len(found)} {'schedule' if len(found) == 1 else 'schedules'}"
    return f"{schedules}: {runs} {'run' if runs == 1 else 'runs'} would start, {missed} slots would be missed."


def _made_up(schedule: ScheduleRecord, since: int, plan: Plan, zone: str, now: int) -> CatchUp:
    planned_runs = plan.runs
    runs = sum(planned.state < RunState.SUCCEEDED for planned in planned_runs)
    missed = sum(planned.slots for planned in planned_runs if planned.state is RunState.MISSED)
    slots = sum(planned.slots for planned in planned_runs)
    over = sum(planned.slots for planned in planned_runs if planned.state >= RunState.SUCCEEDED)
    counts = {"missed": missed, "not to run": over - missed}
    parts = [f"{count} {label}" for label, count in (*counts.items(), ("to run", runs)) if count]
    summary = f"{counted(slots, 'slot')} since {local_time(since, zone)}: {', '.join(parts)}."
    records = [_record(planned, zone, now) for planned in planned_runs]
    return CatchUp(
        schedule_id=str(schedule.id),
        schedule=schedule.name,
        since=to_datetime(since),
        summary=summary,
        records=records,
        runs=runs,
        missed=missed,
        next_slot=to_datetime(plan.next_slot),
    )


def _record(planned: PlannedRun, zone: str, now: int) -> CatchUpRun:
    assert planned.slot is not None
    label = {RunState.READY: "runs", RunState.WAITING: "deferred"}.get(planned.state, planned.state.label)
    if planned.reason is None:
        text = Sentence("Runs." if planned.slots == 1 else f"Runs once for {counted(planned.slots, 'slot')}.")
    else:
        evidence = {"slots": planned.slots, "first": planned.first, "last": planned.slot, **(planned.evidence or {})}
        text = sentence(planned.reason, evidence, zone, state=planned.state, at=now, tense=NOW)
    return CatchUpRun(to_datetime(planned.slot), to_datetime(planned.first), planned.slots, label, *text)


_OFTEN = 24 * 60
_FIELDS_WITH_SECONDS = 6


class FrequentWakes(NamedTuple):
    sentence: str
    when: str
    """A time that is probably meant, or at least not as often."""

    @property
    def note(self) -> str:
        return f"{self.sentence} Less often: --when {shlex.quote(self.when)}"


def frequent_wakes(
    agent: str, timetable: Timetable, agents: Mapping[str, Agent], now: int,
    stored: tuple[Transaction, int] | None = None,
) -> FrequentWakes | None:  # fmt: skip
    """What a schedule costs a day, if it wakes a paid agent more than once a minute. `stored`: where its past runs are,
    and its id; None for a new one."""
    definition = timetable.definition
    names = [name for part, name in parts_of(definition, agent) if wakes_agent(part)]
    paid = [name for name in names if name in agents and is_paid(runners().get(agents[name].runner))]
    when = definition.trigger.when
    if not paid:
        return None
    count = DAY_MS // when.every_ms if isinstance(when, Interval) else timetable.trigger.count(now, now + DAY_MS)
    if count <= _OFTEN:
        return None
    past = [] if stored is None else _past_costs(*stored, definition, count)
    cost = _cost([spent for spent in past if spent], definition.max_cost, count)[0]
    costs = 'at an unknown cost, which "max_cost" limits' if cost == _UNKNOWN else f"for {cost}"
    sentence = f"It wakes {paid[0]} up to {count:,} times a day, {costs}"
    fields = when.expression.split() if isinstance(when, Cron) else []
    if len(fields) != _FIELDS_WITH_SECONDS:
        return FrequentWakes(f"{sentence}.", "every 5 minutes")
    return FrequentWakes(f"{sentence}: the first of six fields is the seconds.", " ".join(fields[:-1]))
