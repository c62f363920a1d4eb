"""A SQLite file: WAL, synchronous FULL, one writer connection, one engine."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw

from matins.errors import StoreBusy, StoreCorrupt, StoreError, StoreUnavailable, StoreVersionError
from matins.ports import Clock
from matins.store.chain import Chain
from matins.store.queries import load_migrations
from matins.store.sqlite.copying import copy, damage
from matins.store.sqlite.ownership import Ownership, refuse_network_filesystem
from matins.store.sqlite.transaction import SQL, SqliteTransaction

APPLICATION_ID = 0x4D41544E  # "MATN"
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32000",
    "PRAGMA foreign_keys = OFF",  # references are kept by the transactions; checking them costs a lookup each
)


class SqliteStore:
    """`path` is None for a database in memory, which lives as long as the store."""

    kind = "sqlite"
    shared = False
    """Whether several engines may run on it."""

    def __init__(self, path: Path | None, now: int) -> None:
        self.path = path
        if path is not None:
            refuse_network_filesystem(path)
        self.ownership = Ownership(path)
        self._lock = threading.RLock()
        self._run_ids = range(0)
        with told(path):
            self._connection: Any = self._open()  # apsw types its bindings by what Python 3.12 added
            self._migrate(now)
            self.store_id = str(self._connection.execute(SQL["meta"], ("store_id",)).fetchone()[0])
        self._chain: Chain | None = None

    def close(self) -> None:
        with self._lock:
            self._connection.close()
        self.ownership.release()

    @contextmanager
    def transaction(self, now: int) -> Generator[SqliteTransaction]:
        """Everything in it or nothing, durable when it returns."""
        with self._lock, told(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                chain = self._chain or self._new_chain(now)
                transaction = SqliteTransaction(self._connection, chain, self._run_ids)
                yield transaction
                transaction.link_events()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                else:  # the commit may have happened: only a new chain is sure to be whole, and new numbers unused
                    self._chain, self._run_ids = None, range(0)
                raise
            self._chain, self._run_ids = chain, transaction.spare_run_ids
            if transaction.events:
                chain.committed()

    @contextmanager
    def reading(self) -> Generator[SqliteTransaction]:
        """A look without a write."""
        with self._lock, told(self.path):
            yield SqliteTransaction(self._connection, Chain(0), range(0))

    def own(self, *, patiently: bool = False) -> bool:
        return self.ownership.take_patiently() if patiently else self.ownership.take()

    def disown(self) -> None:
        self.ownership.release()

    def announce(self, socket: Path) -> None:
        self.ownership.announce(socket)

    def owner_socket(self) -> Path | None:
        """Where the engine that owns this file listens; None when nobody says."""
        said = self.ownership.owner().get("socket")
        return Path(str(said)) if said else None

    def owner_pid(self) -> int | None:
        said = self.ownership.owner().get("pid")
        return said if isinstance(said, int) else None

    def socket_path(self) -> Path | None:
        """Where an engine on this store listens; None where nobody needs to ask it."""
        return self.ownership.socket

    def engines(self, lease_ms: int) -> int:
        """A worker that names its process has the lock as long as it lives."""
        with self.reading() as transaction:
            workers = transaction.workers()
        owned = self.ownership.has_engine()
        return sum(1 for _, identity, _ in workers if owned or '"pid"' not in identity)

    def clock(self, host: Clock) -> Clock:
        return host

    def listen(self, wake: Callable[[], None]) -> None:
        """Nobody writes beside the owner: changes of other processes come through its socket."""

    def notify(self) -> None:
        """As above."""

    def checkpoint(self) -> None:
        """Fold the log back into the file while nothing else happens."""
        with self._lock, told(self.path):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def backup(self, path: Path) -> None:
        """A whole and consistent copy in a new file, while the engine runs."""
        if self.path is None:
            raise StoreError("A store in memory has no file to copy", hint="run on sqlite:///FILE")
        with told(self.path):
            copy(self.path, path)

    def about(self) -> str:
        with self._lock:
            return f"SQLite {apsw.sqlite_lib_version()}, schema {self._connection.pragma('user_version')}"

    def damage(self) -> list[str]:
        """What is wrong with the file; nothing where all is well."""
        if self.path is None:
            return []
        with told(self.path):
            return damage(self.path)

    def _open(self) -> Any:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if (
                not self.path.exists()
            ):  # prompts and answers are nobody else's to read; SQLite gives its log the same mode
                self.path.touch(0o600)
        connection: Any = apsw.Connection(str(self.path) if self.path else ":memory:")
        connection.set_busy_timeout(5_000)
        for pragma in _PRAGMAS:
            connection.execute(pragma).fetchall()
        return connection

    def _new_chain(self, now: int) -> Chain:
        row = self._connection.execute(SQL["insert_writer"], (str(uuid.uuid4()), now)).fetchone()
        return Chain(row[0])

    def _migrate(self, now: int) -> None:
        migrations = load_migrations("matins.store.sqlite")
        have, application = (self._connection.pragma(name) for name in ("user_version", "application_id"))
        if application not in (0, APPLICATION_ID) or (application == 0 and self._has_tables()):
            raise StoreError(f"{self.path} is a SQLite database, but not one of Matins", hint="name another file")
        if have > len(migrations):
            raise StoreVersionError(
                f"{self.path} was made by a newer Matins (schema {have}; this one knows {len(migrations)})",
                hint="upgrade Matins; nothing was changed",
            )
        self._check_known(migrations[:have])
        if have < len(migrations):
            self._upgrade(migrations, now)

    def _upgrade(self, migrations: list[tuple[int, str, str]], now: int) -> None:
        """Only while nobody else has the file: an engine must not find another schema under its feet."""
        if not self.ownership.take_patiently():
            raise StoreBusy(f"{self.path} must be upgraded, but an engine runs on it", hint="stop it first")
        try:
            have = self._connection.pragma("user_version")  # somebody may have done it while we waited
            for number, name, sql in migrations[have:]:
                with self._connection:
                    self._connection.execute(sql)
                    row = (number, name, _checksum(sql), now)
                    self._connection.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", row)
                    self._connection.execute(f"PRAGMA user_version = {number}")
                    self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        finally:
            self.ownership.release()

    def _check_known(self, applied: list[tuple[int, str, str]]) -> None:
        if not applied:
            return
        rows = dict(self._connection.execute("SELECT number, checksum FROM migrations").fetchall())
        for number, name, sql in applied:
            if rows.get(number) != _checksum(sql):
                raise StoreVersionError(
                    f"{self.path} was made by another Matins: its migration {number} ({name}) is not known here",
                    hint="use the version that made it; nothing was changed",
                )

    def _has_tables(self) -> bool:
        return bool(self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])


def _checksum(sql: str) -> str:
    return sha256(sql.encode()).hexdigest()


@contextmanager
def told(path: Path | None) -> Generator[None]:
    """SQLite's errors in words that say what to do."""
    try:
        yield
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreCorrupt(
            f"{path} is damaged: {error}", hint="restore a backup, or try `sqlite3 FILE .recover`; nothing was changed"
        ) from error
    except apsw.FullError as error:
        raise StoreUnavailable(
            f"There is no room left for {path}", hint="make room; nothing is lost meanwhile"
        ) from error
    except (apsw.BusyError, apsw.IOError) as error:
        raise StoreUnavailable(f"{path} does not answer: {error}", hint="it is tried again") from error
    except apsw.CantOpenError as error:
        raise StoreError(f"{path} cannot be opened: {error}", hint="check the folder and its permissions") from error
    except apsw.ReadOnlyError as error:
        raise StoreError(f"{path} cannot be written: {error}", hint="check the file's permissions") from error
