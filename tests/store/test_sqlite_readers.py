"""Reading beside the writer of a SQLite file: neither waits for the other, and nothing stale is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_records import NOW, add_schedules

from matins.store.sqlite import store as sqlite
from matins.store.sqlite.store import SqliteStore

WAIT_S = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "matins.db", NOW)
    add_schedules(store)
    yield store
    store.close()


def names(store: SqliteStore) -> set[str]:
    with store.reading() as transaction:
        return {row.name for row in transaction.schedules(0, None, 100)}


def rename(store: SqliteStore, to: str) -> None:
    with store.transaction(NOW) as transaction:
        transaction._connection.execute("UPDATE schedules SET name = ? WHERE id = 1", (to,))


def test_a_reader_does_not_wait_for_a_writer(store: SqliteStore) -> None:
    """It sees what is committed, and the thread that writes sees what it has written."""
    found: list[set[str]] = []
    with store.transaction(NOW) as transaction:
        transaction._connection.execute("UPDATE schedules SET name = 'renamed' WHERE id = 1")
        reader = threading.Thread(target=lambda: found.append(names(store)))
        reader.start()
        reader.join(WAIT_S)
        assert found, "the reader waits"
        assert "renamed" not in found[0]
        assert "renamed" in names(store)
    assert "renamed" in names(store)


def test_a_writer_does_not_wait_for_a_reader(store: SqliteStore) -> None:
    with store.reading() as transaction:
        before = transaction.schedules(0, None, 100)
        writer = threading.Thread(target=rename, args=(store, "renamed"))
        writer.start()
        writer.join(WAIT_S)
        assert not writer.is_alive(), "the writer waits"
        assert transaction.schedules(0, None, 100) == before, "one snapshot"
    assert "renamed" in names(store)


def test_what_another_process_has_committed_is_read(store: SqliteStore) -> None:
    names(store)
    child = os.fork()
    if child == 0:
        try:
            rename(store, "by a child")
            os._exit("by a child" not in names(store))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "by a child" in names(store)


def test_reading_cannot_change_anything(store: SqliteStore) -> None:
    with pytest.raises(Exception, match="cannot be written"), store.reading() as transaction:
        transaction._connection.execute("DELETE FROM schedules")


def test_a_log_that_is_always_read_is_written_back(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the log is too long, readers take turns with the writer, so that it can begin again."""
    monkeypatch.setattr(sqlite, "_CHECKPOINT_PAGES", 2)
    monkeypatch.setattr(sqlite, "_MAX_LOG_PAGES", store._log_pages + 20)
    with store.reading() as transaction:
        transaction.schedules(0, None, 1)
        while not store._takes_turns():
            rename(store, "again")
        assert "again" in names(store)
    for _ in range(2):  # the first writes it back, the second begins again
        rename(store, "short")
    assert not store._takes_turns()


def test_a_reader_of_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "matins.db", NOW)
    names(store)
    with store.reading():
        store.close()
    with pytest.raises(Exception, match="closed"):
        names(store)


class WatchedLock:
    """The lock of the writer, which says when another thread asks for it."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._writer = threading.get_ident()
        self.asked = threading.Event()

    def acquire(self, *arguments: Any, **options: Any) -> bool:
        if threading.get_ident() != self._writer:
            self.asked.set()
        return self._real.acquire(*arguments, **options)

    def release(self) -> None:
        self._real.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@pytest.fixture
def lock(store: SqliteStore) -> WatchedLock:
    store._lock = watched = WatchedLock(store._lock)  # type: ignore[assignment]
    return watched


def test_a_reader_lets_a_writer_pass(store: SqliteStore, lock: WatchedLock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share the interpreter: a reader that comes while a transaction writes begins after its commit."""
    monkeypatch.setattr(sqlite, "_PATIENCE_S", WAIT_S)
    found: list[set[str]] = []
    reader = threading.Thread(target=lambda: found.append(names(store)))
    with store.transaction(NOW) as transaction:
        transaction._connection.execute("UPDATE schedules SET name = 'renamed' WHERE id = 1")
        reader.start()
        assert lock.asked.wait(WAIT_S), "the reader does not wait"
        assert found == []
    reader.join(WAIT_S)
    assert "renamed" in found[0]


def test_a_reader_waits_for_nobody_where_nothing_is_written(store: SqliteStore, lock: WatchedLock) -> None:
    reader = threading.Thread(target=names, args=(store,))
    reader.start()
    reader.join(WAIT_S)
    assert not lock.asked.is_set()
