"""A store that an older Matins made is brought up to date and loses nothing; what cannot be is refused untouched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from matins.errors import StoreUnavailable, StoreVersionError
from matins.runtime.loop import Loop
from matins.store import open_store
from matins.store.queries import BREAKS, Migration, load_migrations
from matins.testing import ManualClock, Sandbox, instant, iso

THEN = instant("2026-03-27T08:00:00Z")
KINDS = {"sqlite": "matins.store.sqlite", "postgresql": "matins.store.postgres"}
BEFORE_THE_FIRST = ("core", "gates", "outbox", "threads", "authors", "desk")
"""The migrations of the last version that had not one file for all."""

Run = Callable[[str], list[Any]]


@pytest.fixture(params=[*KINDS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is not there yet."""
    return f"sqlite:///{tmp_path}/m.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def sql(url: str) -> Iterator[Run]:
    """What somebody with a database client could do."""
    if url.startswith("sqlite"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            yield lambda statement: connection.execute(statement).fetchall()
        return
    with psycopg.connect(url, autocommit=True) as connection:

        def run(statement: str) -> list[Any]:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def used(url: str) -> str:
    """A store of this version: one schedule has fired twice, another is paused."""
    with closing(Sandbox(url, clock=ManualClock(THEN))) as bench:
        bench.job("work")(lambda run: None)
        bench.add("s", when="*/5 * * * *", job="work", agent="ann")
        bench.add("p", when="*/5 * * * *", job="work")
        bench.pause("p", note="later")
        bench.run_until(THEN + 600_000)
    return url


@pytest.fixture
def unreleased(used: str, sql: Run) -> str:
    """As a version before the first release left it: other migrations, and more of them."""
    sql("DELETE FROM migrations")
    for number, name in enumerate(BEFORE_THE_FIRST, start=1):
        sql(f"INSERT INTO migrations VALUES ({number}, '{name}', 'checksum of {name}', {THEN})")
    if used.startswith("sqlite"):
        sql(f"PRAGMA user_version = {len(BEFORE_THE_FIRST)}")
    return used


def knowing(monkeypatch: pytest.MonkeyPatch, *later: str) -> None:
    """From now on there are more migrations."""
    for package in KINDS.values():
        added = [Migration(number, "later", sql) for number, sql in enumerate(later, start=2)]
        known = [*load_migrations(package), *added]
        monkeypatch.setattr(f"{package}.store.load_migrations", lambda _, known=known: known)


def contents(sql: Run) -> dict[str, list[Any]]:
    tables = ("migrations", "meta", "schedules", "revisions", "due", "runs", "events", "writers", "workers", "policies")
    return {table: sorted(sql(f"SELECT * FROM {table}"), key=repr) for table in tables}


def test_a_store_of_an_older_version_goes_on(used: str, sql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """B1: jobs are not lost on an upgrade, and nothing fires twice"""
    knowing(monkeypatch, "ALTER TABLE schedules ADD COLUMN mood text DEFAULT 'good'")
    with closing(Sandbox(used, clock=ManualClock(THEN + 600_001))) as bench:
        bench.job("work")(lambda run: None)
        assert (bench.get("p").state, bench.get("p").note) == ("paused", "later")
        bench.run_until(THEN + 900_000)
        slots = [(iso(run.slot), run.state) for run in reversed(bench.runs.list(schedule="s"))]
    assert slots == [(iso(THEN + n * 300_000), "succeeded") for n in (1, 2, 3)]
    assert sql("SELECT number, name FROM migrations ORDER BY number") == [(1, "schema"), (2, "later")]
    assert sql("SELECT DISTINCT mood FROM schedules") == [("good",)]


def test_opening_it_again_changes_nothing(used: str, sql: Run) -> None:
    """B1"""
    before = contents(sql)
    open_store(used, ManualClock(THEN)).close()
    assert contents(sql) == before


@pytest.mark.parametrize("breaks", [False, True])
def test_an_older_version_refuses_it(used: str, sql: Run, monkeypatch: pytest.MonkeyPatch, breaks: bool) -> None:
    """B1 B18: and changes nothing. On PostgreSQL, engines are upgraded one after the other, and one that only adds is
    no matter"""
    sql("UPDATE workers SET beat = 0")  # its engine has ended
    with monkeypatch.context() as later:
        knowing(later, f"ALTER TABLE schedules ADD COLUMN mood text;{BREAKS if breaks else ''}")
        open_store(used, ManualClock(THEN)).close()
    before = contents(sql)
    if used.startswith("postgres") and not breaks:
        open_store(used, ManualClock(THEN)).close()
    else:
        with pytest.raises(StoreVersionError, match=r"newer version of Matins \(schema 2; this version supports 1\)"):
            open_store(used, ManualClock(THEN))
    assert contents(sql) == before


def test_b18_engines_are_upgraded_one_after_the_other(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B18: an engine of before and one with a migration that adds a column drain one store together. A migration that
    the older one cannot live with is refused while that one runs; when it was away meanwhile, it fences itself"""
    clock, ran, mood = (
        ManualClock(THEN),
        Counter[str](),
        "ALTER TABLE runs ADD COLUMN mood text NOT NULL DEFAULT 'good'",
    )

    def engine(name: str) -> Sandbox:
        made = Sandbox(postgres_url, clock=clock, name=name, labels=[name])
        made.job("work")(lambda run: ran.update([f"{name} {run.schedule}"]))
        made.settle()
        return made

    with closing(engine("old")) as old:
        for label in ("old", "new"):
            for n in range(20):
                old.add(f"{label}-{n}", when="*/5 * * * *", job="work", runs_on=[label])
        knowing(monkeypatch, mood)
        with closing(engine("new")) as new:
            clock.advance(300_000)
            for bench in (old, new, old, new):
                bench.settle()
            assert ran == {f"{label} {label}-{n}": 1 for label in ("old", "new") for n in range(20)}
            assert {run.state for run in old.runs.list(limit=100)} == {"succeeded"}
            new.engine.close()
        assert old.store.knows == 1

        knowing(monkeypatch, mood, f"{BREAKS}\nALTER TABLE runs DROP COLUMN mood")
        with pytest.raises(
            StoreVersionError, match="must be upgraded to schema 3, and old cannot work on that"
        ) as caught:
            open_store(postgres_url, clock)
        assert "Stop these engines first" in str(caught.value.hint)
        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE workers SET beat = 0")  # its machine had no network for a while
        with closing(engine("new")) as new:
            loop = Loop(old.engine)
            loop._heartbeat.beat()
            loop._heartbeat.beat()
            assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
                "The store was upgraded by a newer Matins. This engine starts no more runs: upgrade it."
            ]
            clock.advance(300_000)
            for bench in (old, new, old, new):
                bench.settle()
            assert sum(count for name, count in ran.items() if name.startswith("old ")) == 20
            assert {run.state for run in new.runs.list(state="ready", limit=100)} == {"ready"}
            assert all(count == 2 for name, count in ran.items() if name.startswith("new "))


def test_a_migration_that_fails_leaves_what_was(used: str, sql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """B1: all of it or nothing"""
    before = contents(sql)
    with monkeypatch.context() as later:
        knowing(later, "DELETE FROM runs; ALTER TABLE nowhere ADD COLUMN mood text")
        with pytest.raises((apsw.SQLError, psycopg.Error, StoreUnavailable), match="nowhere"):
            open_store(used, ManualClock(THEN))
    assert contents(sql) == before
    open_store(used, ManualClock(THEN)).close()


def test_a_store_from_before_the_first_release_is_refused(unreleased: str, sql: Run) -> None:
    """B1: it says what is wrong and what to do, and nothing is written"""
    before = contents(sql)
    with pytest.raises(StoreVersionError) as caught:
        open_store(unreleased, ManualClock(THEN))
    assert "was created by an earlier version of Matins that was never released" in caught.value.message
    assert "its migration 1 differs from the released one" in caught.value.message
    instead = "Move the file away to start with a new one" if "sqlite" in unreleased else "Use a new database or schema"
    assert caught.value.hint == f"{instead}, or use the version that created this one. Nothing was changed."
    assert contents(sql) == before


@pytest.mark.parametrize(
    "statement", ["DELETE FROM migrations WHERE number > 1", "UPDATE migrations SET name = 'schema'"]
)
def test_not_even_where_the_numbers_or_names_are_the_same(unreleased: str, sql: Run, statement: str) -> None:
    """B1: what counts is what was done"""
    sql(statement)
    if unreleased.startswith("sqlite"):
        sql("PRAGMA user_version = 1")
    with pytest.raises(StoreVersionError, match="never released"):
        open_store(unreleased, ManualClock(THEN))


def test_not_a_byte_of_a_copy_is_written(tmp_path: Path) -> None:
    """B1: a copy has no log beside it; what is refused does not get one"""
    store, copy = open_store(f"sqlite:///{tmp_path}/m.db", ManualClock(THEN)), tmp_path / "copy.db"
    store.backup(copy)
    store.close()
    with closing(apsw.Connection(str(copy))) as connection:
        connection.execute("UPDATE migrations SET checksum = 'x'")
    before, beside = copy.read_bytes(), sorted(tmp_path.iterdir())
    with pytest.raises(StoreVersionError, match="never released"):
        open_store(f"sqlite:///{copy}", ManualClock(THEN))
    assert (copy.read_bytes(), sorted(tmp_path.iterdir())) == (before, beside)
