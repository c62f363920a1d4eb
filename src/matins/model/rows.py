"""The rows that a store gives and takes.

They are named tuples, because this is the hot path.

The fields of a row that a store gives are the columns of its statements.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from matins.model.run import BackfillChoice, BackfillState, RunState

CompiledKey = tuple[int, int, int]
"""Schedule, revision and step (0 for the whole): what a run's settings are found by."""


Row = TypeVar("Row", bound=tuple[Any, ...])
"""A named tuple whose fields are the columns of its statements."""


def from_tuple(row: type[Row]) -> Callable[[Any], Row]:
    """What makes a row of a tuple of all its fields. It takes half the time of a call of the class."""
    return partial(tuple.__new__, row)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Due(NamedTuple):
    schedule_id: int
    slot: int
    rev: int
    window_used: int
    executions: int
    failures: int = 0
    failed_at: int | None = None


class Cursor(NamedTuple):
    """The next position of a schedule. It is applied only if the cursor is still at `slot` and `rev`."""

    schedule_id: int
    slot: int
    rev: int
    next_slot: int | None
    due_at: int | None
    window_used: int
    executions: int


class NextSlot(NamedTuple):
    """The next slot of an interval that waited for a completion."""

    schedule_id: int
    rev: int
    next_slot: int
    due_at: int


class NewRun(NamedTuple):
    id: int
    schedule_id: int
    rev: int
    slot: int | None
    request_key: str | None
    state: int
    exclusive: int
    scope: str | None
    epoch: int
    attempt: int
    owner: int | None
    not_before: int | None
    planned_at: int
    started_at: int | None
    ended_at: int | None
    slots: int
    first_slot: int | None
    reason: str | None
    evidence: str | None
    place: int = 0
    """The set of needs of the run, as the number of a row of `places`; 0 where any engine can do it."""


class PlaceRow(NamedTuple):
    """A set of needs."""

    id: int
    needs: str
    """A sorted JSON list: `["job:report"]`."""


class ReadyPlace(NamedTuple):
    """A place in which a run is ready."""

    place: int
    not_before: int


class WaitingPlace(NamedTuple):
    """Settings of which runs wait in a place."""

    schedule_id: int
    rev: int
    step: int
    place: int


class ReadyRun(NamedTuple):
    """A run that may start."""

    id: int
    schedule_id: int
    rev: int
    slot: int | None
    epoch: int
    attempt: int
    slots: int
    first_slot: int | None
    planned_at: int
    cancelling: int
    cleared: int
    step: int
    not_before: int
    given: str | None
    for_slot: int | None

    @property
    def key(self) -> CompiledKey:
        return self.schedule_id, self.rev, self.step


class Claim(NamedTuple):
    """A claim of a ready run at the epoch that was read."""

    run_id: int
    epoch: int
    owner: int
    now: int


class Release(NamedTuple):
    """A claimed run that did not start and is ready again."""

    run_id: int
    epoch: int
    not_before: int


class AttemptRow(NamedTuple):
    """The intent to start a run, written before the start."""

    run_id: int
    epoch: int
    owner: int
    started_at: int


class WaitingRun(NamedTuple):
    """A run that waits for a time, a verdict or a person."""

    id: int
    schedule_id: int
    rev: int
    slot: int | None
    epoch: int
    attempt: int
    reason: str
    planned_at: int
    step: int
    backfill: int | None

    @property
    def key(self) -> CompiledKey:
        return self.schedule_id, self.rev, self.step


class StartedRun(NamedTuple):
    """A run that a worker has started."""

    id: int
    schedule_id: int
    rev: int
    slot: int | None
    epoch: int
    attempt: int
    state: int
    owner: int | None
    cancelling: int
    step: int

    @property
    def key(self) -> CompiledKey:
        return self.schedule_id, self.rev, self.step

    @property
    def mark(self) -> tuple[int, int]:
        return self.id, self.epoch


class RunAhead(NamedTuple):
    """A run of a slot that is still to come: the clock was ahead."""

    id: int
    schedule_id: int
    rev: int
    slot: int
    first_slot: int | None
    state: int
    started_at: int | None


class LiveRun(NamedTuple):
    """A run of a schedule that has not ended."""

    schedule_id: int
    id: int
    state: int
    backfill: int | None
    reason: str | None


