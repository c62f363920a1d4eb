"""Behind a real PgBouncer: a session for each connection works, a shared one is refused at start. Row H10."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from pgbouncer import pgbouncer, sessions

from matins import Matins
from matins.errors import StoreError, StoreUnavailable
from matins.store.postgres import session
from matins.store.postgres.session import split_search_path
from matins.store.postgres.store import PostgresStore

NOW = 1_700_000_000_000


@pytest.fixture
def schema(postgres_server: str) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield name
        connection.execute("SET client_min_messages = warning")
        connection.execute(f"DROP SCHEMA {name} CASCADE")


def with_schema(url: str, schema: str) -> str:
    return f"{url}&options=-csearch_path%3D{schema}"


def tables_of(server: str, schema: str) -> int:
    with psycopg.connect(server) as connection:
        count = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", [schema]).fetchone()
    assert count is not None
    return count[0]


def left_settings(url: str) -> list[tuple[str, str]]:
    """What the session of the next client is set to."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(
            "SELECT name, setting FROM pg_settings WHERE source = 'session' AND name <> 'application_name'"
        ).fetchall()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("size", [1, 2, 20])
@pytest.mark.parametrize("in_turn", [False, True])
def test_a_pooler_that_shares_sessions_is_refused(
    postgres_server: str, schema: str, mode: str, size: int, in_turn: bool
) -> None:
    """H10: runs were lost and doubled behind it. Nothing is written, and no setting is left to its next client."""
    with pgbouncer(postgres_server, mode, size, in_turn=in_turn) as url:
        _fill(url, size)
        with pytest.raises(StoreError, match="shares sessions between connections") as caught:
            PostgresStore(with_schema(url, schema), NOW)
        assert "pool_mode = session" in (caught.value.hint or "")
        assert left_settings(url) == []
    assert tables_of(postgres_server, schema) == 0


def _fill(url: str, size: int) -> None:
    """Give the pool as many sessions as it may have, up to four, so that they can be taken in turn."""
    count = min(size, 4)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(count)]
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(lambda connection: connection.execute("SELECT pg_sleep(0.1)"), connections))


def test_a_shared_session_executes_a_statement_of_another_connection(postgres_server: str) -> None:
    """H10, the control: why it is refused. A prepared statement has a number as its name, and the session has one of
    another connection with the same number."""
    with (
        pgbouncer(postgres_server, "transaction", 1) as url,
        psycopg.connect(url, autocommit=True, prepare_threshold=0) as one,
        psycopg.connect(url, autocommit=True, prepare_threshold=0) as two,
    ):
        assert sessions(one, two)[0] == sessions(two, one)[0]
        assert one.execute("SELECT 'one'").fetchone() == ("one",)
        with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
            two.execute("SELECT 'two'")


def test_a_pooler_with_a_session_for_each_connection_works(postgres_server: str, schema: str) -> None:
    """H10: schedules fire in their own schema, whose name PgBouncer would refuse as a part of connecting"""
    ran = threading.Semaphore(0)
    with pgbouncer(postgres_server, "session") as url:
        with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
            psycopg.connect(with_schema(url, schema))
        with contextlib.closing(Matins(with_schema(url, schema))) as matins:
            matins.job("report")(lambda run: ran.release())
            matins.add("report", when="every day at 09:00", job="report", overlap="allow")
            matins.start()
            for _ in range(12):  # more than enough that statements are prepared
                matins.run("report")
                assert ran.acquire(timeout=30)
            matins.stop()
            assert [run.state for run in matins.runs.list(schedule="report")] == ["succeeded"] * 12
    assert tables_of(postgres_server, schema) > 20


def test_a_pool_of_one_session_says_so(postgres_server: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: an engine needs several; it waits no longer than for other answers"""
    monkeypatch.setattr(session.Connection, "answer_s", 5)
    with (
        pgbouncer(postgres_server, "session", 1) as url,
        pytest.raises(StoreUnavailable, match=r"gives Matins no second session: .*query_wait_timeout") as caught,
    ):
        PostgresStore(with_schema(url, schema), NOW)
    assert "default_pool_size" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("options", "sent", "path"),
    [
        ("-csearch_path=matins", "", "matins"),
        ("-c search_path=a,b -c jit=off", "-c jit=off", "a,b"),
        ("-cjit=off -csearch_path=a", "-cjit=off", "a"),
        ("-cjit=off", "-cjit=off", None),
        (r"-csearch_path=a\ b", r"-csearch_path=a\ b", None),
        ("", "", None),
    ],
)
def test_the_search_path_is_set_after_connecting(options: str, sent: str, path: str | None) -> None:
    assert split_search_path(options) == (sent, path)
