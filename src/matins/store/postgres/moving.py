"""A PostgreSQL schema as the source or the target of a move."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal

import psycopg
from psycopg import sql

from matins.errors import Conflict, StoreBusy, StoreCorrupt, StoreError, StoreVersionError
from matins.model.rows import WorkerRow
from matins.store.moving import (
    COPY,
    MOVED,
    MOVING,
    OWN_KEYS,
    OWN_TABLES,
    Column,
    Counts,
    Digest,
    End,
    Hashed,
    Mark,
    Numbers,
    Progress,
    Table,
    check_not_finished,
    check_same,
    check_text,
    digest_of,
    drain_note,
    shared_columns,
)
from matins.store.postgres.session import SQL, SessionPool, translated_errors
from matins.store.postgres.store import OLDEST_SERVER, check_tables
from matins.store.queries import check_known, load_migrations

_BLOCK = 256 << 10
_KINDS: Mapping[str, Literal["integer", "text", "blob"]] = {
    "bigint": "integer", "integer": "integer", "smallint": "integer", "boolean": "integer",
    "text": "text", "bytea": "blob",
}  # fmt: skip
_MADE = re.compile(r"^CREATE (TABLE|VIEW|SEQUENCE|FUNCTION) (\w+)", re.MULTILINE)
_LOOKS, _LOOK_S = 50, 0.1


class PostgresEnd:
    def __init__(self, url: str, now: int) -> None:
        pool = SessionPool(url)
        self.name = pool.name
        self._now = now
        with translated_errors(self.name):
            self._connection = pool.connect()
            self._connection.answer_s = None
            self._connection.execute(SQL["moving_settings"])

    def close(self) -> None:
        self._connection.close()

    # -- a source

    def exists(self) -> bool:
        return self._value(b"SELECT to_regclass('meta') IS NOT NULL AND to_regclass('migrations') IS NOT NULL")

    def hold(self) -> None:
        for _ in range(_LOOKS):  # the session of a command that was killed ends in a moment
            if self._value(SQL["hold_move"]):
                return
            time.sleep(_LOOK_S)
        raise StoreBusy(f"Another command moves {self.name}.", hint="Wait for it, then repeat the command.")

    def marks(self) -> dict[str, str]:
        return dict(self._all(SQL["marks"])) if self.exists() else {}

    def meta(self) -> dict[str, str]:
        return {key: value for key, value in self._all(SQL["all_meta"]) if key not in OWN_KEYS}

    def counts(self) -> Counts:
        return Counts(*self._all(SQL["carried"])[0])

    def engines(self, lease_ms: int) -> list[str]:
        return sorted({WorkerRow(*row).node for row in self._all(SQL["engines"], {"lease": lease_ms})})

    def mark(self, mark: Mark, lease_ms: int) -> None:
        tables = sql.SQL(", ").join(map(sql.Identifier, self._every_table()))
        try:
            with self._transaction():
                self._connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(tables))
                live, running = self.engines(lease_ms), self.counts().running
                if live or running:
                    what = f"an engine runs on {live[0]}" if live else "a run has started"
                    raise StoreBusy(f"Meanwhile {what}.", hint="Repeat the command, or let it wait: --wait")
                self._connection.execute(SQL["stop_absent"])
                self._connection.execute(SQL["open_drained"], {"note": drain_note(mark.target)})
                self._connection.execute(SQL["insert_mark"], {"key": MOVING, "value": mark.text})
                self._connection.execute(SQL["fence"])
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            message = f"A program still writes to {self.name}."
            raise StoreBusy(message, hint="Stop the programs that use it, then repeat the command.") from error

    def set_moved(self, mark: Mark) -> None:
        changed = self._all(SQL["mark_moved"], {"value": mark.text})
        if not changed and self.marks().get(MOVED) != mark.text:
            raise StoreBusy(f"Another command has changed the move of {self.name}.", hint="Repeat the command.")

    def unmark(self, mark: Mark) -> None:
        with self._transaction():
            self._connection.execute(SQL["unfence"])
            self._connection.execute(SQL["delete_marks"], {"value": mark.text})

    def tables(self) -> dict[str, Table]:
        columns: dict[str, list[Column]] = {}
        keys: dict[str, list[str]] = {}
        for table, name, kind in self._all(SQL["own_columns"]):
            if table not in OWN_TABLES and table != "moves_given_up":
                columns.setdefault(table, []).append(Column(name, _KINDS[kind]))
        for table, name in self._all(SQL["own_keys"]):
            keys.setdefault(table, []).append(name)
        return {
            name: Table(tuple(some), tuple(keys.get(name) or [column.name for column in some]))
            for name, some in columns.items()
        }

    def numbers(self) -> Numbers:
        return Numbers(*self._all(SQL["numbers"])[0])

    @contextmanager
    def snapshot(self) -> Generator[None]:
        with self._transaction(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    def lines(self, table: str, columns: Sequence[Column], key: Sequence[str]) -> Iterator[bytes]:
        kinds = {column.name: column.kind for column in columns}
        fields = sql.SQL(", ").join(
            # A boolean is 0 or 1, as in the other store.
            sql.SQL("{}::int" if (table, name) in self._booleans else "{}").format(sql.Identifier(name))
            for name in kinds
        )
        bytewise = {name: sql.SQL('COLLATE "C"' if kind == "text" else "") for name, kind in kinds.items()}
        order = sql.SQL(", ").join(
            sql.SQL("{} {} NULLS FIRST").format(sql.Identifier(name), bytewise[name]) for name in key
        )
        query = sql.SQL("COPY (SELECT {} FROM {} ORDER BY {}) TO STDOUT").format(fields, sql.Identifier(table), order)
        with translated_errors(self.name), self._connection.cursor().copy(query) as copy:
            some: list[bytes] = []
            size = 0
            for row in copy:
                some.append(bytes(row))
                size += len(row)
                if size >= _BLOCK:
                    yield b"".join(some)
                    some, size = [], 0
            if some:
                yield b"".join(some)

    # -- a target

    def check_usable(self) -> None:
        version, schema, may_create, encoding, user = self._all(SQL["access"])[0]
        if version < OLDEST_SERVER:
            raise StoreVersionError(f"{self.name} is older than PostgreSQL 14.", hint="Upgrade the server.")
        if schema is None:
            raise StoreError(
                f"{self.name} has no schema on its search path.", hint="Create a schema, or name another one."
            )
        if encoding != "UTF8":
            hint = "Create a database for Matins: CREATE DATABASE matins ENCODING 'UTF8' TEMPLATE template0"
            raise StoreError(f"{self.name} has the encoding {encoding}, and Matins needs UTF8.", hint=hint)
        if not may_create:
            message = f'The user "{user}" may not create tables in the schema "{schema}" of {self.name}.'
            raise StoreError(message, hint=f'As its owner: GRANT CREATE, USAGE ON SCHEMA {schema} TO "{user}"')
        there = check_tables(self.name, schema, self._every_table())
        if there:
            applied = dict(self._all(SQL["applied"]))
            known = load_migrations("matins.store.postgres")
            check_known(self.name, len(applied), applied, known, "Use a new database or schema")
            if len(applied) < len(known):
                raise StoreVersionError(
                    f"{self.name} must be upgraded first.", hint="Start this version on it once: matins up"
                )

    def state(self) -> Literal["empty", "copy", "in_charge"]:
        if not self.exists():
            return "empty"
        if COPY in self.marks():
            return "copy"
        return "empty" if self._value(SQL["is_unused"]) else "in_charge"

    def copy_from(self, source: End, mark: Mark, now: int, progress: Progress) -> dict[str, Digest]:
        with self._transaction():
            self._connection.execute(SQL["patience"])
            if self._value(SQL["has_given_up"]) and self._value(SQL["was_given_up"], {"token": mark.token}):
                hint = "Give it up to the end, with --abort; then begin another one."
                raise Conflict("This move was given up.", field="target", hint=hint)
            state, copy = self.state(), self.marks().get(COPY)
            if copy == mark.text:
                return {}
            if state == "in_charge":
                raise Conflict(f"{self.name} has a store already.", field="target", hint="Name an empty schema.")
            if self.exists():
                self._drop_tables()
            try:
                return self._fill(source, mark, now, progress)
            except psycopg.IntegrityError as error:
                message = f"Rows of the source contradict each other: {error.diag.message_detail or error}"
                raise StoreCorrupt(message, hint="matins doctor; then repeat the command.") from error

    def _fill(self, source: End, mark: Mark, now: int, progress: Progress) -> dict[str, Digest]:
        connection = self._connection
        for migration in load_migrations("matins.store.postgres"):
            connection.execute(migration.sql.encode())
            if migration.breaks:
                connection.execute(SQL["set_meta"], {"key": "oldest", "value": str(migration.number)})
            values = {"number": migration.number, "name": migration.name, "checksum": migration.checksum, "now": now}
            connection.execute(SQL["insert_migration"], values)
        deferred = self._all(SQL["deferred"])
        for name, _ in deferred:
            connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
        theirs, ours = source.tables(), self.tables()
        shared = shared_columns(theirs, ours)
        first = {name for (name,) in self._all(SQL["referenced"])}
        triggers = sql.SQL("ALTER TABLE {} {} TRIGGER USER")
        found: dict[str, Digest] = {}
        for table in sorted(shared, key=lambda name: (name not in first, name)):
            columns, own = shared[table], sql.Identifier(table)
            connection.execute(triggers.format(own, sql.SQL("DISABLE")))
            connection.execute(sql.SQL("DELETE FROM {}").format(own))  # what a new store has
            names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
            blocks = Hashed(table, source.lines(table, columns, ours[table].key), progress)
            with connection.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(own, names)) as copy:
                for block in blocks:
                    copy.write(check_text(table, block))
            found[table] = blocks.digest
        for _, statement in deferred:
            connection.execute(statement)
        for table, columns in shared.items():
            check_same(table, found[table], digest_of(table, self.lines(table, columns, ours[table].key)))
            connection.execute(triggers.format(sql.Identifier(table), sql.SQL("ENABLE")))
        self._set_meta(source, mark)
        connection.execute(sql.SQL("ANALYZE {}").format(sql.SQL(", ").join(map(sql.Identifier, shared))))
        connection.execute(SQL["fence"])
        return found

    def _set_meta(self, source: End, mark: Mark) -> None:
        numbers = source.numbers()
        connection = self._connection
        connection.execute(b"DELETE FROM meta WHERE key NOT IN ('xact_base', 'sealed', 'oldest')")
        with connection.cursor() as cursor:
            cursor.executemany(
                SQL["insert_mark"], [{"key": key, "value": value} for key, value in source.meta().items()]
            )
        connection.execute(SQL["insert_mark"], {"key": COPY, "value": mark.text})
        connection.execute(SQL["rebase"])
        connection.execute(SQL["renew_sealed"], {"sealed": numbers.sealed})
        connection.execute(SQL["sealed_below"], {"horizon": numbers.sealed + 1})
        values = {"next_run": numbers.next_run, "next_schedule": numbers.next_schedule}
        connection.execute(SQL["continue_ids"], values)
        connection.execute(SQL["continue_identities"])

    def drop(self, mark: Mark) -> None:
        with self._transaction():
            self._connection.execute(SQL["patience"])
            # Waits for a statement that takes charge: after it, there is no copy to drop.
            if self.exists() and self._all(SQL["take_charge"], {"mark": mark.text}):
                self._drop_tables()
            check_not_finished(self, mark)
            self._connection.execute(SQL["remember_given_up"])
            self._connection.execute(SQL["insert_given_up"], {"token": mark.token})

    def _drop_tables(self) -> None:
        """Drop what Matins has made, and nothing else."""
        self._connection.execute(SQL["unfence"])
        for migration in load_migrations("matins.store.postgres"):
            for kind, name in _MADE.findall(migration.sql):
                self._connection.execute(f"DROP {kind} IF EXISTS {name} CASCADE".encode())

    # -- the connection

    @cached_property
    def _booleans(self) -> set[tuple[str, str]]:
        return {(table, name) for table, name, kind in self._all(SQL["own_columns"]) if kind == "boolean"}

    def _every_table(self) -> list[str]:
        found: list[str] = self._all(SQL["tables"])[0][1] or []
        return [name for name in found if name not in ("moves_given_up", "event_horizon")]

    def _all(self, statement: bytes, values: Mapping[str, Any] | None = None) -> list[Any]:
        with translated_errors(self.name):
            return self._connection.execute(statement, values).fetchall()

    def _value(self, statement: bytes, values: Mapping[str, Any] | None = None) -> Any:
        return self._all(statement, values)[0][0]

    @contextmanager
    def _transaction(self, begin: bytes = b"BEGIN") -> Generator[None]:
        with translated_errors(self.name):
            self._connection.execute(begin)
            try:
                yield
                self._connection.execute(b"COMMIT")
            except BaseException:
                if not self._connection.closed:
                    self._connection.rollback()
                raise
