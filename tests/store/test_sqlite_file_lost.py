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
from matins.errors import StoreBusy, StoreUnavailable
from matins.store.sqlite import ownership
from matins.store.sqlite.ownership import Ownership
from matins.testing import Sandbox


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
        with pytest.raises(StoreUnavailable, match="was deleted or replaced"):
            sandbox.runs.list()
        file.unlink(missing_ok=True)
        kept.rename(file)
        sandbox.engine.run_once()
        assert len(sandbox.runs.list()) == 1


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
