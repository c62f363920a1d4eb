"""Connections, each for one transaction at a time. Each is a writer with its own event chain."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from matins.errors import Conflict, InvalidInput, StoreCorrupt, StoreError, StoreUnavailable
from matins.store.chain import Chain
from matins.store.forking import after_fork, keep_forever
from matins.store.postgres.arrays import register
from matins.store.postgres.poolers import check_sessions, split_search_path
from matins.store.queries import load_queries

_LOCKS = {"/* lock */": "FOR UPDATE", "/* lock free */": "FOR UPDATE SKIP LOCKED"}


@cache
def in_dialect(text: str) -> bytes:
    """A statement of both stores in the dialect of PostgreSQL and psycopg. PostgreSQL's own ones do not change."""
    for comment, lock in _LOCKS.items():
        text = text.replace(comment, lock)
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", text).encode()


_STORE = resources.files("matins.store")
SQL = {name: in_dialect(text) for name, text in load_queries(_STORE / "sql", _STORE / "postgres" / "sql").items()}
MAX_CONNECTIONS = 12
_WAIT_S = 4.5
_SETTINGS: dict[str, Any] = {
    "connect_timeout": 4,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 4_500,
    "application_name": "matins",
    "client_encoding": "utf8",
}


class Connection(psycopg.Connection[Any]):
    """A connection that is given up when an answer is long overdue. The server ends statements itself; but one that
    stands still, or a proxy before it, ends nothing, and keeps the connection alive."""

    answer_s: float | None = 10.0
    """More than twice the server's own limit for a statement."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        return super().wait(gen, interval, self.answer_s if timeout is None else timeout)


class Session:
    """A connection and its chain. Both end when a commit is in doubt: a chain continues only from a known head."""

    def __init__(self, connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any] | None = None) -> None:
        self.connection = connection
        self.cursor = connection.cursor(binary=True) if cursor is None else cursor
        self.chain: Chain | None = None

    @property
    def usable(self) -> bool:
        return self.connection.info.transaction_status == TransactionStatus.IDLE

    def close(self) -> None:
        self.connection.close()


class SessionPool:
    """A pool. The connection used last is used next, so a process with one thread has one connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        given = conninfo_to_dict(url)
        self.name = f"{given.get('dbname') or 'the database'} on {given.get('host') or 'localhost'}"
        self._settings: dict[str, Any] = {name: value for name, value in _SETTINGS.items() if name not in given}
        options, self._search_path = split_search_path(str(given.get("options") or ""))
        if self._search_path is not None:
            self._settings["options"] = options
        self._checked = False
        self._idle: deque[Session] = deque()
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._closed = False
        after_fork(self, SessionPool._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """Leave the connections to the parent, in a forked child."""
        for session in self._idle:
            keep_forever(session.connection)
            keep_forever(session.cursor)
        self._idle = deque()
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def connect(self) -> Connection:
        connection = self._connect()
        with _closed_on_failure(connection):
            if not self._checked:  # before any setting, which the next client of a pooler would get
                check_sessions(connection, self._connect, self.name)
                self._checked = True
            register(connection)
            connection.execute(SQL["session_settings"])
            if self._search_path is not None:
                connection.execute(SQL["search_path"], {"path": self._search_path})
        return connection

    def _connect(self) -> Connection:
        return Connection.connect(self._url, autocommit=True, **self._settings)

    @contextmanager
    def borrow(self, begin: bytes) -> Generator[Session]:
        """Yield a session after its first statement. A transaction is rolled back unless it was committed."""
        with translated_errors(self.name), self._reserve():
            session = self._begin(begin)
            try:
                yield session
            except BaseException:
                with suppress(psycopg.Error):  # the first error is reported; a session in doubt is not kept
                    session.cursor.execute(b"ROLLBACK")
                raise
            finally:
                self._return(session)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _reserve(self) -> Generator[None]:
        if self._closed:
            raise StoreError(f"The store {self.name} is closed.")
        if not self._free.acquire(timeout=_WAIT_S):
            raise StoreUnavailable(f"All {MAX_CONNECTIONS} connections to {self.name} are in use.", hint="Try again.")
        try:
            yield
        finally:
            self._free.release()

    def _begin(self, begin: bytes) -> Session:
        """Return a session after its first statement. Connections that were lost while idle are replaced."""
        while self._idle:
            with suppress(IndexError, psycopg.OperationalError):  # another thread closed it first
                return _begun(self._idle.pop(), begin)
        return _begun(Session(self.connect()), begin)

    def _return(self, session: Session) -> None:
        if session.usable and not self._closed:
            self._idle.append(session)
        else:
            session.close()


def _begun(session: Session, begin: bytes) -> Session:
    with _closed_on_failure(session):
        session.cursor.execute(begin)
    return session


@contextmanager
def patient(session: Session) -> Generator[None]:
    """Wait for answers as long as the server does: migrations of large tables take their time."""
    connection = session.connection
    assert isinstance(connection, Connection)
    limit, connection.answer_s = connection.answer_s, None
    yield
    connection.answer_s = limit


@contextmanager
def _closed_on_failure(connection: Session | psycopg.Connection[Any]) -> Generator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def translated_errors(name: str) -> Generator[None]:
    """Translate PostgreSQL's errors to those of Matins."""
    try:
        with translated_refusals(name):
            yield
    except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted) as error:
        raise StoreCorrupt(f"{name} is damaged: {_first_line(error)}.", hint="Restore a backup.") from error
    except psycopg.errors.DiskFull as error:
        raise StoreUnavailable(
            f"There is no disk space left for {name}.", hint="Free disk space. Matins retries; no data is lost."
        ) from error
    except (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        psycopg.errors.IdleInTransactionSessionTimeout,
        psycopg.errors.ReadOnlySqlTransaction,
    ) as error:
        raise StoreUnavailable(
            f"{name} does not answer: {_first_line(error)}.", hint="Check that the server runs. Matins retries."
        ) from error


@contextmanager
def translated_refusals(name: str) -> Generator[None]:
    """Translate what the server refuses because of the user or the values."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreError(
            f"{name} denies access: {_first_line(error)}.",
            hint="Grant the user CREATE and USAGE on the schema, and its tables.",
        ) from error
    except psycopg.errors.UniqueViolation as error:
        if error.diag.constraint_name != "schedules_name":
            raise
        raise Conflict("A schedule of this name was added at the same time.", field="name") from error
    except psycopg.DataError as error:
        raise InvalidInput(f"{name} cannot store this: {_first_line(error)}.") from error


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
