"""Every store, for the tests that need them all. PostgreSQL comes from a wheel: a schema for each test."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from torture.server import Server

STORES = ("sqlite_file", "sqlite_memory", "postgresql")
_QUICK = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "deadlock_timeout": "100ms"}
"""Nobody cuts its power, and nobody but the tests has a transaction open."""


@cache
def _server(config: pytest.Config) -> Server:
    server = Server(Path(tempfile.mkdtemp(prefix="matins-pg-")), **_QUICK)
    config.add_cleanup(server.close)
    return server


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> str:
    """The URL of this process's own server: events wait for older transactions of anybody on the same one."""
    return _server(pytestconfig).uri


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    schema = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{postgres_server}&options=-csearch_path%3D{schema}&application_name={schema}"
        connection.execute("SET client_min_messages = warning")
        end_sessions(connection, schema)
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def url() -> str:
    """The store of tests about what every store does alike. `kept_url` is for those about what a store does itself."""
    return "sqlite://"


@pytest.fixture(params=STORES)
def every_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Conformance of stores. A folder takes it as its `url`."""
    return _url(request, tmp_path)


@pytest.fixture(params=["sqlite_file", "postgresql"])
def kept_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that outlives its process. Races, locks, restarts and a pass over all gates run on both kinds; a file
    runs the statements of a store in memory, and more. A module takes it as its `url`."""
    return _url(request, tmp_path)


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return "sqlite://" if request.param == "sqlite_memory" else f"sqlite:///{tmp_path}/matins.db"


def end_sessions(connection: psycopg.Connection[Any], name: str) -> None:
    """End what a test left on the server, and wait until it is gone: it may hold locks of tables."""
    theirs = "FROM pg_stat_activity WHERE application_name = %s"
    deadline = time.monotonic() + 60
    while connection.execute(f"SELECT count(pg_terminate_backend(pid)) {theirs}", [name]).fetchone() != (0,):
        assert time.monotonic() < deadline
        time.sleep(0.02)
