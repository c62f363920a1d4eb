"""Looks at every commit from outside, holds it against the invariants, and keeps the log that nobody inside has."""

from __future__ import annotations

from collections import defaultdict
from hashlib import sha256
from pathlib import Path

import orjson
from sim_approvals import ApprovalRules
from sim_backfills import BackfillRules
from sim_chain import chain_problems
from sim_cursors import CursorRules
from sim_gates import GateRules, InForce
from sim_money import MoneyRules
from sim_rows import Commit, CursorRow, EventRow, Reader, RunRow, claimed, unfolded
from sim_steps import WAITING_FOR_STEP, StepRules
from sim_unknown import UnknownRules, epoch_told
from sim_violation import require

from matins.model.run import GatesPassed, RunState

STARTED = range(RunState.STARTING, RunState.HELD + 1)
WAITING = range(RunState.WAITING, RunState.READY + 1)
OVER = RunState.SUCCEEDED
_BORN = {*range(RunState.WAITING, RunState.RUNNING), RunState.SKIPPED, RunState.MISSED, RunState.OVER_BUDGET}
_TURNED_DOWN = {RunState.SKIPPED, RunState.MISSED, RunState.DENIED, RunState.EXPIRED, RunState.BLOCKED}
_ENDS_OF_STARTED = {RunState.SUCCEEDED, RunState.FAILED, RunState.UNKNOWN, RunState.SKIPPED, RunState.INTERRUPTED}
_ENDS_OF_ALL = {RunState.CANCELLED, RunState.OVER_BUDGET}
_END_EVENTS = {f"{whose}.{state.label}" for whose in ("run", "step") for state in RunState if state >= OVER}
_END_EVENTS |= {"schedule.missed"}
_HELD_BACK = ("paused", "pending", "rejected", "broken")
"""States of a schedule that hold its runs back until a person decides."""


