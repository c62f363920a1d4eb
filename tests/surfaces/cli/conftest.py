"""A command line on a real store, whose time is ours."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_user import User

from matins.store.sqlite.store import SqliteStore
from matins.surfaces.cli import times
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"  # a Friday


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: its tables take longer than most tests."""
    path = tmp_path_factory.mktemp("cli") / "matins.db"
    SqliteStore(path, 0).close()
    return path


@pytest.fixture
def bench(tmp_path: Path, fresh_store: Path) -> Iterator[Sandbox]:
    shutil.copy(fresh_store, tmp_path / "matins.db")
    made = Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(START))
    made.job("work")(lambda run: None)
    made.job("fail")(_fail)
    yield made
    made.engine.close()
    made.close()


def _fail(run: object) -> None:
    raise ValueError("no luck")


@pytest.fixture
def user(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    """Sits at a terminal of 80 columns, whose clock is the bench's."""
    monkeypatch.setattr(times, "now", lambda: datetime.fromtimestamp(bench.clock.now_ms() / 1000, UTC))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield User(bench)
    monkeypatch.undo()
    time.tzset()
