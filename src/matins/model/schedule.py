"""A schedule: a trigger, what it starts, and the policies that govern it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from matins.model.agent import Fallback, Target
from matins.model.trigger import TriggerDefinition

CatchUp = Literal["skip", "run_once", "run_all_capped"]
Overlap = Literal["skip", "queue", "cancel_other", "allow"]
AtCapacity = Literal["wait", "skip"]
OnUnknown = Literal["hold", "retry"]
ApprovalPolicy = Literal["auto", "owner_approve", "council_approve"]
ApprovalDefault = Literal["deny", "approve"]
ScheduleState = Literal["pending", "active", "paused", "completed", "expired", "rejected", "broken", "removed"]
Command = str | tuple[str, ...]
"""A text for the shell, or a program with its arguments."""


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """What a schedule says. An edit makes a new one, with the next revision number."""

    trigger: TriggerDefinition
    do: str
    """The registered job that it starts."""
    payload: Any = None
    catch_up: CatchUp = "skip"
    cap: int = 10
    grace_ms: int | None = None
    """How late a slot may still run; by default a day for one-shots, else half a period and 2 h at the most."""
    overlap: Overlap = "skip"
    queue_limit: int = 100
    at_capacity: AtCapacity = "wait"
    retries: int = 0
    retry_ms: int = 10_000
    retry_most_ms: int = 3_600_000
    on_unknown: OnUnknown = "retry"
    jitter: float = 0
    timeout_ms: int | None = None
    max_executions: int | None = None
    ends_at: int | None = None
    """Slots after this instant do not run: the schedule has expired."""
    pause_after: int | None = None
    """Pause after so many failures in a row."""
    quiet_hours: str | None = None
    """The policy by this name says when it keeps quiet."""
    provider: str | None = None
    """Whose limits hold for it: while they are reached, it waits."""
    pre_check: Command | None = None
    before: Command | None = None
    """A hook that may cancel a run before it starts."""
    after: Command | None = None
    """A hook that learns how a run ended."""
    check_ms: int = 15_000
    """How long pre_check and hooks may take, each."""
    approval: ApprovalPolicy = "auto"
    approval_actions: tuple[str, ...] = ()
    """Which jobs need approval; by default all but those known to be harmless."""
    approvers: tuple[str, ...] = ()
    approvals_needed: int = 1
    approval_ms: int = 86_400_000
    approval_default: ApprovalDefault = "deny"
    """What a request that expires comes to."""
    max_cost: int | None = None
    """In micro-dollars: a run that has spent this is ended."""
    max_tokens: int | None = None
    prompt: str | None = None
    """What its agent is told."""
    target: Target | None = None
    """Where its runs land; where the agent's own default says, when None."""
    fallback: Fallback = "fresh"
    wait_ms: int = 3_600_000
    """How long `wait` waits for a target that is gone."""
    final_fallback: Fallback = "fresh"
    work: str | None = None
    """Where its work items come from."""
    about: str | None = None
    """What it is for, for people to read."""
    labels: dict[str, str] | None = None
    """Whatever other systems want to find again: a project, a ticket, an address."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it stands in the store. Instants are UTC milliseconds."""

    id: int
    name: str
    agent: str
    state: ScheduleState
    rev: int
    definition: ScheduleDefinition
    note: str | None
    paused_by: str | None
    paused_at: int | None
    next_slot: int | None
    due_at: int | None
    executions: int
    failures: int
    """How many runs failed in a row."""
    created_at: int
    updated_at: int
    paused_until: int | None = None
    created_by: str = "owner"
    creator_role: str = "owner"
    creator_run: int | None = None
    """The run that made it, when an agent did."""
    parent: int | None = None
    """The schedule of that run."""
    depth: int = 0
    """How many schedules made one another down to this one."""
