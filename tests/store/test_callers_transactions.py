"""Schedules and runs inside a transaction of the program, on its own connection to PostgreSQL. Row B19."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import postgres_fixtures
from matins import Conflict, InvalidInput, Matins, NotFound
from matins.errors import StoreError
from matins.runtime.maintenance import Maintenance

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
YEARLY = "0 0 1 1 *"
Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def m(postgres_url: str) -> Iterator[Matins]:
    with closing(Matins(postgres_url, check_interval_ms=600_000)) as m:
        m.job("work")(lambda run: None)
        yield m


@pytest.fixture
def connect(postgres_server: str) -> Iterator[Connect]:
    """Connections of the program: the same database, another search path, and tables of its own."""
    made: list[psycopg.Connection[Any]] = []

    def connect(**options: Any) -> psycopg.Connection[Any]:
        made.append(psycopg.connect(postgres_server, **options))
        return made[-1]

    yield connect
    for each in made:
        each.close()


def names(m: Matins) -> set[str]:
    return {schedule.name for schedule in m.list()}


def add(m: Matins, name: str, connection: psycopg.Connection[Any], **settings: Any) -> None:
    m.add(name, when=YEARLY, job="work", connection=connection, **settings)


def chains(m: Matins) -> int:
    """The number of chains, all of which are whole, sealed or not."""
    assert m.audit.verify().problems == []
    with m.store.transaction(m.clock.now_ms()) as transaction:
        transaction.seal(m.clock.now_ms())
    audit = m.audit.verify()
    assert audit.problems == []
    return audit.chains


def created(m: Matins) -> list[str | None]:
    return [event.schedule for event in m.events.list(types="schedule.created")]


def test_b19_a_schedule_exists_exactly_if_the_caller_commits(m: Matins, connect: Connect) -> None:
    """B19: with the rows of the program, and its event; nobody sees it before"""
    with connect() as connection:
        connection.execute("CREATE TEMP TABLE events (id int)")  # a name that Matins has too
        connection.execute("CREATE TEMP TABLE customers (name text)")
        connection.execute("INSERT INTO customers VALUES ('ada')")
        assert m.add("invoice ada", when=YEARLY, job="work", connection=connection).state == "active"
        assert names(m) == set()
    assert names(m) == {"invoice ada"}
    with connect() as connection:
        add(m, "invoice bob", connection)
        connection.rollback()
    assert names(m) == {"invoice ada"}
    assert created(m) == ["invoice ada"]
    assert chains(m) == 1


def test_b19_a_savepoint_takes_back_what_came_after_it(m: Matins, connect: Connect) -> None:
    """B19: what is before and after it stays, in one whole chain"""
    with connect() as connection:
        add(m, "first", connection)
        with connection.transaction(force_rollback=True):
            add(m, "second", connection)
            add(m, "third", connection)
        connection.execute("SAVEPOINT part")
        add(m, "fourth", connection)
        connection.execute("ROLLBACK TO SAVEPOINT part")
        with connection.transaction():
            add(m, "fifth", connection)
        add(m, "sixth", connection)
    assert names(m) == {"first", "fifth", "sixth"}
    assert created(m) == ["first", "fifth", "sixth"]
    assert chains(m) == 1


def test_b19_nothing_is_left_of_a_call_that_fails(m: Matins, connect: Connect) -> None:
    """B19: the caller's transaction goes on"""
    with connect() as connection:
        add(m, "kept", connection)
        with pytest.raises(Conflict, match="kept"):
            add(m, "kept", connection)
        with pytest.raises(InvalidInput, match="overlp"):
            add(m, "wrong", connection, overlp="queue")
        connection.execute("SELECT 1")
    assert names(m) == {"kept"}


def test_b19_the_connection_stays_as_it_was(m: Matins, connect: Connect) -> None:
    """B19: its search path, its rows and its numbers, with factories of its own"""
    connection = connect(row_factory=dict_row, cursor_factory=psycopg.ClientCursor)
    shown = "SELECT current_setting('search_path') AS path, pg_typeof(%s)::text AS kind, %s AS one"
    before = connection.execute(shown, (1, 1)).fetchone()
    add(m, "a", connection)
    with pytest.raises(Conflict):
        add(m, "a", connection)
    assert connection.execute(shown, (1, 1)).fetchone() == before
    connection.commit()
    assert names(m) == {"a"}


