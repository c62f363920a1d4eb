"""Who asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["owner", "operator", "viewer", "agent"]


@dataclass(frozen=True, slots=True)
class Principal:
    role: Role
    name: str


OWNER = Principal("owner", "owner")
"""Who holds the store: the library in one's own process."""
