"""Callers of use cases: principals, their tokens, and responses to their idempotent requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Role = Literal["owner", "operator", "viewer", "agent"]


Right = Literal["read", "run", "change", "approve", "operate", "govern"]


@dataclass(frozen=True, slots=True)
class Principal:
    role: Role
    name: str
    run_id: int | None = None
    """The run that an agent calls from. The server sets it, never the agent."""
    rights: frozenset[str] | None = None
    """Rights of the principal, among those of its role; None for all."""
    token: str | None = field(default=None, compare=False)
    """The id of the token that it showed, or that its browser session came from."""

    @property
    def is_human(self) -> bool:
        return self.role != "agent"


OWNER = Principal("owner", "owner")
"""The owner of the store: the library in the same process."""


class Token(NamedTuple):
    """A token of a program or a person. The secret is not stored."""

    id: str
    hash: str
    """SHA-256 of the whole token."""
    name: str
    role: Role
    rights: tuple[str, ...] | None
    """Rights of the token, among those of its role; None for all."""
    created_at: int
    created_by: str
    expires_at: int | None
    revoked_at: int | None = None
    used_at: int | None = None


class IdempotentRequest(NamedTuple):
    """A request with an idempotency key, and its response. `status` is None while the request is being processed."""

    digest: str
    status: int | None
    response: str | None
    at: int
