"""Use cases on backfills: runs for past slots."""

from __future__ import annotations

import builtins
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from matins.api.results import Backfill, BackfillPreview, SlotGroup
from matins.engine.backfill import MAX_RUNS, SlotRecords, is_chosen, slots_of
from matins.engine.money import format_money, parse_money
from matins.engine.reasons import CAUSES, local_time
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import to_datetime, to_ms
from matins.errors import Conflict, InvalidInput, NotFound, Stale
from matins.model.access import Principal, name_of
from matins.model.rows import BackfillRow, NewEvent
from matins.model.run import BackfillChoice, RunState
from matins.model.schedule import ScheduleRecord
from matins.model.words import counted
from matins.runtime import backfills
from matins.runtime.catalog import CompiledSchedule
from matins.runtime.run_changes import end_runs
from matins.service.core import MAX_ID, Core
from matins.service.run_views import Facts
from matins.store.transaction import Transaction

_MAX_SLOTS, _MAX_LIMIT, _MAX_PARALLEL = 600_000, 100_000, 100
"""A year of minutes is one backfill."""
_SELF_EVIDENT = (RunState.MISSED, RunState.SUCCEEDED, RunState.FAILED)
_PAUSED_BY = {
    "schedule": "paused with its schedule",
    "failures": "its runs failed in a row",
    "budget": "a budget is spent",
    "max_cost": "the next run would cost more than is left",
}


def instant_of(field: str, value: int | str, zone: str, *, ends: bool = False) -> int:
    """The instant of an argument. A text without an offset is on the clock of the schedule; `ends`: a day counts."""
    if isinstance(value, int):
        return value
    try:
        at = to_ms(datetime.fromisoformat(value).replace(tzinfo=ZoneInfo(zone)))
    except (ValueError, OverflowError):
        hint = "For example: 2026-11-01, or 2026-11-01T09:00."
        raise InvalidInput(f'"{field}" is not a time: {value}.', value=value, field=field, hint=hint) from None
    return at + DAY_MS - 1 if ends and len(value) == len("2026-11-01") else at


class _Plan(NamedTuple):
    """The slots of a range, by their newest records."""

    schedule: ScheduleRecord
    compiled: CompiledSchedule
    slots: builtins.list[int]
    groups: builtins.list[SlotGroup]
    runs: int
    """Slots to run, as far as the limit goes."""


