"""Slots become runs: `Planner` takes the schedules that are due.

`insert_requested_run`: a run without a slot, which a person, an agent or a call requested.

`replan`: after the clock was set back. Slots to come that never started lose their records; each schedule continues at
the first slot that no run covers. What has started does not start again.

`repeat_one_shot`: a resumed one-shot runs again, because it has no other slot.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matins.engine.audit import SHORTENED, WITHDRAWN
from matins.engine.gates import BITS, Facts, Mask, Surroundings, Verdict, active_gates, touched_gates
from matins.engine.gates.limits import BUDGET
from matins.engine.gates.state import MIN_FAILURES, Failures
from matins.engine.inputs import given_digest
from matins.engine.planning import Plan, PlannedRun, covered, first_look
from matins.engine.policies import NO_POLICIES
from matins.engine.transitions import INITIAL_STATES
from matins.engine.when.triggers import Trigger
from matins.model.rows import AttemptRow, CompiledKey, Cursor, Due, NewEvent, NewRun, RunAhead, from_tuple
from matins.model.run import RunState
from matins.model.schedule import ScheduleRecord
from matins.model.trigger import Once
from matins.runtime import spending
from matins.runtime.attempt import Attempt
from matins.runtime.capacity import Capacity, Placement
from matins.runtime.catalog import AT_START, Catalog, CompiledSchedule, Special
from matins.runtime.clearance import Clearance
from matins.runtime.new_runs import end_data, new_run, next_uncovered_slot, planned_event, recorded_due
from matins.runtime.run_changes import continue_schedule, end_runs
from matins.store import Store
from matins.store.transaction import Transaction

MAX_RUNS_PER_TRANSACTION = 5_000
"""Maximum number of records in one transaction; further slots wait for the next."""
_STARTING = int(RunState.STARTING)
_WATCHED = int(Special.WATCHED)
_attempt = from_tuple(Attempt)
_attempt_row = from_tuple(AttemptRow)
_event = from_tuple(NewEvent)
_new_run = from_tuple(NewRun)


class _Seen(NamedTuple):
    """What is read once for a batch."""

    compiled: Mapping[CompiledKey, CompiledSchedule | Exception]
    live: Mapping[int, MetRuns]
    at_rest: Facts
    active: Mask
    open_to_all: bool


class _Planned(NamedTuple):
    """What a due schedule becomes."""

    row: Due
    item: CompiledSchedule
    plan: Plan | None
    """None on the fast path: one run, for a slot that is on time and that no gate can stop."""
    at: int
    """The instant that is planned for: now, or one to come."""
    cursor: Cursor

    @property
    def is_ready(self) -> bool:
        """Whether it is one run that may start, and nothing else."""
        plan = self.plan
        return plan is None or (
            len(plan.runs) == 1 and plan.runs[0].state is RunState.READY and not plan.cancel and not plan.expired
        )


_planned, _cursor = from_tuple(_Planned), from_tuple(Cursor)


class PlanBatch(NamedTuple):
    start: list[Attempt]
    """Runs that were claimed when they were created."""
    taken: int
    """The number of due schedules that were read."""


class Planner:
    def __init__(
        self, catalog: Catalog, clearance: Clearance | None = None, placement: Placement | None = None
    ) -> None:
        self._catalog = catalog
        self._placement = placement or Placement()
        self._clearance = clearance
        """None when runs are not claimed while they are planned."""
        self._at_rest, self._active = Facts(), active_gates(Surroundings(NO_POLICIES))
        """The facts of a schedule at rest, and the gates that may stop any, by the policies as they were last."""
        self._newest_first = False
        self.recorded_until = 0
        """The last slot that has a record although it was still to come when the clock went back."""
        self.last_due: list[Due] = []
        """The schedules of the last plan, which the engine needs when it cannot be written."""

    def plan(self, transaction: Transaction, now: int, worker: int, capacity: Capacity, limit: int) -> PlanBatch:
        due = self.last_due = transaction.due(now, limit, newest=self._newest_first)
        # With a backlog, every other batch begins with schedules that are on time.
        self._newest_first = len(due) == limit and not self._newest_first
        return PlanBatch(self.plan_rows(transaction, due, now, worker, capacity) if due else [], len(due))

    def plan_rows(
        self, transaction: Transaction, due: list[Due], now: int, worker: int, capacity: Capacity
    ) -> list[Attempt]:
        """Create the runs of these schedules' slots. A schedule that cannot be planned is marked as broken."""
        made = _advance(transaction, self._plans(transaction, due, now, capacity))
        start = self._insert(transaction, made, now, worker, capacity)
        special = [(planned.item, planned.plan) for planned in made if planned.plan is not None]
        for item, plan in special:
            if plan.expired:
                _expire(transaction, item, now)
        cancel = [run_id for _, plan in special for run_id in plan.cancel]
        if cancel:
            end_runs(transaction, self._catalog, cancel, now, "cancelled_by_newer")
        return start

    def plan_ahead(
        self, transaction: Transaction, now: int, until: int, worker: int, capacity: Capacity, limit: int
    ) -> list[Attempt]:
        """Create the runs of slots that come until then, so that they start at their instants, and not after the time
        that their records take. What is skipped, queued, late or broken is left for its instant."""
        due = transaction.due(until, limit)
        if not due:
            return []
        seen = self._look(transaction, due, capacity)
        plans: list[_Planned] = []
        for row in due:
            item = seen.compiled.get((row.schedule_id, row.rev, 0))
            if isinstance(item, CompiledSchedule) and (at := _instant(row, item)) > now:
                planned = self._plan_row(transaction, seen, row, item, capacity, at)
                if isinstance(planned, _Planned) and planned.is_ready:
                    plans.append(planned)
                    if capacity.limited:
                        _reserve(capacity, planned)
        return self._insert(transaction, _advance(transaction, plans), now, worker, capacity)

    def _look(self, transaction: Transaction, due: list[Due], capacity: Capacity) -> _Seen:
        compiled = self._catalog.compiled(transaction, [(row.schedule_id, row.rev, 0) for row in due])
        live = met_runs(transaction, [row.schedule_id for row in due])
        policies = self._catalog.policies(transaction)
        if policies is not self._at_rest.policies:
            self._at_rest, self._active = Facts(policies=policies), active_gates(Surroundings(policies))
        active = self._active
        return _Seen(compiled, live, self._at_rest, active, self._is_open(active, capacity))

    def _plans(self, transaction: Transaction, due: list[Due], now: int, capacity: Capacity) -> list[_Planned]:
        """Plans for as many schedules as fit in one transaction; the rest stays due."""
        seen = self._look(transaction, due, capacity)
        plans: list[_Planned] = []
        planned_runs = 0
        for row in due:
            if planned_runs > MAX_RUNS_PER_TRANSACTION:
                break
            item = seen.compiled.get((row.schedule_id, row.rev, 0))
            known = isinstance(item, CompiledSchedule)
            planned = self._plan_row(transaction, seen, row, item, capacity, now) if known else item
            if not isinstance(planned, _Planned):  # one bad schedule never stops the others
                mark_broken(transaction, row, planned, now)
                continue
            plans.append(planned)
            planned_runs += 1 if planned.plan is None else len(planned.plan.runs)
            if capacity.limited:
                _reserve(capacity, planned)
        return plans

    def _plan_row(
        self, transaction: Transaction, seen: _Seen, row: Due, item: CompiledSchedule, capacity: Capacity, at: int
    ) -> _Planned | Exception:
        """The plan of a schedule as of that instant; the exception, if its settings cannot be planned."""
        schedule_id, slot, rev, used, executions, failures, _ = row
        facts, gates, taken = seen.at_rest, 0, None
        clear = seen.open_to_all and not failures and schedule_id not in seen.live and slot > self.recorded_until
        plain = clear and not item.special & AT_START
        if not plain:
            facts, gates = _facts(transaction, seen, row, item, capacity, at)
            taken = recorded_due(transaction, item, slot, at) if slot <= self.recorded_until else None
        try:
            times = item.shared.timetable
            following = times.next_if_on_time(slot, at) if plain else False
            if following is not False:
                due_at = None if times.from_completion else following
                cursor = _cursor((schedule_id, slot, rev, following, due_at, 0, executions + 1))
                return _planned((row, item, None, at, cursor))
            plan = item.timetable.plan(schedule_id, slot, used, executions, facts, at, gates, taken)
        except Exception as error:
            return error
        cursor = Cursor(schedule_id, slot, rev, plan.next_slot, plan.due_at, plan.window_used, plan.executions)
        return _planned((row, item, plan, at, cursor))

    def _is_open(self, active: Mask, capacity: Capacity) -> bool:
        """Whether schedules without gates of their own may start in this turn, as far as there is capacity."""
        clearance = self._clearance
        limited = capacity.limited or capacity.bounded
        return clearance is not None and not active | clearance.gates and not limited and capacity.jobs > 0

    def _insert(
        self, transaction: Transaction, plans: list[_Planned], now: int, worker: int, capacity: Capacity
    ) -> list[Attempt]:
        """Create the runs of the schedules whose cursor moved. Runs that can start immediately are claimed too."""
        placement, policies = self._placement, self._at_rest.policies
        new = _New(transaction, worker, sum([1 if plan is None else len(plan.runs) for _, _, plan, _, _ in plans]))
        for row, item, plan, at, _ in plans:
            place = placement.place(transaction, item, policies)
            mine = place in placement.mine
            if plan is None and mine and capacity.jobs > 0:
                capacity.jobs -= 1
                new.start(item, row.slot, 1, None, place, at)
                continue
            if plan is None:
                plan = _on_time(row)
            at_once = mine and self._may_start(item, ahead=at > now) and not plan.cancel and not item.steps
            for planned in plan.runs:
                starts = at_once and planned.state is RunState.READY
                if starts and (item.emits_message or capacity.take_unlimited(item)):
                    new.start(item, planned.slot, planned.slots, planned.first, place, at)
                else:
                    new.record(item, planned, place, at)
        return new.write()

    def _may_start(self, item: CompiledSchedule, *, ahead: bool) -> bool:
        """Whether a run can be claimed while it is planned. Only jobs wait for an instant to come."""
        clearance = self._clearance
        waits = not (item.wakes_agent or item.emits_message)
        return clearance is not None and not clearance.gates_to_start(item) and (waits or not ahead)


