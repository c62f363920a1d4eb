"""Requests for approval, and the votes on them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

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
    vote: Literal["approve", "deny"]
    at: int
    note: str | None
    digest: str
    """The digest that this voter saw. It differs after an approval with edits."""
