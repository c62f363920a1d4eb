"""A SQLite file, its readers, its backup.

A SQLite file: WAL, synchronous FULL, one writer connection, one engine. Threads that come at once share a commit.

Connections that read a SQLite file beside its writer: neither waits for the other.

Checks and copies of a database file while an engine writes to it.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Any, NoReturn

import apsw

from matins.errors import Conflict, InvalidInput, StoreBusy, StoreCorrupt, StoreError, StoreUnavailable, unwritable
from matins.model.clock import Clock
from matins.model.event import ChainHead
from matins.model.rows import WorkerRow
from matins.store.chain import Chain
from matins.store.joining import JoiningStore, after_fork, keep_forever
from matins.store.moving import refusal
from matins.store.queries import Migration, check_known, load_migrations
from matins.store.sqlite.ownership import (
    LogLost,
    OpenedFile,
    Ownership,
    check_filesystem,
    check_names,
    set_foreign_log_aside,
)
from matins.store.sqlite.transaction import SQL, SqliteTransaction

_KEPT = 4
_READING = "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000"


class Readers:
    """Connections for reading, each used by one thread at a time and opened when it is first needed."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._open: list[Any] = []
        self._idle: list[Any] = []
        self.closed = False

    def value(self, statement: str) -> Any:
        """The first column of the first row of a statement, which is a snapshot of its own."""
        connection = self.take()
        try:
            return connection.execute(statement).fetchone()[0]
        finally:
            self.give_back(connection)

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

    def take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            connection = self._connect()
            connection.execute(_READING).fetchall()
            # The writer writes the log back when it is closed, and knows whether it may.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._open.append(connection)
            return connection

    def give_back(self, connection: Any) -> None:
        """End its transaction, and let others have it."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if connection not in self._open:
            return  # the parent's
        if self.closed or len(self._idle) >= _KEPT:
            self._open.remove(connection)
            connection.close()
        else:
            self._idle.append(connection)


_MAX_SHOWN = 5
_NO_LINK = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
"""An agent may write the folder: a link in the place of the new file would have the copy written elsewhere."""


def write_backup(source: Path, target: Path) -> None:
    """Copy the database as of one moment. Writers do not wait. The copy is checked before it gets its name."""
    try:
        folder = target.parent.resolve(strict=True)
        target = folder / target.name
        file, name = mkstemp(".partial", f".{target.name}.", folder)  # a new private name
        os.close(file)
    except OSError as error:
        raise _unwritable(target, error) from error
    new = Path(name)
    try:
        _copy(source, new)
        os.link(new, target)  # unlike a rename, a link never replaces a file
    except FileExistsError:
        raise Conflict(f"{target} already exists.", value=str(target), field="path", hint="Name a new file.") from None
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        new.unlink(missing_ok=True)


def _unwritable(target: Path, error: OSError) -> InvalidInput:
    message = f"{target} cannot be written: {error.strerror}."
    return InvalidInput(message, value=str(target), field="path", hint="Name another directory.")


def _copy(source: Path, target: Path) -> None:
    here = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        there: Any = apsw.Connection(str(target), flags=_NO_LINK)
    except apsw.CantOpenError as error:
        here.close()
        raise OSError(errno.EPERM, "another file was put in the place of the new one") from error
    try:
        here.set_busy_timeout(5_000)
        with there.backup("main", here, "main") as backup:
            while not backup.done:
                backup.step(-1)
        _pragma(there, "journal_mode = DELETE")  # one file, without a log
        # Another incarnation: the running store continues, so the copy is older when it is used.
        there.execute(
            "INSERT INTO meta SELECT 'copy_of', value FROM meta WHERE key = 'incarnation';"
            "UPDATE meta SET value = lower(hex(randomblob(8))) WHERE key = 'incarnation'"
        )
        problems = _integrity_problems(there)
    finally:
        there.close()
        here.close()
    if problems:
        raise StoreCorrupt(
            f"The copy of {source} is damaged: {problems[0]}.", hint="Run matins doctor. The copy was deleted."
        )
    file = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def integrity_problems(path: Path) -> list[str]:
    """The problems that `quick_check` finds, on its own connection: the engine does not wait."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5_000)
        return _integrity_problems(connection)
    except (apsw.CorruptError, apsw.NotADBError) as error:  # too damaged for the check itself
        return [str(error)]
    finally:
        connection.close()