def test_b19_transactions_that_overlap_have_chains_of_their_own(m: Matins, connect: Connect) -> None:
    """B19: whichever began first, and whichever commits first; a chain is used again when it is free"""
    one, two, three = connect(), connect(), connect()
    two.execute("SELECT pg_current_xact_id()")  # it is older than the others, and writes last
    add(m, "one", one)
    add(m, "three", three)
    one.commit()
    add(m, "two", two)
    three.rollback()
    two.commit()
    assert names(m) == {"one", "two"}
    assert chains(m) == 2
    for number in range(5):
        add(m, f"later {number}", one)
        one.commit()
    assert chains(m) == 2


def test_b19_transactions_of_many_threads(m: Matins, connect: Connect) -> None:
    """B19: a third of them rolls back; an engine writes and seals meanwhile"""
    wanted: set[str] = set()

    def work(connection: psycopg.Connection[Any], who: int) -> None:
        for number in range(15):
            add(m, f"{who} {number}", connection)
            add(m, f"{who} {number} too", connection)
            if number % 3:
                connection.commit()
                wanted.update((f"{who} {number}", f"{who} {number} too"))
            else:
                connection.rollback()

    threads = [threading.Thread(target=work, args=(connect(), who)) for who in range(4)]
    with m:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {schedule.name for schedule in m.list(limit=1_000)} == wanted
    assert chains(m) <= 4 + 4  # of the threads, and of the engine's own connections


def test_b19_a_chain_goes_on_after_its_events_were_pruned(m: Matins, connect: Connect) -> None:
    """B19: the log says where it begins"""
    with connect() as connection:
        add(m, "old", connection)
    Maintenance(m.store, 0.0, None).prune(m.clock.now_ms() + 1)
    assert created(m) == []
    with connect() as connection:
        add(m, "new", connection)
    assert created(m) == ["new"]
    assert chains(m) == 2  # the other one tells of the pruning


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_b19_stricter_transactions(m: Matins, connect: Connect, level: psycopg.IsolationLevel) -> None:
    """B19: their snapshot may be older than the end of a chain, so they open one of their own"""
    with connect() as plain:
        add(m, "before", plain)
    strict, plain = connect(), connect()
    strict.isolation_level = level
    strict.execute("SELECT count(*) FROM pg_class")  # its snapshot
    add(m, "meanwhile", plain)
    plain.commit()
    add(m, "strict", strict)
    add(m, "strict too", strict)
    strict.commit()
    assert names(m) == {"before", "meanwhile", "strict", "strict too"}
    assert chains(m) == 2


def test_b19_engines_wake_when_the_caller_commits(m: Matins, connect: Connect) -> None:
    """B19: a run that the caller started, on an engine that looks only every ten minutes; not before, and not after a
    rollback"""
    ran: list[str] = []
    woken = threading.Event()

    @m.job("wake")
    def wake(run: Any) -> None:
        ran.append(run.schedule)
        woken.set()

    m.add("other", when=YEARLY, job="wake")
    m.add("mine", when=YEARLY, job="wake")
    with m, connect() as connection:
        m.run("mine", connection=connection)
        connection.rollback()
        run = m.run("mine", key="once", connection=connection)
        m.run("other")  # the engine works on meanwhile, and does not see the run
        assert woken.wait(60)
        assert ran == ["other"]
        with pytest.raises(NotFound):
            m.runs.get(run.id)
        woken.clear()
        connection.commit()
        assert woken.wait(60)
        assert ran == ["other", "mine"]
        assert m.runs.wait(run.id, timeout=60).state == "succeeded"
    assert chains(m) >= 1


def test_b19_a_schedule_follows_a_row_of_the_program(m: Matins, connect: Connect) -> None:
    """B19: `replace` changes it with the row"""
    with connect() as connection:
        add(m, "a", connection)
    with connect() as connection:
        m.add("a", when="0 9 * * *", job="work", replace=True, connection=connection)
        assert m.get("a").rev == 1
    assert (m.get("a").rev, m.get("a").trigger_text) == (2, "every day at 09:00")
    assert chains(m) >= 1


