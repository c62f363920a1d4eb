"""Schedules and their cursors, in statements of both stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from matins.model.rows import Due, ScheduleChange, ScheduleRow, ZoneVersion
from matins.store.common.statements import Statements


class ScheduleQueries(Statements):
    def due(self, now: int, limit: int, *, newest: bool = False) -> list[Due]:
        return self._rows(Due, "due_newest" if newest else "due_oldest", now=now, limit=limit)

    def lock_due(self, schedule_ids: Iterable[int]) -> list[Due]:
        return self._rows(Due, "lock_due", ids=self._integers(schedule_ids))

    def next_due(self) -> int | None:
        return self._value("next_due")

    def cursors(self, after: int, limit: int) -> list[Due]:
        return self._rows(Due, "cursors", after=after, limit=limit)

    def schedules_named(self, name: str, agent: str | None) -> list[int]:
        return self._column("schedules_named", name=name, agent=agent)

    def schedule(self, schedule_id: int) -> ScheduleRow | None:
        return self._row(ScheduleRow, "schedule", id=schedule_id)

    def schedules_with(self, schedule_ids: Iterable[int]) -> list[ScheduleRow]:
        return self._rows(ScheduleRow, "schedules_with", ids=self._integers(schedule_ids))

    def schedules(self, after: int, agent: str | None, limit: int) -> list[ScheduleRow]:
        return self._rows(ScheduleRow, "schedules", after=after, agent=agent, limit=limit)

    def insert_revision(self, schedule_id: int, rev: int, definition: str, now: int) -> None:
        self._all("insert_run_revision", id=schedule_id, rev=rev, definition=definition)
        self._all("edit_schedule", id=schedule_id, rev=rev, now=now)

    def set_schedule_state(self, schedule_id: int, state: str, now: int, note: str | None, by: str | None) -> None:
        at = now if by else None
        self._all("set_schedule_state", id=schedule_id, state=state, note=note, by=by, at=at, now=now)

    def replace_cursor(
        self,
        schedule_id: int,
        next_slot: int | None,
        due_at: int | None,
        rev: int,
        *,
        paused: bool = False,
        waiting: bool = False,
    ) -> None:
        values = {"slot": next_slot, "due_at": due_at, "rev": rev, "paused": paused, "waiting": waiting}
        self._all("replace_cursor", id=schedule_id, **values)

    def zone_versions(self) -> list[ZoneVersion]:
        return self._rows(ZoneVersion, "zone_versions")

    def lock_zone(self, name: str) -> list[ZoneVersion]:
        return self._rows(ZoneVersion, "lock_zone", name=name)

    def note_zone(self, name: str, digest: str, data: bytes) -> None:
        self._all("note_zone", name=name, digest=digest, data=data)

    def use_zone(self, name: str, digest: str, data: bytes, now: int) -> None:
        self._all("use_zone", name=name, digest=digest, data=data, now=now)

    def note_moves(self, name: str, digest: str, count: int, now: int) -> None:
        self._all("note_moves", name=name, digest=digest, count=count, now=now)

    def last_move(self, schedule_id: int, since: int) -> ScheduleChange | None:
        row: Any = self._row(ScheduleChange, "last_move", id=schedule_id, since=since, like='%"zone"%')
        return None if row is None else row._replace(data=orjson.loads(row.data))

    def forget_zone(self, name: str, digest: str, worker: int) -> None:
        self._all("forget_zone", name=name, digest=digest, worker=worker)
