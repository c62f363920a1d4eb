"""A PostgreSQL schema, its clock, its listener.

A PostgreSQL schema: READ COMMITTED and row locks, many engines, no leader.

The database's clock, so that workers on hosts whose clocks differ agree on what is due.

Receives notifications about changes of other processes, on its own connection and thread.
"""

from __future__ import annotations

import logging
import os
import re
import select
import threading
import uuid
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql

from matins.errors import Conflict, StoreError, StoreUnavailable, StoreVersionError
from matins.model.clock import Clock
from matins.model.event import ChainHead
from matins.model.rows import WorkerRow
from matins.store.joining import JoiningStore
from matins.store.moving import refusal
from matins.store.postgres.callers import CallersTransaction, callers_session
from matins.store.postgres.session import SQL, Session, SessionPool, patient
from matins.store.postgres.transaction import PostgresTransaction
from matins.store.queries import check_known, load_migrations

_EVERY_MS = 1_000
_AWAY_MS = 5_000
_STEP_US = 1_000_000
_SAME_US = 10_000
"""Largest difference at which the clocks of host and server count as two readings of the same time."""
_PATIENCE_S = 0.5
"""How long a caller waits for a reading. A server that hangs would stop it for seconds."""


class TimeSource(Protocol):
    def database_time_us(self) -> int: ...


class DatabaseClock:
    """The host's boot time plus an offset, which is read again at most once a second. A caller waits briefly for the
    reading, and other threads use the present offset meanwhile. If the database hangs or is unreachable, the offset is
    kept: boot time is steady.

    The offset is known to about the time that a reply takes. Where the host's wall clock shows the same time, this one
    is not ahead of it: a job that looks at the clock must not see an instant before its slot."""

    def __init__(self, store: TimeSource, host: Clock) -> None:
        self._store = store
        self._host = host
        self._reading = threading.Lock()
        low, high = self._bounds()
        self._offset = (low + high + 1) // 2
        self._next = host.boot_ms() + _EVERY_MS

    def now_ms(self) -> int:
        if self._host.boot_ms() >= self._next and self._reading.acquire(blocking=False):
            done = threading.Event()
            threading.Thread(target=self._read_aside, args=(done,), name="matins-clock", daemon=True).start()
            done.wait(_PATIENCE_S)
        return self.now_us() // 1_000

    def now_us(self) -> int:
        now, own = self._host.boot_us() + self._offset, self._host.now_us()
        return own if 0 < now - own <= _SAME_US else now

    def boot_ms(self) -> int:
        return self._host.boot_ms()

    def boot_us(self) -> int:
        return self._host.boot_us()

    def local_zone(self) -> str:
        return self._host.local_zone()

    def _read_aside(self, done: threading.Event) -> None:
        try:
            self._read_again()
        finally:
            self._reading.release()
            done.set()

    def _read_again(self) -> None:
        """Move the offset no further than necessary, so that a slow reply does not move it. After a step the clock is
        read again immediately, for two readings."""
        wait = _AWAY_MS
        with suppress(StoreError):  # the next use of the store raises it
            low, high = self._bounds()
            before, self._offset = self._offset, min(max(self._offset, low), high)
            wait = 0 if abs(self._offset - before) > _STEP_US else _EVERY_MS
        self._next = self._host.boot_ms() + wait

    def _bounds(self) -> tuple[int, int]:
        """The bounds of the offset: the server read its clock between the request and the reply."""
        before = self._host.boot_us()
        now = self._store.database_time_us()
        return now - self._host.boot_us() - 1, now - before  # fractions of a microsecond are dropped


log = logging.getLogger("matins")
_BACK_OFF_S = (0.1, 0.5, 2.0, 5.0)


class Listener:
    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], channel: str, me: str, wake: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel))
        self._me = me
        self._wake = wake
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="matins-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the listener. Returns when the connection is closed."""
        if self._thread.is_alive():
            os.write(self._stop_write, b".")
            self._thread.join()
            os.close(self._stop_read)
            os.close(self._stop_write)

    def _run(self) -> None:
        failures = 0
        while True:
            try:
                with self._connect() as connection:
                    connection.execute(self._listen)
                    failures = 0
                    self._wake()  # for notifications that arrived while nothing listened
                    if self._receive(connection):
                        return
            except psycopg.Error as error:
                log.warning("Matins does not receive changes of other processes, and connects again: %s", error)
            if self._stopped(_BACK_OFF_S[min(failures, len(_BACK_OFF_S) - 1)]):
                return
            failures += 1

    def _receive(self, connection: psycopg.Connection[Any]) -> bool:
        """Receive notifications. Returns True when the listener is stopped; raises when the connection is lost."""
        while True:
            foreign = [notice.payload != self._me for notice in connection.notifies(timeout=0)]
            if any(foreign):
                self._wake()
            if self._stop_read in select.select([connection, self._stop_read], [], [])[0]:
                return True

    def _stopped(self, seconds: float) -> bool:
        return bool(select.select([self._stop_read], [], [], seconds)[0])


