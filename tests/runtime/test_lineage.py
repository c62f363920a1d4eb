"""A store that goes back: a restored backup, or a failover to an older copy, is noticed and told."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import postgres_fixtures
from matins import Matins
from matins.errors import Conflict, StoreUnavailable
from matins.runtime.heartbeat import Heartbeat
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url


def told(sandbox: Sandbox) -> list[Any]:
    return [event.data["reason"] for event in sandbox.events.list(types=["store.restored"])]


def worked(sandbox: Sandbox) -> Sandbox:
    """A sandbox that has committed events."""
    with suppress(Conflict):  # a theatre has it already
        sandbox.job("work")(lambda run: None)
    if not sandbox.list():
        sandbox.add("a", when="every 1 minute", job="work", anchor="grid")
    sandbox.run_until(sandbox.clock.now_ms() + 180_000)
    return sandbox


def test_the_same_store_keeps_its_incarnation(tmp_path: Path) -> None:
    """B8: an engine that starts again, also after a crash, finds the store that it left."""
    url, clock = f"sqlite:///{tmp_path}/matins.db", ManualClock()
    seen = set()
    for _ in range(3):
        with closing(worked(Sandbox(url, clock=clock))) as sandbox:
            seen.add(sandbox.store.incarnation)
            assert told(sandbox) == []
    assert len(seen) == 1


def test_an_older_file_is_another_incarnation(tmp_path: Path) -> None:
    """B8, S7: somebody copies the file, and puts the copy back later."""
    file, clock = tmp_path / "matins.db", ManualClock()
    with closing(worked(Sandbox(f"sqlite:///{file}", clock=clock))):
        pass
    shutil.copy(file, tmp_path / "copy.db")
    with closing(worked(Sandbox(f"sqlite:///{file}", clock=clock))) as sandbox:
        before = sandbox.store.incarnation
    for name in (file, f"{file}-wal", f"{file}-shm"):
        Path(name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy.db", file)
    with closing(Sandbox(f"sqlite:///{file}", clock=clock)) as sandbox:
        assert sandbox.store.incarnation != before
        assert told(sandbox) == ["older_copy"]
        assert any("older copy" in found.sentence for found in sandbox.system.doctor())
    with closing(Sandbox(f"sqlite:///{file}", clock=clock)) as sandbox:
        assert told(sandbox) == ["older_copy"]  # once
        clock.advance(8 * 86_400_000)
        assert not any("older copy" in found.sentence for found in sandbox.system.doctor())


def test_a_backup_is_another_incarnation(tmp_path: Path) -> None:
    """B8, S7: also on a machine that never saw the store."""
    clock = ManualClock()
    with closing(worked(Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=clock))) as sandbox:
        sandbox.system.backup(str(tmp_path / "elsewhere.db"))
        before = sandbox.store.incarnation
    for _ in range(2):
        with closing(Sandbox(f"sqlite:///{tmp_path}/elsewhere.db", clock=clock)) as copy:
            assert copy.store.incarnation != before
            assert told(copy) == ["backup"]


def test_a_failover_is_noticed_while_engines_run(postgres_url: str) -> None:
    """B8, S7: the server comes back without the last commits. One engine renews the incarnation, all take it up."""
    clock = ManualClock()
    with closing(worked(Sandbox(postgres_url, clock=clock))) as one, closing(Sandbox(postgres_url, clock=clock)) as two:
        two.job("work")(lambda run: None)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            (last,) = connection.execute("SELECT max(id) FROM events").fetchone() or (0,)
        workers = {one.engine.worker, two.engine.worker}
        one.add("b", when="every 1 hour", job="work")
        clock.advance(1_000)
        one.settle()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DELETE FROM events WHERE id > %s", (last,))
        clock.advance(1_000)
        one.settle()
        two.settle()
        assert told(one) == ["older_copy"]
        assert one.store.incarnation == two.store.incarnation
        assert workers.isdisjoint({one.engine.worker, two.engine.worker})
        for _ in range(3):
            clock.advance(1_000)
            one.settle()
            two.settle()
        assert told(one) == ["older_copy"]


def test_an_engine_enlists_in_an_older_copy_although_the_first_try_fails(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8, S7: that the store is another one is noticed once"""
    clock = ManualClock()
    with closing(worked(Sandbox(postgres_url, clock=clock))) as sandbox:
        worker, enlist = sandbox.engine.worker, sandbox.engine._enlist
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DELETE FROM events WHERE id = (SELECT max(id) FROM events)")
        tries: list[int] = []

        def fails_at_first(now: int) -> None:
            tries.append(now)
            if len(tries) == 1:
                raise StoreUnavailable("the server restarts")
            enlist(now)

        monkeypatch.setattr(sandbox.engine, "_enlist", fails_at_first)
        clock.advance(1_000)
        for _ in range(3):
            sandbox.engine.run_once()
        assert told(sandbox) == ["older_copy"]
        assert (len(tries), sandbox.engine.worker != worker) == (2, True)


