"""Incidents, and the messages about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from matins.model.audit import StoredEvent
from matins.model.incident import HeldNotice, IncidentRow


class IncidentRows(Protocol):
    """Incidents, and the messages about them."""

    def incident_events(self, after: int, upto: int, types: Iterable[str], limit: int) -> list[StoredEvent]:
        """Events of these types, and the successes of schedules that have an incident, in order."""
        ...

    def incident_window(self, after: int, upto: int, count: int) -> int:
        """The id up to which there are at most `count` events. Ids have gaps, in PostgreSQL wide ones."""
        ...

    def open_incidents(self, schedule_ids: Iterable[int]) -> list[IncidentRow]:
        """Incidents of these schedules that are not resolved, the oldest first."""
        ...

    def incident(self, incident_id: int) -> IncidentRow | None: ...
    def unresolved_incidents(self, schedule_id: int | None, before: int, limit: int) -> list[IncidentRow]:
        """A page of incidents that are not resolved, the newest first; of all schedules, or of one."""
        ...

    def incidents(self, schedule_id: int | None, before: int, limit: int) -> list[IncidentRow]:
        """A page of all incidents, the newest first."""
        ...

    def due_incidents(self, now: int, limit: int) -> list[IncidentRow]:
        """Incidents that are looked at again now."""
        ...

    def opened_since(self, schedule_id: int, kind: str, since: int) -> int:
        """The number of incidents that were opened since an instant, and told."""
        ...

    def insert_incident(self, incident: IncidentRow) -> int: ...
    def update_incident(self, incident: IncidentRow) -> None: ...
    def insert_notice(self, destination: str, at: int, title: str, held_until: int | None) -> None:
        """Note a message that is sent now, or held for the digest of an instant."""
        ...

    def sent_since(self, destination: str, since: int) -> int:
        """The number of messages that were sent since an instant."""
        ...

    def take_held(self, now: int) -> list[HeldNotice]:
        """Delete and return the messages whose digest is due, the oldest first."""
        ...

    def next_notice(self) -> int | None:
        """When an incident is looked at again, or a digest is due."""
        ...

    def prune_incidents(self, before: int, notices_before: int) -> None:
        """Delete incidents that were resolved before an instant, and old notes of messages."""
        ...
