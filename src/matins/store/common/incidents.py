"""Incidents and the messages about them, in SQL that both stores share."""

from __future__ import annotations

from collections.abc import Iterable

from matins.model.audit import StoredEvent
from matins.model.incident import HeldNotice, IncidentRow
from matins.store.common.statements import Statements


class IncidentQueries(Statements):
    def incident_events(self, after: int, upto: int, types: Iterable[str], limit: int) -> list[StoredEvent]:
        return self._rows(StoredEvent, "incident_events", after=after, upto=upto, types=self._texts(types), limit=limit)

    def incident_window(self, after: int, upto: int, count: int) -> int:
        found = self._value("incident_window", after=after, upto=upto, count=count - 1)
        return upto if found is None else found

    def open_incidents(self, schedule_ids: Iterable[int]) -> list[IncidentRow]:
        return self._rows(IncidentRow, "open_incidents", ids=self._integers(schedule_ids))

    def incident(self, incident_id: int) -> IncidentRow | None:
        return self._row(IncidentRow, "incident", id=incident_id)

    def unresolved_incidents(self, schedule_id: int | None, before: int, limit: int) -> list[IncidentRow]:
        which = -1 if schedule_id is None else schedule_id
        return self._rows(IncidentRow, "unresolved_incidents", schedule_id=which, before=before, limit=limit)

    def incidents(self, schedule_id: int | None, before: int, limit: int) -> list[IncidentRow]:
        which = -1 if schedule_id is None else schedule_id
        return self._rows(IncidentRow, "incidents", schedule_id=which, before=before, limit=limit)

    def due_incidents(self, now: int, limit: int) -> list[IncidentRow]:
        return self._rows(IncidentRow, "due_incidents", now=now, limit=limit)

    def opened_since(self, schedule_id: int, kind: str, since: int) -> int:
        return self._value("opened_since", schedule_id=schedule_id, kind=kind, since=since)

    def insert_incident(self, incident: IncidentRow) -> int:
        values = incident._asdict()
        del values["id"]
        return self._value("insert_incident", **values)

    def update_incident(self, incident: IncidentRow) -> None:
        fixed = ("schedule_id", "kind", "signature", "opened_at")
        self._all("update_incident", **{name: value for name, value in incident._asdict().items() if name not in fixed})

    def insert_notice(self, destination: str, at: int, title: str, held_until: int | None) -> None:
        self._all("insert_notice", destination=destination, at=at, title=title, held_until=held_until)

    def sent_since(self, destination: str, since: int) -> int:
        return self._value("sent_since", destination=destination, since=since)

    def take_held(self, now: int) -> list[HeldNotice]:
        held = self._rows(HeldNotice, "held_notices", now=now)
        if held:
            self._all("delete_held", now=now)
        return held

    def next_notice(self) -> int | None:
        moments = [at for at in (self._value("next_incident"), self._value("next_digest")) if at is not None]
        return min(moments, default=None)

    def prune_incidents(self, before: int, notices_before: int) -> None:
        self._all("prune_incidents", before=before)
        self._all("prune_notices", before=notices_before)
