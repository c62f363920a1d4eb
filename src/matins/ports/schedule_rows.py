"""Schedules, their revisions and their cursors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from matins.model.rows import (
    Cursor,
    DefinitionRow,
    Due,
    NewSchedule,
    NextSlot,
    ScheduleChange,
    ScheduleRow,
    ZoneVersion,
)


class DueRows(Protocol):
    """The cursors of schedules, from which planning continues."""

    def due(self, now: int, limit: int, *, newest: bool = False) -> list[Due]:
        """Due schedules, locked. Schedules that another worker has locked are omitted."""
        ...

    def lock_due(self, schedule_ids: Iterable[int]) -> list[Due]:
        """The cursors of these schedules, locked; `slot` may be None."""
        ...

    def try_lock_due(self, schedule_ids: Iterable[int]) -> set[int]:
        """Lock these cursors without waiting. Cursors that another worker has locked are omitted."""
        ...

    def next_due(self) -> int | None: ...
    def stopped_schedules(self, limit: int) -> list[int]:
        """Schedules that failures, a budget or their own settings stopped."""
        ...

    def upcoming(self, limit: int) -> list[int]: ...
    def cursors(self, after: int, limit: int) -> list[Due]:
        """A page of cursors that have a slot, by schedule id, locked."""
        ...

    def advance(self, cursors: Sequence[Cursor]) -> set[int]:
        """Move cursors that have not changed since they were read, and return their schedules."""
        ...

    def set_cursors(self, rows: Sequence[NextSlot]) -> None: ...
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
        """Set the next slot of a schedule after an edit, a pause or a clock change. `waiting`: for a completion."""
        ...

    def window_used(self, schedule_id: int) -> int: ...
    def count_failures(self, rows: Sequence[tuple[int, int | None]]) -> None:
        """Count ends of runs: (schedule, instant of the failure), or None for a success, which resets the count."""
        ...

    def failures(self, schedule_id: int) -> int: ...
    def reset_failures(self, schedule_id: int) -> None: ...
    def uncount_execution(self, schedule_id: int, run_id: int) -> None:
        """Do not count a run as an execution, because no attempt of it ran."""
        ...


class ScheduleRows(Protocol):
    """Schedules and their revisions."""

    def schedule_ids(self, count: int) -> Sequence[int]: ...
    def insert_schedules(self, rows: Sequence[NewSchedule], now: int) -> None: ...
    def taken_names(self, names: Iterable[tuple[str, str]]) -> list[str]:
        """The first of these (agent, name) that exists."""
        ...

    def schedules_named(self, name: str, agent: str | None) -> list[int]: ...
    def schedule(self, schedule_id: int) -> ScheduleRow | None: ...
    def schedules_with(self, schedule_ids: Iterable[int]) -> list[ScheduleRow]: ...
    def schedules(self, after: int, agent: str | None, limit: int) -> list[ScheduleRow]: ...
    def definitions(self, keys: Iterable[tuple[int, int]]) -> list[DefinitionRow]: ...
    def insert_revision(self, schedule_id: int, rev: int, definition: str, now: int) -> None: ...
    def insert_run_revision(self, schedule_id: int, rev: int, definition: str) -> None:
        """Store settings for one run. The schedule itself does not change."""
        ...

    def last_revision(self, schedule_id: int) -> int: ...
    def set_author(self, schedule_id: int, rev: int, author: str, role: str) -> None: ...
    def authors(self, schedule_id: int, rev: int) -> list[tuple[str, str]]:
        """The authors of the changes up to this revision, the last first; empty for the first revision."""
        ...

    def count_agent_schedules(self, name: str) -> int: ...
    def set_schedule_state(self, schedule_id: int, state: str, now: int, note: str | None, by: str | None) -> None: ...
    def set_paused_until(self, schedule_id: int, until: int | None) -> None: ...
    def ended_pauses(self, now: int, limit: int) -> list[int]: ...
    def paused_by(self, by: str) -> list[tuple[int, str, str]]:
        """(id, agent, name) of the schedules that `by` has paused."""
        ...

    def purged_slot(self, schedule_id: int) -> int | None: ...
    def last_change(self, schedule_id: int, at: int) -> ScheduleChange | None: ...


class ZoneRows(Protocol):
    """The data of time zones from which the slots of cursors were computed."""

    def zone_versions(self) -> list[ZoneVersion]:
        """The known data, those of the last start first."""
        ...

    def lock_zone(self, name: str) -> list[ZoneVersion]:
        """The known data of a zone, those of the last start first, locked."""
        ...

    def note_zone(self, name: str, digest: str, data: bytes) -> None:
        """Note that slots are computed from these data, unless that is known."""
        ...

    def use_zone(self, name: str, digest: str, data: bytes, now: int) -> None:
        """Note that an engine starts with these data."""
        ...

    def note_moves(self, name: str, digest: str, count: int, now: int) -> None:
        """Note that the next slots of schedules moved to those of these data."""
        ...

    def last_move(self, schedule_id: int, since: int) -> ScheduleChange | None:
        """The last move of the schedule's next slot to other data of its zone: `from`, `to` and `zone`."""
        ...

    def forget_zone(self, name: str, digest: str, worker: int) -> None:
        """Delete the other data of a zone, unless a worker that has not stopped may still use them."""
        ...