class _New:
    """The new runs of a batch, with their attempts and events."""

    def __init__(self, transaction: Transaction, worker: int, count: int) -> None:
        self._transaction, self._worker = transaction, worker
        self._run_ids = iter(transaction.run_ids(count))
        self._runs: list[NewRun] = []
        self._start: list[Attempt] = []
        self._watched: list[tuple[int, int]] = []

    def start(
        self, item: CompiledSchedule, slot: int | None, slots: int, first: int | None, place: int, at: int
    ) -> None:
        """A run that is claimed at once, with epoch 1 and attempt 1."""
        run_id, worker = next(self._run_ids), self._worker
        if item.special & _WATCHED:
            self._watched.append((run_id, first_look(item.shared.definition, slot, at)))
        self._runs.append(_new_run((
            run_id, item.schedule_id, item.rev, slot, None, _STARTING, item.exclusive, item.scope, 1, 1,
            worker, None, at, at, None, slots, first, None, None, place,
        )))  # fmt: skip
        self._start.append(_attempt((run_id, 1, 1, slot, slots, first, at, item, None, None, None, None)))
        data = covered(slot, slots, first)
        data["worker"] = worker
        self._transaction.events.append(_event((at, "run.started", item.schedule_id, run_id, data)))

    def record(self, item: CompiledSchedule, planned: PlannedRun, place: int, at: int) -> None:
        """A run that waits, or a slot that does not run."""
        run_id = next(self._run_ids)
        self._runs.append(new_run(run_id, item, planned, at, None, place))
        if item.special & _WATCHED and planned.state.live:
            self._watched.append((run_id, first_look(item.shared.definition, planned.slot, at)))
        self._transaction.events.append(planned_event(run_id, item, planned, at))

    def write(self) -> list[Attempt]:
        worker = self._worker
        self._transaction.insert_runs(self._runs)
        for run_id, at in self._watched:
            self._transaction.watch_run(run_id, at)
        self._transaction.insert_attempts(
            [_attempt_row((one.run_id, 1, worker, one.started_at)) for one in self._start]
        )
        return self._start


