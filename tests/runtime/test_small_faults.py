"""Faults of the surroundings that are told once, in a sentence."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from matins import Matins, SchedulerShutdownError
from matins.errors import StoreUnavailable
from matins.model.event import ChainHead
from matins.runtime.maintenance import Lineage

MOUNTING = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]


class Store:
    """As much of a store as a witness is of."""

    store_id = incarnation = "a"
    last_head: ChainHead


def test_two_engines_write_their_witness_in_one_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """S2: each found the file of the other gone, or renamed one that was half written"""
    together = threading.Barrier(2)

    def note(number: int) -> None:
        store: Any = Store()
        lineage = Lineage(store, tmp_path)
        together.wait()
        for seq in range(300):
            store.last_head = ChainHead("w", number, seq, "00")
            lineage.note()
            json.loads((tmp_path / "witness.json").read_text(encoding="ascii"))

    threads = [threading.Thread(target=note, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caplog.records == []
    assert [path.name for path in tmp_path.iterdir()] == ["witness.json"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("from matins import Matins; Matins(f'sqlite:///{folder}/new.db')", "new.db cannot be written: Read-only"),
        ("from matins import Matins; Matins(f'sqlite:///{folder}/m.db').start()", "m.db cannot be opened"),
        (
            "import sys; from matins.app import main; sys.argv[1:] = ['--home', folder, 'up']; main()",
            "daemon.json cannot be",
        ),
        (
            "import sys; from matins.app import main; sys.argv[1:] = ['--home', folder + '/x', 'up']; main()",
            "x cannot be",
        ),
    ],
)
def test_a_read_only_disk_is_told(tmp_path: Path, code: str, said: str) -> None:
    """B1: in a sentence, and not as an error of Python"""
    if subprocess.run([*MOUNTING, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces: no disk can be mounted here")
    made = f"{sys.executable} -c \"from matins import Matins; Matins('sqlite:///{tmp_path}/m.db').close()\""
    mounted = f"mount -t tmpfs -o mode=700 none {tmp_path} && {made} && mount -o remount,bind,ro {tmp_path}"
    script = f'{mounted} && exec "$0" -c "$1"'
    program = f"folder = {str(tmp_path)!r}\n{code}"
    done = subprocess.run([*MOUNTING, "sh", "-c", script, sys.executable, program], capture_output=True, text=True)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Unexpected" not in done.stderr
    assert "\nOSError" not in done.stderr.rpartition("direct cause")[2]


def test_a_stop_without_a_store_warns_seldom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H8: it was tried again, and said, twenty times a second"""
    begun, go = threading.Event(), threading.Event()
    matins = Matins(f"sqlite:///{tmp_path}/m.db")

    @matins.job("stands")
    def stands(run: Any) -> None:
        begun.set()
        go.wait()

    matins.add("s", when="every day at 09:00", job="stands")
    matins.start()
    matins.run("s")
    assert begun.wait(30)

    def away(now: int) -> Any:
        raise StoreUnavailable("The server is away.")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "matins"):
        patch.setattr(matins.store, "transaction", away)
        with pytest.raises((SchedulerShutdownError, StoreUnavailable)):
            matins.stop(timeout=3)
        told = [record for record in caplog.records if "The store failed" in record.message]
    go.set()
    matins.close()
    assert 1 <= len(told) <= 8


def test_an_async_job_that_runs_at_the_end_is_cancelled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """H2: asyncio complained of a task that was destroyed while it was pending"""
    begun, cleaned = threading.Event(), threading.Event()
    matins = Matins(f"sqlite:///{tmp_path}/m.db")

    @matins.job("waits")
    async def waits(run: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            cleaned.set()

    matins.add("s", when="every day at 09:00", job="waits")
    matins.start()
    matins.run("s")
    assert begun.wait(30)
    matins.stop(wait=False)
    assert cleaned.wait(30)
    matins.close()
    assert "destroyed" not in caplog.text
