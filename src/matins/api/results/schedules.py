"""Schedules, missions, and the approvals that they wait for."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from matins.api.results.content import Content
from matins.api.results.runs import Run, RunStateName
from matins.model.approval import ApprovalKind, ApprovalState
from matins.model.schedule import MissionStatus, ScheduleState


class FilePlace(Struct, frozen=True):
    """Where a file defines a record."""

    path: str
    line: int


class SlotBar(Struct, frozen=True):
    """One of the last records of a schedule."""

    run_id: str
    at: datetime
    """The slot; of a manual run, when it was requested."""
    state: RunStateName
    reason: str | None
    slots: int
    """How many slots this record stands for."""


class ScheduleCounts(Struct, frozen=True):
    """The number of schedules in each tab of the list."""

    all: int
    active: int
    attention: int
    """Those that a person should look at: broken, pending, paused after failures, failing, or with a run that waits."""
    paused: int
    agents: int
    """Those that agents made."""


class Found(Struct, frozen=True):
    """What a search found."""

    kind: Literal["schedule", "run", "agent"]
    id: str
    title: str
    agent: str | None
    detail: str
    """The state of a schedule or run, or the runner of an agent."""


class Schedule(Struct, frozen=True):
    """A schedule: its settings, its state, its last run."""

    id: str
    name: str
    agent: str
    state: ScheduleState
    enabled: bool
    rev: int
    trigger: dict[str, Any]
    trigger_text: str
    """The trigger as a sentence."""
    timezone: str
    job: str
    prompt: Content[str | None]
    description: Content[str | None]
    labels: Content[dict[str, str]]
    next_run_at: datetime | None
    due_at: datetime | None
    """When the next slot is planned: later than the slot by its jitter."""
    ends_at: datetime | None
    note: Content[str | None]
    """Why the schedule is paused, broken or rejected."""
    paused_by: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    executions: int
    """How many runs slots and calls have started."""
    manual_runs: int | None
    """How many runs were started by hand, among those that are kept; None in lists."""
    max_executions: int | None
    failures: int
    """How many runs failed in a row."""
    created_at: datetime
    created_by: str
    creator_role: str
    creator_run: str | None
    parent: str | None
    depth: int
    updated_at: datetime
    settings: Content[dict[str, Any]]
    """All settings whose value is not the default, as people write them."""
    last_run_at: datetime | None
    last_run: Run | None
    file: FilePlace | None
    """Where it is defined, when a file defines it."""
    notes: list[str] = []
    """What the call did besides, such as creating an agent."""
    bars: list[SlotBar] = []
    """The last records, the oldest first, where a list is asked for them."""


class Mission(Struct, frozen=True):
    """A schedule with steps, seen as a mission."""

    id: str
    name: str
    agent: str
    status: MissionStatus
    recurring: bool
    when: str | None
    """The time as it was written; None for a draft."""
    ends_at: datetime | None
    next_run_at: datetime | None
    """The next slot, or the time of the next retry."""
    last_run_at: datetime | None
    """When the last run started."""
    last_run: Run | None
    """The newest run; where one mission is asked for, with its steps."""
    steps: Content[list[dict[str, Any]]]
    note: Content[str | None]
    """Why the mission is paused."""
    created_at: datetime
    file: FilePlace | None
    """Where it is defined, when a file defines it."""
    notes: list[str] = []
    """What the call did besides, such as creating an agent."""


class Vote(Struct, frozen=True):
    voter: str
    vote: Literal["approve", "deny"]
    at: datetime
    note: Content[str | None]
    digest: str
    """Of what this voter saw."""


class Approval(Struct, frozen=True):
    """A request to people, bound to a digest of what it is about."""

    id: str
    kind: ApprovalKind
    schedule_id: str
    schedule: str
    run_id: str | None
    rev: int
    digest: str
    policy: str
    approvers: list[str]
    required: int
    default: str
    requested_by: str
    requester_role: str
    requested_at: datetime
    expires_at: datetime
    state: ApprovalState
    decided_at: datetime | None
    request: Content[dict[str, Any]]
    """What would be done, in terms that a person can judge."""
    votes: list[Vote]


class Pause(Struct, frozen=True):
    """A pause of several schedules."""

    id: str
    note: Content[str | None]
    by: str
    at: datetime
    until: datetime | None
    schedules: list[str]
