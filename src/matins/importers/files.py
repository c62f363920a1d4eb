"""Files of other systems: texts, JSON, and rows of SQLite databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import orjson

from matins.errors import InvalidInput

_MAGIC = b"SQLite format 3\0"


def read_text(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace")


def read_rows(path: str, table: str) -> list[dict[str, Any]]:
    """The rows of a table: of a SQLite database, or of a JSON file that lists them, bare or under the table's name."""
    data = _bytes(path)
    if data.startswith(_MAGIC):
        return _database_rows(path, table)
    try:
        found: Any = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        hint = "Name the database, or an export of its rows as JSON."
        raise InvalidInput(
            f"{path} is neither SQLite nor JSON: {error}.", value=path, field="path", hint=hint
        ) from None
    listed = cast("dict[str, Any]", found).get(table) if isinstance(found, dict) else found
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in cast("list[Any]", listed)):
        hint = f'For example: {{"{table}": [{{…}}]}}.'
        raise InvalidInput(f"{path} has no list of {table}.", value=path, field="path", hint=hint)
    return cast("list[dict[str, Any]]", listed)


def _database_rows(path: str, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')]
        except sqlite3.DatabaseError as error:
            raise InvalidInput(
                f"{path}: {error}.", value=path, field="path", hint=f"It needs a table {table}."
            ) from None


def _bytes(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        raise InvalidInput(message, value=path, field="path", hint="Check its name and permissions.") from error
