"""Connections and arrays.

Connections, each for one transaction at a time. Each is a writer with its own event chain.

Arrays in PostgreSQL's binary form, packed at once. psycopg's own lists cost a call for each element.

Poolers between Matins and the server: one that keeps a session for each connection works, others are refused.

Matins needs its session between transactions: prepared statements, which have numbers as names, so that on another
session they are other statements; the search path and timeouts of the connection; and LISTEN.
"""

from __future__ import annotations

import re
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from itertools import chain, repeat
from typing import Any, NamedTuple

import psycopg
from psycopg.abc import RV, AdaptContext, PQGen
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format, TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from matins.errors import InvalidInput, StoreCorrupt, StoreError, StoreUnavailable
from matins.store.chain import Chain
from matins.store.joining import after_fork, keep_forever
from matins.store.moving import refusal
from matins.store.queries import load_queries

_INT8, _INT8_ARRAY = 20, 1016
_TEXT, _TEXT_ARRAY = 25, 1009
_HEAD = struct.Struct(">iiIii")
_ONE = struct.Struct(">iq")
_LENGTH = struct.Struct(">i")
_NULL = b"\xff\xff\xff\xff"


class Integers(bytes):
    """A packed bigint[]."""

    __slots__ = ()


class Texts(bytes):
    """A packed text[]."""

    __slots__ = ()


def integers(values: Iterable[int | None]) -> Integers:
    items = list(values)
    if None in items:
        body = b"".join([_NULL if item is None else _ONE.pack(8, item) for item in items])
    else:
        body = struct.pack(">" + "iq" * len(items), *chain.from_iterable(zip(repeat(8), items, strict=False)))
    return Integers(_head(_INT8, len(items)) + body)


def texts(values: Iterable[str | None]) -> Texts:
    items = [None if value is None else value.encode() for value in values]
    if b"\0" in b"".join(filter(None, items)):
        raise psycopg.DataError("PostgreSQL text cannot contain the character NUL.")
    body = b"".join([_NULL if item is None else _LENGTH.pack(len(item)) + item for item in items])
    return Texts(_head(_TEXT, len(items)) + body)


def _head(element: int, count: int) -> bytes:
    """The header: dimensions, whether NULLs may occur, the type of the elements, the length, and the lower bound."""
    return _HEAD.pack(1, 1, element, count, 1)


class _Packed(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return obj


class _IntegersDumper(_Packed):
    oid = _INT8_ARRAY


class _TextsDumper(_Packed):
    oid = _TEXT_ARRAY


def register(to: AdaptContext) -> None:
    """Register packed arrays, and every integer as a bigint, so that a statement is prepared once."""
    to.adapters.register_dumper(Integers, _IntegersDumper)
    to.adapters.register_dumper(Texts, _TextsDumper)
    to.adapters.register_dumper(int, Int8BinaryDumper)


_ROUNDS = 4
"""Other clients of the pooler may take the sessions in between, and hide once what a round would show."""
_SEARCH_PATH = re.compile(r"(?:^|(?<=\s))-c\s*search_path=([^\s\\]+)(?:\s+|$)")


def check_sessions(
    connection: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]], name: str
) -> None:
    """Raise StoreError behind a pooler that gives a transaction the session of another connection. PostgreSQL tells a
    client the number of its session when it connects; a pooler tells another number."""
    if _session_of(connection) == connection.info.backend_pid:
        return
    with connect() as other:
        seen: tuple[set[int], set[int]] = set(), set()
        for _ in range(_ROUNDS):
            # Twice each: a pooler that takes its sessions in turn gives another one at once; others give the last one.
            seen[0].update((_session_of(connection), _session_of(connection)))
            seen[1].update((_second_session(other, name), _session_of(other)))
    if len(seen[0]) == len(seen[1]) == 1 and seen[0] != seen[1]:
        return
    raise StoreError(
        f"The pooler before {name} shares sessions between connections, and Matins needs a session for each.",
        hint="Set pool_mode = session for this database in PgBouncer, or connect to the server itself.",
    )


def split_search_path(options: str) -> tuple[str, str | None]:
    """Split `options` of a URL into what is sent when connecting, and the search path: poolers refuse it there."""
    found = _SEARCH_PATH.findall(options)
    return (_SEARCH_PATH.sub("", options).strip(), found[-1]) if found else (options, None)


