"""A SQLite file as the source or the target of a move."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import apsw

from matins.errors import Conflict, StoreBusy, StoreVersionError, unwritable
from matins.store.moving import (
    ADDED,
    COPY,
    MOVED,
    MOVING,
    OWN_KEYS,
    OWN_TABLES,
    Column,
    Counts,
    Digest,
    End,
    Hashed,
    Mark,
    Numbers,
    Progress,
    Table,
    check_not_finished,
    check_same,
    digest_of,
    drain_note,
    shared_columns,
    values_of,
)
from matins.store.queries import Migration, check_known, load_migrations
from matins.store.sqlite.ownership import Ownership, check_filesystem, check_names
from matins.store.sqlite.store import APPLICATION_ID, translated_errors
from matins.store.sqlite.transaction import SQL

_BLOCK = 4_000
_KINDS: Mapping[str, Literal["integer", "text", "blob"]] = {"INTEGER": "integer", "TEXT": "text", "BLOB": "blob"}
_UNSAFE_WHILE_NEW = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -64000"
_ESCAPES = (("\\\\", "'\\'"), ("\\b", "char(8)"), ("\\t", "char(9)"), ("\\n", "char(10)"), ("\\v", "char(11)"),
            ("\\f", "char(12)"), ("\\r", "char(13)"))  # fmt: skip
"""The escape of a character, and the character as an expression; the backslash comes first."""


class SqliteEnd:
    def __init__(self, path: Path, now: int) -> None:
        self._path = path.resolve()
        self.name = str(self._path)
        self._now = now
        self._ownership = Ownership(self._path)
        self._opened: Any = None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        self._ownership.release()

    # -- a source

    def exists(self) -> bool:
        return self._path.exists()

    def hold(self) -> None:
        if not self._ownership.acquire_waiting():
            pid = self._ownership.owner().get("pid")
            who = "" if pid is None else f" (process {pid})"
            stop = "Stop it" if pid is None else f"Stop it (kill {pid})"
            hint = f"{stop}, or let the command wait for it: --wait"
            raise StoreBusy(f"An engine runs on {self.name}{who}.", hint=hint)

    def marks(self) -> dict[str, str]:
        return {} if not self.exists() else {key: str(value) for key, value in self._all("marks")}

    def meta(self) -> dict[str, str]:
        return {key: str(value) for key, value in self._all("all_meta") if key not in OWN_KEYS}

    def counts(self) -> Counts:
        return Counts(*self._all("carried")[0])

    def engines(self, lease_ms: int) -> list[str]:
        return []  # the lock is held

    def mark(self, mark: Mark, lease_ms: int) -> None:
        with self._writing() as connection:
            connection.execute(SQL["open_drained"], {"note": drain_note(mark.target)})
            connection.execute(SQL["insert_mark"], {"key": MOVING, "value": mark.text})

    def set_moved(self, mark: Mark) -> None:
        with self._writing() as connection:
            changed = connection.execute(SQL["mark_moved"], {"value": mark.text}).fetchall()
        if not changed and self.marks().get(MOVED) != mark.text:
            raise StoreBusy(f"Another command has changed the move of {self.name}.", hint="Repeat the command.")

    def unmark(self, mark: Mark) -> None:
        with self._writing() as connection:
            connection.execute(SQL["delete_marks"], {"value": mark.text})

    def tables(self) -> dict[str, Table]:
        return _tables(self._connection)

    def numbers(self) -> Numbers:
        return Numbers(*map(int, self._all("numbers")[0]))

    @contextmanager
    def snapshot(self) -> Generator[None]:
        connection = self._connection
        with translated_errors(self._path):
            connection.execute("BEGIN")
            try:
                yield
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def lines(self, table: str, columns: Sequence[Column], key: Sequence[str]) -> Iterator[bytes]:
        with translated_errors(self._path):
            yield from _lines(self._connection, table, columns, key)

    # -- a target

    def check_usable(self) -> None:
        check_filesystem(self._path)
        with unwritable(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            probe = self._path.with_name(f".{self._path.name}.probe")
            probe.touch(0o600)
            probe.unlink()
        if self.exists():
            check_names(self._path)
            self._check_version()

    def state(self) -> Literal["empty", "copy", "in_charge"]:
        if not self.exists():
            return "empty"
        return "copy" if COPY in self.marks() else "in_charge"

    def copy_from(self, source: End, mark: Mark, now: int, progress: Progress) -> dict[str, Digest]:
        if self.marks().get(COPY) == mark.text:
            return {}
        self._check_version()
        new = self._partial(mark)
        _remove(new)
        with unwritable(new):
            new.touch(0o600)
        try:
            with translated_errors(new):
                found = _fill(new, source, mark, now, progress)
            with unwritable(self._path):
                _sync(new)
                os.link(new, self._path)  # unlike a rename, a link never replaces a file
                _sync(self._path.parent)
        except FileExistsError:
            raise Conflict(f"{self._path} already exists.", field="target", hint="Name a new file.") from None
        finally:
            _remove(new)
        return found

    def drop(self, mark: Mark) -> None:
        _remove(self._partial(mark))
        check_not_finished(self, mark)
        if self.marks().get(COPY) == mark.text:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
            _remove(self._path)

    def _partial(self, mark: Mark) -> Path:
        return self._path.with_name(f".{self._path.name}.{mark.token}.partial")

    # -- the connection

    @property
    def _connection(self) -> Any:
        if self._opened is None:
            with translated_errors(self._path):
                opened: Any = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)
                opened.set_busy_timeout(5_000)
                opened.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY").fetchall()
            self._opened = opened
            self._check_version()
        return self._opened

    def _check_version(self) -> None:
        if self._opened is None:
            return
        known = load_migrations("matins.store.sqlite")
        with translated_errors(self._path):
            have = self._opened.pragma("user_version")
            if self._opened.pragma("application_id") != APPLICATION_ID:
                raise StoreVersionError(f"{self.name} is not a store of Matins.", hint="Name another file.")
            recorded = dict(self._opened.execute("SELECT number, checksum FROM migrations"))
        check_known(self.name, have, recorded, known, "Name another file")
        if have < len(known):
            raise StoreVersionError(
                f"{self.name} must be upgraded first.", hint="Start this version on it once: matins up"
            )

    def _all(self, name: str) -> list[Any]:
        with translated_errors(self._path):
            return self._connection.execute(SQL[name]).fetchall()

    @contextmanager
    def _writing(self) -> Generator[Any]:
        connection = self._connection
        with translated_errors(self._path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _fill(path: Path, source: End, mark: Mark, now: int, progress: Progress) -> dict[str, Digest]:
    """Make a whole store in a new file, and compare it."""
    connection: Any = apsw.Connection(str(path))
    try:
        connection.execute(_UNSAFE_WHILE_NEW).fetchall()
        migrations = load_migrations("matins.store.sqlite")
        connection.execute("BEGIN")
        for migration in migrations:
            _apply(connection, migration, now)
        deferred = connection.execute(SQL["deferred"]).fetchall()
        for kind, name, _ in deferred:
            connection.execute(f'DROP {kind} "{name}"')
        theirs, ours = source.tables(), _tables(connection)
        found: dict[str, Digest] = {}
        for table, columns in shared_columns(theirs, ours).items():
            blocks = Hashed(table, source.lines(table, columns, ours[table].key), progress)
            _load(connection, table, columns, blocks)
            found[table] = blocks.digest
        _set_meta(connection, source, mark)
        for _, _, statement in deferred:
            connection.execute(statement)
        connection.execute(SQL["rebuild_words"])
        connection.execute("COMMIT")
        for table, columns in shared_columns(theirs, ours).items():
            check_same(table, found[table], digest_of(table, _lines(connection, table, columns, ours[table].key)))
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        connection.close()
    return found


def _apply(connection: Any, migration: Migration, now: int) -> None:
    connection.execute(migration.sql)
    if migration.breaks:
        connection.execute(SQL["set_meta"], {"key": "oldest", "value": migration.number})
    row = (migration.number, migration.name, migration.checksum, now)
    connection.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", row)
    connection.execute(f"PRAGMA user_version = {migration.number}; PRAGMA application_id = {APPLICATION_ID}")


def _set_meta(connection: Any, source: End, mark: Mark) -> None:
    numbers = source.numbers()
    connection.execute("DELETE FROM meta WHERE key NOT IN ('next_run_id', 'oldest')")
    values = {**source.meta(), COPY: mark.text}
    connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", list(values.items()))
    connection.execute(SQL["set_next_run"], {"next_run": numbers.next_run})
    if "upto" not in {column.name for column in source.tables()["seals"].columns}:
        connection.execute(SQL["renew_upto"])
        connection.execute(SQL["renew_last_upto"], {"sealed": numbers.sealed})


def _load(connection: Any, table: str, columns: Sequence[Column], blocks: Iterable[bytes]) -> None:
    connection.execute(f'DELETE FROM "{table}"')  # what a new store has
    known = [column.name for column in columns]
    added = {name: value for (its, name), value in ADDED.items() if its == table and name not in known}
    have = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
    added = {name: value for name, value in added.items() if name in have}
    names = ", ".join(f'"{name}"' for name in (*known, *added))
    places = ", ".join([*["?"] * len(known), *added.values()])
    rows = (row for block in blocks for row in values_of(block, columns))
    connection.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({places})', rows)


def _tables(connection: Any) -> dict[str, Table]:
    found: dict[str, Table] = {}
    for (name,) in connection.execute(SQL["own_tables"]).fetchall():
        if name in OWN_TABLES:
            continue
        rows = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
        columns = tuple(Column(row[1], _KINDS[row[2]]) for row in rows)
        key = tuple(row[1] for row in sorted((row for row in rows if row[5]), key=lambda row: row[5]))
        found[name] = Table(columns, key or tuple(column.name for column in columns))
    return found


def _lines(connection: Any, table: str, columns: Sequence[Column], key: Sequence[str]) -> Iterator[bytes]:
    line = "'' || " + " || char(9) || ".join(map(_field, columns))
    order = ", ".join(f'"{name}"' for name in key)
    rows = (row[0] for row in connection.execute(f'SELECT {line} FROM "{table}" ORDER BY {order}'))
    while some := list(islice(rows, _BLOCK)):
        some.append("")
        yield "\n".join(some).encode()


def _field(column: Column) -> str:
    """An expression for the field of a column in a line."""
    name = f'"{column.name}"'
    if column.kind == "integer":
        return f"coalesce({name}, '\\N')"
    if column.kind == "blob":
        return f"CASE WHEN {name} IS NULL THEN '\\N' ELSE '\\\\x' || lower(hex({name})) END"
    text = name
    for stands, character in _ESCAPES:
        text = f"replace({text}, {character}, '{stands}')"
    return f"coalesce({text}, '\\N')"


def _remove(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").unlink()


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
