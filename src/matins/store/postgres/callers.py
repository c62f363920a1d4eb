"""Parts of a caller's transaction, on the caller's own connection: they are committed with it, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, cast

import psycopg
from psycopg.pq import Format, PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from matins.errors import Conflict, InvalidInput
from matins.store.chain import Chain
from matins.store.postgres.session import SQL, Session, register, translated_refusals
from matins.store.postgres.transaction import PostgresTransaction

_PASS = (
    "Pass a psycopg.Connection. Django has it as connection.connection, and SQLAlchemy as "
    "session.connection().connection.driver_connection."
)


class _ChainEnd(NamedTuple):
    writer: int
    event_id: int
    seq: int
    hash: bytes


class CallersTransaction(PostgresTransaction):
    """A part of a caller's transaction. Its events are in a chain that no other open transaction continues: what the
    caller rolls back, to a savepoint or entirely, leaves no gap in it. `aside` is a transaction of Matins alone."""

    def __init__(self, session: Session, aside: Callable[[], AbstractContextManager[PostgresTransaction]]) -> None:
        super().__init__(session)
        self._aside = aside

    def place(self, needs: str) -> int:
        """The number of a set of needs. It lasts, so that others do not wait for one that the caller may take back."""
        with self._aside() as transaction:
            return transaction.place(needs)

    def write_events(self, now: int) -> None:
        if not self.events:
            return
        first = self._value("first_event_id")
        end = self._row(_ChainEnd, "callers_chain", first=first)
        if end is None:
            chain = self._new_chain(now)
        else:
            chain = Chain(end.writer, seq=end.seq, head=bytes(end.hash))
            first = max(first, end.event_id + 1)  # an earlier part of this transaction
        self._write_events(chain, first)
        head = chain.committed(self.last_event_id)
        values = {"event_id": head.event_id, "seq": head.seq, "hash": bytes.fromhex(head.hash)}
        self._all("set_callers_chain", writer=chain.writer, **values)


@contextmanager
def callers_session(connection: Any, name: str, schema: str, store_id: str) -> Generator[Session]:
    """The connection as a session of Matins, in a savepoint. Afterwards it is as it was before."""
    _check(connection)
    if connection.info.transaction_status == TransactionStatus.IDLE:
        connection.execute("SELECT 1")  # it begins the transaction that the caller will commit
    with translated_refusals(name), connection.transaction():
        session = Session(connection, _cursor(connection))
        before = _enter(session, name, schema, store_id)
        yield session
        session.cursor.execute(SQL["leave"], {"path": before})


def _cursor(connection: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    """A cursor of our own: the caller may have other factories and adapters, and keeps them."""
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    cursor.format = Format.BINARY
    register(cursor)
    return cursor


def _enter(session: Session, name: str, schema: str, store_id: str) -> str:
    """Use the tables of Matins. Returns the search path of the caller."""
    ((before, _),) = session.cursor.execute(SQL["enter"], {"path": schema}).fetchall()
    try:
        found = session.cursor.execute(SQL["meta"], {"key": "store_id"}).fetchone()
    except psycopg.errors.UndefinedTable:
        found = None
    if found is None or found[0] != store_id:
        there = session.connection.info
        message = f"The connection is to {there.dbname} on {there.host}, and sees no schedules of this Matins there."
        hint = f"Use a connection to {name}, of a user with USAGE on the schema {schema.partition(',')[0]}."
        raise InvalidInput(message, field="connection", hint=hint)
    return before


def _check(connection: Any) -> None:
    if isinstance(connection, psycopg.AsyncConnection):
        raise InvalidInput(
            "An AsyncConnection cannot be used here.",
            field="connection",
            hint="Use a psycopg.Connection, in a thread: await asyncio.to_thread(m.add, …, connection=connection).",
        )
    if not isinstance(connection, psycopg.Connection):
        kind = type(cast("object", connection))
        message = f"connection= is a {kind.__module__.partition('.')[0]} {kind.__name__}, and not one of psycopg 3."
        raise InvalidInput(message, field="connection", hint=_PASS)
    if connection.closed:
        raise InvalidInput("The connection is closed.", field="connection", hint="Connect again.")
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        message = "The transaction of this connection has failed, and takes nothing more."
        raise Conflict(message, field="connection", hint="Roll it back, or to a savepoint, then try again.")
    if status == TransactionStatus.IDLE and connection.autocommit:
        message = "The connection is in autocommit mode and in no transaction, so there is nothing to take part in."
        hint = "Call it inside `with connection.transaction():`, or leave connection= out."
        raise InvalidInput(message, field="connection", hint=hint)
    if connection.pgconn.pipeline_status != PipelineStatus.OFF:
        message = "The connection is in pipeline mode, in which PostgreSQL takes no rows at once."
        raise InvalidInput(message, field="connection", hint="Call it outside of `with connection.pipeline():`.")
    if connection.info.encoding != "utf-8":
        message = f"The connection uses the encoding {connection.info.encoding}, and Matins writes UTF-8."
        raise InvalidInput(message, field="connection", hint="Connect with client_encoding=utf8.")
