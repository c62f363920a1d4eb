"""What the surfaces keep: who may speak, and what a file defines."""

from __future__ import annotations

from typing import NamedTuple

from matins.model.principal import Role


class Token(NamedTuple):
    """A key for a program or a person. The secret itself is nowhere."""

    id: str
    hash: str
    """SHA-256 of the whole token."""
    name: str
    role: Role
    rights: tuple[str, ...] | None
    """Which of its role's rights; all of them when None."""
    created_at: int
    created_by: str
    expires_at: int | None
    revoked_at: int | None = None
    used_at: int | None = None


class Answered(NamedTuple):
    """A request that had a key, and what was answered; `status` is None while it is being answered."""

    digest: str
    status: int | None
    answer: str | None
    at: int


class FileEntry(NamedTuple):
    """A thing that a file defines: where it stands there, and a digest of what it said when it was applied."""

    kind: str
    name: str
    path: str
    line: int
    digest: str
