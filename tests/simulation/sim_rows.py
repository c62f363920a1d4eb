"""What the observer reads: rows as they are durable, seen through a connection of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import orjson
from sim_words import Part, Words, read_words

from matins.model.run import RunState

_RUN = """SELECT id, schedule_id, rev, slot, request_key, state, exclusive, scope, epoch, attempt, owner, planned_at,
  started_at, ended_at, slots, first_slot, cancelling, reason, outcome, cleared, not_before, parent, step,
  round, for_slot, backfill FROM runs"""
_CURSOR = """SELECT d.schedule_id, s.state, d.next_slot, d.due_at, d.rev, d.paused, d.waiting, d.executions
  FROM due d JOIN schedules s ON s.id = d.schedule_id"""


class RunRow(NamedTuple):
    id: int
    schedule_id: int
    rev: int
    slot: int | None
    request_key: str | None
    state: int
    exclusive: int
    scope: str | None
    epoch: int
    attempt: int
    owner: int | None
    planned_at: int
    started_at: int | None
    ended_at: int | None
    slots: int
    first_slot: int | None
    cancelling: int
    reason: str | None
    outcome: str | None
    cleared: int
    not_before: int | None
    parent: int | None
    step: int
    round: int | None
    for_slot: int | None
    backfill: int | None

    @property
    def identity(self) -> tuple[Any, ...]:
        """What never changes."""
        return (
            *(self.id, self.schedule_id, self.slot, self.request_key),
            *(self.exclusive, self.planned_at, self.slots, self.first_slot, self.parent, self.step, self.round),
            *(self.for_slot, self.backfill),
        )

    @property
    def first(self) -> int:
        """The first slot that it stands for."""
        assert self.slot is not None
        return self.slot if self.first_slot is None else self.first_slot


class CursorRow(NamedTuple):
    schedule_id: int
    state: str
    next_slot: int | None
    due_at: int | None
    rev: int
    paused: int
    waiting: int
    executions: int


class EventRow(NamedTuple):
    type: str
    schedule_id: int | None
    run_id: int | None
    data: str | None


class Commit(NamedTuple):
    """What one commit changed."""

    now: int
    changed: Mapping[str, set[int]]
    """The numbers of the rows, by table."""
    events: list[EventRow]
    runs: list[tuple[RunRow | None, RunRow]]
    """Before and after."""

    @property
    def claims(self) -> list[tuple[RunRow | None, RunRow]]:
        return [(old, new) for old, new in self.runs if claimed(old, new)]

    @property
    def starts(self) -> list[RunRow]:
        """Runs that were claimed, and runs of steps that were unfolded."""
        return [new for old, new in self.runs if claimed(old, new) or unfolded(old, new)]

    def rows(self, table: str) -> set[int]:
        return self.changed.get(table, set())

    def data(self, kind: str) -> list[tuple[EventRow, dict[str, Any]]]:
        return [(event, orjson.loads(event.data or "{}")) for event in self.events if event.type == kind]


def claimed(old: RunRow | None, new: RunRow) -> bool:
    started = new.state == RunState.STARTING
    return started and (old is None or old.state != RunState.STARTING or new.epoch != old.epoch)


def unfolded(old: RunRow | None, new: RunRow) -> bool:
    """A run of steps starts without a worker."""
    return new.owner is None and new.attempt > (0 if old is None else old.attempt)


class Reader:
    def __init__(self, path: Path) -> None:
        self._connection: Any = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._texts: dict[tuple[int, int], str] = {}
        self._names: dict[int, tuple[str, str]] = {}

    def close(self) -> None:
        self._connection.close()

    def runs(self, ids: Iterable[int] | None = None) -> dict[int, RunRow]:
        return {row[0]: RunRow(*row) for row in self._rows(_RUN, "id", ids)}

    def cursors(self, ids: Iterable[int] | None = None) -> dict[int, CursorRow]:
        return {row[0]: CursorRow(*row) for row in self._rows(_CURSOR, "d.schedule_id", ids)}

    def events(self, ids: Iterable[int]) -> list[EventRow]:
        return [EventRow(*row) for row in self._rows("SELECT type, schedule_id, run_id, data FROM events", "id", ids)]

    def permits(self) -> list[tuple[str, int]]:
        return self.query("SELECT scope, run_id FROM permits WHERE run_id IS NOT NULL")

    def attempt_owner(self, run_id: int, epoch: int) -> int | None:
        rows = self.query("SELECT owner FROM attempts WHERE run_id = ? AND epoch = ?", run_id, epoch)
        return rows[0][0] if rows else None

    def schedule(self, schedule_id: int) -> tuple[str, str]:
        """Its agent and its name."""
        if schedule_id not in self._names:
            self._names[schedule_id] = self.query("SELECT agent, name FROM schedules WHERE id = ?", schedule_id)[0]
        return self._names[schedule_id]

    def agent(self, run: RunRow) -> str:
        """The agent that a run works for: a step may have its own."""
        own = self.whole(run.schedule_id, run.rev).steps[run.step - 1].agent if run.step else ""
        return own or self.schedule(run.schedule_id)[0]

    def words(self, run: RunRow) -> Words:
        """The settings of a run; of a step, its own."""
        return read_words(self._text(run.schedule_id, run.rev), run.step)

    def steps(self, run: RunRow) -> tuple[Part, ...]:
        """The steps that a run is made of."""
        return self.words(run).steps

    def whole(self, schedule_id: int, rev: int) -> Words:
        return read_words(self._text(schedule_id, rev))

    def _text(self, schedule_id: int, rev: int) -> str:
        """A revision never changes."""
        if (schedule_id, rev) not in self._texts:
            rows = self.query("SELECT definition FROM revisions WHERE schedule_id = ? AND rev = ?", schedule_id, rev)
            self._texts[schedule_id, rev] = rows[0][0]
        return self._texts[schedule_id, rev]

    def query(self, sql: str, *values: Any) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def numbered(self, select: str, rows: Iterable[int]) -> list[Any]:
        """Rows of a table by the numbers that a commit gives."""
        return self._rows(select, "rowid", rows)

    def _rows(self, select: str, key: str, ids: Iterable[int] | None) -> list[Any]:
        if ids is None:
            return self.query(select)
        numbers = ",".join(map(str, sorted(ids)))
        return self.query(f"{select} WHERE {key} IN ({numbers}) ORDER BY {key}") if numbers else []
