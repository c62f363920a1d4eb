"""Who asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["owner", "operator", "viewer", "agent"]


@dataclass(frozen=True, slots=True)
class Principal:
    role: Role
    name: str
    run_id: int | None = None
    """The run from which an agent speaks; the server sets it, never the agent."""
    rights: frozenset[str] | None = None
    """Which of its role's rights it has; all of them when None."""

    @property
    def human(self) -> bool:
        return self.role != "agent"


OWNER = Principal("owner", "owner")
"""Who holds the store: the library in one's own process."""
