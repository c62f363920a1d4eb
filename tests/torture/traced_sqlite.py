"""Statement points of the SQLite store, and what can be done to it."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import apsw
from diary import Diary
from points import Points, Statements
from stage import Stage

from matins import Matins
from matins.store.queries import load_migrations
from matins.store.sqlite.store import SqliteStore
from matins.store.sqlite.transaction import SQL, SqliteTransaction

load_migrations("matins.store.sqlite")  # once, before the forks: all processes are of one version


def trace(points: Points) -> None:
    """From now on every statement of this process passes its points."""
    names = {text: name for name, text in SQL.items()}
    connect_plain = SqliteStore._connect

    def connect_traced(store: SqliteStore) -> Any:
        connection = connect_plain(store)
        statements = Statements(points, names)

        def about_to(cursor: Any, sql: str, bindings: Any) -> bool:
            statements.before(sql)
            return True

        connection.exec_trace = about_to
        _STATEMENTS[id(store)] = statements
        return connection

    def traced(plain: Callable[[SqliteStore, int], Any]) -> Callable[[SqliteStore, int], Any]:
        @contextlib.contextmanager
        def transaction(store: SqliteStore, now: int) -> Generator[SqliteTransaction]:
            try:
                with plain(store, now) as opened:
                    yield opened
            finally:
                _STATEMENTS[id(store)].over()

        return transaction

    SqliteStore._connect = connect_traced
    SqliteStore.transaction = traced(SqliteStore.transaction)
    SqliteStore.together = traced(SqliteStore.together)


_STATEMENTS: dict[int, Statements] = {}


def forget_epochs() -> None:
    """Remove the check that a write comes from the epoch that holds the run."""
    checked = SQL["change_states"]
    SQL["change_states"] = checked.replace("AND epoch = ?2", "AND ?2 IS NOT NULL")
    assert SQL["change_states"] != checked


def lose_answers(matins: Matins, diary: Diary) -> None:
    """From now on the disk of this process is unsound, a few times."""
    store: Any = matins._store
    with store._lock:
        store._connection = UnsoundDisk(store._connection, diary)


class UnsoundDisk:
    """Stands in for the connection that writes. The commit of a claim is written, and its answer is an error; the next
    commit, which would have given the claim back, is refused."""

    def __init__(self, connection: Any, diary: Diary, times: int = 3) -> None:
        self._connection = connection
        self._diary = diary
        self._left = times
        self._statements: set[str] = set()
        """Of the present transaction."""
        self._unanswered = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, values: Any = None) -> Any:
        if sql == "COMMIT":
            return self._commit()
        if sql.startswith("BEGIN"):
            self._statements.clear()
        self._statements.add(sql)
        return self._connection.execute(sql, values)

    def executemany(self, sql: str, rows: Any) -> Any:
        self._statements.add(sql)
        return self._connection.executemany(sql, rows)

    def _commit(self) -> None:
        if self._unanswered and SQL["release"] in self._statements:
            self._unanswered = False
            raise apsw.IOError("disk I/O error")
        self._connection.execute("COMMIT")
        if self._left and not self._unanswered and SQL["insert_attempt"] in self._statements:
            self._left -= 1
            self._unanswered = True
            self._diary.tell("unanswered")
            raise apsw.IOError("disk I/O error, after it was written")


class FullDisk:
    """No file of this process can grow while the disk is full. The diary is far smaller than the database's log."""

    def __init__(self, stage: Stage) -> None:
        self._log = Path(f"{stage.database}-wal")
        self._hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(self._log.stat().st_size, 1 << 16), self._hard))

    def clear(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._hard, self._hard))