def _instant(row: Due, item: CompiledSchedule) -> int:
    """When the slot is due. An exception is left to its instant, when the schedule is marked as broken."""
    if not item.special & Special.TIMES:
        return row.slot
    try:
        return item.timetable.due_at(row.schedule_id, row.slot) or 0
    except Exception:
        return 0


def _advance(transaction: Transaction, plans: list[_Planned]) -> list[_Planned]:
    """The plans whose cursor could be moved: slot and revision still matched."""
    moved = transaction.advance([planned.cursor for planned in plans])
    return plans if len(moved) == len(plans) else [one for one in plans if one.row.schedule_id in moved]


def _reserve(capacity: Capacity, planned: _Planned) -> None:
    """Count the permits of a run that may start, for the schedules that are planned after it."""
    plan = planned.plan
    if plan is not None and any(run.state is RunState.READY for run in plan.runs):
        capacity.reserve(planned.item)


def _facts(
    transaction: Transaction, seen: _Seen, row: Due, item: CompiledSchedule, capacity: Capacity, now: int
) -> tuple[Facts, Mask]:
    """What the gates of a due schedule judge by, and those that may stop it."""
    blocking, backfill = seen.live.get(row.schedule_id, NO_RUNS)
    policies, failing = seen.at_rest.policies, row.failures >= MIN_FAILURES
    full = not item.steps and capacity.is_full_for(item)
    gates = item.gates | seen.active & item.levels
    if not (blocking or full or gates or failing):
        return seen.at_rest, gates
    short = spending.expected_charge(transaction, policies, item, now) if gates & BITS[BUDGET.name] else None
    until = item.timetable.backs_off_until(Failures(row.failures, row.failed_at), now) if failing else None
    facts = Facts(
        blocking, full, item.agent, policies, short, failures=row.failures, backs_off_until=until, backfill=backfill
    )
    return facts, gates | touched_gates(facts) & item.levels


