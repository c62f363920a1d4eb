"""The statements of one PostgreSQL transaction.

Locks are taken in one order: cursors by id and all at once, permits, runs, policies, purses. A transaction
that holds more than a cursor takes another one only if it is free.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

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
from matins.store.chain import GENESIS, Chain, seal_hash
from matins.store.common.approvals import Approvals
from matins.store.common.desk import Desk
from matins.store.common.governance import Governance
from matins.store.common.ledger import Ledger
from matins.store.common.outbox import Outbox
from matins.store.common.threads import Threads
from matins.store.postgres.arrays import Integers, integers, texts
from matins.store.postgres.session import COMMON, SQL, Session

_RUN = ("int8", "int8", "int8", "int8", "text", "int2", "int2", "text", "int8", "int8", "int8", "int8", "int8", "int8",
        "int8", "int8", "int8", "text", "text")  # fmt: skip
_ATTEMPT = ("int8",) * 4
_EVENT = ("int8", "int8", "int8", "int8", "text", "int8", "int8", "text", "bytea")
_MOST_ROWS = 10_000
"""Rows in one statement, so that none reaches the timeout."""


class PostgresTransaction(Governance, Approvals, Ledger, Outbox, Threads, Desk):
    """The operations of a transaction. Events are linked to their chain when it commits."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cursor = session.cursor
        self._failures: dict[int, int] = {}
        """Failures by schedule, for the cursors that this transaction has locked."""
        self.events: list[NewEvent] = []

    # -- the loops

    def due(self, now: int, limit: int, *, newest: bool = False) -> list[Due]:
        return [Due(*row) for row in self._all("due_newest" if newest else "due_oldest", now=now, limit=limit)]

    def due_rows(self, schedule_ids: Iterable[int]) -> list[Due]:
        return [Due(*row) for row in self._all("due_rows", ids=integers(schedule_ids))]

    def free_cursors(self, schedule_ids: Iterable[int]) -> set[int]:
        return {row[0] for row in self._all("free_cursors", ids=integers(schedule_ids))}

    def next_due(self) -> int | None:
        return self._one("next_due")[0]

    def next_ready(self, without: Iterable[str] = ()) -> int | None:
        return self._one("next_ready", without=texts(without))[0]

    def cursors(self, after: int, limit: int) -> list[Due]:
        return [Due(*row) for row in self._all("cursors", after=after, limit=limit)]

    def definitions(self, keys: Iterable[tuple[int, int]]) -> list[Said]:
        ids, revs = _columns(list(keys), 2)
        return [Said(*row) for row in self._all("definitions", ids=integers(ids), revs=integers(revs))]

    def live(self, schedule_ids: Iterable[int]) -> list[tuple[int, int, int]]:
        return self._all("live", ids=integers(schedule_ids))

    def advance(self, cursors: Sequence[Cursor]) -> set[int]:
        names = ("id", "slot", "rev", "next_slot", "due_at", "used", "executions")
        return {row[0] for row in self._batch("advance", names, cursors)}

    def set_cursors(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        first = {row[:2]: row for row in reversed(rows)}  # the first completion of an interval decides its next slot
        self._batch("set_cursors", ("id", "rev", "slot", "due_at"), list(first.values()))

    def run_ids(self, count: int) -> list[int]:
        return [row[0] for row in self._all("run_ids", count=count)] if count else []

    def insert_runs(self, runs: Sequence[NewRun]) -> None:
        self._copy("copy_runs", _RUN, runs)

    def insert_attempts(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        self._copy("copy_attempts", _ATTEMPT, rows)

    def ready(self, now: int, limit: int, without: Iterable[str] = ()) -> list[Ready]:
        return [Ready(*row) for row in self._all("ready", now=now, limit=limit, without=texts(without))]

    def claim(self, rows: Sequence[tuple[int, int, int, int]]) -> set[int]:
        return {row[0] for row in self._batch("claim", ("id", "epoch", "owner", "now"), rows)}

    def take_permit(self, scope: str, run_id: int) -> bool:
        return bool(self._all("take_permit", scope=scope, run=run_id))

    def release_permits(self, run_ids: Iterable[int]) -> None:
        ids = integers(run_ids)
        self._do("drop_surplus_permits", ids=ids)
        self._do("release_permits", ids=ids)

    def settle(self, rows: Sequence[Settlement]) -> dict[tuple[int, int], bool]:
        if not rows:
            return {}
        ids, epochs, lows, highs, targets, not_before, ended_at, reasons, outcomes, *more = _columns(rows, 12)
        packed = self._lock_due_of(ids)
        settled = self._all(
            "settle",
            id=packed,
            epoch=integers(epochs),
            low=integers(lows),
            high=integers(highs),
            target=integers(targets),
            not_before=integers(not_before),
            ended_at=integers(ended_at),
            reason=texts(reasons),
            outcome=texts(outcomes),
            evidence=texts(more[0]),
            cleared=integers(more[1]),
            renewed=integers(more[2]),
        )
        return {(run_id, epoch): bool(cancelling) for run_id, epoch, cancelling in settled}

    def release(self, rows: Sequence[tuple[int, int, int]]) -> set[int]:
        self._lock_due_of([row[0] for row in rows])
        return {row[0] for row in self._batch("release", ("id", "epoch", "not_before"), rows)}

    def promote(self, schedule_ids: Iterable[int], now: int) -> list[tuple[int, int]]:
        ids = list(schedule_ids)
        if not self._failures.keys() >= set(ids):
            self.due_rows(ids)  # a planner may be adding to a queue that looks empty
        return self._all("promote", ids=integers(ids), now=now)

    def count_failures(self, rows: Sequence[tuple[int, bool]]) -> None:
        tally: dict[int, tuple[int, int]] = {}
        for schedule_id, failed in rows:
            if failed:
                afresh, more = tally.get(schedule_id, (0, 0))
                tally[schedule_id] = afresh, more + 1
            elif schedule_id in tally or self._failures.get(schedule_id, 1):
                tally[schedule_id] = 1, 0
        self._batch("count_failures", ("id", "afresh", "more"), [(i, *counts) for i, counts in tally.items()])
        self._failures.update(dict.fromkeys(tally.keys() & self._failures.keys(), 1))

    def mark_cancelling(self, run_ids: Iterable[int]) -> list[tuple[int, int, int]]:
        return self._all("mark_cancelling", ids=self._lock_due_of(run_ids))

    def live_runs(self, run_ids: Iterable[int]) -> list[Started]:
        return [Started(*row) for row in self._all("live_runs", ids=self._lock_due_of(run_ids))]

    def started(self, worker: int, *, mine: bool) -> list[Started]:
        return [Started(*row) for row in self._all("started", worker=worker, mine=mine)]

    # -- schedules and runs

    def schedule_ids(self, count: int) -> list[int]:
        return [row[0] for row in self._all("schedule_ids", count=count)]

    def insert_schedules(self, rows: Sequence[NewSchedule], now: int) -> None:
        for some in _batches(rows):
            ids, agents, names, definitions, slots, dues, states, makers, roles, runs, parents, depths = _columns(
                some, 12
            )
            self._do(
                "insert_schedules",
                id=integers(ids),
                agent=texts(agents),
                name=texts(names),
                definition=texts(definitions),
                slot=integers(slots),
                due_at=integers(dues),
                state=texts(states),
                created_by=texts(makers),
                creator_role=texts(roles),
                creator_run=integers(runs),
                parent=integers(parents),
                depth=integers(depths),
                now=now,
            )

    def taken_names(self, names: Iterable[tuple[str, str]]) -> list[str]:
        agents, own = _columns(list(names), 2)
        return [row[0] for row in self._all("taken_names", agents=texts(agents), names=texts(own))]

    def park(self, schedule_id: int) -> list[int]:
        return [row[0] for row in self._all("park", id=schedule_id)]

    def unpark(self, schedule_id: int, now: int) -> None:
        self._do("unpark", id=schedule_id, now=now)

    def recall(self, now: int) -> None:
        self._do("recall", now=now)

    def last_written(self) -> int:
        return self._one("last_written")[0] or 0

    def schedules_named(self, name: str, agent: str | None) -> list[int]:
        return [row[0] for row in self._all("schedules_named", name=name, agent=agent)]

    def schedule(self, schedule_id: int) -> tuple[Any, ...] | None:
        return self._first("schedule", id=schedule_id)

    def schedules(self, after: int, agent: str | None, limit: int) -> list[tuple[Any, ...]]:
        return self._all("schedules", after=after, agent=agent, limit=limit)

    def insert_revision(self, schedule_id: int, rev: int, definition: str, now: int) -> None:
        self._do("insert_revision", id=schedule_id, rev=rev, definition=definition)
        self._do("edit_schedule", id=schedule_id, rev=rev, now=now)

    def set_schedule_state(self, schedule_id: int, state: str, now: int, note: str | None, by: str | None) -> None:
        at = now if by else None
        self._do("set_schedule_state", id=schedule_id, state=state, note=note, by=by, at=at, now=now)

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
        self._do("replace_cursor", id=schedule_id, **values)

    def run_by_request(self, schedule_id: int, key: str) -> int | None:
        row = self._first("run_by_request", id=schedule_id, key=key)
        return row[0] if row else None

    def run(self, run_id: int) -> tuple[Any, ...] | None:
        return self._first("run", id=run_id)

    def runs_of(self, schedule_id: int, before: int, limit: int) -> list[tuple[Any, ...]]:
        return self._all("runs_of", id=schedule_id, before=before, limit=limit)

    def covered_until(self, schedule_id: int, since: int) -> int | None:
        return self._one("covering", id=schedule_id, since=since)[0]

    def previous_state(self, schedule_id: int, run_id: int) -> int | None:
        row = self._first("previous_state", id=schedule_id, run=run_id)
        return row[0] if row else None

    # -- limits and workers

    def resize_scope(self, scope: str, size: int) -> None:
        self._do("lock_scope", scope=scope)
        for change in ("resize_scope_down", "resize_scope_surplus", "resize_scope_back", "resize_scope_up"):
            self._do(change, scope=scope, size=size)

    def scopes(self) -> list[tuple[str, int, int]]:
        return self._all("scopes")

    def insert_worker(self, identity: str, now: int) -> int:
        return self._one("insert_worker", identity=identity, now=now)[0]

    def beat(self, worker: int) -> int | None:
        row = self._first("beat", id=worker)
        return row[0] if row else None

    def workers(self) -> list[tuple[int, str, int]]:
        return self._all("workers")

    def stop_worker(self, worker: int, now: int) -> bool:
        return bool(self._all("stop_worker", id=worker, now=now))

    # -- history

    def prunable(self, ended_before: int, limit: int) -> list[int]:
        return [row[0] for row in self._all("prunable", before=ended_before, limit=limit)]

    def prunable_beyond(self, newest: int, limit: int) -> list[int]:
        return sorted(row[0] for row in self._all("prunable_beyond", newest=newest, limit=limit))

    def delete_runs(self, run_ids: Iterable[int]) -> None:
        ids = integers(run_ids)
        self._do("note_purged", ids=ids)
        for notes in ("delete_attempts", "delete_checks", "delete_spend", "delete_approvals"):
            self._do(notes, ids=ids)
        self._do("delete_runs", ids=ids)
        self._common("forget_votes")

    def prune_events(self, before: int) -> int:
        """Delete the beginning of each chain. The hash of the last deleted event is kept."""
        (last,) = self._one("prunable_events", before=before)
        if last is None:
            return 0
        cut = self._all("mark_pruned", last=last)
        self._do("delete_events", last=last)
        return len(cut)

    def events_after(self, event_id: int, limit: int) -> list[StoredEvent]:
        return [StoredEvent(*row) for row in self._all("events_after", after=event_id, limit=limit)]

    def seal(self, now: int) -> None:
        """Seal new events. Only one process seals at a time, and each continues after the last seal."""
        sealed, horizon = self._one("lock_seals")
        heads = self._all("heads", since=sealed)
        if not heads:
            return
        text = orjson.dumps([(writer, seq, link.hex()) for writer, seq, link in heads]).decode()
        (before,) = self._first("last_seal") or (GENESIS,)
        self._do("insert_seal", now=now, heads=text, hash=seal_hash(before, now, text))
        writers, seqs, _ = _columns(heads, 3)
        self._do("mark_sealed", writer=integers(writers), seq=integers(seqs))
        self._do("sealed_below", horizon=horizon)

    def audit(self) -> tuple[list[StoredEvent], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Events by chain, writers and seals, for verification."""
        events = [StoredEvent(*row) for row in self._all("all_events")]
        return events, self._all("all_writers"), self._all("all_seals")

    def link_events(self, now: int) -> Chain | None:
        """Link the events just before the commit, and return the chain."""
        if not self.events:
            return self._session.chain
        chain = self._session.chain or Chain(self._one("insert_writer", uuid=str(uuid.uuid4()), now=now)[0])
        (first,) = self._one("first_event_id")
        self._copy("copy_events", _EVENT, [(first + n, *row) for n, row in enumerate(chain.link(self.events))])
        return chain

    def _lock_due_of(self, run_ids: Iterable[int]) -> Integers:
        ids = integers(run_ids)
        self._failures.update(self._all("lock_due_of", ids=ids))
        return ids

    def _common(self, query: str, /, **values: Any) -> list[Any]:
        cursor = self._cursor.execute(COMMON[query], values)
        return cursor.fetchall() if cursor.description else []

    def _do(self, query: str, /, **values: Any) -> None:
        self._cursor.execute(SQL[query], values)

    def _all(self, query: str, /, **values: Any) -> list[Any]:
        return self._cursor.execute(SQL[query], values).fetchall()

    def _first(self, query: str, /, **values: Any) -> tuple[Any, ...] | None:
        return self._cursor.execute(SQL[query], values).fetchone()

    def _one(self, query: str, /, **values: Any) -> tuple[Any, ...]:
        row = self._first(query, **values)
        assert row is not None, query
        return row

    def _batch(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Run a statement on rows of integers, passed as columns, and return its rows."""
        if not rows:
            return []
        packed = {
            column: integers(values) for column, values in zip(columns, _columns(rows, len(columns)), strict=True)
        }
        cursor = self._cursor.execute(SQL[name], packed)
        return cursor.fetchall() if cursor.description else []

    def _copy(self, name: str, types: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for some in _batches(rows):
            with self._cursor.copy(SQL[name]) as copy:
                copy.set_types(types)
                for row in some:
                    copy.write_row(row)


def _columns(rows: Sequence[Sequence[Any]], count: int) -> Sequence[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * count


def _batches(rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (rows[start : start + _MOST_ROWS] for start in range(0, len(rows), _MOST_ROWS))
