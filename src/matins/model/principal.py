"""Principals: who calls a use case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

    @property
    def human(self) -> bool:
        return self.role != "agent"


OWNER = Principal("owner", "owner")
"""The owner of the store: the library in the same process."""
