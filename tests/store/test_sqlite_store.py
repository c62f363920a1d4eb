"""What only SQLite has: a file that may be foreign, damaged, full, or on a network. Rows S2, S4, H10."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from store_records import NOW, add_schedules, found_faults, say

from matins.errors import NetworkFilesystem, StoreCorrupt, StoreError, StoreUnavailable, StoreVersionError
from matins.store.sqlite import ownership
from matins.store.sqlite.ownership import Ownership, network_filesystem
from matins.store.sqlite.store import SqliteStore
from matins.store.sqlite.transaction import SQL

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 0:26 / /mnt/share rw,relatime shared:5 - nfs4 server:/export rw
31 22 0:27 / /mnt/share/local rw,relatime - xfs /dev/sdb rw
32 22 0:28 / /mnt/my\\040disk rw,relatime - fuse.sshfs me@host: rw
33 22 0:29 / /mnt/fuse rw,relatime - fuse.bindfs /x rw
broken line
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database that was closed in good order."""
    path = tmp_path / "matins.db"
    store = SqliteStore(path, NOW)
    add_schedules(store)
    store.close()
    return path


def test_a_newer_schema_is_refused_and_nothing_is_changed(path: Path) -> None:
    """S2."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match="newer version of Matins"):
        SqliteStore(path, NOW)
    assert path.read_bytes() == before


def test_a_schema_of_another_version_is_refused(path: Path) -> None:
    """S2: the same number, but other words."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE migrations SET checksum = 'x'")
    connection.close()
    with pytest.raises(StoreVersionError, match="migration 1"):
        SqliteStore(path, NOW)


@pytest.mark.parametrize("statement", ["CREATE TABLE theirs (x)", "PRAGMA user_version = 1"])
def test_a_foreign_database_is_left_alone(tmp_path: Path, statement: str) -> None:
    """S2."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not one of Matins"):
        SqliteStore(path, NOW)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """H10."""
    path = tmp_path / "text.db"
    path.write_text("this is not a database " * 100, encoding="ascii")
    with pytest.raises(StoreCorrupt, match="damaged"):
        SqliteStore(path, NOW)
    assert path.read_text(encoding="ascii").startswith("this is not")


def test_a_damaged_file_is_named_when_the_damage_is_met(path: Path) -> None:
    """H10: never a silent wrong answer."""
    data = bytearray(path.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = b"\xff" * 64
    path.write_bytes(bytes(data))
    with pytest.raises(StoreCorrupt, match="damaged"):
        read_everything(path)


def read_everything(path: Path) -> None:
    store = SqliteStore(path, NOW)
    try:
        with store.transaction(NOW) as transaction:
            transaction.schedules(0, None, 9)
            transaction.due(NOW, 9)
    finally:
        store.close()


def test_a_full_disk_is_told_and_borne(tmp_path: Path) -> None:
    """H10: nothing of the transaction stays, and when there is room again the store goes on."""
    store = SqliteStore(tmp_path / "small.db", NOW)
    say(store, "before")
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    with pytest.raises(StoreUnavailable, match="no disk space left") as caught:
        add_schedules(store, 5_000)
    assert caught.value.retryable
    store._connection.execute(f"PRAGMA max_page_count = {1 << 30}").fetchall()
    say(store, "after")
    assert found_faults(store) == []
    with store.reading() as transaction:
        assert transaction.schedules(0, None, 9) == []
        assert [event.type for event in transaction.events_after(0, 9)] == ["before", "after"]
    store.close()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/matins.db", None),
        ("/mnt/share/matins.db", "nfs4"),
        ("/mnt/share/local/matins.db", None),
        ("/mnt/shared/matins.db", None),
        ("/mnt/my disk/matins.db", "fuse.sshfs"),
        ("/mnt/fuse/matins.db", None),
    ],
)
def test_network_file_systems_are_recognised(path: str, kind: str | None) -> None:
    """S4: by the text of /proc/self/mountinfo; the innermost mount counts."""
    assert network_filesystem(Path(path), MOUNTS) == kind


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4."""
    monkeypatch.setattr(ownership, "network_filesystem", lambda path, mounts: "nfs4")
    with pytest.raises(NetworkFilesystem, match="nfs4") as caught:
        SqliteStore(tmp_path / "matins.db", NOW)
    assert "postgresql" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_what_is_committed_is_there_after_the_file_was_closed_hard(path: Path) -> None:
    """P8: another process sees it, and no connection had to be closed for that."""
    store = SqliteStore(path, NOW)
    say(store, "kept")
    reader = apsw.Connection(str(path))
    assert reader.execute("SELECT type FROM events").fetchall() == [("kept",)]
    reader.close()
    store.close()


