"""Connections that read a SQLite file beside its writer: neither waits for the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import apsw

from matins.store.forking import keep_forever

_KEPT = 4
_PRAGMAS = "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000"


class Readers:
    """Connections for reading, each used by one thread at a time and opened when it is first needed."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._open: list[Any] = []
        self._idle: list[Any] = []
        self.closed = False

    @contextmanager
    def snapshot(self) -> Generator[Any]:
        """A connection in a transaction that sees one state of the file."""
        connection = self._take()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._give_back(connection)

    def leave_to_parent(self) -> None:
        """Leave all of them to the parent, in a forked child."""
        for connection in self._open:
            keep_forever(connection)
        self._open, self._idle = [], []

    def close(self) -> None:
        """Close those that are not in use; the others are closed by the thread that uses them."""
        self.closed = True
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            connection = self._connect()
            connection.execute(_PRAGMAS).fetchall()
            # The writer writes the log back when it is closed, and knows whether it may.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._open.append(connection)
            return connection

    def _give_back(self, connection: Any) -> None:
        if connection not in self._open:
            return  # the parent's
        if self.closed or len(self._idle) >= _KEPT:
            self._open.remove(connection)
            connection.close()
        else:
            self._idle.append(connection)
