"""A bench on every store, and what a look must leave as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import postgres_fixtures
from matins.executors.job_context import JobContext
from matins.testing import ManualClock, Sandbox

postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url


@pytest.fixture(params=["sqlite", "postgresql"])
def each_dialect(request: pytest.FixtureRequest) -> str:
    """For statements that differ: a file says what memory says."""
    return "sqlite://" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


START = "2026-03-27T08:00:00Z"
TABLES = ("schedules", "revisions", "due", "runs", "attempts", "events", "approvals", "policies", "throttles", "purses",
          "spend", "checks", "permits")  # fmt: skip


def fail(run: JobContext) -> None:
    raise ValueError("no luck")


@pytest.fixture
def bench(url: str) -> Iterator[Sandbox]:
    yield from opened(url)


@pytest.fixture
def in_memory() -> Iterator[Sandbox]:
    """For what does not depend on the store."""
    yield from opened("sqlite://")


def opened(url: str) -> Iterator[Sandbox]:
    """Its owner lives in Tokyo. Jobs: `work` succeeds, `fail` raises, `pay` costs ten cents."""
    made = Sandbox(url, clock=ManualClock(START, zone="Asia/Tokyo"))
    made.job("work")(lambda run: None)
    made.job("fail")(fail)
    made.job("pay")(lambda run: run.spend("$0.10", tokens=500))
    yield made
    assert made.audit.verify().problems == []
    made.close()


@pytest.fixture
def rows(bench: Sandbox) -> Callable[[], list[Any]]:
    def everything() -> list[Any]:
        store: Any = bench._store
        if store.kind == "sqlite":
            return [store._connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES]
        with store.pool.borrow(b"BEGIN") as session:
            found = [session.cursor.execute(f"SELECT * FROM {table}".encode()).fetchall() for table in TABLES]
            session.cursor.execute(b"COMMIT")
            return [sorted(rows, key=repr) for rows in found]

    return everything