def test_nobody_else_can_read_the_file(tmp_path: Path) -> None:
    """Whatever the umask of the program that makes it"""
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "matins.db", NOW)
        with store.transaction(NOW) as transaction:
            transaction.set_limit("global", 1)
        modes = {file.name: file.stat().st_mode & 0o077 for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes["matins.db"] == modes["matins.db-wal"] == 0


@pytest.fixture
def looking(tmp_path: Path) -> Iterator[int]:
    """The lock of `matins.db`, as whoever only looks at it has it for a moment."""
    file = os.open(tmp_path / "matins.db.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_SH)
    yield file
    os.close(file)


def test_whoever_looks_keeps_nobody_out(tmp_path: Path, looking: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: an engine that starts at that moment waits for it"""
    monkeypatch.setattr(ownership.time, "sleep", lambda seconds: fcntl.flock(looking, fcntl.LOCK_UN))
    owner = Ownership(tmp_path / "matins.db")
    assert owner.acquire()
    owner.release()


def test_nobody_looks_for_ever(tmp_path: Path, looking: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: a process that was stopped in the middle of it is not waited for"""
    monkeypatch.setattr(ownership.time, "sleep", lambda seconds: None)
    assert not Ownership(tmp_path / "matins.db").acquire()


def test_whether_an_engine_has_the_lock(tmp_path: Path) -> None:
    """V2: a look leaves it as it was; a command that has it for its moment is no engine"""
    path = tmp_path / "matins.db"
    engine, looker = Ownership(path), Ownership(path)
    assert not looker.has_engine()
    assert list(tmp_path.iterdir()) == []
    assert engine.acquire()
    assert [engine.has_engine(), looker.has_engine()] == [True, False]
    engine.announce(path)
    assert [looker.has_engine(), looker.has_engine(), looker.acquire()] == [True, True, False]
    engine.abandon()  # as when it is killed: what it said stays there
    assert [bool(looker.owner()), looker.has_engine(), looker.acquire()] == [True, False, True]
    looker.release()


def test_a_child_that_is_forked_during_a_look_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: it has the file open for as long as it lives"""
    path, still_open = tmp_path / "matins.db", list[int]()
    path.with_name("matins.db.lock").touch()
    with monkeypatch.context() as patch:
        patch.setattr(ownership.os, "close", still_open.append)
        assert not Ownership(path).has_engine()
    owner = Ownership(path)
    assert owner.acquire()
    owner.release()
    (file,) = still_open
    os.close(file)


def test_a_queue_is_neither_sorted_nor_read_to_promote_a_run(path: Path) -> None:
    """C12: a catch-up may queue a thousand runs, and each end promotes one"""
    store = SqliteStore(path, NOW)
    plan = str(store._connection.execute(f"EXPLAIN QUERY PLAN {SQL['promote']}", {"ids": "[1]", "now": NOW}).fetchall())
    store.close()
    assert "TEMP B-TREE" not in plan
    assert plan.count("USING INDEX runs_live (schedule_id=? AND state=?") >= 2


def test_a_page_of_runs_is_found_without_reading_all_of_them(path: Path) -> None:
    """V2: only the index is read to the end, however long the history is"""
    store = SqliteStore(path, NOW)
    plan = [row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {SQL['runs_of']}", (1, 2, 3))]
    store.close()
    reads = [step for step in plan if step.startswith("SEARCH")]
    assert reads[0].startswith("SEARCH runs USING COVERING INDEX runs_slot")
    assert all("INTEGER PRIMARY KEY" in step for step in reads[1:])
