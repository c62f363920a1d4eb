"""Statement points of the SQLite store, and what can be done to it."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Generator
from pathlib import Path
from typing import Any

from points import Points, Statements
from stage import Stage

from matins.store.migrations import load_migrations
from matins.store.sqlite.store import SqliteStore
from matins.store.sqlite.transaction import SQL, SqliteTransaction

load_migrations("matins.store.sqlite")  # once, before the forks: all processes are of one version


def trace(points: Points) -> None:
    """From now on every statement of this process passes its points."""
    names = {text: name for name, text in SQL.items()}
    connect_plain, plain_transaction = SqliteStore._connect, SqliteStore.transaction

    def connect_traced(store: SqliteStore) -> Any:
        connection = connect_plain(store)
        statements = Statements(points, names)

        def about_to(cursor: Any, sql: str, bindings: Any) -> bool:
            statements.before(sql)
            return True

        connection.exec_trace = about_to
        _STATEMENTS[id(store)] = statements
        return connection

    @contextlib.contextmanager
    def transaction(store: SqliteStore, now: int) -> Generator[SqliteTransaction]:
        try:
            with plain_transaction(store, now) as opened:
                yield opened
        finally:
            _STATEMENTS[id(store)].over()

    SqliteStore._connect = connect_traced
    SqliteStore.transaction = transaction


_STATEMENTS: dict[int, Statements] = {}


def forget_epochs() -> None:
    """Remove the check that a write comes from the epoch that holds the run."""
    checked = SQL["change_states"]
    SQL["change_states"] = checked.replace("AND epoch = ?2", "AND ?2 IS NOT NULL")
    assert SQL["change_states"] != checked


class FullDisk:
    """No file of this process can grow while the disk is full. The diary is far smaller than the database's log."""

    def __init__(self, stage: Stage) -> None:
        self._log = Path(f"{stage.database}-wal")
        self._hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(self._log.stat().st_size, 1 << 16), self._hard))

    def clear(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._hard, self._hard))