def _session_of(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    return row[0]


def _second_session(connection: psycopg.Connection[Any], name: str) -> int:
    try:
        return _session_of(connection)
    except psycopg.OperationalError as error:
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        raise StoreUnavailable(
            f"The pooler before {name} gives Matins no second session: {first_line}.",
            hint="Raise default_pool_size in PgBouncer: a process of Matins uses up to 13 sessions.",
        ) from error


_MOVES = "MT001"
"""The error of a table in a store that moves, or has moved. Its message is the key of a mark, and the mark."""
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


class Statement(NamedTuple):
    text: bytes
    values: Mapping[str, Any] | None = None
    reads: bool = False
    """Whether its rows are read."""

    def execute(self, session: Session) -> None:
        (session.cursor if self.reads else session.mute).execute(self.text, self.values)


class Session:
    """A connection and its chain. Both end when a commit is in doubt: a chain continues only from a known head."""

    def __init__(self, connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any] | None = None) -> None:
        self._pipelines = cursor is None and psycopg.Pipeline.is_supported()
        """A caller's connection stays in the mode that it is in."""
        self.use(connection, cursor)

    def use(self, connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any] | None = None) -> None:
        """Use this connection, from now on or in place of one that was lost."""
        self.connection = connection
        self.cursor = cursor or connection.cursor(binary=True)
        self.mute = cursor or connection.cursor(binary=True)
        """For statements whose rows nobody reads: in a pipeline, they would hide those of the next one."""
        self.chain: Chain | None = None

    def execute(self, statements: Sequence[Statement], *, together: bool) -> None:
        """Execute statements: `together` in one round trip. Then, after an error, the whole transaction must be rolled
        back: psycopg may believe that statements are prepared which the server has not seen."""
        if len(statements) == 1 or not (together and self._pipelines):
            for statement in statements:
                statement.execute(self)
            return
        handled, failures = sys.exception(), list[BaseException]()
        try:
            with self.connection.pipeline():
                for statement in statements:
                    try:
                        statement.execute(self)
                    except psycopg.Error as error:  # of an earlier one; psycopg would log what follows from it
                        failures.append(error)
                        break
        except psycopg.Error as error:
            first: BaseException = error  # the last one says only that the rest was not executed
            while isinstance(first.__context__, psycopg.Error) and first.__context__ is not handled:
                first = first.__context__
            failures.append(first)
        if failures:
            raise failures[0]

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
            keep_forever(session.mute)
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
    def borrow(self, first: bytes | None = None) -> Generator[Session]:
        """Yield a session after its `first` statement; without one, its connection may have been lost while idle. A
        transaction is rolled back unless it was committed."""
        with translated_errors(self.name), self._reserve():
            session = self._begin(first)
            try:
                yield session
            except BaseException:
                with suppress(psycopg.Error):  # the first error is reported; a session in doubt is not kept
                    session.connection.rollback()  # this also forgets what was to be prepared in a pipeline that failed
                raise
            finally:
                if session.usable and not self._closed:
                    self._idle.append(session)
                else:
                    session.close()

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

    def _begin(self, first: bytes | None) -> Session:
        """Return a session after its first statement. Connections that turn out to be lost are replaced."""
        while self._idle:
            with suppress(IndexError, psycopg.OperationalError):  # another thread closed it first
                return _begun(self._idle.pop(), first)
        return _begun(Session(self.connect()), first)


def _begun(session: Session, first: bytes | None) -> Session:
    with _closed_on_failure(session):
        if first is not None:
            session.cursor.execute(first)
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
    except psycopg.errors.UndefinedTable as error:
        hint = "Restore its data: Matins waits. To begin with an empty store, restart Matins."
        raise StoreUnavailable(f"{name} has lost its tables: {_first_line(error)}.", hint=hint) from error
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
    except psycopg.DataError as error:
        raise InvalidInput(f"{name} cannot store this: {_first_line(error)}.") from error
    except psycopg.DatabaseError as error:
        key, _, mark = (error.diag.message_primary or "").partition(" ")
        refused = refusal({key: mark}, writes=True) if error.sqlstate == _MOVES else None
        if refused is None:
            raise
        raise refused from error


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