def _on_time(row: Due) -> Plan:
    """The plan of the fast path, for a run that must wait for capacity or for another engine."""
    return Plan([PlannedRun(row.slot, None, 1, RunState.READY)], None, None, 0, row.executions + 1)


def _expire(transaction: Transaction, item: CompiledSchedule, now: int) -> None:
    """Set the state of a schedule whose end has passed, with one event."""
    transaction.set_schedule_state(item.schedule_id, "expired", now, None, None)
    data = {"name": item.name, "ends_at": item.definition.ends_at}
    transaction.events.append(NewEvent(now, "schedule.expired", item.schedule_id, None, data))


def live_runs(transaction: Transaction, schedule_ids: list[int]) -> dict[int, list[tuple[int, int]]]:
    live: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for run in transaction.live(schedule_ids):
        live[run.schedule_id].append((run.id, run.state))
    return live


class MetRuns(NamedTuple):
    """The live runs that a further run of the schedule may meet: not those of a backfill that wait for a time or a
    person. They are queued when they go on."""

    runs: Sequence[tuple[int, int]] = ()
    backfill: int | None = None
    """The first of them that a backfill made."""


NO_RUNS = MetRuns()


def met_runs(transaction: Transaction, schedule_ids: list[int]) -> dict[int, MetRuns]:
    met: dict[int, MetRuns] = {}
    for schedule_id, run, state, backfill, reason in transaction.live(schedule_ids):
        if backfill is None or state != RunState.WAITING or reason == "checking":
            runs, first = met.get(schedule_id, NO_RUNS)
            met[schedule_id] = MetRuns([*runs, (run, state)], run if first is None and backfill is not None else first)
    return met


