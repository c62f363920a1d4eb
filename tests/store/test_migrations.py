"""A store that an older Matins made is brought up to date, and nothing in it is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from matins.store.queries import load_migrations
from matins.store.sqlite.store import APPLICATION_ID, _checksum
from matins.testing import Bench, ManualClock, instant

THEN = instant("2026-03-27T08:00:00Z")
DEFINITION = '{"trigger":{"kind":"cron","expression":"*/5 * * * *","timezone":"UTC"},"do":"work"}'
ROWS = f"""
INSERT INTO schedules (id, agent, name, state, rev, created_at, updated_at)
VALUES (1, 'ann', 's', 'active', 1, {THEN}, {THEN});
INSERT INTO schedules (id, agent, name, state, rev, paused_by, paused_at, note, created_at, updated_at)
VALUES (2, '', 'p', 'paused', 1, 'me', {THEN}, 'later', {THEN}, {THEN});
INSERT INTO revisions (schedule_id, rev, definition) VALUES (1, 1, '{DEFINITION}'), (2, 1, '{DEFINITION}');
INSERT INTO due (schedule_id, next_slot, due_at, rev) VALUES (1, {THEN + 300_000}, {THEN + 300_000}, 1);
INSERT INTO runs (id, schedule_id, rev, slot, state, exclusive, epoch, attempt, planned_at, ended_at, covered)
VALUES (1, 1, 1, {THEN}, 10, 1, 1, 1, {THEN}, {THEN}, 1);
"""


def as_sqlite(path: Path) -> str:
    """A file as the first version left it."""
    number, name, sql = load_migrations("matins.store.sqlite")[0]
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.execute("INSERT INTO migrations VALUES (?, ?, ?, 0)", (number, name, _checksum(sql)))
    connection.execute(f"PRAGMA user_version = 1; PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(ROWS + f"INSERT INTO due (schedule_id, next_slot, rev, paused) VALUES (2, {THEN}, 1, 1)")
    connection.execute("UPDATE meta SET value = 2 WHERE key = 'next_run_id'")
    connection.close()
    return f"sqlite:///{path}"


def as_postgresql(url: str) -> str:
    number, name, sql = load_migrations("matins.store.postgres")[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.encode())
        connection.execute("INSERT INTO migrations VALUES (%s, %s, %s, 0)", (number, name, _checksum(sql)))
        paused = f"INSERT INTO due (schedule_id, next_slot, rev, paused) VALUES (2, {THEN}, 1, true)"
        connection.execute((ROWS + paused).encode())
        connection.execute("SELECT setval('run_ids', 1), setval('schedule_ids', 2)")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def first_version(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return as_sqlite(tmp_path / "old.db")
    return as_postgresql(request.getfixturevalue("postgres_url"))


def test_a_store_of_the_first_version_goes_on(first_version: str) -> None:
    """B1: jobs are not lost on an upgrade, and nothing fires twice"""
    bench = Bench(first_version, clock=ManualClock(THEN + 1))
    bench.job("work")(lambda run: None)
    paused = bench.get("p")
    assert (paused.state, paused.paused_by, paused.note, paused.created_by) == ("paused", "me", "later", "owner")
    bench.run_until(THEN + 600_000)
    assert [(run.slot, run.state.word) for run in reversed(bench.runs("s"))] == [
        (THEN, "succeeded"),
        (THEN + 300_000, "succeeded"),
        (THEN + 600_000, "succeeded"),
    ]
    bench.set_quiet_hours("night", windows="08:14-08:16")
    bench.edit("s", quiet_hours="night")
    bench.run_until(THEN + 900_000)
    assert bench.runs("s")[0].reason == "quiet_hours"
    bench.close()


def test_opening_it_again_changes_nothing(first_version: str, sql_of: Callable[[str], list[Any]]) -> None:
    """B1"""
    Bench(first_version, clock=ManualClock(THEN)).close()
    before = sql_of(first_version)
    Bench(first_version, clock=ManualClock(THEN)).close()
    assert sql_of(first_version) == before


@pytest.fixture
def sql_of() -> Callable[[str], list[Any]]:
    query = "SELECT number, name, checksum FROM migrations ORDER BY number"

    def applied(url: str) -> list[Any]:
        if url.startswith("sqlite"):
            return apsw.Connection(url.removeprefix("sqlite:///")).execute(query).fetchall()
        with psycopg.connect(url) as connection:
            return connection.execute(query).fetchall()

    return applied