class TurnFacts(NamedTuple):
    """What a turn of the engine asks first."""

    policy_rev: int
    places: int
    """The number of sets of needs."""
    closed_nodes: int
    """The number of nodes that take no runs."""
    limited: int
    """Whether there are limits."""
    reserved: int
    """Whether a run has a reservation in a budget."""
    failing: int
    """Whether a schedule has failures that a success resets, as far as the store must be asked."""


class NextInstants(NamedTuple):
    due_at: int | None
    """When the next schedule is due."""
    timer_at: int | None
    """At which a waiting record must be checked."""


class PlainEnd(NamedTuple):
    """A started run that succeeded, and of which nothing but the outcome is recorded."""

    run_id: int
    epoch: int
    ended_at: int
    outcome: str | None


class StateChange(NamedTuple):
    """A named transition of a started run. It applies only at the run's own epoch."""

    run_id: int
    epoch: int
    low: RunState
    high: RunState
    target: RunState
    not_before: int | None
    ended_at: int | None
    reason: str | None
    outcome: str | None
    evidence: str | None = None
    """None keeps the present value."""
    gates_passed: int = 0
    """The gates that the run has passed now, in addition to earlier ones."""
    new_epoch: int = 0
    """1 if the run continues under a new epoch, which voids results of the old one."""


class NewEvent(NamedTuple):
    at: int
    type: str
    schedule_id: int | None
    run_id: int | None
    data: Any = None


class DefinitionRow(NamedTuple):
    """The definition of a schedule at a revision."""

    schedule_id: int
    rev: int
    name: str
    agent: str
    definition: str
    uid: str
    creator: str | None
    """The agent that created the schedule; None if a person did."""
    signed: str | None
    """The name at that time, if the schedule was renamed since."""
    signed_agent: str | None
    """The name of its agent at that time, if either was renamed since."""


class RevisionRow(NamedTuple):
    """Settings that a schedule has had."""

    rev: int
    definition: str
    author: str
    at: int
    name: str
    """Its name at that time."""


class ChainStart(NamedTuple):
    """A schedule with all that descends from it, and its last start."""

    root: int | None
    started_at: int | None


class LabelRow(NamedTuple):
    key: str
    value: str
    schedule_id: int


class NewSchedule(NamedTuple):
    id: int
    agent: str
    name: str
    definition: str
    next_slot: int | None
    due_at: int | None
    state: str = "active"
    created_by: str = "owner"
    creator_role: str = "owner"
    creator_run: int | None = None
    parent: int | None = None
    depth: int = 0

    def stored(self, now: int) -> ScheduleRow:
        """The row of the schedule that was inserted at `now`."""
        return ScheduleRow(
            self.id, self.name, self.agent, self.state, 1, self.definition, None, None, None, self.next_slot,
            self.due_at, 0, 0, None, now, now, None, self.created_by, self.creator_role, self.creator_run, self.parent,
            self.depth, 0,
        )  # fmt: skip


class ScheduleRow(NamedTuple):
    """A schedule with its present definition and its cursor."""

    id: int
    name: str
    agent: str
    state: str
    rev: int
    definition: str
    note: str | None
    paused_by: str | None
    paused_at: int | None
    next_slot: int | None
    due_at: int | None
    executions: int
    failures: int
    failed_at: int | None
    created_at: int
    updated_at: int
    paused_until: int | None
    created_by: str
    creator_role: str
    creator_run: int | None
    parent: int | None
    depth: int
    has_live_runs: int


class ZoneVersion(NamedTuple):
    """The data of a time zone from which slots were computed."""

    name: str
    digest: str
    data: bytes
    """The TZif file."""
    used_at: int
    """When an engine last started with it; 0 if only schedules were written with it."""
    moved_at: int | None = None
    """When slots last moved to those of these data."""
    moved: int = 0
    """The number of schedules that moved then."""


class ScheduleChange(NamedTuple):
    """The last event that stopped a schedule, let it continue, or moved its next slot."""

    type: str
    at: int
    data: dict[str, Any]


