"""The file, or the lock beside it, is deleted or replaced under a running engine; starts that meet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from matins import Matins
from matins.errors import StoreBusy, StoreError, StoreUnavailable
from matins.store.sqlite import ownership
from matins.store.sqlite.ownership import Ownership
from matins.store.sqlite.store import SqliteStore
from matins.testing import ManualClock, Sandbox


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_gone_is_noticed(tmp_path: Path, replaced: bool) -> None:
    """S7, B1: nothing is started, and every use says so, until it is back."""
    file = tmp_path / "matins.db"
    with closing(Sandbox(f"sqlite:///{file}")) as sandbox:
        sandbox.job("work")(lambda run: None)
        sandbox.add("s", when="every 1 minute", job="work", anchor="grid")
        kept = file.rename(tmp_path / "kept.db")
        if replaced:
            shutil.copy(kept, file)
        sandbox.clock.advance(60_000)
        assert sandbox.engine.run_once() > 0
        with pytest.raises(StoreUnavailable, match="was deleted or replaced") as told:
            sandbox.runs.list()
        assert told.value.hint == "Put it back. If you did not move it, an agent may have: look before you restart."
        file.unlink(missing_ok=True)
        kept.rename(file)
        sandbox.engine.run_once()
        assert len(sandbox.runs.list()) == 1


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_is_gone_is_noticed_and_nothing_is_lost(tmp_path: Path, suffix: str, replaced: bool) -> None:
    """S7, B1: its records are written into the file, nothing is started, and no slot runs again after the restart."""
    file = tmp_path / "matins.db"
    slots: list[int] = []
    with closing(minutely(file, slots)) as sandbox:
        sandbox.run_until(sandbox.clock.now_ms() + 300_000)
        lost = Path(f"{file}{suffix}").rename(tmp_path / "kept")
        if replaced:
            shutil.copy(lost, f"{file}{suffix}")
        sandbox.clock.advance(60_000)
        assert sandbox.engine.run_once() > 0
        with pytest.raises(StoreUnavailable, match=f"{suffix} was deleted or replaced"):
            sandbox.runs.list()
        assert len(slots) == 5
    if replaced:
        Path(f"{file}{suffix}").unlink(missing_ok=True)
    with closing(minutely(file, slots, sandbox.clock)) as sandbox:
        sandbox.run_until(sandbox.clock.now_ms() + 1)
        assert len(sandbox.runs.list()) == len(slots) == len(set(slots)) == 6


def minutely(file: Path, slots: list[int], clock: ManualClock | None = None) -> Sandbox:
    sandbox = Sandbox(f"sqlite:///{file}", clock=clock or ManualClock("2026-03-27T08:00:00Z"))
    sandbox.job("work")(lambda run: slots.append(run.slot))
    if clock is None:
        sandbox.add("s", when="every 1 minute", job="work", anchor="grid")
    return sandbox


@pytest.mark.parametrize("kind", ["slot", "manual", "step"])
def test_a_job_knows_its_key_while_the_store_is_away(tmp_path: Path, kind: str) -> None:
    """B9: the key is known at the claim. A store that is away for a moment fails no healthy run."""
    file = tmp_path / "matins.db"
    with closing(Sandbox(f"sqlite:///{file}", clock=ManualClock("2026-03-27T08:00:00Z"))) as sandbox:
        keys: list[str] = []

        @sandbox.job("work")
        def work(run: Any) -> None:
            kept = file.rename(tmp_path / "kept.db")
            try:
                keys.append(run.key)
                with pytest.raises(StoreUnavailable):  # control: it is away
                    sandbox.runs.list()
            finally:
                kept.rename(file)

        settings = {"steps": [{"title": "One", "job": "work"}]} if kind == "step" else {"job": "work"}
        sandbox.add("s", when="every 1 minute", anchor="grid", **settings)
        if kind == "manual":
            sandbox.run("s")
        sandbox.run_until(sandbox.clock.now_ms() + (1 if kind == "manual" else 60_000))
        (run,) = sandbox.runs.list()
        assert run.state == "succeeded"
        slot = int(run.slot.timestamp() * 1000) if run.slot else ""
        assert len(keys) == 1
        assert keys[0].partition("-")[2].startswith(str(slot))
        assert keys[0].endswith("-1") == (kind == "step")


@pytest.mark.parametrize("folder", [False, True])
def test_a_link_leads_to_the_same_lock(tmp_path: Path, folder: bool) -> None:
    """S7, B1: an engine by the name of the file, another by a link to it, or through a linked folder."""
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "matins.db"
    if folder:
        (tmp_path / "linked").symlink_to("real")
        other = tmp_path / "linked" / "matins.db"
    else:
        other = tmp_path / "link.db"
        other.symlink_to(file)
    with closing(SqliteStore(file, 0)) as first, closing(SqliteStore(other, 0)) as second:
        assert first.acquire()
        assert not second.acquire()
        first.release()
        assert second.acquire()


def test_a_second_name_of_the_file_is_refused(tmp_path: Path) -> None:
    """S7: SQLite would keep another log for it."""
    file = tmp_path / "matins.db"
    SqliteStore(file, 0).close()
    os.link(file, tmp_path / "second.db")
    for name in ("matins.db", "second.db"):
        with pytest.raises(StoreError, match="has a second name"):
            SqliteStore(tmp_path / name, 0)
    (tmp_path / "second.db").unlink()
    SqliteStore(file, 0).close()


def test_a_store_whose_file_is_gone_can_be_closed_twice(tmp_path: Path) -> None:
    """S7"""
    file = tmp_path / "matins.db"
    matins = Matins(f"sqlite:///{file}")
    file.unlink()
    matins.close()
    matins.close()


@pytest.mark.parametrize("in_place", [True, False])
def test_a_backup_that_is_put_over_a_running_engine_is_noticed(tmp_path: Path, in_place: bool) -> None:
    """S7, B1: nothing is started or written, and the next start finds the backup as it was made"""
    file, copy = tmp_path / "matins.db", tmp_path / "copy.db"
    with closing(backed_up(file, copy)) as sandbox:
        if in_place:
            shutil.copyfile(copy, file)
        else:
            shutil.copyfile(copy, tmp_path / "new.db")
            (tmp_path / "new.db").replace(file)
        sandbox.clock.advance(60_000)
        assert sandbox.engine.run_once() > 0
        with pytest.raises(StoreUnavailable, match=r"copied over|was deleted or replaced"):
            sandbox.runs.list()
        with pytest.raises(StoreUnavailable):
            sandbox.store.checkpoint()
        assert sandbox.started == 8
    assert file.read_bytes() == copy.read_bytes()
    assert_restored(file, sandbox.clock)


def test_a_transaction_under_which_the_file_is_overwritten_is_not_committed(tmp_path: Path) -> None:
    """S7, B1: what it has read may be of two files"""
    file, copy = tmp_path / "matins.db", tmp_path / "copy.db"

    def write(sandbox: Sandbox) -> None:
        with sandbox.store.transaction(0) as transaction:
            shutil.copyfile(copy, file)
            transaction.insert_worker("{}", 0, "")

    with closing(backed_up(file, copy)) as sandbox:
        log = Path(f"{file}-wal").read_bytes()
        with pytest.raises(StoreUnavailable, match="copied over"):
            write(sandbox)
    assert Path(f"{file}-wal").read_bytes() == log


def test_a_log_that_was_left_beside_another_file_is_not_written_into_a_backup(tmp_path: Path) -> None:
    """S7: an engine was killed, and the backup put in place without deleting the log. It is kept under another name."""
    file, copy, log = tmp_path / "matins.db", tmp_path / "copy.db", Path(f"{tmp_path}/matins.db-wal")
    with closing(backed_up(file, copy)) as sandbox:
        left = log.read_bytes()
    shutil.copyfile(copy, file)
    log.write_bytes(left)
    engine = Ownership(file)
    assert engine.acquire()
    engine.announce(tmp_path / "socket")
    with pytest.raises(StoreUnavailable, match="was replaced while an engine runs on it"):
        SqliteStore(file, 0)
    engine.release()
    assert_restored(file, sandbox.clock)
    assert Path(f"{log}.replaced").read_bytes() == left


def test_a_file_whose_log_another_program_writes_back_is_the_same(tmp_path: Path) -> None:
    """S7: so do tools that copy a database as it changes; others only touch it"""
    file = tmp_path / "matins.db"
    with closing(backed_up(file, tmp_path / "copy.db")) as sandbox:
        before = file.stat().st_mtime_ns
        write_back = "import apsw, sys; print(apsw.Connection(sys.argv[1]).pragma('wal_checkpoint'))"
        subprocess.run([sys.executable, "-c", write_back, str(file)], check=True, timeout=90)
        assert file.stat().st_mtime_ns != before
        sandbox.run_until(sandbox.clock.now_ms() + 60_000)
        os.utime(file)
        sandbox.run_until(sandbox.clock.now_ms() + 60_000)
        assert sandbox.started == 10


class Counting(Sandbox):
    """Counts what it starts."""

    started = 0

    def count(self, run: Any) -> None:
        self.started += 1


def backed_up(file: Path, copy: Path) -> Counting:
    """An engine that was backed up after 3 of 8 runs. A part of the rest is in its log only."""
    sandbox = Counting(f"sqlite:///{file}")
    sandbox.job("work")(sandbox.count)
    sandbox.add("s", when="every 1 minute", job="work", anchor="grid")
    sandbox.run_until(sandbox.clock.now_ms() + 180_000)
    sandbox.system.backup(copy)
    sandbox.run_until(sandbox.clock.now_ms() + 180_000)
    sandbox.store.checkpoint()
    sandbox.run_until(sandbox.clock.now_ms() + 120_000)
    assert sandbox.started == 8
    return sandbox


def assert_restored(file: Path, clock: ManualClock) -> None:
    with closing(Sandbox(f"sqlite:///{file}", clock=clock)) as restored:
        assert [event.data["reason"] for event in restored.events.list(types=["store.restored"])] == ["backup"]
        assert len([run for run in restored.all_runs("s") if run.state == "succeeded"]) == 3
        assert restored.audit.verify().problems == []
        assert restored.store.integrity_problems() == []


def test_a_deleted_lock_lets_no_second_engine_in(tmp_path: Path) -> None:
    """B1: the engine answers on its socket, and takes the lock again."""
    url = f"sqlite:///{tmp_path}/matins.db"
    with Matins(url) as first:
        Path(f"{tmp_path}/matins.db.lock").unlink()
        with closing(Matins(url)) as second, pytest.raises(StoreBusy, match="Another engine is running"):
            second.start(strict=True)
        first.events.list()  # any use of the store takes the lock again
        with closing(Matins(url)) as second, pytest.raises(StoreBusy, match="Another engine is running"):
            second.start(strict=True)
    first.close()


def test_a_start_that_failed_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: it does not look as if it had started."""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        with monkeypatch.context() as broken:
            broken.setattr(m.outbox, "start", lambda: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                m.start()
        m.job("work")(lambda run: None)
        m.add("s", when="every day at 09:00", job="work")
        m.start()
        assert m.runs.wait(m.run("s").id).state == "succeeded"
        m.stop()


_OPEN = "import sys; from matins import Matins; Matins(sys.argv[1]).close()"


def test_processes_that_create_a_file_together_all_succeed(tmp_path: Path) -> None:
    """S7"""
    for number in range(3):
        url = f"sqlite:///{tmp_path}/{number}.db"
        opened = [subprocess.Popen([sys.executable, "-c", _OPEN, url]) for _ in range(4)]
        assert [process.wait(120) for process in opened] == [0] * 4


def test_a_reader_does_not_meet_a_lock_that_another_thread_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1, S2: the lock is released between the look at its path and the look at its descriptor."""
    ownership = Ownership(tmp_path / "matins.db")
    assert ownership.acquire()
    releasing = threading.Thread(target=ownership.release)
    stat = os.stat

    def stat_while_releasing(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        status = stat(path, *arguments, **options)
        releasing.start()
        releasing.join(0.2)  # it waits for the reader; otherwise it is done by now
        return status

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", stat_while_releasing)
        assert ownership.renew()
    releasing.join()
    assert not ownership.is_held


def test_a_start_waits_behind_clients_that_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B1: each holds the lock for one call, and another one comes after it. Behind an engine nobody waits."""
    path = tmp_path / "matins.db"
    clients = [Ownership(path) for _ in range(20)]
    assert clients[0].acquire()
    left = iter(range(1, len(clients) + 1))

    def pass_by(seconds: float) -> None:
        number = next(left)
        clients[number - 1].release()
        if number < len(clients):
            assert clients[number].acquire()

    monkeypatch.setattr(ownership.time, "sleep", pass_by)
    engine, second = Ownership(path), Ownership(path)
    assert engine.acquire_waiting()
    assert next(left, None) is None
    engine.announce(tmp_path / "socket")
    assert not second.acquire_waiting()
