"""`matins audit`, on stores that others may be writing to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from command import matins

import postgres_fixtures
from matins import Matins
from matins.model.rows import NewEvent
from matins.store.sqlite.store import SqliteStore
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url


def program(*words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, beside the one that has the store."""
    environment = {name: value for name, value in os.environ.items() if name != "MATINS_STORE"}
    command = [sys.executable, "-m", "matins", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that another process can open."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/matins.db"


@pytest.fixture
def store(url: str) -> str:
    """With a little history, and its engine gone."""
    bench = Sandbox(url, clock=ManualClock("2026-03-27T08:00:00Z"))
    bench.job("work")(lambda run: None)
    bench.add("s", when="0 * * * *", job="work")
    bench.run_until("2026-03-27T12:00:00Z")
    bench.engine.close()
    bench.close()
    return url


def test_a_whole_audit(store: str) -> None:
    """B1: how much was looked at, and the newest seal"""
    result = matins("audit", "verify", "--store", store)
    assert (result.exit_code, result.stderr) == (0, "")
    seal = matins("audit", "seal", "--store", store).stdout.strip()
    words = rf"The event log is intact: (\d+) events in (1 chain|[2-9] chains), last seal {seal[:12]}…\n"
    found = re.fullmatch(words, result.stdout)
    assert found is not None, result.stdout
    assert int(found[1]) > 8


def test_while_an_engine_runs(url: str) -> None:
    """B1: the owner of the file is not asked, and not disturbed"""
    ran = threading.Event()
    engine = Matins(url)
    try:
        engine.job("work")(lambda run: ran.set())
        engine.add("s", when="1s", job="work")
        with engine:
            assert ran.wait(90)
            results = [program("audit", "verify", "--store", url) for _ in range(3)]
            assert [(result.returncode, result.stderr) for result in results] == [(0, "")] * 3
            assert engine.system.stats().running
    finally:
        engine.close()


def test_what_is_written_meanwhile_is_no_fault(tmp_path: Path) -> None:
    """B1: events and seals are read as they were at one moment"""
    path = tmp_path / "matins.db"
    mine, other = SqliteStore(path, 1_000), SqliteStore(path, 1_000)
    try:
        write(other, 1_000)

        def trace(cursor: Any, statement: str, bindings: Any) -> bool:
            if "FROM seals" in statement:  # the events have been read already
                write(other, 2_000)
            return True

        with mine.reading() as transaction:
            transaction._connection.exec_trace = trace
            events, seals = transaction.logged(0, 10**9), transaction.seals(0, 10**9)
            transaction._connection.exec_trace = None
        assert (len(events), len(seals)) == (1, 1)
        with mine.reading() as transaction:
            events, seals = transaction.logged(0, 10**9), transaction.seals(0, 10**9)
        assert (len(events), len(seals)) == (2, 2)
    finally:
        mine.close()
        other.close()


def write(store: SqliteStore, now: int) -> None:
    with store.transaction(now) as transaction:
        transaction.events.append(NewEvent(now, "limit.set", None, None))
    with store.transaction(now) as transaction:
        transaction.seal(now)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """B1: a look makes nothing"""
    result = matins("audit", "verify", "--store", f"sqlite:///{tmp_path}/typo.db")
    assert result.exit_code == 2
    assert "There is no store" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--seal", "7:ab12…"], '"7:ab12…" is not a seal'),
        (["--seal", "latest"], "64 hexadecimal digits"),
        (["--store", "redis://x"], '"redis://x" is not the URL of a store'),
    ],
)
def test_bad_input(tmp_path: Path, words: list[str], says: str) -> None:
    """B1: what is wrong, and how to mend it"""
    path = tmp_path / "matins.db"
    SqliteStore(path, 0).close()
    result = matins("audit", "verify", *words, store=f"sqlite:///{path}")
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Hint: " in result.stderr


def test_without_a_store() -> None:
    """B1: it would be the user's own; where there is none, none is made"""
    result = matins("audit", "verify")
    assert (result.exit_code, result.stdout) == (0, "The event log is intact: 0 events in 0 chains, no seal yet\n")
    assert not Path("/nowhere").exists()