def _integrity_problems(connection: apsw.Connection) -> list[str]:
    found = [str(row[0]) for row in _pragma(connection, f"quick_check({_MAX_SHOWN})")]
    return [] if found == ["ok"] else found


def _pragma(connection: Any, pragma: str) -> list[Any]:
    return connection.execute(f"PRAGMA {pragma}").fetchall()


_MAX_OPEN_TRIES = 500
_OPEN_POLL_S = 0.01
APPLICATION_ID = 0x4D41544E  # "MATN"
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8000",  # a larger one makes nothing faster: the system keeps the pages too
    "PRAGMA foreign_keys = OFF",  # the transactions keep references valid; a check costs a lookup each
)
_PATIENCE_S = 0.02
_CHECKPOINT_PAGES = 4_000
_NO_CHAIN = Chain(0)
"""The chain of transactions that only read."""
_MAX_SHARING = 32
"""How many parts one commit has at most."""
_LEFT_OPEN_S = 1.0
"""Time after which a thread that waits for a commit makes it: the thread that was expected did not come."""
_MAX_LOG_PAGES = 16_000
"""Above it, readers take turns with the writer: a log that is always being read cannot be written back and reused."""


class _Shared:
    """A transaction of several threads. Each has a part of it, a savepoint, and waits until all of it is durable."""

    def __init__(self, transaction: SqliteTransaction) -> None:
        self.transaction = transaction
        self.parts = 0
        self.error: Exception | None = None
        self.ended = threading.Event()

    def part(self) -> AbstractContextManager[None]:
        """What is undone when it fails. Of the first, that is everything."""
        return self.transaction.savepoint() if self.parts else nullcontext()


