"""From due slots to runs: one batch in an open transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matins.engine.gates import BITS, Facts, Mask, Surroundings, active_gates, touched_gates
from matins.engine.gates.backing_off import MIN_FAILURES, Failures
from matins.engine.gates.budget import BUDGET
from matins.engine.planning import Plan, PlannedRun
from matins.model.rows import AttemptRow, CompiledKey, Cursor, Due, NewEvent, NewRun, from_tuple
from matins.model.run import RunState
from matins.runtime import spending
from matins.runtime.attempt import Attempt
from matins.runtime.capacity import Capacity
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.clearance import Clearance
from matins.runtime.new_runs import covered, new_run, planned_event
from matins.runtime.placement import Placement
from matins.runtime.run_changes import end_runs
from matins.runtime.uncovered_slots import recorded_due
from matins.store.transaction import Transaction

MAX_RUNS_PER_TRANSACTION = 5_000
"""Maximum number of records in one transaction; further slots wait for the next."""
_STARTING = int(RunState.STARTING)
_attempt = from_tuple(Attempt)
_attempt_row = from_tuple(AttemptRow)
_event = from_tuple(NewEvent)
_new_run = from_tuple(NewRun)


class _Seen(NamedTuple):
    """What is read once for a batch."""

    compiled: Mapping[CompiledKey, CompiledSchedule | Exception]
    live: Mapping[int, Sequence[tuple[int, int]]]
    at_rest: Facts
    active: Mask
    open_to_all: bool


class _Planned(NamedTuple):
    """What a due schedule becomes."""

    row: Due
    item: CompiledSchedule
    plan: Plan | None
    """None is the short road: one run of a slot on time, which no gate can stop."""
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
        live = live_runs(transaction, [row.schedule_id for row in due])
        policies = self._catalog.policies(transaction)
        active = active_gates(Surroundings(policies))
        return _Seen(compiled, live, Facts(policies=policies), active, self._is_open(active, capacity))

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
        plain = clear and item.starts_plainly
        if not plain:
            facts, gates = _facts(transaction, seen, row, item, capacity, at)
            taken = recorded_due(transaction, item, slot, at) if slot <= self.recorded_until else None
        try:
            following = item.timetable.next_if_on_time(slot, at) if plain else False
            if following is not False:
                cursor = _cursor((schedule_id, slot, rev, following, following, 0, executions + 1))
                return _planned((row, item, None, at, cursor))
            plan = item.timetable.plan(schedule_id, slot, used, executions, facts, at, gates, taken)
        except Exception as error:
            return error
        return _planned((row, item, plan, at, Cursor(schedule_id, slot, rev, *plan[1:5])))

    def _is_open(self, active: Mask, capacity: Capacity) -> bool:
        """Whether schedules without gates of their own may start in this turn, as far as there is capacity."""
        clearance = self._clearance
        return clearance is not None and not active | clearance.gates and not capacity.limited and capacity.jobs > 0

    def _insert(
        self, transaction: Transaction, plans: list[_Planned], now: int, worker: int, capacity: Capacity
    ) -> list[Attempt]:
        """Create the runs of the schedules whose cursor moved. Runs that can start immediately are claimed too."""
        placement, policies = self._placement, self._catalog.policies(transaction)
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
                    slot, first, slots = planned[:3]
                    new.start(item, slot, slots, first, place, at)
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

    def start(
        self, item: CompiledSchedule, slot: int | None, slots: int, first: int | None, place: int, at: int
    ) -> None:
        """A run that is claimed at once, with epoch 1 and attempt 1."""
        run_id, worker = next(self._run_ids), self._worker
        self._runs.append(_new_run((
            run_id, item.schedule_id, item.rev, slot, None, _STARTING, item.exclusive, item.scope, 1, 1,
            worker, None, at, at, None, slots, first, None, None, place,
        )))  # fmt: skip
        self._start.append(_attempt((run_id, 1, 1, slot, slots, first, at, item, None, None)))
        data = covered(slot, slots, first)
        data["worker"] = worker
        self._transaction.events.append(_event((at, "run.started", item.schedule_id, run_id, data)))

    def record(self, item: CompiledSchedule, planned: PlannedRun, place: int, at: int) -> None:
        """A run that waits, or a slot that does not run."""
        run_id = next(self._run_ids)
        self._runs.append(new_run(run_id, item, planned, at, None, place))
        self._transaction.events.append(planned_event(run_id, item, planned, at))

    def write(self) -> list[Attempt]:
        worker = self._worker
        self._transaction.insert_runs(self._runs)
        self._transaction.insert_attempts([_attempt_row((one[0], 1, worker, one[6])) for one in self._start])
        return self._start


def _instant(row: Due, item: CompiledSchedule) -> int:
    """When the slot is due. An exception is left to its instant, when the schedule is marked as broken."""
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
    blocking = seen.live.get(row.schedule_id, ())
    policies, failing = seen.at_rest.policies, row.failures >= MIN_FAILURES
    full = not item.steps and capacity.is_full_for(item)
    gates = item.gates | seen.active & item.levels
    if not (blocking or full or gates or failing):
        return seen.at_rest, gates
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


def live_runs(transaction: Transaction, schedule_ids: list[int]) -> dict[int, list[tuple[int, int]]]:
    live: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for run in transaction.live(schedule_ids):
        live[run.schedule_id].append((run.id, run.state))
    return live


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
