"""Incidents: what people hear of once, however often it happens."""

from __future__ import annotations

from typing import Literal, NamedTuple

IncidentState = Literal["open", "acknowledged", "resolved"]
Resolution = Literal["recovered", "paused", "resumed", "ended", "changed", "deleted", "decided", "quiet"]
NO_SCHEDULE = 0
"""The schedule of an incident that belongs to none, or to several."""


class IncidentRow(NamedTuple):
    """An incident in the store. Open ones are unique by schedule, kind and signature."""

    id: int
    schedule_id: int
    kind: str
    signature: str
    """What equal troubles have in common."""
    summary: str
    """The sentence of the newest event."""
    quote: str | None
    """What a tool, a check or a person wrote about it."""
    error: str | None
    run_id: int | None
    """The newest run."""
    times: int
    details: str
    """JSON; for missed slots, those of each schedule."""
    opened_at: int
    last_at: int
    told: int
    """The number of messages about it."""
    told_times: int
    """How often it had happened at the last message."""
    next_at: int | None
    """When it is looked at again, for a reminder; None when it is acknowledged, and when it needs none."""
    acknowledged_at: int | None = None
    acknowledged_by: str | None = None
    resolved_at: int | None = None
    resolution: str | None = None

    @property
    def state(self) -> IncidentState:
        if self.resolved_at is not None:
            return "resolved"
        return "open" if self.acknowledged_at is None else "acknowledged"


class HeldNotice(NamedTuple):
    """A message that waits for a digest."""

    id: int
    destination: str
    at: int
    title: str