def mark_broken(transaction: Transaction, row: Due, error: object, now: int) -> None:
    """Mark a schedule that cannot be planned as broken, with the reason. Its cursor stays, so no slot is lost.

    A pending or rejected schedule keeps its state, because a broken one can be resumed.
    """
    transaction.suspend_runs(row.schedule_id)
    schedule = transaction.schedule(row.schedule_id)
    if schedule is not None and schedule.state in ("pending", "rejected"):
        return
    note = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else "the definition is missing"
    transaction.set_schedule_state(row.schedule_id, "broken", now, note[:500], "matins")
    transaction.replace_cursor(row.schedule_id, row.slot, None, row.rev, paused=True)
    transaction.events.append(NewEvent(now, "schedule.broken", row.schedule_id, None, {"error": note[:500]}))


def insert_requested_run(
    transaction: Transaction, catalog: Catalog, compiled: CompiledSchedule, verdict: Verdict | None, key: str,
    by: dict[str, Any], now: int, given: str | None = None, for_slot: int | None = None, backfill: int | None = None,
    at: int | None = None,
) -> int:  # fmt: skip
    """Insert a run in the state that the gates decided, with its event. `by` says who requested it; `given` is what it
    was started with, of which the event has the digest; `for_slot` the past slot that it makes up for; `at` when it
    starts, if no gate decides otherwise."""
    planned = PlannedRun(None, None, 1, RunState.READY, None, {"by": by}, at)
    if verdict is not None:
        evidence = {**(verdict.evidence or {}), "by": by}
        planned = PlannedRun(None, None, 1, verdict.state, verdict.reason, evidence, verdict.until)
    (run_id,) = transaction.run_ids(1)
    place = Placement().place(transaction, compiled, catalog.policies(transaction))
    transaction.insert_runs([new_run(run_id, compiled, planned, now, key, place)])
    if compiled.special & _WATCHED and planned.state.live:
        transaction.watch_run(run_id, first_look(compiled.shared.definition, None, now))
    if given is not None:
        transaction.set_given(run_id, given)
    if for_slot is not None:
        transaction.set_for_slot(run_id, for_slot, backfill)
    if verdict is not None and verdict.cancel:
        end_runs(transaction, catalog, verdict.cancel, now, "cancelled_by_newer")
    data: dict[str, Any] = {"by": by["name"], "reason": planned.reason, "slot": None}
    if "who" in by:
        data["who"] = by["who"]
    if given is not None:
        data["input"] = given_digest(given)
    if for_slot is not None:
        data["for_slot"] = for_slot
    if not planned.state.live:
        data |= end_data(compiled, planned, now)
    transaction.events.append(NewEvent(now, INITIAL_STATES[planned.state], compiled.schedule_id, run_id, data))
    return run_id


_PAGE = 500
_COUNTED = (*(state for state in RunState if state.live), RunState.CANCELLED)
"""States of runs that never started and count as executions."""


def replan(store: Store, catalog: Catalog, now: int) -> None:
    with store.transaction(now) as transaction:
        transaction.set_replanning(True)
    _withdraw_all(store, catalog, now)
    _go_back_all(store, catalog, now)
    with store.transaction(now) as transaction:
        transaction.set_replanning(False)


def _go_back_all(store: Store, catalog: Catalog, now: int) -> None:
    after = 0
    while True:
        with store.transaction(now) as transaction:
            page = transaction.cursors(after, _PAGE)
            _go_back(transaction, catalog, page, now)
            if not after:
                transaction.undefer_runs(now)
        if len(page) < _PAGE:
            return
        after = page[-1].schedule_id