class RunRow(NamedTuple):
    """A run with the name of its schedule, and its agent."""

    id: int
    schedule_id: int
    schedule: str
    agent: str
    rev: int
    state: int
    slot: int | None
    request_key: str | None
    slots: int
    first_slot: int | None
    epoch: int
    attempt: int
    not_before: int | None
    planned_at: int
    started_at: int | None
    ended_at: int | None
    reason: str | None
    evidence: str | None
    outcome: str | None
    cleared: int
    parent: int | None
    step: int
    round: int | None
    retry_of: int | None
    given: str | None
    for_slot: int | None
    backfill: int | None


class SlotRun(NamedTuple):
    """A record of slots, or a run that makes up for one."""

    id: int
    first: int
    last: int
    state: int
    reason: str | None


class BackfillRow(NamedTuple):
    """Runs for past slots, and how far they are."""

    id: int
    schedule_id: int
    rev: int
    """The settings of its start."""
    state: BackfillState
    reason: str | None
    """Why it is paused."""
    changed_by: str | None
    """Who paused, resumed or cancelled it."""
    first_slot: int
    last_slot: int
    choice: BackfillChoice
    newest_first: int
    last_seen: int | None
    """The last slot that was looked at."""
    planned: int
    """The runs of its preview."""
    made: int
    most: int
    """The runs that it may make."""
    max_parallel: int
    max_cost: int | None
    """What all of its runs may cost, in micro-dollars."""
    waits_since: int | None
    """Since when it lets other runs pass."""
    failures_after: int
    """Failures up to this run do not count."""
    next_at: int | None
    created_at: int
    created_by: str
    ended_at: int | None


class NewStep(NamedTuple):
    """A step of a run."""

    id: int
    schedule_id: int
    rev: int
    state: int
    scope: str | None
    not_before: int | None
    planned_at: int
    started_at: int | None
    ended_at: int | None
    reason: str | None
    evidence: str | None
    outcome: str | None
    parent: int
    step: int
    round: int
    place: int
    given: str | None


class CheckRow(NamedTuple):
    """The verdict of a guard, a pre-check or a hook on a run."""

    run_id: int
    epoch: int
    kind: str
    at: int
    duration_ms: int
    exit_code: int | None
    verdict: str
    reason: str | None
    output: str


class ScopeRow(NamedTuple):
    """A limited scope, its size and the number of runs that hold a permit of it."""

    scope: str
    size: int
    in_use: int


class WorkerRow(NamedTuple):
    """A worker that has not stopped."""

    id: int
    identity: str
    beat: int
    offers: str
    """What runs may need and find there, as a JSON list: `job:report`, `runner:claude`."""
    node: str
    """The name of its node: of the host, unless the operator gave another."""
    state: str | None = None
    """State of its node: `cordoned` or `draining`; None: open."""
    by: str | None = None
    note: str | None = None
    at: int | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Its identity: host, process, version."""
        return json.loads(self.identity)

    @property
    def offered(self) -> frozenset[str]:
        return frozenset(json.loads(self.offers))


class NodeState(NamedTuple):
    """A node that takes no new runs."""

    name: str
    state: str
    """`cordoned`, or `draining`."""
    by: str
    note: str | None
    at: int
    ends_at: int | None
    """When the runs of a draining node are interrupted that have not ended."""


class NodeRuns(NamedTuple):
    """How many runs a node has."""

    node: str
    runs: int


class PolicyRow(NamedTuple):
    kind: str
    name: str
    definition: str


class Figures(NamedTuple):
    """Counts of schedules, runs and approvals, and the next instants, for statistics."""

    active_schedules: int
    paused_schedules: int
    pending_schedules: int
    started_runs: int
    ready_runs: int
    waiting_runs: int
    pending_approvals: int
    oldest_approval_at: int | None
    next_due_at: int | None


class FileEntry(NamedTuple):
    """A record that a file defines: its place in the file, and the digest of the applied definition."""

    kind: str
    name: str
    file: str
    """The name of the file, which owns the record."""
    path: str
    """Where the file was applied from; on a store that machines share, with the machine: build-1:/etc/matins.yaml."""
    line: int
    digest: str


class AppliedFile(NamedTuple):
    """A file that was applied, by the name that is written in it."""

    name: str
    place: str
    """Where it was applied from, as in `FileEntry.path`."""
    digest: str
    at: int
    by: str