class SqliteStore(JoiningStore[SqliteTransaction]):
    """`path` is None for a database in memory, which exists as long as the store."""

    kind = "sqlite"
    shared = False
    """Whether several engines may run on it."""
    reads_wait = False

    def __init__(self, path: Path | None, now: int, *, of_move: bool = False) -> None:
        """`of_move`: by the command that moves a store here."""
        super().__init__()
        self._of_move = of_move
        path = None if path is None else path.resolve()  # a link beside it would have a lock of its own
        self.path = path
        if path is not None:
            check_filesystem(path)
            check_names(path)
        self.ownership = Ownership(path)
        self._lock = threading.RLock()
        self._run_ids = range(0)
        self._writer: int | None = None
        """The thread that has a transaction open."""
        self._shared: _Shared | None = None
        """A transaction to which another thread is about to add its part."""
        self._coming: set[object] = set()
        """One for each of those threads."""
        self._log_pages = 0
        self._readers = Readers(self._connect)
        with translated_errors(path):
            if path is not None:
                set_foreign_log_aside(path, self.ownership)
            self._connection: Any = self._connect()  # apsw's types of bindings need Python 3.12
            try:
                self._open_waiting(now)
                self._file = OpenedFile(path)
                self.store_id, self.incarnation = self._meta("store_id"), self._meta("incarnation")
                self.run_key = self._meta("run_key")
            except BaseException:
                self._connection.close()
                raise
        self._chain: Chain | None = None
        self.last_head: ChainHead | None = None
        self._forked = False
        after_fork(self, SqliteStore._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """Leave the connection to the parent, in a forked child. The child opens the file again when it uses it."""
        self._lock = threading.RLock()  # a thread of the parent may have held it
        self._writer = self._shared = None
        self._coming = set()
        if self.path is not None:
            self._readers.leave_to_parent()
            keep_forever(self._connection)
            self._forked = True

    def close(self) -> None:
        self._readers.close()
        with self._alone():
            if not self._forked:
                if not self._file.is_intact:  # the log belongs to the file before
                    with suppress(apsw.ConnectionClosedError):  # the second close of it does nothing
                        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._connection.close()
        self.ownership.release()

    @contextmanager
    def _begin(self, now: int) -> Generator[SqliteTransaction]:
        with self._lock:
            try:
                transaction = self._opened(now)
                self._writer = threading.get_ident()
                try:
                    yield transaction
                    self._commit(transaction)
                except BaseException:
                    self._undo()
                    raise
                finally:
                    self._writer = None
            except apsw.Error as error:
                raise_translated(error, self.path)

    def _opened(self, now: int) -> SqliteTransaction:
        """Begin a transaction, after what other threads share is committed."""
        if self._shared is not None and self._writer is None:
            self._end_shared()
        self._check_file()
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            return SqliteTransaction(self._connection, self._chain or self._new_chain(now), self._run_ids)
        except BaseException:
            self._undo()
            raise

    def together(self, now: int) -> AbstractContextManager[SqliteTransaction]:
        alone = self._joined is not None or self.path is None
        return self.transaction(now) if alone else self._sharing(now)

    @contextmanager
    def _sharing(self, now: int) -> Generator[SqliteTransaction]:
        """Do a part of a transaction. Then commit, unless another thread is about to add its own."""
        me = object()
        self._coming.add(me)
        with translated_errors(self.path):
            try:
                with self._lock:
                    self._coming.discard(me)
                    shared = self._shared
                    if shared is None:
                        shared = self._shared = _Shared(self._opened(now))
                    self._writer = threading.get_ident()
                    try:
                        with shared.part():
                            yield shared.transaction
                        shared.parts += 1
                    finally:
                        self._writer = None
                        goes_on = shared.parts and self._coming and shared.parts < _MAX_SHARING
                        if not goes_on or not self._connection.in_transaction:
                            self._end_shared()
            finally:
                self._coming.discard(me)
            while not shared.ended.wait(_LEFT_OPEN_S):
                with self._lock:
                    self._end_shared()
            if shared.error is not None:
                raise shared.error

    def _end_shared(self) -> None:
        """Commit what threads share, if there is something. An error is theirs: each raises it."""
        shared, self._shared = self._shared, None
        if shared is None:
            return
        try:
            if not shared.parts:
                self._undo()
            elif self._connection.in_transaction:
                self._commit(shared.transaction)
            else:  # SQLite has undone all of it, with the part that failed
                shared.error = StoreUnavailable(f"{self.path} does not answer.", hint="Matins retries.")
        except BaseException as error:
            self._undo()
            shared.error = error if isinstance(error, Exception) else StoreUnavailable("The commit was interrupted.")
            if shared.error is not error:
                raise
        finally:
            shared.ended.set()

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Have the connection that writes, after what other threads share is committed."""
        with self._lock:
            if self._shared is not None and self._writer is None:
                self._end_shared()
            yield

    def _commit(self, transaction: SqliteTransaction) -> None:
        transaction.link_events()
        self._file.check()  # again: what was read since may be of two files
        self._connection.execute("COMMIT")
        self._chain, self._run_ids = transaction.chain, transaction.spare_run_ids
        if transaction.events:
            self.last_head = transaction.chain.committed(transaction.last_event_id)

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        else:  # the commit may have happened: only a new chain is consistent, and only new ids are unused
            self._chain, self._run_ids = None, range(0)

    def within(self, connection: Any, now: int) -> AbstractContextManager[None]:
        # Python's sqlite3 is another copy of SQLite than ours. Two in one process do not see each other's locks: what
        # one commits, the other overwrites.
        message = "connection= takes part in a transaction on PostgreSQL, and this store is SQLite."
        hint = "Call it after your commit, with a key: the same key makes one run, however often you repeat the call."
        raise InvalidInput(message, field="connection", hint=hint)

    @contextmanager
    def reading(self) -> Generator[SqliteTransaction]:
        if self._takes_turns():
            with self._reading_in_turn() as transaction:
                yield transaction
            return
        # Wait a moment for a transaction that writes: threads take turns, and a fire that shares them is late.
        if self._writer is not None and self._lock.acquire(timeout=_PATIENCE_S):
            self._lock.release()
        try:
            self._check_file()
            connection = self._readers.take()
            try:
                connection.execute("BEGIN")
                yield SqliteTransaction(connection, _NO_CHAIN, range(0))
            finally:
                self._readers.give_back(connection)
        except apsw.Error as error:
            raise_translated(error, self.path)

    def policy_rev(self) -> int:
        if self._takes_turns():
            with self.reading() as transaction:
                return transaction.policy_rev()
        with translated_errors(self.path):
            self._check_file()
            return self._readers.value(SQL["policy_rev"])

    def mark(self) -> object:
        with self._lock:
            try:
                self._check_file()
                ((others,),) = self._connection.execute("PRAGMA data_version").fetchall()
                return self._connection.total_changes(), others
            except apsw.Error as error:
                raise_translated(error, self.path)

    def _takes_turns(self) -> bool:
        """Whether this thread reads with the writer's connection: it reads what it has written, or it must."""
        within = self._writer == threading.get_ident()
        return within or self.path is None or self._readers.closed or self._log_pages > _MAX_LOG_PAGES

    @contextmanager
    def _reading_in_turn(self) -> Generator[SqliteTransaction]:
        with self._alone(), translated_errors(self.path):
            self._check_file()
            alone = not self._connection.in_transaction
            if alone:
                self._connection.execute("BEGIN")
            try:
                yield SqliteTransaction(self._connection, _NO_CHAIN, range(0))
            finally:
                if alone and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")  # unlike a failed commit, a rollback leaves none open

    def acquire(self, *, wait: bool = False) -> bool:
        if not (self.ownership.acquire_waiting() if wait else self.ownership.acquire()):
            return False
        try:
            with self.reading() as transaction:
                _check_marks(transaction.marks(), writes=True)
        except BaseException:
            self.ownership.release()
            raise
        return True

    def release(self) -> None:
        self.ownership.release()

    def announce(self, socket: Path) -> None:
        self.ownership.announce(socket)

    def owner_socket(self) -> Path | None:
        value = self.ownership.owner().get("socket")
        return Path(str(value)) if value else None

    def owner_pid(self) -> int | None:
        value = self.ownership.owner().get("pid")
        return value if isinstance(value, int) else None

    def socket_path(self) -> Path | None:
        """The socket of an engine on this store; None for a store in memory."""
        return self.ownership.socket

    def engines(self, lease_ms: int) -> list[WorkerRow]:
        """The running engines. A worker with a process id holds the lock while it runs."""
        with self.reading() as transaction:
            workers = transaction.workers()
        owned = self.ownership.has_engine()
        return [worker for worker in workers if owned or '"pid"' not in worker.identity]

    def clock(self, host: Clock) -> Clock:
        return host

    def listen(self, wake: Callable[[], None]) -> None:
        """Do nothing: changes of other processes arrive through the owner's socket."""

    def notify(self) -> None:
        """Do nothing, as in `listen`."""

    def checkpoint(self) -> None:
        """Write the log back into the database file."""
        with self._alone(), translated_errors(self.path):
            self._file.check()
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _committed(self, connection: Any, name: str, pages: int) -> int:
        """Called by SQLite after each commit, with the length of the log. It is written back as far as it is unread."""
        self._log_pages = pages
        if pages >= _CHECKPOINT_PAGES and self._file.is_intact:
            with suppress(apsw.Error):  # the commit has succeeded; the next one tries again
                connection.wal_checkpoint(name, apsw.SQLITE_CHECKPOINT_PASSIVE)
        return apsw.SQLITE_OK

    def backup(self, path: Path) -> None:
        if self.path is None:
            raise StoreError("A store in memory has no file to back up.", hint="Use a store in a file: sqlite:///FILE.")
        with translated_errors(self.path):
            write_backup(self.path, path)

    def version_text(self) -> str:
        with self._lock:
            self._check_file()
            return f"SQLite {apsw.sqlite_lib_version()}, schema {self._connection.pragma('user_version')}"

    def integrity_problems(self) -> list[str]:
        if self.path is None:
            return []
        with translated_errors(self.path):
            return integrity_problems(self.path)

    def _connect(self) -> Any:
        if self.path is not None:
            with unwritable(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                if not self.path.exists():  # prompts and answers are private; SQLite gives its log the same mode
                    self.path.touch(0o600)
        connection: Any = apsw.Connection(str(self.path) if self.path else ":memory:")
        connection.set_busy_timeout(5_000)
        # Plans do not depend on bound values; otherwise SQLite prepares a statement again whenever a value is bound.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return connection

    def _check_file(self) -> None:
        """Raise StoreUnavailable when the file, or the lock beside it, is no longer the one that was opened: what is
        written to it would be lost, or another engine may run."""
        if self._forked:
            with self._lock:
                if self._forked:
                    self._connection, self._forked = self._connect(), False
                    self._chain, self._run_ids = None, range(0)
                    self._open_waiting(0)  # it is there, and nothing is upgraded
        try:
            self._file.check()
        except LogLost:
            self._save_log()
            raise
        if not self.ownership.renew():
            raise StoreUnavailable(
                f"The lock of {self.path} was deleted, and another process has taken it.", hint="Stop one of the two."
            )

    def _save_log(self) -> None:
        """Write a log that only this process still has open into the file: the next process would not find it."""
        with self._lock:
            if not self._connection.in_transaction:
                with suppress(apsw.Error):  # a reader may be in the way; each use of the store tries again
                    self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _open_waiting(self, now: int) -> None:
        """Open the database, waiting for other processes that create it at the same time."""
        for _ in range(_MAX_OPEN_TRIES):
            try:
                self._open(now)
            except apsw.BusyError:  # SQLite does not wait while the journal mode changes
                time.sleep(_OPEN_POLL_S)
            else:
                return
        self._open(now)

    def _open(self, now: int) -> None:
        """Open the database, and refuse a foreign or newer one before anything is written."""
        migrations = load_migrations("matins.store.sqlite")
        self.knows = len(migrations)
        have = self._applied(migrations)
        if have and not self._of_move:
            _check_marks(self._connection.execute(SQL["marks"]).fetchall(), writes=False)
        for pragma in _PRAGMAS:
            self._connection.execute(pragma).fetchall()
        self._connection.set_wal_hook(self._committed)
        if have < len(migrations):
            self._upgrade(migrations, now)

    def _meta(self, key: str) -> str:
        return str(self._connection.execute(SQL["meta"], {"key": key}).fetchone()[0])

    def _new_chain(self, now: int) -> Chain:
        writer = str(uuid.uuid4())
        row = self._connection.execute(SQL["insert_writer"], (writer, now)).fetchone()
        return Chain(row[0], writer)

    def _applied(self, known: list[Migration]) -> int:
        """The number of known migrations that are applied."""
        with self._connection:  # one snapshot: another process may be creating the database
            have, application = (self._connection.pragma(name) for name in ("user_version", "application_id"))
            tables = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if application not in (0, APPLICATION_ID) or (application == 0 and (have or tables)):
                raise StoreError(f"{self.path} is a SQLite database, but not one of Matins.", hint="Name another file.")
            recorded = dict(self._connection.execute("SELECT number, checksum FROM migrations")) if have else {}
        check_known(str(self.path), have, recorded, known, "Move the file away to start with a new one")
        return have

    def _upgrade(self, migrations: list[Migration], now: int) -> None:
        """Apply migrations while no other process owns the file: the schema must not change under a running engine."""
        if not self.ownership.acquire_waiting():
            if self._applied(migrations) == len(migrations):
                return  # another process upgraded the file, and its engine runs
            raise StoreBusy(
                f"{self.path} must be upgraded, but an engine is running on it.", hint="Stop the engine first."
            )
        try:
            have = self._applied(migrations)  # another process may have upgraded the file meanwhile
            for migration in migrations[have:]:
                with self._connection:
                    self._connection.execute(migration.sql)
                    row = (migration.number, migration.name, migration.checksum, now)
                    self._connection.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", row)
                    self._connection.execute(f"PRAGMA user_version = {migration.number}")
                    self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        finally:
            self.ownership.release()


def _check_marks(marks: Iterable[tuple[str, object]], *, writes: bool) -> None:
    """Raise StoreMoved when the store moves, or has moved."""
    if refused := refusal({key: str(value) for key, value in marks}, writes=writes):
        raise refused


_TRANSLATIONS: Sequence[tuple[tuple[type[apsw.Error], ...], type[StoreError], str, str]] = (
    (
        (apsw.NotADBError, apsw.CorruptError), StoreCorrupt, "{path} is damaged: {error}.",
        "Restore a backup, or try `sqlite3 FILE .recover`. Nothing was changed.",
    ),
    (
        (apsw.FullError,), StoreUnavailable, "There is no disk space left for {path}.",
        "Free disk space. Matins retries; no data is lost.",
    ),
    (
        (apsw.BusyError, apsw.IOError, apsw.ProtocolError),  # the last: a process stopped while it recovers
        StoreUnavailable, "{path} does not answer: {error}.",
        "Check the disk, and other programs that use the file. Matins retries.",
    ),
    (
        (apsw.CantOpenError,), StoreError, "{path} cannot be opened: {error}.",
        "Check the directory and its permissions.",
    ),
    ((apsw.ReadOnlyError,), StoreError, "{path} cannot be written: {error}.", "Check the file's permissions."),
)  # fmt: skip
"""Errors of SQLite, the error of Matins that each becomes, its message and its hint."""


@contextmanager
def translated_errors(path: Path | None) -> Generator[None]:
    """Translate SQLite's errors to those of Matins."""
    try:
        yield
    except apsw.Error as error:
        raise_translated(error, path)


def raise_translated(error: apsw.Error, path: Path | None) -> NoReturn:
    for kinds, kind, message, hint in _TRANSLATIONS:
        if isinstance(error, kinds):
            raise kind(message.format(path=path, error=error), hint=hint) from error
    raise error