def _withdraw_all(store: Store, catalog: Catalog, now: int) -> None:
    """The cursors go back in the same transaction: a slot without a record is one that is still to come."""
    after = 0
    while True:
        with store.transaction(now) as transaction:
            page = transaction.runs_ahead(now, after, _PAGE)
            schedule_ids = sorted({row.schedule_id for row in page})
            transaction.lock_due(schedule_ids)
            compiled = catalog.compiled(transaction, {(row.schedule_id, row.rev, 0) for row in page})
            ahead = transaction.runs_ahead(now, after, _PAGE)
            rows = [row for row in ahead if (row.schedule_id, row.rev, 0) in compiled]
            for row in rows:
                item = compiled[row.schedule_id, row.rev, 0]
                if isinstance(item, CompiledSchedule):
                    _shorten(transaction, row, item.timetable.trigger, now)
            to_come = [row for row in rows if row.first_slot is None or row.first_slot > now]
            _withdraw(transaction, catalog, [row for row in to_come if row.started_at is None], now)
            cursors = [row for id_ in schedule_ids for row in transaction.cursors(id_ - 1, 1) if row.schedule_id == id_]
            _go_back(transaction, catalog, cursors, now)
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _shorten(transaction: Transaction, row: RunAhead, trigger: Trigger, now: int) -> None:
    """Let a run of several slots cover those up to now, or its first, if all are to come and it has started."""
    if row.first_slot is None:
        return
    if row.first_slot <= now:
        last = trigger.prev_ms(now + 1)
        assert last is not None  # the first slot, or a later one
        slots = trigger.count(row.first_slot, last + 1)
        _cover(transaction, row, row.first_slot if slots > 1 else None, last, slots, now)
    elif row.started_at is not None:
        _cover(transaction, row, None, row.first_slot, 1, now)


def _cover(transaction: Transaction, row: RunAhead, first: int | None, slot: int, slots: int, now: int) -> None:
    transaction.set_range(row.id, first, slot, slots)
    data = {"slot": slot, "slots": slots, "first": first}
    transaction.events.append(NewEvent(now, SHORTENED, row.schedule_id, row.id, data))


def _withdraw(transaction: Transaction, catalog: Catalog, rows: list[RunAhead], now: int) -> None:
    live = [row for row in rows if row.state < RunState.SUCCEEDED]
    end_runs(transaction, catalog, [row.id for row in live], now, "clock_went_back")
    for row in rows:
        if row.state in _COUNTED:
            transaction.uncount_execution(row.schedule_id, row.id)
    transaction.withdraw_runs([row.id for row in rows])
    for row in rows:
        data = {"slot": row.slot, "state": RunState(row.state).label}
        transaction.events.append(NewEvent(now, WITHDRAWN, row.schedule_id, row.id, data))
    for schedule_id in sorted({row.schedule_id for row in rows}):
        continue_schedule(transaction, schedule_id, now)


def _go_back(transaction: Transaction, catalog: Catalog, cursors: list[Due], now: int) -> None:
    """Move cursors to the first slot after now that no run covers, if they are beyond it."""
    compiled = catalog.compiled(transaction, [(row.schedule_id, row.rev, 0) for row in cursors])
    for schedule_id, slot, rev, *_ in cursors:
        item = compiled.get((schedule_id, rev, 0))
        if not isinstance(item, CompiledSchedule):
            continue
        following = next_uncovered_slot(transaction, schedule_id, item.timetable.trigger, now)
        if following is not None and following < slot:
            transaction.replace_cursor(schedule_id, following, item.timetable.due_at(schedule_id, following), item.rev)
            transaction.events.append(
                NewEvent(now, "schedule.replanned", schedule_id, None, {"from": slot, "to": following})
            )


def repeat_one_shot(
    transaction: Transaction, catalog: Catalog, schedule: ScheduleRecord, by: dict[str, Any], now: int
) -> None:
    """Repeat what failed in the last run of a one-shot that its failures paused, and that is resumed."""
    definition, most = schedule.definition, schedule.definition.max_executions
    once = isinstance(definition.trigger.when, Once) or (most is not None and schedule.executions >= most)
    is_spent = once and definition.pause_after_failures is not None and schedule.next_slot is None
    if not is_spent or transaction.live([schedule.id]):
        return
    for last in transaction.started_runs([schedule.id]):
        compiled = catalog.find(transaction, (schedule.id, last.rev, 0))
        if last.state == RunState.FAILED and isinstance(compiled, CompiledSchedule):
            made = insert_requested_run(transaction, catalog, compiled, None, str(uuid.uuid4()), by, now)
            transaction.set_retry(made, last.id, None)
