"""From due slots to runs: one batch in an open transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from matins.engine.gates import BITS, Facts, Mask, Surroundings, active_gates, touched_gates
from matins.engine.gates.backing_off import MIN_FAILURES, Failures
from matins.engine.gates.budget import BUDGET
from matins.engine.planning import Plan, PlannedRun
from matins.model.rows import AttemptRow, Cursor, Due, NewEvent, NewRun, from_tuple
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
_STARTING = int(RunState.STARTING)
_cursor = from_tuple(Cursor)
_attempt = from_tuple(Attempt)
_attempt_row = from_tuple(AttemptRow)
_event = from_tuple(NewEvent)
_new_run = from_tuple(NewRun)
_Planned = tuple[Due, CompiledSchedule, Plan | None]
"""What a due schedule becomes. None is the short road: one run of a slot on time, which no gate can stop."""


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
        plans, cursors = self._plans(transaction, due, now, capacity)
        moved = transaction.advance(cursors)
        made = plans if len(moved) == len(plans) else [plan for plan in plans if plan[0].schedule_id in moved]
        start = self._insert(transaction, made, now, worker, capacity)
        special = [(item, plan) for _, item, plan in made if plan is not None]
        for item, plan in special:
            if plan.expired:
                _expire(transaction, item, now)
        cancel = [run_id for _, plan in special for run_id in plan.cancel]
        if cancel:
            end_runs(transaction, self._catalog, cancel, now, "cancelled_by_newer")
        return start

    def _plans(
        self, transaction: Transaction, due: list[Due], now: int, capacity: Capacity
    ) -> tuple[list[_Planned], list[Cursor]]:
        """Plans and new cursors for as many schedules as fit in one transaction; the rest stays due."""
        compiled = self._catalog.compiled(transaction, [(row.schedule_id, row.rev, 0) for row in due])
        live = live_runs(transaction, [row.schedule_id for row in due])
        policies = self._catalog.policies(transaction)
        at_rest, active = Facts(policies=policies), active_gates(Surroundings(policies))
        plans: list[_Planned] = []
        cursors: list[Cursor] = []
        planned_runs, open_to_all = 0, self._is_open(active, capacity)
        for row in due:
            if planned_runs > MAX_RUNS_PER_TRANSACTION:
                break
            schedule_id, slot, rev, used, executions, failures, _ = row
            item = compiled.get((schedule_id, rev, 0))
            if not isinstance(item, CompiledSchedule):
                mark_broken(transaction, row, item, now)
                continue
            blocking = live.get(schedule_id, ())
            plain = open_to_all and item.starts_plainly and not blocking and not failures and slot > self.recorded_until
            if plain:
                facts, gates, taken = at_rest, 0, None
            else:
                facts, gates = _facts(transaction, row, item, blocking, at_rest, active, capacity, now)
                taken = recorded_due(transaction, item, slot, now) if slot <= self.recorded_until else None
            try:
                following = item.timetable.next_if_on_time(slot, now) if plain else False
                if following is not False:
                    plans.append((row, item, None))
                    cursors.append(_cursor((schedule_id, slot, rev, following, following, 0, executions + 1)))
                    planned_runs += 1
                    continue
                plan = item.timetable.plan(schedule_id, slot, used, executions, facts, now, gates, taken)
            except Exception as error:  # one bad schedule never stops the others
                mark_broken(transaction, row, error, now)
                continue
            plans.append((row, item, plan))
            cursors.append(Cursor(schedule_id, slot, rev, *plan[1:5]))
            planned_runs += len(plan.runs)
            if capacity.limited and any(planned.state is RunState.READY for planned in plan.runs):
                capacity.reserve(item)
        return plans, cursors

    def _is_open(self, active: Mask, capacity: Capacity) -> bool:
        """Whether schedules without gates of their own may start in this turn, as far as there is capacity."""
        clearance = self._clearance
        return clearance is not None and not active | clearance.gates and not capacity.limited and capacity.jobs > 0

    def _insert(
        self,
        transaction: Transaction,
        plans: list[_Planned],
        now: int,
        worker: int,
        capacity: Capacity,
    ) -> list[Attempt]:
        """Create the runs of the schedules whose cursor moved. Runs that can start immediately are claimed too."""
        clearance, placement, policies = self._clearance, self._placement, self._catalog.policies(transaction)
        runs: list[NewRun] = []
        start: list[Attempt] = []
        events = transaction.events
        run_ids = iter(transaction.run_ids(sum(1 if plan is None else len(plan.runs) for _, _, plan in plans)))
        for row, item, plan in plans:
            place = placement.place(transaction, item, policies)
            mine = place in placement.mine
            if plan is None and mine and capacity.jobs > 0:
                run_id, slot = next(run_ids), row.slot
                capacity.jobs -= 1
                runs.append(_starting(run_id, item, slot, 1, None, now, worker, place))
                start.append(_attempt((run_id, 1, 1, slot, 1, None, now, item)))
                events.append(_started(run_id, item, slot, 1, None, now, worker))
                continue
            if plan is None:
                plan = _on_time(row)
            may_start = clearance is not None and not clearance.gates_to_start(item)
            at_once = mine and may_start and not plan.cancel and not item.steps
            for planned in plan.runs:
                run_id = next(run_ids)
                starts = at_once and planned.state is RunState.READY
                if starts and (item.emits_message or capacity.take_unlimited(item)):
                    slot, first, slots = planned[:3]
                    runs.append(_starting(run_id, item, slot, slots, first, now, worker, place))
                    start.append(Attempt(run_id, 1, 1, slot, slots, first, now, item))
                    events.append(_started(run_id, item, slot, slots, first, now, worker))
                else:
                    runs.append(new_run(run_id, item, planned, now, None, place))
                    events.append(planned_event(run_id, item, planned, now))
        transaction.insert_runs(runs)
        transaction.insert_attempts([_attempt_row((attempt[0], 1, worker, now)) for attempt in start])
        return start


def _facts(
    transaction: Transaction, row: Due, item: CompiledSchedule, blocking: Sequence[tuple[int, int]], at_rest: Facts,
    active: Mask, capacity: Capacity, now: int,
) -> tuple[Facts, Mask]:  # fmt: skip
    """What the gates of a due schedule judge by, and those that may stop it."""
    policies, failing = at_rest.policies, row.failures >= MIN_FAILURES
    full = not item.steps and capacity.is_full_for(item)
    gates = item.gates | active & item.levels
    if not (blocking or full or gates or failing):
        return at_rest, gates
    short = spending.forecast(transaction, policies, item, now) if gates & BITS[BUDGET.name] else None
    until = item.timetable.backs_off_until(Failures(row.failures, row.failed_at), now) if failing else None
    facts = Facts(blocking, full, item.agent, policies, short, failures=row.failures, backs_off_until=until)
    return facts, gates | touched_gates(facts) & item.levels


def _on_time(row: Due) -> Plan:
    """The plan of the short road, for a run that must wait for capacity or for another engine."""
    return Plan([PlannedRun(row.slot, None, 1, RunState.READY)], None, None, 0, row.executions + 1)


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


def _starting(
    run_id: int,
    item: CompiledSchedule,
    slot: int | None,
    slots: int,
    first: int | None,
    now: int,
    worker: int,
    place: int,
) -> NewRun:
    """A run that is created and claimed at once, with epoch 1 and attempt 1."""
    return _new_run((
        run_id, item.schedule_id, item.rev, slot, None, _STARTING, item.exclusive, item.scope, 1, 1,
        worker, None, now, now, None, slots, first, None, None, place,
    ))  # fmt: skip


def _started(
    run_id: int, item: CompiledSchedule, slot: int | None, slots: int, first: int | None, now: int, worker: int
) -> NewEvent:
    data = covered(slot, slots, first)
    data["worker"] = worker
    return _event((now, "run.started", item.schedule_id, run_id, data))


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
