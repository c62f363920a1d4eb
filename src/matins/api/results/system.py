"""The installation: health, jobs, tools, tokens, sessions, the file."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from matins.api.results.content import Content
from matins.api.results.forecasts import SettingChange
from matins.model.access import Role


class Throttled(Struct, frozen=True):
    provider: str
    resets_at: datetime


class Stats(Struct, frozen=True):
    running: bool
    """Whether an engine is running."""
    active_schedules: int
    paused_schedules: int
    pending_schedules: int
    """Proposed by agents, and not approved yet."""
    running_executions: int
    max_concurrent: int | None
    """The global limit; None where none is set."""
    recent_failures: int
    """Runs that failed within the last 24 hours."""
    planner_lag_ms: int
    """How long the oldest unplanned slot has been due."""
    ready_runs: int
    waiting_runs: int
    """Runs that wait for a time, a check, a person, or their turn."""
    waiting_approvals: int
    oldest_approval: datetime | None
    spend_today: str
    tokens_today: int
    throttles: list[Throttled]


class JobInput(Struct, frozen=True):
    name: str
    """The name in the payload."""
    kind: str
    required: bool
    default: Any
    help: str
    example: Any


class Job(Struct, frozen=True):
    name: str
    help: str
    runs: Literal["function", "agent", "event"]
    """Whether a run calls a function, wakes an agent or emits an event."""
    destructive: bool
    """Whether runs need approval under `owner_approve`."""
    owner_only: bool
    """Whether only the owner may schedule it."""
    services: list[str]
    inputs: list[JobInput]
    """The inputs in the payload; empty where any payload is taken."""
    installed: bool
    """Whether the process that answers has the job."""
    engines: int
    """The number of running engines that have the job."""


class Finding(Struct, frozen=True):
    what: str
    ok: bool | None
    """None where it cannot be known."""
    sentence: Content[str]
    """With paths, commands and errors, as people need them."""
    fix: Content[str | None] = None
    """The command that fixes it."""


class Tool(Struct, frozen=True):
    """An agent with its tool, or a tool that is installed and has no agent yet."""

    agent: str | None
    runner: str
    path: str | None
    """None when the tool is not installed."""
    version: str | None
    credential: str | None
    """The variable or the file by which the tool logs in; None when there is none, or when it needs none."""
    needs_credential: bool
    permission: str | None
    """The permission mode of the agent; without an agent, the one in which an unattended run is of use."""
    risk: str | None
    """What that mode allows, where the tool would otherwise ask a person."""
    install: str | None
    """How to install the tool."""


class Backup(Struct, frozen=True):
    path: str
    bytes: int


class Whoami(Struct, frozen=True):
    role: Role
    name: str
    run_id: str | None
    rights: list[str]
    timezone: str
    """The person's time zone; without one, that of the machine of the engine."""
    now: datetime


class Token(Struct, frozen=True):
    id: str
    name: str
    role: Role
    rights: list[str] | None
    """Which of its role's rights; None: all of them."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None = None
    used_at: datetime | None = None


class NewToken(Struct, frozen=True):
    id: str
    token: str
    """Shown here and never again."""
    name: str
    role: Role
    rights: list[str] | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None


class NewSession(Struct, frozen=True):
    id: str
    path: str | None
    """Path of the link that opens the session, once. Shown here and never again."""
    expires_at: datetime


class BrowserSession(Struct, frozen=True):
    """A browser that is logged in, or a link that was not opened yet."""

    id: str
    name: str
    role: Role
    rights: list[str] | None
    """Which of its role's rights; None: all of them."""
    token: str | None
    """The token that it came from and ends with."""
    person: str | None
    """The person whose session it is; it ends with the person."""
    created_at: datetime
    opened_at: datetime | None
    used_at: datetime | None
    expires_at: datetime


class FileChange(Struct, frozen=True):
    kind: str
    name: str
    change: Literal["added", "changed", "removed", "past"]
    line: int
    settings: list[SettingChange]
    notes: list[str]
    """What settings of the record do not do."""


class FilePlan(Struct, frozen=True):
    """What the file changes."""

    path: str
    state: Literal["ready", "same", "waits", "applied"]
    added: int
    removed: int
    changed: int
    same: int
    note: str
    waits: str | None
    """Why a person should look before it is applied."""
    entries: list[FileChange]
    digest: str


class BudgetUsage(Struct, frozen=True):
    """What a budget has seen in one period."""

    budget: str
    of: str
    period: str
    money: str
    tokens: int
    money_reserved: str
    tokens_reserved: int
