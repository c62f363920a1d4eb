"""Transactions of one thread that become one, and processes that fork.

Transactions of one thread that become one: all of them are committed, or none.

What a child of `fork` must neither use nor close: the connections of its parent.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Generic, Protocol, TypeVar


class _Part(Protocol):
    def savepoint(self) -> AbstractContextManager[None]: ...


T = TypeVar("T", bound=_Part)


class _Joined(Generic[T]):
    def __init__(self, begun: Callable[[T], None]) -> None:
        self._begun = begun
        self.stack = ExitStack()
        self.transaction: T | None = None
        self.after: list[Callable[[], None]] = []

    @contextmanager
    def part(self, begin: Callable[[], AbstractContextManager[T]]) -> Generator[T]:
        if self.transaction is None:
            self.transaction = self.stack.enter_context(begin())
            self._begun(self.transaction)
        with self.transaction.savepoint():
            yield self.transaction


class JoiningStore(Generic[T]):
    """A store whose transactions can be joined."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def _begin(self, now: int) -> AbstractContextManager[T]:
        raise NotImplementedError

    @property
    def _joined(self) -> _Joined[T] | None:
        return getattr(self._thread, "joined", None)

    def transaction(self, now: int) -> AbstractContextManager[T]:
        joined: _Joined[T] | None = getattr(self._thread, "joined", None)  # as below, without a call
        return self._begin(now) if joined is None else joined.part(lambda: self._begin(now))

    def together(self, now: int) -> AbstractContextManager[T]:
        """A transaction that may share its commit with those of other threads. What it raises undoes its part only."""
        return self.transaction(now)

    @contextmanager
    def join(self, begun: Callable[[T], None]) -> Generator[None]:
        """Make the transactions of this thread one. It begins with the first of them, in which `begun` is called, and
        is committed at the end."""
        joined = self._thread.joined = _Joined(begun)
        try:
            with joined.stack:
                yield
        finally:
            self._thread.joined = None
        for call in joined.after:
            call()

    @contextmanager
    def _join_to(self, transaction: T) -> Generator[_Joined[T]]:
        """Make the transactions of this thread parts of one that another commits."""
        joined = self._thread.joined = _Joined[T](lambda _: None)
        joined.transaction = transaction
        try:
            yield joined
        finally:
            self._thread.joined = None

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call it when what this thread has written is committed: now, unless transactions are joined."""
        joined = self._joined
        if joined is None:
            call()
        elif call not in joined.after:
            joined.after.append(call)


Forked = TypeVar("Forked")


def after_fork(owner: Forked, call: Callable[[Forked], None]) -> None:
    """Call it in every child that is forked while the owner exists."""
    held = weakref.ref(owner)

    def forked() -> None:
        found = held()
        if found is not None:
            call(found)

    os.register_at_fork(after_in_child=forked)


def keep_forever(connection: Any) -> None:
    """Never close a connection of the parent: that would end a session, or remove a log, that the parent uses."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