def test_b19_what_is_refused(m: Matins, connect: Connect, postgres_server: str, tmp_path: Path) -> None:
    """B19: each with what is wrong and what to do"""
    autocommit, failed, closed, other, latin = (
        connect(autocommit=True),
        connect(),
        connect(),
        connect(dbname="template1"),
        connect(client_encoding="latin1"),
    )
    with pytest.raises(psycopg.Error):
        failed.execute("nonsense")
    closed.close()

    class FromPsycopg2:
        pass

    FromPsycopg2.__module__, FromPsycopg2.__qualname__ = "psycopg2.extensions", "connection"
    FromPsycopg2.__name__ = "connection"
    refused: list[tuple[Any, str, str]] = [
        (autocommit, "autocommit mode and in no transaction", "with connection.transaction"),
        (failed, "has failed", "Roll it back"),
        (closed, "is closed", "Connect again"),
        (other, "The connection is to template1", "Use a connection to"),
        (latin, "uses the encoding", "client_encoding=utf8"),
        (FromPsycopg2(), "is a psycopg2 connection, and not one of psycopg 3", "psycopg.Connection"),
        ("postgresql://", "is a builtins str", "psycopg.Connection"),
    ]
    for connection, message, hint in refused:
        with pytest.raises(InvalidInput, match=message) as caught:
            m.add("a", when=YEARLY, job="work", connection=connection)
        assert hint in str(caught.value.hint), message
        assert caught.value.field == "connection"
    with autocommit.transaction():  # the same connection, in a transaction
        add(m, "a", autocommit)
    assert names(m) == {"a"}
    with autocommit.transaction(), autocommit.pipeline(), pytest.raises(InvalidInput, match="pipeline mode"):
        add(m, "b", autocommit)
    with closing(Matins(f"sqlite:///{tmp_path}/m.db")) as file, pytest.raises(InvalidInput, match="SQLite") as caught:
        file.add("a", when=YEARLY, job="print", connection=autocommit)
    assert "after your commit, with a key" in str(caught.value.hint)
    m.watch_file(tmp_path / "matins.yaml")
    with pytest.raises(Conflict, match="applies a file"):
        add(m, "c", connect())


def test_b19_a_task_is_called_exactly_if_the_caller_commits(m: Matins, connect: Connect) -> None:
    """B19: `.options(connection=).delay` rolls back with it, and refuses another database"""

    @m.task
    def send_mail(to: str) -> None:
        """Send it."""

    def calls() -> list[str]:
        return [run.input["to"] for run in m.runs.list(schedule="send_mail")]

    with connect() as connection:
        handle = send_mail.options(connection=connection).delay("ada")
        assert calls() == [], "nobody else sees it before the commit"
    assert calls() == ["ada"]
    with connect() as connection:
        send_mail.options(connection=connection).delay("bob")
        connection.rollback()
    assert calls() == ["ada"]
    with connect(dbname="template1") as other, pytest.raises(InvalidInput, match="The connection is to template1"):
        send_mail.options(connection=other).delay("cid")
    assert calls() == ["ada"]
    assert chains(m) >= 1
    with m:
        assert handle.wait(60).state == "succeeded"


def test_b19_on_sqlite_a_task_is_called_after_the_commit(tmp_path: Path) -> None:
    """B19: a connection is refused, to this file or another; a key makes one call, however often it is repeated"""
    with closing(Matins(f"sqlite:///{tmp_path}/m.db")) as m:

        @m.task
        def send_mail(to: str) -> None:
            """Send it."""

        for path in ("m.db", "other.db"):
            with (
                closing(sqlite3.connect(tmp_path / path)) as own,
                pytest.raises(InvalidInput, match="SQLite") as caught,
            ):
                send_mail.options(connection=own).delay("ada")
            assert "with a key" in str(caught.value.hint)
        assert m.runs.list(schedule="send_mail") == []
        ids = {send_mail.options(key="order 1").delay("ada").id for _ in range(2)}
        assert len(ids) == len(m.runs.list(schedule="send_mail")) == 1


def test_b19_a_user_without_rights(m: Matins, connect: Connect, postgres_server: str) -> None:
    """B19: the server's refusal is named, and the caller's transaction goes on"""
    with connect() as connection:
        connection.execute("CREATE ROLE stranger")
        connection.execute("SET LOCAL ROLE stranger")
        with pytest.raises(InvalidInput, match="sees no schedules") as caught:
            add(m, "a", connection)
        schema = str(caught.value.hint).split()[-1].rstrip(".")
        connection.execute("RESET ROLE")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO stranger")
        connection.execute("SET LOCAL ROLE stranger")
        with pytest.raises(StoreError, match="denies access"):
            add(m, "a", connection)
        connection.execute("SELECT 1")
        connection.rollback()
    assert names(m) == set()
