"""Connections, lent to one transaction at a time. Each is a writer with an event chain of its own."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from matins.errors import Conflict, InvalidInput, StoreCorrupt, StoreError, StoreUnavailable
from matins.store.chain import Chain
from matins.store.postgres.arrays import register
from matins.store.queries import load_queries

SQL = {name: text.encode() for name, text in load_queries("matins.store.postgres").items()}
COMMON = {
    name: re.sub(r":(\w+)", r"%(\1)s", text).replace("/* lock */", "FOR UPDATE").encode()
    for name, text in load_queries("matins.store.common").items()
}
MOST_CONNECTIONS = 12
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


class Session:
    """A connection and its chain. What is not known to be committed ends both: a chain never goes on from a guess."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.cursor = connection.cursor(binary=True)
        self.chain: Chain | None = None

    @property
    def usable(self) -> bool:
        return self.connection.info.transaction_status == TransactionStatus.IDLE

    def close(self) -> None:
        self.connection.close()


class Sessions:
    """The last one used is the next one lent, so that a process that has one thread has one connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        given = conninfo_to_dict(url)
        self.name = f"{given.get('dbname') or 'the database'} on {given.get('host') or 'localhost'}"
        self._settings = {name: value for name, value in _SETTINGS.items() if name not in given}
        self._idle: deque[Session] = deque()
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._closed = False

    def connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._url, autocommit=True, **self._settings)
        with _closed_on_failure(connection):
            register(connection)
            connection.execute(SQL["session"])
        return connection

    @contextmanager
    def lend(self, begin: bytes) -> Generator[Session]:
        """A session, after the statement that begins; a transaction is rolled back unless it was committed."""
        with told(self.name), self._place():
            session = self._begin(begin)
            try:
                yield session
            except BaseException:
                with suppress(psycopg.Error):  # the first error is the one to tell; a session in doubt is not kept
                    session.cursor.execute(b"ROLLBACK")
                raise
            finally:
                self._take_back(session)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _place(self) -> Generator[None]:
        if self._closed:
            raise StoreError(f"The store {self.name} is closed")
        if not self._places.acquire(timeout=_WAIT_S):
            raise StoreUnavailable(f"All {MOST_CONNECTIONS} connections to {self.name} are in use", hint="try again")
        try:
            yield
        finally:
            self._places.release()

    def _begin(self, begin: bytes) -> Session:
        """Connections that were lost while nobody used them are replaced without a word."""
        while self._idle:
            with suppress(IndexError, psycopg.OperationalError):  # another thread was quicker; it was lost
                return _begun(self._idle.pop(), begin)
        return _begun(Session(self.connect()), begin)

    def _take_back(self, session: Session) -> None:
        if session.usable and not self._closed:
            self._idle.append(session)
        else:
            session.close()


def _begun(session: Session, begin: bytes) -> Session:
    with _closed_on_failure(session):
        session.cursor.execute(begin)
    return session


@contextmanager
def _closed_on_failure(connection: Session | psycopg.Connection[Any]) -> Generator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def told(name: str) -> Generator[None]:
    """PostgreSQL's errors in words that say what to do."""
    try:
        yield
    except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted) as error:
        raise StoreCorrupt(f"{name} is damaged: {_first_line(error)}", hint="restore a backup") from error
    except psycopg.errors.DiskFull as error:
        raise StoreUnavailable(
            f"There is no room left for {name}", hint="make room; nothing is lost meanwhile"
        ) from error
    except (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        psycopg.errors.IdleInTransactionSessionTimeout,
        psycopg.errors.ReadOnlySqlTransaction,
    ) as error:
        raise StoreUnavailable(f"{name} does not answer: {_first_line(error)}", hint="it is tried again") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreError(
            f"{name} refuses: {_first_line(error)}", hint="grant the user its own schema: CREATE, USAGE"
        ) from error
    except psycopg.errors.UniqueViolation as error:
        if error.diag.constraint_name != "schedules_name":
            raise
        raise Conflict("A schedule of this name was made at the same moment", field="name") from error
    except psycopg.DataError as error:
        raise InvalidInput(f"{name} cannot hold this: {_first_line(error)}") from error


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0]
