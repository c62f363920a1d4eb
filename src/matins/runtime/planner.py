"""From due slots to runs: one batch in an open transaction."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from matins.engine.gates import BITS, Facts, Surroundings, active_gates, touched_gates
from matins.engine.gates.backing_off import MIN_FAILURES, Failures
from matins.engine.gates.budget import BUDGET
from matins.engine.planning import Plan, PlannedRun
from matins.model.rows import AttemptRow, Cursor, Due, NewEvent, NewRun
from matins.model.run import RunState
from matins.ports import RunRows, Transaction
from matins.runtime import spending
from matins.runtime.attempt import Attempt
from matins.runtime.capacity import Capacity
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.clearance import Clearance
from matins.runtime.new_runs import covered, new_run, planned_event
from matins.runtime.placement import Placement
from matins.runtime.run_changes import end_runs
from matins.runtime.uncovered_slots import recorded_due

MAX_RUNS_PER_TRANSACTION = 5_000
"""Maximum number of records in one transaction; further slots wait for the next."""


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
        plans = self._plans(transaction, due, now, capacity)
        moved = transaction.advance([_cursor(row, plan) for row, _, plan in plans])
        made = [(item, plan) for row, item, plan in plans if row.schedule_id in moved]
        start = self._insert(transaction, made, now, worker, capacity)
        for item, plan in made:
            if plan.expired:
                _expire(transaction, item, now)
        cancel = [run_id for _, plan in made for run_id in plan.cancel]
        if cancel:
            end_runs(transaction, self._catalog, cancel, now, "cancelled_by_newer")
        return start

    def _plans(
        self, transaction: Transaction, due: list[Due], now: int, capacity: Capacity
    ) -> list[tuple[Due, CompiledSchedule, Plan]]:
        """Plans for as many schedules as fit in one transaction; the rest stays due."""
        compiled = self._catalog.compiled(transaction, [(row.schedule_id, row.rev, 0) for row in due])
        live = live_runs(transaction, [row.schedule_id for row in due])
        policies = self._catalog.policies(transaction)
        at_rest, active = Facts(policies=policies), active_gates(Surroundings(policies))
        plans: list[tuple[Due, CompiledSchedule, Plan]] = []
        planned_runs = 0
        for row in due:
            if planned_runs > MAX_RUNS_PER_TRANSACTION:
                break
            schedule_id, slot, rev, used, executions, failures, failed_at = row
            item = compiled.get((schedule_id, rev, 0))
            if not isinstance(item, CompiledSchedule):
                mark_broken(transaction, row, item, now)
                continue
            blocking, full = live.get(schedule_id, ()), not item.steps and capacity.is_full_for(item)
            facts, gates = at_rest, item.gates | active & item.levels
            failing = failures >= MIN_FAILURES
            if blocking or full or gates or failing:
                short = spending.forecast(transaction, policies, item, now) if gates & BITS[BUDGET.name] else None
                until = item.timetable.backs_off_until(Failures(failures, failed_at), now) if failing else None
                facts = Facts(blocking, full, item.agent, policies, short, failures=failures, backs_off_until=until)
                gates |= touched_gates(facts) & item.levels
            taken = recorded_due(transaction, item, slot, now) if slot <= self.recorded_until else None
            try:
                plan = item.timetable.plan(schedule_id, slot, used, executions, facts, now, gates, taken)
            except Exception as error:  # one bad schedule never stops the others
                mark_broken(transaction, row, error, now)
                continue
            plans.append((row, item, plan))
            planned_runs += len(plan.runs)
            if capacity.limited and any(planned.state is RunState.READY for planned in plan.runs):
                capacity.reserve(item)
        return plans

    def _insert(
        self,
        transaction: Transaction,
        plans: list[tuple[CompiledSchedule, Plan]],
        now: int,
        worker: int,
        capacity: Capacity,
    ) -> list[Attempt]:
        """Create the runs of the schedules whose cursor moved. Runs that can start immediately are claimed too."""
        clearance, placement, policies = self._clearance, self._placement, self._catalog.policies(transaction)
        runs: list[NewRun] = []
        start: list[Attempt] = []
        events = transaction.events
        run_ids = iter(transaction.run_ids(sum(len(plan.runs) for _, plan in plans)))
        for item, plan in plans:
            place = placement.place(transaction, item, policies)
            mine = clearance is not None and place in placement.mine and not clearance.gates_to_start(item)
            at_once = mine and not plan.cancel and not item.steps
            for planned in plan.runs:
                run_id = next(run_ids)
                starts = at_once and planned.state is RunState.READY
                if starts and (item.emits_message or capacity.take_unlimited(item)):
                    runs.append(_starting(run_id, item, planned, now, worker, place))
                    start.append(Attempt(run_id, 1, 1, planned.slot, planned.slots, planned.first, now, item))
                    data = {**covered(planned), "worker": worker}
                    events.append(NewEvent(now, "run.started", item.schedule_id, run_id, data))
                else:
                    runs.append(new_run(run_id, item, planned, now, None, place))
                    events.append(planned_event(run_id, item, planned, now))
        transaction.insert_runs(runs)
        transaction.insert_attempts([AttemptRow(attempt.run_id, 1, worker, now) for attempt in start])
        return start


def _cursor(row: Due, plan: Plan) -> Cursor:
    next_slot, due_at = plan.next_slot, plan.due_at
    return Cursor(row.schedule_id, row.slot, row.rev, next_slot, due_at, plan.window_used, plan.executions)


def _expire(transaction: Transaction, item: CompiledSchedule, now: int) -> None:
    """Set the state of a schedule whose end has passed, with one event."""
    transaction.set_schedule_state(item.schedule_id, "expired", now, None, None)
    data = {"name": item.name, "ends_at": item.definition.ends_at}
    transaction.events.append(NewEvent(now, "schedule.expired", item.schedule_id, None, data))


def live_runs(transaction: RunRows, schedule_ids: list[int]) -> dict[int, list[tuple[int, int]]]:
    live: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for run in transaction.live(schedule_ids):
        live[run.schedule_id].append((run.id, run.state))
    return live


def _starting(run_id: int, item: CompiledSchedule, planned: PlannedRun, now: int, worker: int, place: int) -> NewRun:
    """A run that is created and claimed at once, with epoch 1 and attempt 1."""
    return NewRun(
        run_id, item.schedule_id, item.rev, planned.slot, None, RunState.STARTING, item.exclusive, item.scope, 1, 1,
        worker, None, now, now, None, planned.slots, planned.first, None, None, place,
    )  # fmt: skip


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
