"""Previews of catching up: what a start now would record and run, for one schedule or for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from matins.api.results import CatchUp, CatchUpAll, CatchUpRun
from matins.engine.gates import Facts
from matins.engine.gates.backing_off import Failures
from matins.engine.money import format_money
from matins.engine.planning import Plan, PlannedRun
from matins.engine.reasons import NOW, local_time, sentence
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import to_datetime
from matins.errors import InvalidInput
from matins.model.access import Principal
from matins.model.counting import counted
from matins.model.rows import ScheduleRow
from matins.model.run import RunState
from matins.model.schedule import ScheduleRecord
from matins.model.sentence import Sentence
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.planner import live_runs
from matins.runtime.rows import schedule_record
from matins.service.core import Core
from matins.service.gate_reports import present_facts, state_report
from matins.store.transaction import Transaction

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
            costs = _costs(transaction, now)
            omitted = len(rows) - _MAX_SCHEDULES
            omitted = transaction.count_coming(now + 1) - _MAX_SCHEDULES if omitted > 0 else 0
        runs, missed = sum(item.runs for _, item in found), sum(item.missed for _, item in found)
        cost = sum(costs.get(key, 0) * item.runs for key, item in found)
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


def _costs(transaction: Transaction, now: int) -> Mapping[tuple[str, str], int]:
    """The mean cost of a run in the last days, by schedule."""
    rows = transaction.spend_by_schedule(now - _COST_DAYS * DAY_MS, now + 1, _MAX_SCHEDULES)
    return {(row.name, row.agent): row.money // row.runs for row in rows}


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
