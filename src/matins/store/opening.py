"""Opening the store of a URL."""

from __future__ import annotations

from pathlib import Path

from matins.errors import InvalidInput, StoreError
from matins.ports import Clock, Store


def open_store(url: str, clock: Clock) -> Store:
    if url.startswith("sqlite://"):
        from matins.store.sqlite.store import SqliteStore

        name = url.removeprefix("sqlite://").removeprefix("/")
        return SqliteStore(Path(name) if name else None, clock.now_ms())
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from matins.store.postgres.store import PostgresStore
        except ModuleNotFoundError as error:
            raise StoreError(
                f"PostgreSQL needs the package {error.name}, which is not installed.",
                hint='pip install "matins[postgres]"',
            ) from error
        return PostgresStore(url, clock.now_ms())
    raise InvalidInput(
        f'"{url}" is not the URL of a store.',
        value=url,
        field="url",
        hint="Use sqlite:///file.db, sqlite:// or postgresql://user@host/db.",
    )