def test_a_pruned_event_is_not_a_lost_one(tmp_path: Path, reopen: Callable[..., Any]) -> None:
    """S7: history that is pruned does not look like an older copy."""
    sandbox = worked(reopen())
    sandbox.clock.advance(200 * 86_400_000)
    with sandbox.store.transaction(sandbox.clock.now_ms()) as transaction:
        transaction.prune_events(sandbox.clock.now_ms(), ())
    assert told(reopen()) == []


def test_a_slot_keeps_its_key_in_an_older_copy(tmp_path: Path) -> None:
    """B8, S7: other slots get the ids of runs, but not their keys."""
    file, clock, keys = tmp_path / "matins.db", ManualClock(), dict[Any, set[str]]()

    def opened() -> Sandbox:
        sandbox = Sandbox(f"sqlite:///{file}", clock=clock)
        sandbox.job("note")(lambda run: keys.setdefault((run.schedule, run.slot), set()).add(run.key))
        return sandbox

    with closing(opened()) as sandbox:
        sandbox.add("a", when="every 1 minute", job="note", anchor="grid", catch_up="run_all_capped")
        sandbox.store.checkpoint()
    shutil.copy(file, tmp_path / "copy.db")
    with closing(opened()) as sandbox:
        sandbox.run_until(clock.now_ms() + 180_000)
        sandbox.store.checkpoint()
    shutil.copy(tmp_path / "copy.db", file)
    with closing(opened()) as sandbox:
        sandbox.add("b", when="every 1 minute", job="note", anchor="grid")
        sandbox.run_until(clock.now_ms() + 120_000)
        ids = [run.id for run in sandbox.all_runs("b")]
    assert len(ids) == 2
    assert all(len(found) == 1 for found in keys.values())
    assert len({key for found in keys.values() for key in found}) == len(keys) == 7


def test_b18_a_server_that_lost_its_data_is_waited_for(postgres_url: str) -> None:
    """B18: nothing is started or written, neither without tables nor in another store that is there now; heartbeats
    go on, so that the engine is fenced, and it goes on when the data is back"""
    with closing(Sandbox(postgres_url, clock=ManualClock("2026-03-27T08:00:00Z"))) as sandbox:
        fenced: list[bool] = []
        nothing = lambda *given: None  # noqa: E731
        heart = Heartbeat(
            sandbox.store, sandbox.clock, worker=lambda: sandbox.engine.worker, every_ms=1, lease_ms=15_000,
            cancel=nothing, renew=nothing, fenced=fenced.append, outdated=lambda: None,
        )  # fmt: skip
        sandbox.job("work")(lambda run: None)
        sandbox.add("s", when="*/5 * * * *", job="work")
        sandbox.settle()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            (schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
            connection.execute(f"ALTER SCHEMA {schema} RENAME TO {schema}_kept")
            connection.execute(f"CREATE SCHEMA {schema}")
            sandbox.clock.advance(11_000)
            for sentence in ("has lost its tables", "Another store is in the place of the one that was opened"):
                with pytest.raises(StoreUnavailable, match=sentence) as caught:
                    sandbox.settle()
                assert "Restore its data: Matins waits." in str(caught.value.hint)
                heart.beat()
                assert fenced.pop(), "a third of its lease before others take its runs"
                with closing(Matins(postgres_url)) as other:
                    assert other.list() == []
                    assert other.nodes.list() == []
            connection.execute(f"DROP SCHEMA {schema} CASCADE")
            connection.execute(f"ALTER SCHEMA {schema}_kept RENAME TO {schema}")
        heart.beat()
        assert fenced.pop() is False
        sandbox.run_until("2026-03-27T08:05:00Z")
        assert [run.state for run in sandbox.runs.list()] == ["succeeded"]
