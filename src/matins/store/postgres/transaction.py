"""The statements of one PostgreSQL transaction.

Locks are taken in one order: cursors by id and all at once, permits, runs, policies, usage of budgets. A transaction
that holds more than a cursor takes another one only if it is free.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

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
from matins.store.postgres.session import SQL, Integers, Session, Statement, Texts, in_dialect, integers, texts
from matins.store.selection import POSTGRES, condition
from matins.store.transaction import Transaction

_RUN = ("int8", "int8", "int8", "int8", "text", "int2", "int2", "text", "int8", "int8", "int8", "int8", "int8", "int8",
        "int8", "int8", "int8", "text", "text", "int4")  # fmt: skip
_ATTEMPT = ("int8",) * 4
_EVENT = ("int8", "int8", "int8", "int8", "text", "int8", "int8", "text", "bytea")
_INCIDENT = ("int8", "int8", "text", "text", "text", "text", "text", "int8", "int8", "text", "int8", "int8", "int8",
             "int8", "int8", "int8", "text", "int8", "text")  # fmt: skip
_NOTICE = ("text", "int8", "text", "int8")
log = logging.getLogger("matins")
_COMMIT = b"COMMIT"
_FEW_EVENTS = 50
"""Number of events that one statement writes; more are copied."""
_MAX_SCHEDULES, _MAX_CHARACTERS = 2_000, 8_000_000
"""What one statement inserts: definitions may have large payloads."""
_MAX_ROWS = 10_000
"""Rows in one statement, so that none reaches the timeout."""
_TEXTS = frozenset(
    {
        "reason",
        "outcome",
        "evidence",
        "agent",
        "name",
        "definition",
        "state",
        "created_by",
        "key",
        "value",
        "creator_role",
        "kind",
        "signature",
        "summary",
        "quote",
        "error",
        "details",
        "acknowledged_by",
        "resolution",
    }
)
"""The text fields of rows. The other fields are integers."""


class PostgresTransaction(Transaction):
    """The operations of a transaction. Events are linked to their chain when it commits.

    Statements that nobody waits for go out in one round trip with the next one, or with the commit; so does `begin`.
    """

    def __init__(
        self, session: Session, begin: bytes | None = None, connect: Callable[[], psycopg.Connection[Any]] | None = None
    ) -> None:
        self._session = session
        self._unsent = [] if begin is None else [Statement(begin)]
        self._connect = connect
        """Replaces a connection that was lost before anything was asked; None from then on."""
        self._new: Sequence[NewSchedule] = ()
        """The schedules that were inserted last."""
        self._linked = False
        """Whether the ids of a few events come with the commit."""
        self._failures: dict[int, int] = {}
        """Failures by schedule, for the cursors that this transaction has locked."""
        self.events: list[NewEvent] = []
        self.last_event_id = 0

    def execute(self, statement: str, values: Mapping[str, Any] | None = None) -> list[Any]:
        return self._rows_of(Statement(in_dialect(statement), values, reads=True))

    def commit(self, notify: bytes | None = None) -> None:
        """Commit. The notification follows in the same round trip: as a part of the transaction it would have the
        commits of all others wait. When it fails, the transaction is still committed."""
        if self._connect is not None and len(self._unsent) == 1:
            return  # nothing was asked
        self._unsent.append(Statement(_COMMIT))
        if notify is not None:
            self._unsent.append(Statement(notify))
        try:
            self.send()
        except psycopg.Error as error:
            if notify is None or self._session.mute.statusmessage != "COMMIT":
                raise
            log.warning("Other engines see the change within a second, not immediately: %s", error)
        if self._linked:
            self.last_event_id = max(row[0] for row in self._session.cursor.fetchall())

    def send(self) -> None:
        if not self._unsent:
            return
        statements, self._unsent = self._unsent, []
        connect, self._connect = self._connect, None
        try:
            self._execute(statements)
        except psycopg.OperationalError:
            in_doubt = any(statement.text is _COMMIT for statement in statements)
            if connect is None or in_doubt or not self._session.connection.closed:
                raise
            self._session.use(connect())
            self._execute(statements)

    def _execute(self, statements: Sequence[Statement]) -> None:
        try:
            self._session.execute(statements, together=not self.has_parts)
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name != "schedules_name":
                raise
            detail = error.diag.message_detail or ""  # in the server's language, but for the key
            taken = [row.name for row in self._new if f"=({row.name}, {row.agent})" in detail]
            raise name_taken(taken[0] if taken else self._new[0].name) from error

    def discard_unsent(self) -> None:
        self._unsent = []

    # -- the loops

    def try_lock_due(self, schedule_ids: Iterable[int]) -> set[int]:
        return set(self._column("try_lock_due", ids=integers(schedule_ids)))

    def next_ready(self, without: Iterable[str] = (), places: Iterable[int] = (0,)) -> int | None:
        return self._value("next_ready", without=self._texts(without), places=integers(places))

    def ready(self, now: int, limit: int, without: Iterable[str] = (), places: Iterable[int] = (0,)) -> list[ReadyRun]:
        values = {"now": now, "limit": limit, "without": self._texts(without), "places": integers(places)}
        return self._rows(ReadyRun, "ready", **values)

    def definitions(self, keys: Iterable[tuple[int, int]]) -> list[DefinitionRow]:
        ids, revs = _columns(list(keys), 2)
        return self._rows(DefinitionRow, "definitions", ids=integers(ids), revs=integers(revs))

    def advance(self, cursors: Sequence[Cursor]) -> set[int]:
        return self._batch("advance", cursors)

    def set_cursors(self, rows: Sequence[NextSlot]) -> None:
        # The first completion of an interval decides its next slot.
        first = {(row.schedule_id, row.rev): row for row in reversed(rows)}
        self._batch("set_cursors", list(first.values()))

    def run_ids(self, count: int) -> list[int]:
        return self._column("run_ids", count=count) if count else []

    def insert_runs(self, runs: Sequence[NewRun]) -> None:
        self._copy("copy_runs", _RUN, runs)

    def insert_attempts(self, rows: Sequence[AttemptRow]) -> None:
        self._copy("copy_attempts", _ATTEMPT, rows)

    def claim(self, rows: Sequence[Claim]) -> set[int]:
        return self._batch("claim", rows)

    def succeed(self, ends: Sequence[PlainEnd]) -> set[tuple[int, int]] | None:
        self._lock_due_of(end.run_id for end in ends)
        settled = self._all("succeed", **_packed(ends))
        return None if len(settled) == len(ends) else set(settled)

    def change_states(self, rows: Sequence[StateChange]) -> dict[tuple[int, int], bool]:
        if not rows:
            return {}
        self._lock_due_of(row.run_id for row in rows)
        settled = self._all("change_states", **_packed(rows))
        return {(run_id, epoch): bool(cancelling) for run_id, epoch, cancelling in settled}

    def release(self, rows: Sequence[Release]) -> set[int]:
        self._lock_due_of(row.run_id for row in rows)
        return self._batch("release", rows)

    def promote(self, schedule_ids: Iterable[int], now: int) -> list[tuple[int, int]]:
        ids = list(schedule_ids)
        if not self._failures.keys() >= set(ids):
            self.lock_due(ids)  # a planner may be adding to a queue that looks empty
        return self._all("promote", ids=integers(ids), now=now)

    def count_failures(self, rows: Sequence[tuple[int, int | None]]) -> None:
        tally: dict[int, _Failures] = {}
        for schedule_id, failed_at in rows:
            if failed_at is not None:
                before = tally.get(schedule_id, _Failures(schedule_id, 0, 0, None))
                tally[schedule_id] = before._replace(more=before.more + 1, failed_at=failed_at)
            elif schedule_id in tally or self._failures.get(schedule_id, 1):
                tally[schedule_id] = _Failures(schedule_id, 1, 0, None)
        self._batch("count_failures", list(tally.values()))
        self._failures.update(dict.fromkeys(tally.keys() & self._failures.keys(), 1))

    # -- schedules and runs

    def schedule_ids(self, count: int) -> list[int]:
        return self._column("schedule_ids", count=count)

    def note_zone(self, name: str, digest: str, data: bytes) -> None:
        self._unsent.append(Statement(SQL["note_zone"], {"name": name, "digest": digest, "data": data}))

    def insert_schedules(self, rows: Sequence[NewSchedule], now: int) -> None:
        first, size = 0, 0
        for last, row in enumerate(rows, 1):
            size += len(row.definition)
            if last == len(rows) or last - first == _MAX_SCHEDULES or size > _MAX_CHARACTERS:
                if first:
                    self.send()
                self._new = rows[first:last]
                self._unsent.append(Statement(SQL["insert_schedules"], {"now": now, **_packed(self._new)}))
                first, size = last, 0
        self._insert_labels((row.id, row.definition) for row in rows)

    def insert_labels(self, rows: Sequence[LabelRow]) -> None:
        self._unsent += [Statement(SQL["insert_labels"], _packed(some)) for some in _batches(rows)]

    def taken_names(self, names: Iterable[tuple[str, str]]) -> list[str]:
        agents, own = _columns(list(names), 2)
        return self._column("taken_names", agents=texts(agents), names=texts(own))

    # -- incidents

    def insert_incidents(self, rows: Sequence[IncidentRow]) -> None:
        self._copy("copy_incidents", _INCIDENT, rows)

    def update_incidents(self, rows: Sequence[IncidentRow]) -> None:
        for some in _batches(rows):
            self._all("update_incidents", **_packed(some))

    def insert_notices(self, rows: Sequence[NewNotice]) -> None:
        self._copy("copy_notices", _NOTICE, rows)

    # -- a store that moves

    def take_charge(self, mark: str) -> str | None:
        taken = super().take_charge(mark)
        if taken is not None:
            self._all("unfence")
        return taken

    # -- limits and workers

    def set_limit(self, scope: str, size: int) -> None:
        self._all("lock_limit", scope=scope)
        for change in ("shrink_limit", "keep_surplus_permits", "restore_permits", "grow_limit"):
            self._all(change, scope=scope, size=size)

    def release_permits(self, run_ids: Iterable[int]) -> None:
        values = {"ids": integers(run_ids)}
        self._unsent += [Statement(SQL[name], values) for name in ("delete_surplus_permits", "release_permits")]

    # -- history

    def prune_events(self, before: int, types: Iterable[str]) -> list[StoredEvent] | None:
        last = self._value("prunable_events", before=before)
        if last is None:
            return None
        found = self._rows(StoredEvent, "pruned_of_types", last=last, types=self._texts(types))
        self._all("mark_pruned", last=last)
        self._all("delete_events", last=last)
        return found

    def seal(self, now: int) -> None:
        """Seal new events. Only one process seals at a time, and each continues after the last seal."""
        ((sealed, horizon),) = self._all("lock_seals")
        heads = self._all("heads", since=sealed)
        if not heads:
            return
        text = heads_text(heads)
        before = self._value("last_seal") or GENESIS
        self._all("insert_seal", now=now, heads=text, hash=seal_hash(before, now, text))
        writers, seqs, *_ = _columns(heads, 4)
        self._all("mark_sealed", writer=integers(writers), seq=integers(seqs))
        self._all("sealed_below", horizon=horizon)

    def link_events(self, now: int) -> Chain | None:
        """Link the events just before the commit, and return the chain."""
        if not self.events:
            return self._session.chain
        chain = self._session.chain or self._new_chain(now)
        if len(self.events) > _FEW_EVENTS:
            self._write_events(chain, self._value("first_event_id"))
        else:
            *numbers, kinds, schedules, runs, data, hashes = _columns(chain.link(self.events), 0)
            writers, seqs, instants = map(integers, numbers)
            values = {"writer": writers, "seq": seqs, "at": instants, "type": texts(kinds), "hash": list(hashes),
                      "schedule_id": integers(schedules), "run_id": integers(runs), "data": texts(data)}  # fmt: skip
            self._unsent.append(Statement(SQL["insert_events"], values, reads=True))
            self._linked = True
        return chain

    def _write_events(self, chain: Chain, first: int) -> None:
        self.last_event_id = first + len(self.events) - 1
        for start in range(0, len(self.events), _MAX_ROWS):  # each part is sent before the next one is linked
            linked = chain.link(self.events[start : start + _MAX_ROWS], more=start > 0)
            self._copy("copy_events", _EVENT, [(first + start + n, *row) for n, row in enumerate(linked)])

    def _new_chain(self, now: int) -> Chain:
        writer = str(uuid.uuid4())
        return Chain(self._value("insert_writer", uuid=writer, now=now), writer)

    def _lock_due_of(self, run_ids: Iterable[int]) -> Integers:
        ids = integers(run_ids)
        self._failures.update(self._all("lock_due_of", ids=ids))
        return ids

    def _all(self, query: str, /, **values: Any) -> list[Any]:
        return self._rows_of(Statement(SQL[query], values, reads=True))

    def _selecting(self, query: str, selector: Selector, reader: str | None, values: Mapping[str, Any]) -> list[Any]:
        chosen = condition(selector, POSTGRES, self._texts, reader)
        text = in_dialect(chosen.into(SQL[query].decode()))
        return self._rows_of(Statement(text, {**values, **chosen.values}, reads=True))

    def _rows_of(self, statement: Statement) -> list[Any]:
        self._unsent.append(statement)
        self.send()
        cursor = self._session.cursor
        return cursor.fetchall() if cursor.description else []

    def _search_words(self, words: Iterable[str]) -> str:
        return " & ".join(f"'{word}':*" for word in words)

    def _integers(self, values: Iterable[int]) -> Integers:
        return integers(values)

    def _texts(self, values: Iterable[str]) -> Texts:
        return texts(values)

    def _batch(self, name: str, rows: Sequence[NamedTuple]) -> set[int]:
        """Run a statement on rows, and return the ids of those that it changed."""
        return set(self._column(name, **_packed(rows))) if rows else set()

    def _copy(self, name: str, types: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.send()
        for some in _batches(rows):
            with self._session.cursor.copy(SQL[name]) as copy:
                copy.set_types(types)
                for row in some:
                    copy.write_row(row)


class _Failures(NamedTuple):
    """Failures of a schedule to count: in addition to earlier ones, or `afresh`."""

    schedule_id: int
    afresh: int
    more: int
    failed_at: int | None


def _packed(rows: Sequence[NamedTuple]) -> dict[str, Integers | Texts]:
    """The columns of rows, each as one array, by the names of the fields."""
    columns = zip(rows[0]._fields, _columns(rows, 0), strict=True)
    return {field: texts(values) if field in _TEXTS else integers(values) for field, values in columns}


def _columns(rows: Sequence[Sequence[Any]], count: int) -> Sequence[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * count


def _batches(rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (rows[start : start + _MAX_ROWS] for start in range(0, len(rows), _MAX_ROWS))