class Observer:
    """The invariants are those of the architecture, by their numbers."""

    def __init__(self, path: Path) -> None:
        self.reader = Reader(path)
        self.runs: dict[int, RunRow] = {}
        self.cursors: dict[int, CursorRow] = {}
        self._live: dict[int, dict[int, RunRow]] = defaultdict(dict)
        self._in_force = InForce(self.reader)
        self._rules = CursorRules(self.reader, self._in_force)
        self.gates = GateRules(self.reader, self._in_force)
        self._approvals = ApprovalRules(self.reader, self._in_force)
        self._money = MoneyRules(self.reader, self._in_force)
        self._steps = StepRules(self.reader)
        self._backfills = BackfillRules(self.reader)
        self.unknown = UnknownRules(self.reader)
        self._dispatched: dict[int, int] = {}
        self._keys: dict[tuple[int, str], int] = {}
        self._ends: set[int] = set()
        self._limits: dict[str, tuple[int, frozenset[int]]] = {}
        self._digest = sha256()
        self.commits = 0
        self.dispatches = 0
        self.slots = 0
        self.purged = 0

    def close(self) -> None:
        self.reader.close()

    def note(self, text: str) -> None:
        """A line of the trace: the same seed must give the same lines."""
        self._digest.update(text.encode())

    def trace(self) -> str:
        return self._digest.hexdigest()

    # -- after every commit

    def committed(self, now: int, changed: dict[str, set[int]]) -> None:
        self.commits += 1
        events = self.reader.events(changed.get("events", ()))
        after = self.reader.runs(changed.get("runs", ()))
        touched = (
            {run.schedule_id for run in after.values()} | changed.get("due", set()) | changed.get("schedules", set())
        )
        self._digest.update(
            repr((now, [after[run_id]._replace(request_key=None) for run_id in sorted(after)])).encode()
        )
        commit = Commit(now, changed, events, [(self.runs.get(run_id), run) for run_id, run in after.items()])
        self._check_ends(commit)
        self._backfills.check(commit, self.runs)
        births, ended = self._check_runs(after, self._told(commit), now)
        withdrawn = {event.run_id for event in events if event.type == "run.withdrawn"}
        self._check_forgotten(changed.get("runs", set()) - after.keys(), withdrawn, now)
        cursors = self.reader.cursors(touched)
        for schedule_id, new in sorted(cursors.items()):
            of = [event for event in events if event.schedule_id == schedule_id]
            old = self.cursors.get(schedule_id)
            self._rules.check(old, new, births[schedule_id], ended[schedule_id], of, now)
        self.cursors.update(cursors)
        for schedule_id in sorted(touched):
            self._check_schedule(schedule_id)
        if "runs" in changed:
            self._check_limits()
        self._check_gates(commit)
        for event in events:
            if event.type == "limit.set":
                self._note_limit(event)

    def _check_gates(self, commit: Commit) -> None:
        throttles, budgets = self._in_force.throttles, self._in_force.budgets
        self._in_force.refresh(commit)
        self.gates.check(commit, self.cursors, throttles)
        self._approvals.check(commit, self.cursors, self.runs)
        self._money.check(commit, self.runs, budgets)
        self._steps.check(commit, self.runs)
        self.unknown.check(commit)

    def _check_ends(self, commit: Commit) -> None:
        """Whatever ends says so once, in the same commit; a step by an event of its own."""
        told = {event.run_id: event for event in commit.events if event.type in _END_EVENTS and event.run_id}
        for event in commit.events:
            if event.type in _END_EVENTS and event.run_id is not None:
                require(6, event.run_id not in self._ends, f"run {event.run_id} ended a second time: {event}")
                self._ends.add(event.run_id)
        for old, new in commit.runs:
            if new.state >= OVER and (old is None or old.state < OVER):
                event = told.get(new.id)
                right = event is not None and event.type.startswith("step.") == bool(new.step)
                require(6, right, f"the event of its end is {event}: {new}")

    def _told(self, commit: Commit) -> set[tuple[int, int]]:
        """The (run, epoch) of which verdicts came."""
        rows = commit.rows("checks")
        return {*self.reader.numbered("SELECT run_id, epoch FROM checks", rows)} if rows else set()

    def _check_runs(
        self, after: dict[int, RunRow], told: set[tuple[int, int]], now: int
    ) -> tuple[dict[int, list[RunRow]], dict[int, list[RunRow]]]:
        births: dict[int, list[RunRow]] = defaultdict(list)
        ended: dict[int, list[RunRow]] = defaultdict(list)
        for run_id, new in after.items():
            old = self.runs.get(run_id)
            if old is None:
                self._check_birth(new)
                self._backfills.born(new)
                if new.slot is not None:
                    births[new.schedule_id].append(new)
                    self.slots += new.slots
            elif old.slot is not None and old.slot > now and old.slots > new.slots:
                self._rules.shorten(old, new)
            else:
                whole = bool(self.reader.steps(new))
                _check_change(old, new, told=(run_id, old.epoch) in told, whole=whole)
            if new.state in STARTED and not self.reader.steps(new):
                _check_attended(new)
            if new.state >= OVER and (old is None or old.state < OVER):
                ended[new.schedule_id].append(new)
            self.runs[run_id] = new
            if new.state < OVER:
                self._live[new.schedule_id][run_id] = new
            else:
                self._live[new.schedule_id].pop(run_id, None)
        return births, ended

    def _check_forgotten(self, run_ids: set[int], withdrawn: set[int | None], now: int) -> None:
        """Purging takes only what is over; that it never fires anything again, the cursors show. What is withdrawn is
        still to come, and has not started."""
        for run_id in sorted(run_ids & self.runs.keys()):
            run = self.runs.pop(run_id)
            if run_id in withdrawn:
                ahead = run.slot is not None and run.slot > now and run.started_at is None
                require(1, ahead, f"a record was withdrawn whose slot has come, or which has started: {run}")
                self._live[run.schedule_id].pop(run_id, None)
                self._rules.uncover(run)
                continue
            require(6, run.state >= OVER, f"a run was purged that is not over: {run}")
            if run.request_key is not None:
                del self._keys[run.schedule_id, run.request_key]
            self.purged += 1

    def _check_birth(self, run: RunRow) -> None:
        carried = bool(run.step) and run.state == RunState.SUCCEEDED
        at_once = carried or unfolded(None, run)
        require(6, at_once or run.state in _BORN, f"a run was born in state {run.state}: {run}")
        rises = run.state == RunState.STARTING or unfolded(None, run) or _sent(0, run)
        require(4, run.epoch == int(rises), f"its first epoch: {run}")
        if run.request_key is not None:
            key = run.schedule_id, run.request_key
            require(8, self._keys.setdefault(key, run.id) == run.id, f"a second run for the key {key}: {run}")

    def _check_schedule(self, schedule_id: int) -> None:
        live = [run for run in self._live[schedule_id].values() if not run.step and not _stands_aside(run)]
        started = [run.id for run in live if run.state in STARTED and run.exclusive]
        require(9, len(started) <= 1, f"schedule {schedule_id} does not allow overlap, but {started} are live")
        queued = [run.id for run in live if run.state == RunState.QUEUED]
        stuck = queued and len(queued) == len(live)
        require(
            11, not stuck, f"runs {queued} of schedule {schedule_id} are queued behind nothing: nobody promotes them"
        )
        cursor = self.cursors.get(schedule_id)
        for run in self._live[schedule_id].values():
            if run.state == RunState.WAITING and cursor is not None:
                _check_parked(run, cursor)
        if cursor is not None and cursor.state == "active" and cursor.next_slot is not None and cursor.due_at is None:
            require(
                11, bool(live), f"schedule {schedule_id} waits for a completion, but no run of it is live: {cursor}"
            )

    def _note_limit(self, event: EventRow) -> None:
        """It holds from now on; runs that have started already may go on."""
        data = orjson.loads(event.data or "{}")
        self._limits[data["scope"]] = data["size"], frozenset(run.id for run in self._started())

    def _started(self) -> list[RunRow]:
        """A run of steps has no place of its own."""
        started = [run for live in self._live.values() for run in live.values() if run.state in STARTED]
        return [run for run in started if not self.reader.steps(run)]

    def _check_limits(self) -> None:
        permits = self.reader.permits()
        for scope, run_id in permits:
            run = self.runs[run_id]
            require(9, run.state in STARTED, f"a permit of {scope} is held by a run that has not started: {run}")
        for scope, (size, before) in self._limits.items():
            of = [run.id for run in self._started() if scope in ("global", run.scope)]
            fresh = [run_id for run_id in of if run_id not in before]
            require(9, len(fresh) <= size, f"{len(of)} runs of {scope} are live, its limit is {size}: {of}")

    # -- what the executors do

    def allow_lead(self, lead_ms: int) -> None:
        self._rules.lead_ms = lead_ms

    def dispatched(self, worker: int, run_id: int, epoch: int) -> None:
        self.dispatches += 1
        self._digest.update(f"dispatch {worker} {run_id} {epoch}".encode())
        last = self._dispatched.get(run_id, 0)
        require(4, epoch > last, f"run {run_id} dispatched under epoch {epoch} after epoch {last}")
        self._dispatched[run_id] = epoch
        owner = self.reader.attempt_owner(run_id, epoch)
        require(5, owner == worker, f"worker {worker} starts ({run_id}, {epoch}), whose attempt is of {owner}")

    # -- now and then, and at the end

    def check_everything(self) -> None:
        """What the cheap checks kept in mind is what the store says."""
        require(12, self.reader.runs() == self.runs, "runs changed without a commit that was seen")
        require(12, self.reader.cursors() == self.cursors, "cursors changed without a commit that was seen")
        self._rules.check_no_slot_twice()
        self._check_chains()

    def check_the_end(self, now: int) -> None:
        self.check_everything()
        self._rules.check_nothing_passed_over(self.cursors.values(), now)
        self._rules.check_nobody_stands_still(self.cursors.values())
        self._money.check_the_end()
        found = [row[0] for row in self.reader.query("PRAGMA integrity_check")]
        require(12, found == ["ok"], f"integrity: {found}")

    def _check_chains(self) -> None:
        wrong = chain_problems(self.reader)
        require(12, not wrong, f"chains: {wrong}")

    def held(self) -> list[int]:
        return [run.id for run in self._started() if run.state == RunState.HELD]

    def unfinished(self, planned: set[int], now: int) -> list[str]:
        """What must not be left once faults have stopped: runs of before that are not over, and due slots."""
        runs = [self.runs[run_id] for run_id in sorted(planned) if run_id in self.runs]
        left = [f"not over: {run}" for run in runs if run.state < OVER]
        late = [cursor for cursor in self.cursors.values() if cursor.due_at is not None and cursor.due_at <= now]
        left += [f"due and not planned: {cursor}" for cursor in late]
        return left + self._backfills.unfinished()


