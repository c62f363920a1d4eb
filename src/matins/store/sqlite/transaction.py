"""The statements of one SQLite transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import apsw
import orjson

from matins.errors import name_taken
from matins.model.event import IncidentRow, NewNotice, StoredEvent
from matins.model.rows import (
    AttemptRow,
    Claim,
    Cursor,
    DefinitionRow,
    LabelRow,
    NewEvent,
    NewRun,
    NewSchedule,
    NextSlot,
    PlainEnd,
    ReadyRun,
    Release,
    StateChange,
)
from matins.model.selector import Selector
from matins.store.chain import GENESIS, Chain, heads_text, seal_hash
from matins.store.queries import load_queries
from matins.store.selection import SQLITE, condition
from matins.store.transaction import Transaction

_STORE = resources.files("matins.store")
SQL = load_queries(_STORE / "sql", _STORE / "sqlite" / "sql")
_RUN_ID_BLOCK = 20  # small, because people read the ids: a stopped process loses the rest of its block


class SqliteTransaction(Transaction):
    """The operations of a transaction. Events are linked to their chain when it commits."""

    def __init__(self, connection: apsw.Connection, chain: Chain, spare_run_ids: range) -> None:
        self._connection: Any = connection  # apsw's types of bindings need Python 3.12
        self.chain = chain
        self.spare_run_ids = spare_run_ids
        self.events: list[NewEvent] = []
        self.last_event_id = 0

    def execute(self, statement: str, values: Mapping[str, Any] | None = None) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    # -- the loops

    def try_lock_due(self, schedule_ids: Iterable[int]) -> set[int]:
        return set(schedule_ids)  # there is only one writer

    def next_ready(self, without: Iterable[str] = (), places: Iterable[int] = (0,)) -> int | None:
        return self._value("next_ready", places=_json(places), without=_json(without))

    def ready(self, now: int, limit: int, without: Iterable[str] = (), places: Iterable[int] = (0,)) -> list[ReadyRun]:
        values = {"now": now, "limit": limit, "without": self._texts(without)}
        rows = [row for place in places for row in self._rows(ReadyRun, "ready", place=place, **values)]
        rows.sort(key=lambda row: row.not_before)
        return rows[:limit]

    def definitions(self, keys: Iterable[tuple[int, int]]) -> list[DefinitionRow]:
        return self._rows(DefinitionRow, "definitions", keys=_json(keys))

    def advance(self, cursors: Sequence[Cursor]) -> set[int]:
        if self._all_change("advance", cursors):
            return {cursor.schedule_id for cursor in cursors}
        return {row[0] for row in self._connection.executemany(SQL["advance"] + " RETURNING schedule_id", cursors)}

    def set_cursors(self, rows: Sequence[NextSlot]) -> None:
        self._many("set_cursor", rows)

    def insert_runs(self, runs: Sequence[NewRun]) -> None:
        self._many("insert_run", runs)

    def insert_attempts(self, rows: Sequence[AttemptRow]) -> None:
        self._many("insert_attempt", rows)

    def claim(self, rows: Sequence[Claim]) -> set[int]:
        return {row[0] for row in self._connection.executemany(SQL["claim"], rows)}

    def succeed(self, ends: Sequence[PlainEnd]) -> set[tuple[int, int]] | None:
        if self._all_change("succeed", ends):
            return None
        return set(self._connection.executemany(SQL["succeed"] + " RETURNING ?1, ?2", ends))

    def change_states(self, rows: Sequence[StateChange]) -> dict[tuple[int, int], bool]:
        if all(row.ended_at for row in rows) and self._all_change("change_states", rows):
            return {(row.run_id, row.epoch): False for row in rows}
        changed = self._connection.executemany(SQL["change_states"] + " RETURNING ?1, ?2, cancelling", rows)
        return {(run_id, epoch): bool(cancelling) for run_id, epoch, cancelling in changed}

    def release(self, rows: Sequence[Release]) -> set[int]:
        return {row[0] for row in self._connection.executemany(SQL["release"], rows)}

    def promote(self, schedule_ids: Iterable[int], now: int) -> list[tuple[int, int]]:
        return self._all("promote", ids=_json(schedule_ids), now=now)

    def count_failures(self, rows: Sequence[tuple[int, int | None]]) -> None:
        failed = [failed_at for _, failed_at in rows if failed_at is not None]
        if self._failing is None:
            self._failing = bool(self._value("any_failing"))
        if failed or self._failing:
            self._many("count_failure", rows)
            self._failing = True

    # -- incidents

    def insert_incidents(self, rows: Sequence[IncidentRow]) -> None:
        self._many("insert_incident", rows)

    def update_incidents(self, rows: Sequence[IncidentRow]) -> None:
        self._many("update_incident", rows)

    def insert_notices(self, rows: Sequence[NewNotice]) -> None:
        self._many("insert_notice", rows)

    # -- schedules and runs

    def schedule_ids(self, count: int) -> range:
        first = (self._value("last_schedule") or 0) + 1  # schedules are never deleted
        return range(first, first + count)

    def insert_schedules(self, rows: Sequence[NewSchedule], now: int) -> None:
        schedules = [
            (row.id, row.agent, row.name, now, row.state, row.created_by, row.creator_role, row.creator_run, row.parent,
             row.depth)
            for row in rows
        ]  # fmt: skip
        before = self._connection.total_changes()
        try:
            self._many("insert_schedule", schedules)
        except apsw.ConstraintError as error:
            inserted: int = self._connection.total_changes() - before
            raise name_taken(rows[inserted].name) from error
        self._many("insert_revision", [(row.id, 1, row.definition) for row in rows])
        self._insert_labels((row.id, row.definition) for row in rows)
        self._many("insert_due", [(row.id, row.next_slot, row.due_at, row.state != "active") for row in rows])

    def insert_labels(self, rows: Sequence[LabelRow]) -> None:
        self._many("insert_label", rows)

    def taken_names(self, names: Iterable[tuple[str, str]]) -> list[str]:
        return self._column("taken_names", names=_json(names))

    def run_ids(self, count: int) -> list[int]:
        if len(self.spare_run_ids) < count:
            size = max(count, _RUN_ID_BLOCK)
            first = self._value("reserve_run_ids", size=size)
            self.spare_run_ids = range(first, first + size)
        ids, self.spare_run_ids = self.spare_run_ids[:count], self.spare_run_ids[count:]
        return list(ids)

    # -- limits and workers

    def set_limit(self, scope: str, size: int) -> None:
        for change in ("shrink_limit", "keep_surplus_permits", "restore_permits"):
            self._all(change, scope=scope, size=size)
        self._many("grow_limit", [(scope, n) for n in range(1, size + 1)])

    # -- history

    def prune_events(self, before: int, types: Iterable[str]) -> list[StoredEvent] | None:
        cut, wanted = self._all("prunable_events", before=before), self._texts(types)
        found: list[StoredEvent] = []
        for writer, seq in cut:
            found += self._rows(StoredEvent, "pruned_of_types", writer=writer, seq=seq, types=wanted)
            link = self._value("event_hash", writer=writer, seq=seq)
            self._all("mark_pruned", writer=writer, seq=seq, hash=link)
            self._all("delete_events", writer=writer, seq=seq)
        return found if cut else None

    def seal(self, now: int) -> None:
        newest = self._value("last_event") or 0
        since, before = next(iter(self._all("last_seal")), (0, GENESIS))
        if newest > since:
            heads = heads_text(self._all("heads", since=since))
            values = {"heads": heads, "hash": seal_hash(bytes(before), now, heads)}
            self._all("insert_seal", now=now, newest=newest, **values)

    def link_events(self) -> None:
        """Link the events just before the commit."""
        if self.events:
            self._many("insert_event", self.chain.link(self.events))
            self.last_event_id = self._connection.last_insert_rowid()

    def _all(self, query: str, /, **values: Any) -> list[Any]:
        return self._connection.execute(SQL[query], values).fetchall()

    def _selecting(self, query: str, selector: Selector, reader: str | None, values: Mapping[str, Any]) -> list[Any]:
        chosen = condition(selector, SQLITE, self._texts, reader)
        return self._connection.execute(chosen.into(SQL[query]), {**values, **chosen.values}).fetchall()

    def purge_words(self) -> None:
        self._all("purge_words")

    def _search_words(self, words: Iterable[str]) -> str:
        return " ".join(f'"{word}"*' for word in words)

    def _integers(self, values: Iterable[int]) -> str:
        return _json(values)

    def _texts(self, values: Iterable[str]) -> str:
        return _json(values)

    def _all_change(self, name: str, rows: Sequence[Sequence[Any]]) -> bool:
        """Change all rows and return True, or none and return False. Checking each row would double the time."""
        before = self._connection.total_changes()
        if len(rows) == 1:
            self._connection.execute(SQL[name], rows[0])
            return self._connection.total_changes() > before
        self._connection.execute("SAVEPOINT every")
        self._connection.executemany(SQL[name], rows)
        changed = self._connection.total_changes() - before == len(rows)
        self._connection.execute("RELEASE every" if changed else "ROLLBACK TO every; RELEASE every")
        return changed

    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._connection.executemany(SQL[name], rows)


def _json(values: Iterable[Any]) -> str:
    return orjson.dumps(list(values)).decode()