_CREATED = re.compile(r"^CREATE (?:TABLE|VIEW) (\w+)", re.MULTILINE)
OLDEST_SERVER = 140_000
_LEASE_MS = 15_000
_BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_TABLES = {"migrations", "meta", "schedules", "revisions", "due", "runs", "attempts", "permits", "places", "workers",
         "events", "writers", "seals"}  # fmt: skip


class PostgresStore(JoiningStore[PostgresTransaction]):
    """`url` is a libpq URL. The tables are in the first schema of its search path."""

    kind = "postgresql"
    path: Path | None = None
    shared = True
    reads_wait = True
    """Whether several engines may run on it."""

    def __init__(self, url: str, now: int, *, of_move: bool = False) -> None:
        """`of_move`: by the command that moves a store here."""
        super().__init__()
        self._of_move = of_move
        self.pool = SessionPool(url)
        self._me = str(uuid.uuid4())
        self._listener: Listener | None = None
        self.last_head: ChainHead | None = None
        try:
            self._schema, self.store_id, self.incarnation, self.run_key = self._open(now)
        except BaseException:
            self.pool.close()
            raise
        self._channel = f"matins_{self.store_id}"
        self._notify = f"NOTIFY {self._channel}, '{self._me}'".encode()
        self._notify_all = f"NOTIFY {self._channel}".encode()

    def close(self) -> None:
        if self._listener is not None:
            self._listener.stop()
        self.pool.close()

    @contextmanager
    def _begin(self, now: int) -> Generator[PostgresTransaction]:
        with self.pool.borrow() as session:
            transaction = PostgresTransaction(session, b"BEGIN", self.pool.connect)
            yield transaction
            chain = transaction.link_events(now)
            session.chain = None  # the chain is in doubt while the commit is
            transaction.commit(self._notify if transaction.notifies else None)
            if chain is not None and transaction.events:
                self.last_head = chain.committed(transaction.last_event_id)
            session.chain = chain

    @contextmanager
    def reading(self) -> Generator[PostgresTransaction]:
        joined = self._joined
        if joined is not None and joined.transaction is not None:  # it reads what it has written
            yield joined.transaction
            return
        with self.pool.borrow() as session:
            transaction = PostgresTransaction(session, _BEGIN_READING, self.pool.connect)
            yield transaction
            transaction.commit()

    def policy_rev(self) -> int:
        joined = self._joined
        if joined is not None and joined.transaction is not None:
            return joined.transaction.policy_rev()
        with self.pool.borrow(SQL["policy_rev"]) as session:
            row = session.cursor.fetchone()
        assert row is not None
        return row[0]

    @contextmanager
    def within(self, connection: Any, now: int) -> Generator[None]:
        with callers_session(connection, self.pool.name, self._schema, self.store_id) as session:
            transaction = CallersTransaction(session, lambda: self._begin(now))
            with self._join_to(transaction) as joined:
                yield
            transaction.write_events(now)
            if joined.after:  # the server notifies all engines when the caller commits, also that of this process
                session.cursor.execute(self._notify_all)

    def mark(self) -> object:
        return None

    def acquire(self, *, wait: bool = False) -> bool:
        return True

    def release(self) -> None:
        """Do nothing: no engine owns a PostgreSQL store."""

    def announce(self, socket: Path) -> None:
        """Do nothing: every process writes for itself."""

    def owner_socket(self) -> Path | None:
        return None

    def owner_pid(self) -> int | None:
        return None

    def socket_path(self) -> Path | None:
        return None

    def listen(self, wake: Callable[[], None]) -> None:
        if self._listener is not None:
            self._listener.stop()
        self._listener = Listener(self.pool.connect, self._channel, self._me, wake)
        self._listener.start()

    def notify(self) -> None:
        """Notify other processes. The change is already committed, so a failure here is only logged."""
        try:
            with self.pool.borrow(self._notify):
                pass  # the statement of `borrow` is the notification
        except StoreUnavailable as error:
            log.warning("Other engines see the change within a second, not immediately: %s", error)

    def checkpoint(self) -> None:
        """Do nothing: the server does it."""

    def backup(self, path: Path) -> None:
        """Raise Conflict: the server has its own tools."""
        raise Conflict(
            "Matins does not back up PostgreSQL; use its own tools.",
            hint=f'pg_dump --format=custom --file={path} "$MATINS_STORE"',
        )

    def version_text(self) -> str:
        with self.pool.borrow(b"SELECT count(*) FROM migrations") as session:
            row = session.cursor.fetchone()
            version = session.connection.info.server_version
        assert row is not None
        return f"PostgreSQL {version // 10_000}.{version % 10_000}, schema {row[0]}"

    def integrity_problems(self) -> list[str]:
        """An empty list: the server checks itself."""
        return []

    def engines(self, lease_ms: int) -> list[WorkerRow]:
        with self.pool.borrow(_BEGIN_READING) as session:
            rows = session.cursor.execute(SQL["engines"], {"lease": lease_ms}).fetchall()
            session.cursor.execute(b"COMMIT")
        return [WorkerRow(*row) for row in rows]

    def clock(self, host: Clock) -> DatabaseClock:
        return DatabaseClock(self, host)

    def database_time_us(self) -> int:
        """The server's clock, in UTC microseconds."""
        with self.pool.borrow(SQL["database_time_us"]) as session:
            row = session.cursor.fetchone()
        assert row is not None
        return row[0]

    def _open(self, now: int) -> tuple[str, str, str, str]:
        """Apply missing migrations. Returns the schema, the ids of the store and of its incarnation, and the key of run
        tokens."""
        with self.pool.borrow(b"BEGIN") as session, patient(session):
            self._migrate(session, now)
            ((schema,),) = session.cursor.execute(SQL["schema"]).fetchall()
            ids = [_meta(session, key) for key in ("store_id", "incarnation", "run_key")]
            session.cursor.execute(b"COMMIT")
        return schema, ids[0], ids[1], ids[2]

    def _migrate(self, session: Session, now: int) -> None:
        """Apply missing migrations: one process at a time, all or nothing."""
        name, cursor = self.pool.name, session.cursor
        if session.connection.info.server_version < OLDEST_SERVER:
            raise StoreVersionError(f"{name} is older than PostgreSQL 14.", hint="Upgrade the server.")
        session.connection.execute(SQL["patience"])
        schema, tables = cursor.execute(SQL["tables"]).fetchone() or (None, None)
        if schema is None:
            raise StoreError(f"{name} has no schema on its search path.", hint="Create a schema, or name another one.")
        migrations = load_migrations("matins.store.postgres")
        there = check_tables(name, schema, tables or ())
        if there and not self._of_move:
            refused = refusal(dict(cursor.execute(SQL["marks"]).fetchall()), writes=False)
            if refused is not None:
                raise refused
        applied = dict(cursor.execute(SQL["applied"]).fetchall()) if there else {}
        ((oldest,),) = cursor.execute(SQL["oldest_migration"]).fetchall() if there else ((None,),)
        check_known(name, len(applied), applied, migrations, "Use a new database or schema", oldest)
        self.knows = len(migrations)
        for migration in migrations[len(applied) :]:
            if migration.breaks and there:
                self._check_stopped(session, migration.number)
            session.connection.execute(migration.sql.encode())
            if migration.breaks:
                cursor.execute(SQL["set_meta"], {"key": "oldest", "value": str(migration.number)})
            values = {"number": migration.number, "name": migration.name, "checksum": migration.checksum, "now": now}
            cursor.execute(SQL["insert_migration"], values)
        cursor.execute(SQL["rebase"])

    def _check_stopped(self, session: Session, number: int) -> None:
        """Raise StoreVersionError while an engine runs that does not know the migration, and cannot go on with it."""
        rows = session.cursor.execute(SQL["engines"], {"lease": _LEASE_MS}).fetchall()
        engines = [WorkerRow(*row) for row in rows]
        nodes = sorted({one.node for one in engines if one.facts.get("knows", 1) < number})
        if nodes:
            message = (
                f"{self.pool.name} must be upgraded to schema {number}, and {', '.join(nodes)} cannot work on that."
            )
            hint = "Stop these engines first, or upgrade them one after the other. Nothing was changed."
            raise StoreVersionError(message, hint=hint)


def check_tables(name: str, schema: str, tables: Iterable[str]) -> set[str]:
    """The tables of Matins that are there: all, or none. Raises StoreError for those of another program."""
    migrations = load_migrations("matins.store.postgres")
    there = {table for each in migrations for table in _CREATED.findall(each.sql)}.intersection(tables)
    if there and not there >= _TABLES:
        raise StoreError(
            f'The schema "{schema}" of {name} has a table "{min(there)}" that does not belong to Matins.',
            hint="Give Matins its own schema: CREATE SCHEMA matins, then …?options=-csearch_path%3Dmatins.",
        )
    return there


def _meta(session: Session, key: str) -> str:
    row = session.cursor.execute(SQL["meta"], {"key": key}).fetchone()
    assert row is not None
    return row[0]