@dataclass(frozen=True)
class Backfills:
    core: Core

    def preview(
        self, principal: Principal, name: str, *, start: int | str, end: int | str, which: BackfillChoice = "missing",
        newest_first: bool = False, limit: int | None = None, max_parallel: int = 1, agent: str | None = None,
    ) -> BackfillPreview:  # fmt: skip
        with self.core.store.reading() as transaction:
            schedule = self.core.find(transaction, name, agent)
            plan = self._plan(transaction, schedule, start, end, which, limit, max_parallel)
        usual = Facts(self.core).usual(principal, schedule.name, agent=schedule.agent)
        each, money = usual.duration_ms.p50, usual.cost.p50
        cost = None if money is None else format_money(parse_money(money, {}, "cost") * plan.runs)
        return BackfillPreview(
            schedule_id=str(schedule.id),
            schedule=schedule.name,
            agent=schedule.agent,
            timezone=plan.compiled.definition.trigger.timezone,
            first_slot=to_datetime(plan.slots[0]),
            last_slot=to_datetime(plan.slots[-1]),
            slots=len(plan.slots),
            runs=plan.runs,
            groups=plan.groups,
            which=which,
            newest_first=newest_first,
            max_parallel=max_parallel,
            usual_ms=each,
            usual_cost=money,
            duration_ms=None if each is None else each * -(-plan.runs // max_parallel),
            cost=cost,
            notes=_notes(transaction, plan),
        )

    def create(
        self, principal: Principal, name: str, *, start: int | str, end: int | str, which: BackfillChoice = "missing",
        newest_first: bool = False, limit: int | None = None, max_parallel: int = 1, max_cost: str | None = None,
        expect: int | None = None, agent: str | None = None,
    ) -> Backfill:  # fmt: skip
        now, core = self.core.clock.now_ms(), self.core
        most = None if max_cost is None else parse_money(max_cost, core.policies().rates, "max_cost")
        with core.store.transaction(now) as transaction:
            schedule = core.schedule_for(transaction, principal, name, agent, "delete")
            plan = self._plan(transaction, schedule, start, end, which, limit, max_parallel)
            if schedule.state in ("pending", "rejected", "broken"):
                raise Conflict(
                    f'"{schedule.name}" is {schedule.state} and cannot run.', value=schedule.state, field="state"
                )
            if expect is not None and expect != plan.runs:
                message = f"It would be {counted(plan.runs, 'run')} now, not {expect}."
                raise Stale(message, value=plan.runs, field="expect", hint="Preview it again.")
            if not plan.runs:
                hint = (
                    "To run slots that failed too: --which failed; all of them: --which all."
                    if which == "missing"
                    else None
                )
                raise Conflict("No slot is left to run.", value=which, field="which", hint=hint)
            row = BackfillRow(
                0, schedule.id, schedule.rev, "running", None, None, plan.slots[0], plan.slots[-1], which,
                int(newest_first), None, plan.runs, 0, MAX_RUNS if limit is None else limit, max_parallel, most, None,
                0, now, now, principal.who, None,
            )  # fmt: skip
            row = row._replace(id=transaction.insert_backfill(row))
            data = {"backfill": str(row.id), "first": row.first_slot, "last": row.last_slot, "which": which,
                    "runs": plan.runs, "rev": schedule.rev, **principal.signed}  # fmt: skip
            transaction.events.append(NewEvent(now, "backfill.started", schedule.id, None, data))
            result = self._result(transaction, row)
        core.notify()
        return result

    def list(
        self, principal: Principal, *, schedule: str | None = None, agent: str | None = None,
        before: int | None = None, limit: int = 100,
    ) -> builtins.list[Backfill]:  # fmt: skip
        with self.core.store.reading() as transaction:
            schedule_id = None if schedule is None else self.core.find(transaction, schedule, agent).id
            rows = transaction.backfills(schedule_id, MAX_ID if before is None else before, limit)
            return [self._result(transaction, row) for row in rows]

    def get(self, principal: Principal, backfill_id: int) -> Backfill:
        with self.core.store.reading() as transaction:
            return self._result(transaction, _row(transaction, backfill_id))

    def pause(self, principal: Principal, backfill_id: int) -> Backfill:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            row = self._locked(transaction, backfill_id)
            if row.state != "paused":
                backfills.pause(transaction, row, "person", principal.who, now)
            return self._result(transaction, _row(transaction, backfill_id))

    def resume(self, principal: Principal, backfill_id: int) -> Backfill:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            row = self._locked(transaction, backfill_id)
            if row.state != "running":
                transaction.set_backfill_state(row.id, "running", None, principal.who, now, None)
                data = {"backfill": str(row.id), **principal.signed}
                transaction.events.append(NewEvent(now, "backfill.resumed", row.schedule_id, None, data))
            result = self._result(transaction, _row(transaction, backfill_id))
        self.core.notify()
        return result

    def cancel(self, principal: Principal, backfill_id: int, *, let_run: bool = False) -> Backfill:
        now, core = self.core.clock.now_ms(), self.core
        with core.store.transaction(now) as transaction:
            row = self._locked(transaction, backfill_id)
            backfills.end(transaction, row, "cancelled", now, principal.who)
            runs = transaction.backfill_runs(row.id, live=int(not let_run))
            end_runs(transaction, core.catalog, runs, now, "cancelled", principal.who)
            result = self._result(transaction, _row(transaction, backfill_id))
        core.notify()
        return result

    def _locked(self, transaction: Transaction, backfill_id: int) -> BackfillRow:
        """The backfill, with its schedule's cursor locked before it. Raises if it is over."""
        transaction.lock_due([_row(transaction, backfill_id).schedule_id])
        row = transaction.lock_backfill(backfill_id)
        assert row is not None
        if row.state in ("done", "cancelled"):
            hint = f"Show it: matins backfills show {backfill_id}"
            raise Conflict(
                f"Backfill {backfill_id} is over: {row.state}.", value=row.state, field="backfill", hint=hint
            )
        return row

    def _plan(
        self, transaction: Transaction, schedule: ScheduleRecord, start: int | str, end: int | str,
        which: BackfillChoice, limit: int | None, max_parallel: int,
    ) -> _Plan:  # fmt: skip
        compiled = self.core.compiled(transaction, schedule)
        definition, times, now = compiled.definition, compiled.timetable, self.core.clock.now_ms()
        zone = definition.trigger.timezone
        if times.elapsed:
            raise Conflict(
                "Intervals that count from the last run have no times in the past.", value=schedule.name, field="name",
                hint=f"Set anchor: grid, or use matins run {schedule.name} --slot TIME.",
            )  # fmt: skip
        _check_number("limit", limit, _MAX_LIMIT)
        _check_number("max_parallel", max_parallel, _MAX_PARALLEL)
        if max_parallel > 1 and definition.overlap != "allow":
            message = f'Several runs at once need "overlap: allow"; "{schedule.name}" has "{definition.overlap}".'
            hint = "Omit max_parallel, or edit the schedule."
            raise Conflict(message, value=max_parallel, field="max_parallel", hint=hint)
        first, last = instant_of("start", start, zone), instant_of("end", end, zone, ends=True)
        if last < first:
            raise InvalidInput('"end" is before "start".', value=end, field="end", hint="Swap them.")
        # A slot that is due, and one to come, is the schedule's own.
        last = min(last, now, now if schedule.next_slot is None else schedule.next_slot - 1)
        if (number := times.trigger.count(first, last + 1) if first <= last else 0) > _MAX_SLOTS:
            message = f'"{schedule.name}" has {number:,} slots in this time; a backfill has at most {_MAX_SLOTS:,}.'
            raise InvalidInput(message, value=number, field="start", hint="Shorten the time.")
        slots = builtins.list(slots_of(times.trigger, first, last)) if number else []
        if not slots:
            near = [one for one in (times.trigger.prev_ms(first), times.trigger.next_ms(max(first, last))) if one]
            nearest = " and ".join(local_time(one, zone) for one in near if one <= now)
            message = f'"{schedule.name}" has no past slot in this time.'
            raise Conflict(message, field="start", hint=f"The nearest: {nearest}." if nearest else None)
        groups, runs = self._grouped(transaction, schedule, slots, which)
        if limit is None and runs > MAX_RUNS:
            message = f"It would be {runs:,} runs; without a limit, a backfill has at most {MAX_RUNS:,}."
            raise InvalidInput(message, value=runs, field="limit", hint="Shorten the time, or give it: --limit 5000")
        return _Plan(schedule, compiled, slots, groups, runs if limit is None else min(limit, runs))

    def _grouped(
        self, transaction: Transaction, schedule: ScheduleRecord, slots: builtins.list[int], which: BackfillChoice
    ) -> tuple[builtins.list[SlotGroup], int]:
        records = SlotRecords(transaction.slot_runs(schedule.id, slots[0], slots[-1]))
        found: Counter[tuple[str | None, str | None, bool]] = Counter()
        for slot in slots:
            record = records.newest(slot)
            state = None if record is None else RunState(record.state)
            reason = None if record is None or state in _SELF_EVIDENT else record.reason
            label = None if state is None else state.displayed
            found[label, reason if reason in CAUSES else None, is_chosen(which, record)] += 1
        groups = [SlotGroup(state, reason, count, runs) for (state, reason, runs), count in found.most_common()]  # type: ignore[arg-type]
        return groups, sum(group.slots for group in groups if group.runs)

    def _result(self, transaction: Transaction, row: BackfillRow) -> Backfill:
        schedule = self.core.schedule(transaction, row.schedule_id)
        states: Counter[str] = Counter()
        over = 0
        for state, count in transaction.backfill_counts(row.id):
            states[RunState(state).displayed] += count
            over += 0 if RunState(state).live else count
        return Backfill(
            id=str(row.id),
            schedule_id=str(row.schedule_id),
            schedule=schedule.name,
            agent=schedule.agent,
            timezone=schedule.definition.trigger.timezone,
            state=row.state,
            reason=row.reason,
            sentence=_sentence(row, over),
            first_slot=to_datetime(row.first_slot),
            last_slot=to_datetime(row.last_slot),
            which=row.choice,
            newest_first=bool(row.newest_first),
            planned=row.planned,
            made=row.made,
            states=dict(states),
            max_parallel=row.max_parallel,
            max_cost=None if row.max_cost is None else format_money(row.max_cost),
            cost=format_money(transaction.backfill_spent(row.id)),
            created_at=to_datetime(row.created_at),
            created_by=name_of(row.created_by),
            ended_at=to_datetime(row.ended_at),
        )


def _sentence(row: BackfillRow, over: int) -> str:
    far = f"{over} of {counted(max(row.planned, row.made), 'run')} over"
    if row.state == "paused":
        by = f"paused by {name_of(row.changed_by)}" if row.reason == "person" and row.changed_by else ""
        return f"Paused: {by or _PAUSED_BY.get(row.reason or '', 'paused')}; {far}."
    return f"{row.state.capitalize()}: {far}."


def _row(transaction: Transaction, backfill_id: int) -> BackfillRow:
    row = transaction.backfill(backfill_id)
    if row is None:
        hint = "List them: matins backfills"
        raise NotFound(f"There is no backfill {backfill_id}.", value=backfill_id, field="backfill", hint=hint)
    return row


def _check_number(field: str, value: int | None, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise InvalidInput(f'"{field}" must be an integer from 1 to {most:,}, not {value}.', value=value, field=field)


def _notes(transaction: Transaction, plan: _Plan) -> builtins.list[str]:
    definition, schedule = plan.compiled.definition, plan.schedule
    notes: builtins.list[str] = []
    if transaction.listeners("schedule", schedule.name, schedule.agent):
        notes.append("Schedules that follow are not started.")
    if definition.ping is not None:
        notes.append("The runs do not ping.")
    if definition.max_executions is not None:
        notes.append("The runs do not count as executions.")
    if definition.approval != "auto":
        notes.append("Each run needs an approval.")
    if schedule.state == "paused":
        notes.append("The schedule is paused. The backfill runs all the same.")
    return notes
