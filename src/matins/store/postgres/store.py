"""A PostgreSQL schema: READ COMMITTED and row locks, many engines, no leader."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matins.errors import Conflict, StoreError, StoreUnavailable, StoreVersionError
from matins.model.audit import ChainHead
from matins.model.clock import Clock
from matins.model.rows import WorkerRow
from matins.store.joining import JoiningStore
from matins.store.migrations import Migration, check_known, load_migrations
from matins.store.postgres.callers import CallersTransaction, callers_session
from matins.store.postgres.clock import DatabaseClock
from matins.store.postgres.listener import Listener
from matins.store.postgres.session import SQL, Session, SessionPool, patient
from matins.store.postgres.transaction import PostgresTransaction

log = logging.getLogger("matins")
_OLDEST_SERVER = 140_000
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

    def __init__(self, url: str, now: int) -> None:
        super().__init__()
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
        with self.pool.borrow(b"BEGIN") as session:
            transaction = PostgresTransaction(session)
            yield transaction
            chain = transaction.link_events(now)
            session.chain = None  # the chain is in doubt while the commit is
            session.cursor.execute(b"COMMIT")
            if chain is not None and transaction.events:
                self.last_head = chain.committed(transaction.last_event_id)
            session.chain = chain

    @contextmanager
    def reading(self) -> Generator[PostgresTransaction]:
        joined = self._joined
        if joined is not None and joined.transaction is not None:  # it reads what it has written
            yield joined.transaction
            return
        with self.pool.borrow(_BEGIN_READING) as session:
            yield PostgresTransaction(session)
            session.cursor.execute(b"COMMIT")

    @contextmanager
    def within(self, connection: Any, now: int) -> Generator[None]:
        with callers_session(connection, self.pool.name, self._schema, self.store_id) as session:
            transaction = CallersTransaction(session, lambda: self._begin(now))
            with self._join_to(transaction) as joined:
                yield
            transaction.write_events(now)
            if joined.after:  # the server notifies all engines when the caller commits, also that of this process
                session.cursor.execute(self._notify_all)

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

    def database_time(self) -> int:
        """The server's clock, in UTC milliseconds."""
        with self.pool.borrow(SQL["database_time"]) as session:
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
        if session.connection.info.server_version < _OLDEST_SERVER:
            raise StoreVersionError(f"{name} is older than PostgreSQL 14.", hint="Upgrade the server.")
        session.connection.execute(SQL["patience"])
        schema, tables = cursor.execute(SQL["tables"]).fetchone() or (None, None)
        if schema is None:
            raise StoreError(f"{name} has no schema on its search path.", hint="Create a schema, or name another one.")
        migrations = load_migrations("matins.store.postgres")
        there = _tables(migrations).intersection(tables or ())
        if there and not there >= _TABLES:
            raise StoreError(
                f'The schema "{schema}" of {name} has a table "{min(there)}" that does not belong to Matins.',
                hint="Give Matins its own schema: CREATE SCHEMA matins, then …?options=-csearch_path%3Dmatins.",
            )
        applied = dict(cursor.execute(SQL["applied"]).fetchall()) if there else {}
        check_known(name, len(applied), applied, migrations, "Use a new database or schema")
        for migration in migrations[len(applied) :]:
            session.connection.execute(migration.sql.encode())
            values = {"number": migration.number, "name": migration.name, "checksum": migration.checksum, "now": now}
            cursor.execute(SQL["insert_migration"], values)
        cursor.execute(SQL["rebase"])


def _meta(session: Session, key: str) -> str:
    row = session.cursor.execute(SQL["meta"], {"key": key}).fetchone()
    assert row is not None
    return row[0]


def _tables(migrations: list[Migration]) -> set[str]:
    """The tables and views that the migrations create."""
    return {name for each in migrations for name in re.findall(r"^CREATE (?:TABLE|VIEW) (\w+)", each.sql, re.MULTILINE)}
