"""Addresses of views."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote


def full_name(record: Any) -> str:
    """A schedule's name with its agent's, which is unique."""
    return f"{record.agent}/{record.name}" if record.agent else record.name


def schedule_path(name: str, agent: str | None = None) -> str:
    return f"/schedules/{quote(f'{agent}/{name}' if agent else name, safe='/')}"


def why_path(name: str, agent: str | None, at: datetime | None) -> str:
    """The address of a schedule's Why? for a slot."""
    slot = f"?at={quote(at.isoformat(), safe='')}" if at is not None else ""
    return f"{schedule_path(name, agent)}{slot}#why"
