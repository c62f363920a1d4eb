"""Statement points of the PostgreSQL store, and what can be done to it."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from points import Points, Statements
from stage import Stage

from matins.store.postgres.session import SQL
from matins.store.queries import load_migrations

_WRITES = re.compile(r"\b(insert|update|delete|copy)\b", re.IGNORECASE)
_FULL = False

load_migrations("matins.store.postgres")  # once, before the forks: all processes are of one version


def trace(points: Points) -> None:
    """From now on every statement of this process passes its points."""
    names = {text.decode(): name for name, text in SQL.items()}
    connections: WeakKeyDictionary[Any, Statements] = WeakKeyDictionary()
    execute, copy, rollback = psycopg.Cursor.execute, psycopg.Cursor.copy, psycopg.Connection.rollback

    def about_to(cursor: Any, query: Any) -> Statements:
        if cursor.connection not in connections:
            connections[cursor.connection] = Statements(points, names)
        text = query.decode() if isinstance(query, bytes) else query if isinstance(query, str) else "listen"
        connections[cursor.connection].before(text)
        if _FULL and _WRITES.search(text):
            raise psycopg.errors.DiskFull("could not extend file: No space left on device")
        return connections[cursor.connection]

    def traced_execute(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        statements = about_to(cursor, query)
        done = execute(cursor, query, *arguments, **options)
        if query == b"COMMIT":
            statements.over()
        return done

    def traced_rollback(connection: Any) -> None:
        statements = about_to(connection.cursor(), b"ROLLBACK")
        rollback(connection)
        statements.over()

    @contextmanager
    def traced_copy(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Generator[Any]:
        about_to(cursor, query)
        with copy(cursor, query, *arguments, **options) as opened:
            yield opened

    psycopg.Cursor.execute, psycopg.Cursor.copy = traced_execute, traced_copy
    psycopg.Connection.rollback = traced_rollback


def forget_epochs() -> None:
    """Remove the check that a write comes from the epoch that holds the run."""
    checked = SQL["change_states"]
    SQL["change_states"] = checked.replace(b"AND r.epoch = u.epoch", b"AND u.epoch IS NOT NULL")
    assert SQL["change_states"] != checked


class FullDisk:
    """The server has no room: it refuses whatever writes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def fill(self) -> None:
        _say(True)

    def clear(self) -> None:
        _say(False)


def _say(full: bool) -> None:
    global _FULL
    _FULL = full
