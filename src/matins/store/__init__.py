"""The store: SQLite or PostgreSQL behind one protocol. It persists transitions and knows no policy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from matins.errors import InvalidInput, StoreError
from matins.model.clock import Clock
from matins.model.event import ChainHead
from matins.model.rows import WorkerRow

if TYPE_CHECKING:
    from matins.store.moving import End
    from matins.store.transaction import Transaction


class Store(Protocol):
    kind: str
    path: Path | None
    """The file of the store; None if it has none."""
    shared: bool
    """Whether several engines may run on the store."""
    knows: int
    """How many migrations this version knows."""
    reads_wait: bool
    """Whether a read waits for another machine."""
    store_id: str
    incarnation: str
    """Random. The engine renews it when the store was set back to an older copy: ids that were given since then are
    given again."""
    last_head: ChainHead | None
    """The last event that this process committed."""
    run_key: str
    """The secret key of run tokens, created with the store."""

    def transaction(self, now: int) -> AbstractContextManager[Transaction]:
        """A transaction: all or nothing, durable when it returns."""
        ...

    def together(self, now: int) -> AbstractContextManager[Transaction]:
        """The same, for callers of which many come at once: they may share a commit. An error undoes its own part."""
        ...

    def join(self, begun: Callable[[Transaction], None]) -> AbstractContextManager[None]:
        """Make the transactions of this thread one, which begins with the first of them and is committed at the end of
        the context. `begun` is called in it first."""
        ...

    def within(self, connection: Any, now: int) -> AbstractContextManager[None]:
        """Make the transactions of this thread parts of a caller's, on the caller's connection. The caller commits."""
        ...

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call it when what this thread has written is committed: now, unless transactions are joined."""
        ...

    def reading(self) -> AbstractContextManager[Transaction]:
        """A read-only transaction on one snapshot."""
        ...

    def policy_rev(self) -> int:
        """The revision of the policies as this thread sees them, without a transaction of its own."""
        ...

    def mark(self) -> object:
        """A value that changes with whatever any process writes; None where nobody knows."""
        ...

    def acquire(self, *, wait: bool = False) -> bool:
        """Become the owner of the store. False when another process owns a store that can have only one owner.
        `wait`: wait for processes that own it briefly."""
        ...

    def release(self) -> None: ...
    def announce(self, socket: Path) -> None:
        """Publish the socket of this store's engine to other processes."""
        ...

    def owner_socket(self) -> Path | None:
        """The socket of the engine that owns this store; None when it is unknown."""
        ...

    def owner_pid(self) -> int | None:
        """The process id of the engine that owns this store; None when it is unknown."""
        ...

    def socket_path(self) -> Path | None:
        """The socket for an engine on this store; None if other processes do not need one."""
        ...

    def engines(self, lease_ms: int) -> list[WorkerRow]:
        """The running engines. A killed engine counts until its lock is released or its lease expires."""
        ...

    def clock(self, host: Clock) -> Clock:
        """The clock to use: the server's if there is one, otherwise the host's."""
        ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` when another process has made a change that concerns the loops."""
        ...

    def notify(self) -> None:
        """Notify other processes of a change."""
        ...

    def checkpoint(self) -> None: ...
    def backup(self, path: Path) -> None:
        """Write a consistent copy to a new file, while engines run."""
        ...

    def version_text(self) -> str:
        """The kind of store and its version."""
        ...

    def integrity_problems(self) -> list[str]:
        """The problems of the store; empty when there are none, or when the server checks itself."""
        ...

    def close(self) -> None: ...


def open_store(url: str, clock: Clock, *, of_move: bool = False) -> Store:
    """`of_move`: by the command that moves a store to this one, which is not in charge yet."""
    if url.startswith("sqlite://"):
        from matins.store.sqlite.store import SqliteStore

        name = url.removeprefix("sqlite://").removeprefix("/")
        return SqliteStore(Path(name) if name else None, clock.now_ms(), of_move=of_move)
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from matins.store.postgres.store import PostgresStore
        except ModuleNotFoundError as error:
            raise _without_package(error) from error
        return PostgresStore(url, clock.now_ms(), of_move=of_move)
    raise InvalidInput(
        f'"{url}" is not the URL of a store.',
        value=url,
        field="url",
        hint="Use sqlite:///file.db, sqlite:// or postgresql://user@host/db.",
    )


def open_end(url: str, clock: Clock) -> End:
    """A store as the source or the target of a move. It is not created."""
    if url.startswith("sqlite:///"):
        from matins.store.sqlite.moving import SqliteEnd

        return SqliteEnd(Path(url.removeprefix("sqlite:///")), clock.now_ms())
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from matins.store.postgres.moving import PostgresEnd
        except ModuleNotFoundError as error:
            raise _without_package(error) from error
        return PostgresEnd(url, clock.now_ms())
    hint = "Use postgresql://user@host/db, or sqlite:////full/path/to/file.db."
    raise InvalidInput(f'"{url}" is not the URL of a store that can be moved.', value=url, field="target", hint=hint)


def _without_package(error: ModuleNotFoundError) -> StoreError:
    message = f"PostgreSQL needs the package {error.name}, which is not installed."
    return StoreError(message, hint='pip install "matins[postgres]"')
