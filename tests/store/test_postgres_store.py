"""What only PostgreSQL has: connections that get lost, foreign tables, versions. Rows H3, H10, S2."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest
from store_records import (
    NOW,
    add_schedules,
    found_faults,
    page_of_events,
    say,
)

from matins import Matins
from matins.errors import InvalidInput, StoreError, StoreUnavailable, StoreVersionError
from matins.model.rows import NewSchedule
from matins.runtime.clock import SystemClock
from matins.runtime.engine import EngineOptions
from matins.store import open_store
from matins.store.chain import Chain
from matins.store.postgres import session
from matins.store.postgres.session import SessionPool
from matins.store.postgres.store import PostgresStore
from matins.store.queries import load_migrations

MINE = "application_name = current_setting('application_name') AND pid <> pg_backend_pid()"


@pytest.fixture
def store(postgres_store: PostgresStore) -> PostgresStore:
    return postgres_store


def end_backends(url: str) -> None:
    """What an administrator, a restart or a network does: every connection of this test is gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {MINE}")


def test_a_connection_lost_while_idle_is_replaced(store: PostgresStore, postgres_url: str) -> None:
    """H10."""
    (schedule,) = add_schedules(store)
    end_backends(postgres_url)
    with store.transaction(NOW) as transaction:
        assert [row.schedule_id for row in transaction.due(NOW, 9)] == [schedule]