def _stands_aside(run: RunRow) -> bool:
    """A run of a backfill that waits for a time or a person is in nobody's way."""
    return run.backfill is not None and run.state == RunState.WAITING and run.reason != "checking"


def _check_change(old: RunRow, new: RunRow, *, told: bool, whole: bool) -> None:
    if old == new:
        return
    require(6, old.state < OVER, f"a run that was over has changed: {old} became {new}")
    require(8, old.identity == new.identity, f"what never changes has changed: {old} became {new}")
    _check_epoch(old, new, told=told)
    if new.state >= OVER:
        ends = _ENDS_OF_ALL | (_TURNED_DOWN if old.state in WAITING else _ENDS_OF_STARTED)
        if whole:  # it may start and end at once, and it ends as its steps do
            ends |= _ENDS_OF_STARTED | {RunState.DENIED, RunState.EXPIRED}
        require(6, new.state in ends, f"no such transition: {old} became {new}")
    if new.outcome is not None and new.outcome != old.outcome and not whole:
        require(7, epoch_told(new.outcome) == old.epoch, f"an outcome of another epoch was written: {old} became {new}")


def _check_epoch(old: RunRow, new: RunRow, *, told: bool) -> None:
    """It rises when a run is claimed, sent to be checked, was checked, waited for that in vain, or has other words."""
    if new.rev != old.rev:
        may = old.state in WAITING and new.state in WAITING and not new.cleared & GatesPassed.CHECKED
        require(8, may, f"a run that was cleared goes by other words: {old} became {new}")
        require(4, new.epoch > old.epoch, f"other words under the same epoch: {old} became {new}")
        return
    rises = claimed(old, new) or unfolded(old, new) or _sent(old.epoch, new)
    may = old.epoch + rises, old.epoch + rises + (told or (old.state == RunState.WAITING and old.reason == "checking"))
    require(4, new.epoch in may, f"the epoch went from {old.epoch} to {new.epoch}: {old} became {new}")


def _sent(epoch: int, run: RunRow) -> bool:
    """Whether it is sent to be checked; without room for that it only waits, under the epoch that it has."""
    return run.state == RunState.WAITING and run.reason == "checking" and run.epoch != epoch


def _check_attended(run: RunRow) -> None:
    """Whatever has started is somebody's; what is held says why, since a person has to decide."""
    if run.state == RunState.HELD:
        require(11, run.reason is not None, f"held, and nobody can say why: {run}")
    else:
        require(5, run.owner is not None, f"started, and nobody's: {run}")


def _check_parked(run: RunRow, cursor: CursorRow) -> None:
    """Whatever waits, waits for something that comes: a time, a person, or that its schedule goes on."""
    if run.reason == "paused":
        require(11, cursor.state in _HELD_BACK, f"held back by nothing: {run} of {cursor}")
    elif run.reason not in ("awaiting_approval", WAITING_FOR_STEP):
        require(11, run.not_before is not None, f"nobody will ever wake it: {run}")
