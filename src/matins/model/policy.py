"""What governs schedules from outside their own words: limits of providers, and what people are asked."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

ApprovalKind = Literal["run", "schedule", "budget"]
ApprovalState = Literal["pending", "approved", "used", "denied", "expired", "void"]


class Throttle(NamedTuple):
    """A provider that serves nobody until `resets_at`."""

    provider: str
    resets_at: int
    activated_at: int
    affects: tuple[str, ...]
    """The agents that it holds for; none named: all."""
    reason: str
    by: str


class Approval(NamedTuple):
    """A question to people, bound to a digest of what it is about."""

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
    """What would be done, in words that a person can judge."""
    votes: tuple[Vote, ...] = ()


class Vote(NamedTuple):
    voter: str
    vote: Literal["approve", "deny"]
    at: int
    note: str | None
    digest: str
    """Of what this voter saw: another one when it was approved with edits."""


class Purse(NamedTuple):
    """What a budget has seen in one period."""

    budget: str
    of: str
    period: str
    money: int
    tokens: int
    money_reserved: int
    tokens_reserved: int