@pytest.mark.parametrize("where", ["session", "begin"])
def test_a_connection_that_cannot_be_set_up_is_closed(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """H10: or a server that fails for a while would be left with a connection of each try"""
    made: list[psycopg.Connection] = []
    connect = session.Connection.connect
    monkeypatch.setattr(
        session.Connection, "connect", lambda *given, **words: made.append(connect(*given, **words)) or made[-1]
    )
    sessions = SessionPool(postgres_url)
    if where == "session":
        monkeypatch.setitem(session.SQL, "session", b"SELECT 1/0")
    with pytest.raises(InvalidInput, match="division by zero"), sessions.borrow(b"SELECT 1/0"):
        pass
    (connection,) = made
    assert connection.closed


@contextlib.contextmanager
def standing_still(url: str) -> Iterator[None]:
    """The server keeps the connections of this test alive, and answers nothing."""
    with psycopg.connect(url, autocommit=True) as connection:
        pids = [pid for (pid,) in connection.execute(f"SELECT pid FROM pg_stat_activity WHERE {MINE}").fetchall()]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_server_that_stands_still_is_given_up(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10: in the middle of a transaction; the next one has a connection of its own"""
    (schedule,) = add_schedules(store)
    monkeypatch.setattr(session.Connection, "answer_s", 0.2)
    with (
        pytest.raises(StoreUnavailable, match="does not answer: wait timeout expired") as caught,
        store.transaction(NOW) as transaction,
        standing_still(postgres_url),
    ):
        transaction.due(NOW, 9)
    assert caught.value.retryable
    monkeypatch.undo()
    with store.transaction(NOW) as transaction:
        assert [row.schedule_id for row in transaction.due(NOW, 9)] == [schedule]


def test_an_engine_stops_whose_connections_stand_still(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: it waited for an answer for ever"""
    monkeypatch.setattr(session.Connection, "answer_s", 0.5)
    with contextlib.closing(Matins(postgres_url)) as matins:
        matins.start()
        with standing_still(postgres_url), contextlib.suppress(StoreUnavailable):
            matins.stop()


def test_migrations_take_as_long_as_they_need(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: the limit of a statement is not theirs"""
    monkeypatch.setattr(session.Connection, "answer_s", 0.2)
    sessions = SessionPool(postgres_url)
    with sessions.borrow(b"BEGIN") as borrowed, session.patient(borrowed):
        assert borrowed.cursor.execute("SELECT 1 FROM pg_sleep(0.4)").fetchone() == (1,)
    with pytest.raises(StoreUnavailable), sessions.borrow(b"BEGIN") as borrowed:
        borrowed.cursor.execute("SELECT pg_sleep(0.4)")
    sessions.close()


def test_a_connection_lost_in_a_transaction_leaves_nothing_and_the_next_one_works(
    store: PostgresStore, postgres_url: str
) -> None:
    """H10: the caller hears that it may try again; chains begin anew and verify."""
    say(store, "before")
    with pytest.raises(StoreUnavailable) as caught:
        lose_in_a_transaction(store, postgres_url)
    assert caught.value.retryable
    say(store, "after")
    assert found_faults(store) == []
    assert [event.type for event in page_of_events(store)] == ["before", "after"]
    with store.reading() as transaction:
        assert transaction.schedules(0, None, 9) == []


def test_a_chain_that_was_interrupted_after_its_commit_is_not_gone_on_with(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H8: where it stands is not known, so that a new one begins."""

    def interrupted(chain: Chain, event_id: int) -> None:
        raise KeyboardInterrupt

    say(store, "before")
    with monkeypatch.context() as patch:
        patch.setattr(Chain, "committed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            say(store, "during")
    say(store, "after")
    assert found_faults(store) == []
    assert [event.type for event in page_of_events(store)] == ["before", "during", "after"]


def lose_in_a_transaction(store: PostgresStore, url: str) -> None:
    with store.transaction(NOW) as transaction:
        transaction.insert_schedules([NewSchedule(1, "", "lost", "{}", None, None)], NOW)
        end_backends(url)


def test_nobody_holds_a_lock_for_a_third_of_the_lease(postgres_url: str) -> None:
    """H3: and a commit is durable, whatever the server's default is."""
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit")
    with (
        contextlib.closing(
            PostgresStore(postgres_url.replace("options=", "options=-csynchronous_commit%3Doff%20"), NOW)
        ) as store,
        store.pool.borrow(b"BEGIN") as session,
    ):
        rows = [
            session.cursor.execute("SELECT setting FROM pg_settings WHERE name = %s", [name]).fetchone()
            for name in names
        ]
    *timeouts, durable = [row[0] for row in rows if row]
    assert all(0 < int(timeout) < EngineOptions().lease_ms // 3 for timeout in timeouts)
    assert durable == "on"


def test_a_server_that_is_not_there(tmp_path: object) -> None:
    """H10: a clear word at once, and the password stays where it is."""
    with pytest.raises(StoreUnavailable) as caught:
        PostgresStore(f"postgresql://me:secret@/db?host={tmp_path}", NOW)
    assert "db on" in caught.value.message
    assert "secret" not in caught.value.message


def test_an_edit_wakes_other_processes_and_not_its_own(store: PostgresStore, other: PostgresStore) -> None:
    """H3: NOTIFY, heard on a connection of its own, which comes back when it is lost."""
    mine, theirs = threading.Semaphore(0), threading.Semaphore(0)
    store.listen(mine.release)
    other.listen(theirs.release)
    assert mine.acquire(timeout=90)  # each looks once when it begins to listen
    assert theirs.acquire(timeout=90)
    for _ in range(10):
        store.notify()
        assert theirs.acquire(timeout=90)
        other.notify()
        assert mine.acquire(timeout=90)
    assert not mine.acquire(blocking=False)
    store.listen(mine.release)
    assert mine.acquire(timeout=90)


def test_a_listener_that_lost_its_connection_listens_again_and_looks(store: PostgresStore, postgres_url: str) -> None:
    woken = threading.Semaphore(0)
    store.listen(woken.release)
    assert woken.acquire(timeout=90)
    end_backends(postgres_url)
    assert woken.acquire(timeout=90)
    with contextlib.closing(PostgresStore(postgres_url, NOW)) as other:
        other.notify()
    assert woken.acquire(timeout=90)


def test_event_ids_go_on_rising_in_a_copy_on_another_server(store: PostgresStore, postgres_url: str) -> None:
    """A restored copy meets smaller transaction numbers than those that it holds."""
    say(store, "before")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE events SET id = id + (1000000::bigint << 22)")
    with contextlib.closing(PostgresStore(postgres_url, NOW)) as copy:
        say(copy, "after")
        assert [event.type for event in page_of_events(copy)] == ["before", "after"]


def test_text_that_the_database_cannot_hold(store: PostgresStore) -> None:
    (schedule,) = add_schedules(store)
    with pytest.raises(InvalidInput), store.transaction(NOW) as transaction:
        transaction.set_schedule_state(schedule, "paused", NOW, "a\0b", "me")
    with pytest.raises(InvalidInput), store.transaction(NOW) as transaction:
        transaction.taken_names([("", "a\0b")])


def test_a_newer_schema_is_refused_and_nothing_is_changed(store: PostgresStore, postgres_url: str) -> None:
    """S2: one that engines of before cannot live with."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'later', 'x', 0)")
        connection.execute("INSERT INTO meta (key, value) VALUES ('oldest', '99')")
        with pytest.raises(StoreVersionError, match="newer version of Matins"):
            PostgresStore(postgres_url, NOW)
        assert connection.execute("SELECT count(*) FROM migrations").fetchone() == (
            len(load_migrations("matins.store.postgres")) + 1,
        )


def test_a_schema_of_another_version_is_refused(store: PostgresStore, postgres_url: str) -> None:
    """S2: the same number, but other words."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE migrations SET checksum = 'x'")
    with pytest.raises(StoreVersionError, match="migration 1"):
        PostgresStore(postgres_url, NOW)


@pytest.mark.parametrize("name", ["events", "tokens", "messages"])
def test_tables_of_somebody_else_are_left_alone(postgres_url: str, name: str) -> None:
    """S2."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} (theirs text)")
        with pytest.raises(StoreError, match=f'a table "{name}"'):
            PostgresStore(postgres_url, NOW)
        tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()"
        assert connection.execute(tables).fetchone() == (1,)


def test_a_schema_that_does_not_exist(postgres_server: str) -> None:
    with pytest.raises(StoreError, match="no schema"):
        PostgresStore(f"{postgres_server}&options=-csearch_path%3Dnowhere", NOW)


def test_the_part_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("matins.store.postgres.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError) as caught:
        open_store("postgres://localhost/db", SystemClock())
    assert caught.value.hint == 'pip install "matins[postgres]"'


def test_the_last_runs_are_found_in_a_long_history(store: PostgresStore, postgres_url: str) -> None:
    """H10: manual runs are few, between many that have slots: lists do not read through those"""
    (schedule,) = add_schedules(store)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO runs (id, schedule_id, rev, slot, state, exclusive, epoch, attempt, planned_at, started_at, "
            "slots) SELECT 1000 + n, %s, 1, n, 10, 1, 1, 1, n, n, 1 FROM generate_series(1, 5000) n",
            (schedule,),
        )
        connection.execute("ANALYZE runs")
        for name in ("newest_runs", "started_runs"):
            values = {"schedule_ids": [schedule]}
            plan = connection.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + session.SQL[name], values).fetchone()
            assert "runs_manual" in str(plan)
            assert "'Rows Removed by Filter': 5000" not in str(plan)
