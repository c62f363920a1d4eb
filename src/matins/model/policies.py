"""Values that govern: approvals and votes, budgets, throttles, hooks, work sources.

A hook: a command for every schedule. Annotations are settings, see `settings`.

A source of work items. Annotations are settings, see `settings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

from matins.model.settings import Choice, Command, Duration, Names, Secret, Setting, Text, Url

ApprovalKind = Literal["run", "schedule", "budget"]


ApprovalState = Literal["pending", "approved", "used", "denied", "expired", "void"]


class Approval(NamedTuple):
    """A request for approval, bound to a digest of its subject."""

    id: int
    kind: ApprovalKind
    schedule_id: int
    schedule: str
    run_id: int | None
    rev: int
    digest: str
    policy: str
    approvers: tuple[str, ...]
    needed: int
    default: str
    requested_by: str
    requester_role: str
    requested_at: int
    expires_at: int
    state: ApprovalState
    decided_at: int | None
    request: dict[str, Any]
    """The proposed action, in a form that a person can review."""
    votes: tuple[Vote, ...] = ()


class Vote(NamedTuple):
    voter: str
    vote: Literal["approve", "deny", "withdrawn"]
    at: int
    note: str | None
    digest: str
    """The digest that this voter saw. It differs after an approval with edits."""


class BudgetUsage(NamedTuple):
    """The usage of a budget in one period."""

    budget: str
    of: str
    period: str
    money: int
    tokens: int
    money_reserved: int
    tokens_reserved: int


class SpendingRow(NamedTuple):
    """Micro-dollars and tokens that a schedule spent."""

    schedule_id: int
    agent: str
    money: int
    tokens: int
    run_id: int | None = None
    """None for all runs of the schedule."""


class Throttle(NamedTuple):
    """A provider whose rate limit ends at `resets_at`."""

    provider: str
    resets_at: int
    activated_at: int
    affects: tuple[str, ...]
    """The affected agents; empty for all."""
    reason: str
    by: str
    login: str | None = None
    """The command by which a person logs in again, if the provider refuses the tool's key or login."""


HOOK_EVENTS = ("before:schedule:trigger", "after:run")
"""The events of hooks. The event is also the name of the hook."""


# fmt: off
@dataclass(frozen=True, slots=True)
class Hook:
    event: str
    command: Annotated[str | tuple[str, ...],
        Setting(Command(), "Command for the shell, or a list of a program and its arguments.",
                "node scripts/check-maintenance-window.js", required=True)]
    timeout_ms: Annotated[int, Setting(Duration(), "Longest duration of the command.", "15s", "timeout")] = 15_000


WorkSourceKind = Literal["tasks", "github"]
KIND_SETTINGS = {"tasks": ("path",), "github": ("repo", "labels", "priorities", "base_url", "token")}
"""The settings of each kind."""


# fmt: off
@dataclass(frozen=True, slots=True)
class WorkSourceDefinition:
    name: str
    kind: Annotated[WorkSourceKind,
        Setting(Choice(get_args(WorkSourceKind)), "Kind of source: `tasks` for a TASKS.yaml, `github` for issues.",
                "github", required=True)]
    path: Annotated[str,
        Setting(Text(4_096), "Path of the TASKS.yaml, relative to the agent's directory.", "TASKS.yaml")] = "TASKS.yaml"
    repo: Annotated[str | None, Setting(Text(), "GitHub repository, as owner/name.", "octo-org/garden")] = None
    labels: Annotated[tuple[str, ...], Setting(Names(), "Labels that an issue must have.", ["ready"])] = ("ready",)
    priorities: Annotated[tuple[str, ...],
        Setting(Names(), "Labels by priority, the most urgent first.", ["urgent", "soon"])] = ()
    base_url: Annotated[str,
        Setting(Url(), "URL of the API of another GitHub.",
                "https://github.example.com/api/v3")] = "https://api.github.com"
    token: Annotated[str,
        Setting(Secret(), "Where the token is: env:NAME or file:/path.", "env:GITHUB_TOKEN")] = ("env:GITHUB_TOKEN")
