"""Callers that come at once share a commit on SQLite. What one of them does wrong undoes its own part."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from matins import Matins
from matins.errors import Conflict, NotFound, StoreUnavailable
from matins.store.sqlite import store as sqlite
from matins.store.sqlite.store import SqliteStore

THREADS = 12
EVENTS = "SELECT count(*) FROM events WHERE type = 'schedule.created'"


@pytest.fixture
def matins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Matins]:
    monkeypatch.setattr(sqlite, "_LEFT_OPEN_S", 60.0)  # on a busy machine too, those who come are waited for
    matins = Matins(f"sqlite:///{tmp_path}/matins.db")
    matins.job("work")(lambda run: None)
    matins.add("first", when="0 9 * * *", job="work")
    yield matins
    matins.close()


@pytest.fixture
def store(matins: Matins) -> SqliteStore:
    assert isinstance(matins.store, SqliteStore)
    return matins.store


class Statements:
    """What the connection that writes is told, and what refuses it."""

    def __init__(self, store: SqliteStore) -> None:
        self.told: list[str] = []
        self.before: Callable[[str], object] = lambda sql: None
        store._connection.exec_trace = self._note

    def _note(self, cursor: Any, sql: str, bindings: Any) -> bool:
        self.told.append(sql)
        self.before(sql)
        return True

    def count(self, sql: str) -> int:
        return sum(told.startswith(sql) for told in self.told)


def at_once(store: SqliteStore, calls: list[Callable[[], Any]]) -> list[Future[Any]]:
    """All of them wait for the lock before the first gets it."""
    with ThreadPoolExecutor(len(calls)) as pool, store._lock:
        done = [pool.submit(call) for call in calls]
        while len(store._coming) < len(calls):
            time.sleep(0.001)
    return done


def adding(matins: Matins, name: str) -> Callable[[], Any]:
    return lambda: matins.add(name, when="0 9 * * *", job="work")


def there(matins: Matins) -> tuple[set[str], int]:
    """The names in the file and the events of their creation, by a connection of its own."""
    connection: Any = apsw.Connection(str(matins.store.path))
    names = {name for (name,) in connection.execute("SELECT name FROM schedules")}
    ((events,),) = connection.execute(EVENTS).fetchall()
    connection.close()
    return names, events


def test_one_commit_for_all(matins: Matins, store: SqliteStore) -> None:
    """S1"""
    statements = Statements(store)
    done = at_once(store, [adding(matins, f"s{n}") for n in range(THREADS)])
    assert {one.result().name for one in done} == {f"s{n}" for n in range(THREADS)}
    assert (statements.count("BEGIN"), statements.count("COMMIT")) == (1, 1)
    assert there(matins) == ({"first", *(f"s{n}" for n in range(THREADS))}, THREADS + 1)
    assert matins.audit.verify().problems == []


def test_an_error_undoes_its_own_part_and_its_events(matins: Matins, store: SqliteStore) -> None:
    """S1: a name that is in use; and one that follows nothing, of which rows and event were written"""
    names = ["first", "a", "first", "b", "a", "c"]
    calls = [adding(matins, name) for name in names]
    calls.insert(3, lambda: matins.add("follower", on=[{"schedule": "nobody"}], job="work"))
    follower, done = (done := at_once(store, calls)).pop(3), done
    assert isinstance(follower.exception(), NotFound)
    refused = [name for name, one in zip(names, done, strict=True) if isinstance(one.exception(), Conflict)]
    assert sorted(refused) == ["a", "first", "first"]
    assert there(matins) == ({"first", "a", "b", "c"}, 4)
    assert matins.audit.verify().problems == []


def test_all_who_share_a_commit_hear_that_it_failed(matins: Matins, store: SqliteStore) -> None:
    """S1, H10: nobody is told that something is durable which is not"""
    statements = Statements(store)

    def refuse(sql: str) -> None:
        if sql == "COMMIT":
            raise apsw.FullError("no space")

    statements.before = refuse
    done = at_once(store, [adding(matins, f"s{n}") for n in range(4)])
    assert all(isinstance(one.exception(), StoreUnavailable) for one in done)
    statements.before = lambda sql: None
    assert there(matins) == ({"first"}, 1)
    adding(matins, "later")()
    assert there(matins) == ({"first", "later"}, 2)
    assert matins.audit.verify().problems == []


def test_a_part_with_which_sqlite_undoes_everything(matins: Matins, store: SqliteStore) -> None:
    """S1, H10: on a full disk SQLite may roll back the whole transaction"""
    statements = Statements(store)

    def undo(sql: str) -> None:
        if statements.count("SAVEPOINT part") == 2 and sql.startswith("INSERT INTO schedules"):
            statements.before = lambda sql: None
            store._connection.execute("ROLLBACK")
            raise apsw.FullError("no space")

    statements.before = undo
    done = at_once(store, [adding(matins, f"s{n}") for n in range(5)])
    failed = sum(one.exception() is not None for one in done)
    assert failed == 3
    names, events = there(matins)
    assert len(names) == events == 3
    assert matins.audit.verify().problems == []


def test_a_transaction_of_the_engine_is_its_own(matins: Matins, store: SqliteStore) -> None:
    """S1: what was left open for others is committed before it begins"""
    statements = Statements(store)
    gone = object()
    store._coming.add(gone)  # it never comes
    with ThreadPoolExecutor(1) as pool:
        adding_one = pool.submit(adding(matins, "shared"))
        while store._shared is None:
            time.sleep(0.001)
        with store.transaction(0):
            assert statements.told[-2:] == ["COMMIT", "BEGIN IMMEDIATE"]
        assert adding_one.result().name == "shared"


def test_who_never_comes_delays_nobody_for_long(
    matins: Matins, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_LEFT_OPEN_S", 0.05)
    store._coming.add(object())
    ended = threading.Event()
    began = time.monotonic()
    threading.Thread(target=lambda: (adding(matins, "alone")(), ended.set())).start()
    assert ended.wait(30)
    assert time.monotonic() - began >= 0.05
    assert there(matins)[0] == {"first", "alone"}
