"""Every store, and what somebody with a database client could do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from store_records import NOW

import postgres_fixtures
from matins.store import Store
from matins.store.postgres.store import PostgresStore
from matins.store.sqlite.store import SqliteStore

postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
url = postgres_fixtures.every_url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    name = url.removeprefix("sqlite://").removeprefix("/")
    store = PostgresStore(url, NOW) if url.startswith("postgres") else SqliteStore(Path(name) if name else None, NOW)
    yield store
    store.close()


@pytest.fixture
def sql(store: Any) -> Callable[[str], list[tuple[Any, ...]]]:
    """What somebody with a database client could do; the rows that come back."""

    def execute(statement: str) -> list[tuple[Any, ...]]:
        if isinstance(store, SqliteStore):
            return store._connection.execute(statement).fetchall()
        with store.pool.borrow(b"BEGIN") as session:
            cursor = session.cursor.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
            session.cursor.execute(b"COMMIT")
            return rows

    return execute


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, NOW)
    yield store
    store.close()


@pytest.fixture
def other(postgres_store: PostgresStore, postgres_url: str) -> Iterator[PostgresStore]:
    """Another process, as far as the database can tell."""
    other = PostgresStore(postgres_url, NOW)
    yield other
    other.close()
