"""What somebody with a database client could see and do."""

from __future__ import annotations

from typing import Any

from matins.store.sqlite.store import SqliteStore
from matins.testing import Sandbox

_SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
_POSTGRES_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"


def sql(bench: Sandbox, statement: str) -> list[tuple[Any, ...]]:
    """The rows that a statement gives."""
    store: Any = bench._store
    if isinstance(store, SqliteStore):
        return store._connection.execute(statement).fetchall()
    with store.pool.borrow(b"BEGIN") as session:
        cursor = session.cursor.execute(statement.encode())
        rows = cursor.fetchall() if cursor.description else []
        session.cursor.execute(b"COMMIT")
        return rows


def everything(bench: Sandbox) -> dict[str, list[str]]:
    """Every row of every table."""
    names = sql(bench, _SQLITE_TABLES if isinstance(bench._store, SqliteStore) else _POSTGRES_TABLES)
    return {name: sorted(map(repr, sql(bench, f"SELECT * FROM {name}"))) for (name,) in sorted(names)}
