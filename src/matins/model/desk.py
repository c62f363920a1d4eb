"""Records of the surfaces: tokens, idempotent requests, and the entries of the file."""

from __future__ import annotations

from typing import NamedTuple

from matins.model.principal import Role


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


class Answered(NamedTuple):
    """A request with an idempotency key, and its response. `status` is None while the request is being processed."""

    digest: str
    status: int | None
    answer: str | None
    at: int


class FileEntry(NamedTuple):
    """A record that the file defines: its place in the file, and the digest of the applied definition."""

    kind: str
    name: str
    path: str
    line: int
    digest: str
