"""The statements of one SQLite transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import orjson

from matins.model.records import (
    Cursor,
    Due,
    NewEvent,
    NewRun,
    NewSchedule,
    Ready,
    Said,
    Settlement,
    Started,
    StoredEvent,
)
from matins.store.chain import Chain, seal_hash
from matins.store.common.approvals import Approvals
from matins.store.common.desk import Desk
from matins.store.common.governance import Governance
from matins.store.common.ledger import Ledger
from matins.store.common.outbox import Outbox
from matins.store.common.threads import Threads
from matins.store.queries import load_queries

SQL = load_queries("matins.store.sqlite")
_COMMON = {name: text.replace("/* lock */", "") for name, text in load_queries("matins.store.common").items()}
_RUN_ID_BLOCK = 20  # a stopped process loses the rest of its batch, so it is small: people read these numbers


class SqliteTransaction(Governance, Approvals, Ledger, Outbox, Threads, Desk):
    """The operations of a transaction. Events are linked to their chain when it commits."""

    def __init__(self, connection: apsw.Connection, chain: Chain, spare_run_ids: range) -> None:
        self._connection: Any = connection  # apsw types its bindings by what Python 3.12 added
        self._chain = chain
        self.spare_run_ids = spare_run_ids
        self.events: list[NewEvent] = []

    # -- the loops

    def due(self, now: int, limit: int, *, newest: bool = False) -> list[Due]:
        return [Due(*row) for row in self._all("due_newest" if newest else "due_oldest", now, limit)]

    def due_rows(self, schedule_ids: Iterable[int]) -> list[Due]:
        return [Due(*row) for row in self._all("due_rows", _json(schedule_ids))]

    def free_cursors(self, schedule_ids: Iterable[int]) -> set[int]:
        return set(schedule_ids)  # there is only one writer

    def next_due(self) -> int | None:
        return self._one("next_due")[0]

    def next_ready(self, without: Iterable[str] = ()) -> int | None:
        return self._one("next_ready", _json(without))[0]

    def cursors(self, after: int, limit: int) -> list[Due]:
        return [Due(*row) for row in self._all("cursors", after, limit)]

    def definitions(self, keys: Iterable[tuple[int, int]]) -> list[Said]:
        return [Said(*row) for row in self._all("definitions", _json(keys))]

    def live(self, schedule_ids: Iterable[int]) -> list[tuple[int, int, int]]:
        return self._all("live", _json(schedule_ids))

    def advance(self, cursors: Sequence[Cursor]) -> set[int]:
        if self._all_change("advance", cursors):
            return {cursor.schedule_id for cursor in cursors}
        return {row[0] for row in self._connection.executemany(SQL["advance"] + " RETURNING schedule_id", cursors)}

    def set_cursors(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        self._many("set_cursor", rows)

    def insert_runs(self, runs: Sequence[NewRun]) -> None:
        self._many("insert_run", runs)

    def insert_attempts(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        self._many("insert_attempt", rows)

    def ready(self, now: int, limit: int, without: Iterable[str] = ()) -> list[Ready]:
        return [Ready(*row) for row in self._all("ready", now, limit, _json(without))]

    def claim(self, rows: Sequence[tuple[int, int, int, int]]) -> set[int]:
        return {row[0] for row in self._connection.executemany(SQL["claim"], rows)}

    def take_permit(self, scope: str, run_id: int) -> bool:
        return bool(self._all("take_permit", scope, run_id))

    def release_permits(self, run_ids: Iterable[int]) -> None:
        ids = _json(run_ids)
        self._all("drop_surplus_permits", ids)
        self._all("release_permits", ids)

    def settle(self, rows: Sequence[Settlement]) -> dict[tuple[int, int], bool]:
        if all(row.ended_at for row in rows) and self._all_change("settle", rows):
            return {(row.run_id, row.epoch): False for row in rows}
        changed = self._connection.executemany(SQL["settle"] + " RETURNING ?1, ?2, cancelling", rows)
        return {(run_id, epoch): bool(cancelling) for run_id, epoch, cancelling in changed}

    def release(self, rows: Sequence[tuple[int, int, int]]) -> set[int]:
        return {row[0] for row in self._connection.executemany(SQL["release"], rows)}

    def promote(self, schedule_ids: Iterable[int], now: int) -> list[tuple[int, int]]:
        return self._all("promote", _json(schedule_ids), now)

    def count_failures(self, rows: Sequence[tuple[int, bool]]) -> None:
        self._many("count_failure", rows)

    def mark_cancelling(self, run_ids: Iterable[int]) -> list[tuple[int, int, int]]:
        return self._all("mark_cancelling", _json(run_ids))

    def live_runs(self, run_ids: Iterable[int]) -> list[Started]:
        return [Started(*row) for row in self._all("live_runs", _json(run_ids))]

    def started(self, worker: int, *, mine: bool) -> list[Started]:
        return [Started(*row) for row in self._all("started", worker, int(mine))]

    # -- schedules and runs

    def schedule_ids(self, count: int) -> range:
        first = (self._one("last_schedule")[0] or 0) + 1  # schedules are never deleted
        return range(first, first + count)

    def insert_schedules(self, rows: Sequence[NewSchedule], now: int) -> None:
        self._many("insert_schedule", [(row.id, row.agent, row.name, now, *row[6:]) for row in rows])
        self._many("insert_revision", [(row.id, 1, row.definition) for row in rows])
        self._many("insert_due", [(row.id, row.next_slot, row.due_at, row.state != "active") for row in rows])

    def taken_names(self, names: Iterable[tuple[str, str]]) -> list[str]:
        return [row[0] for row in self._all("taken_names", _json(names))]

    def park(self, schedule_id: int) -> list[int]:
        return [row[0] for row in self._all("park", schedule_id)]

    def unpark(self, schedule_id: int, now: int) -> None:
        self._all("unpark", schedule_id, now)

    def recall(self, now: int) -> None:
        self._all("recall", now)

    def last_written(self) -> int:
        return self._one("last_written")[0] or 0

    def schedules_named(self, name: str, agent: str | None) -> list[int]:
        return [row[0] for row in self._all("schedules_named", name, agent)]

    def schedule(self, schedule_id: int) -> tuple[Any, ...] | None:
        return self._first("schedule", schedule_id)

    def schedules(self, after: int, agent: str | None, limit: int) -> list[tuple[Any, ...]]:
        return self._all("schedules", after, agent, limit)

    def insert_revision(self, schedule_id: int, rev: int, definition: str, now: int) -> None:
        self._all("insert_revision", schedule_id, rev, definition)
        self._all("edit_schedule", schedule_id, rev, now)

    def set_schedule_state(self, schedule_id: int, state: str, now: int, note: str | None, by: str | None) -> None:
        self._all("set_schedule_state", schedule_id, state, note, by, now if by else None, now)

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
        self._all("replace_cursor", schedule_id, next_slot, due_at, rev, int(paused), int(waiting))

    def run_by_request(self, schedule_id: int, key: str) -> int | None:
        row = self._first("run_by_request", schedule_id, key)
        return row[0] if row else None

    def run(self, run_id: int) -> tuple[Any, ...] | None:
        return self._first("run", run_id)

    def runs_of(self, schedule_id: int, before: int, limit: int) -> list[tuple[Any, ...]]:
        return self._all("runs_of", schedule_id, before, limit)

    def covered_until(self, schedule_id: int, since: int) -> int | None:
        return self._one("covering", schedule_id, since)[0]

    def run_ids(self, count: int) -> list[int]:
        if len(self.spare_run_ids) < count:
            size = max(count, _RUN_ID_BLOCK)
            first = self._one("reserve_run_ids", size)[0]
            self.spare_run_ids = range(first, first + size)
        ids, self.spare_run_ids = self.spare_run_ids[:count], self.spare_run_ids[count:]
        return list(ids)

    def previous_state(self, schedule_id: int, run_id: int) -> int | None:
        row = self._first("previous_state", schedule_id, run_id)
        return row[0] if row else None

    # -- limits and workers

    def resize_scope(self, scope: str, size: int) -> None:
        for change in ("resize_scope_down", "resize_scope_surplus", "resize_scope_back"):
            self._all(change, scope, size)
        self._many("resize_scope_up", [(scope, n) for n in range(1, size + 1)])

    def scopes(self) -> list[tuple[str, int, int]]:
        return self._all("scopes")

    def insert_worker(self, identity: str, now: int) -> int:
        return self._one("insert_worker", identity, now)[0]

    def beat(self, worker: int) -> int | None:
        row = self._first("beat", worker)
        return row[0] if row else None

    def workers(self) -> list[tuple[int, str, int]]:
        return self._all("workers")

    def stop_worker(self, worker: int, now: int) -> bool:
        return bool(self._all("stop_worker", worker, now))

    # -- history

    def prunable(self, ended_before: int, limit: int) -> list[int]:
        return [row[0] for row in self._all("prunable", ended_before, limit)]

    def prunable_beyond(self, newest: int, limit: int) -> list[int]:
        return [row[0] for row in self._all("prunable_beyond", newest, limit)]

    def delete_runs(self, run_ids: Iterable[int]) -> None:
        ids = _json(run_ids)
        self._all("note_purged", ids)
        for notes in ("delete_attempts", "delete_checks", "delete_spend", "delete_approvals"):
            self._all(notes, ids)
        self._all("delete_runs", ids)
        self._common("forget_votes")

    def prune_events(self, before: int) -> int:
        """Delete the beginning of each chain. The hash of the last deleted event is kept."""
        cut = self._all("prunable_events", before)
        for writer, seq in cut:
            (link,) = self._one("event_hash", writer, seq)
            self._all("mark_pruned", writer, seq, link)
            self._all("delete_events", writer, seq)
        return len(cut)

    def events_after(self, event_id: int, limit: int) -> list[StoredEvent]:
        return [StoredEvent(*row) for row in self._all("events_after", event_id, limit)]

    def seal(self, now: int) -> None:
        newest = self._one("last_event")[0] or 0
        _, since, before = self._first("last_seal") or (0, 0, bytes(32))
        if newest > since:
            heads = orjson.dumps([(w, seq, bytes(h).hex()) for w, seq, h in self._all("heads", since)]).decode()
            self._all("insert_seal", now, newest, heads, seal_hash(bytes(before), now, heads))

    def audit(self) -> tuple[list[StoredEvent], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Events by chain, writers and seals, for verification."""
        with self._connection:  # one snapshot: an engine may be writing meanwhile
            events = [StoredEvent(*row) for row in self._all("all_events")]
            return events, self._all("all_writers"), self._all("all_seals")

    def link_events(self) -> None:
        """Link the events just before the commit."""
        if self.events:
            self._many("insert_event", self._chain.link(self.events))

    def _common(self, query: str, /, **values: Any) -> list[Any]:
        return self._connection.execute(_COMMON[query], values).fetchall()

    def _all(self, name: str, *values: Any) -> list[Any]:
        return self._connection.execute(SQL[name], values).fetchall()

    def _first(self, name: str, *values: Any) -> tuple[Any, ...] | None:
        return self._connection.execute(SQL[name], values).fetchone()

    def _one(self, name: str, *values: Any) -> tuple[Any, ...]:
        row = self._first(name, *values)
        assert row is not None, name
        return row

    def _all_change(self, name: str, rows: Sequence[Sequence[Any]]) -> bool:
        """Change all rows and return True, or none and return False. Checking each row would double the time."""
        before = self._connection.total_changes()
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
