"""Processes are killed, stopped and starved; nothing is lost and nothing happens twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ledger import Rows, reckon

from matins.testing import ManualClock, Sandbox

_RUN = Path(__file__).with_name("run.py")
_STORES = ("sqlite", "postgres")
_ENTRIES = ("store", "kills", "pauses", "slots", "lost", "duplicated", "repeated", "stale_accepted", "unfinished")


def _torture(*words: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    done = subprocess.run([sys.executable, str(_RUN), *words], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-4000:]
    line = json.loads(done.stdout)
    assert tuple(line) == _ENTRIES
    return line, done


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("store", _STORES)
def test_nothing_is_lost_and_nothing_happens_twice(store: str) -> None:
    """H2 H3 H8 S2 S4 S7 S8: at least 150 kills, within each function that writes and at random; `make torture` kills at
    every point of the statement trace."""
    line, done = _torture("--store", store, "--kills", "150", "--seed", "1", "--coarse")
    assert done.returncode == 0, f"{line}\n{done.stderr[-6000:]}"
    assert line["kills"] >= 150
    assert line["pauses"] > 0
    assert line["slots"] > 0
    assert line["repeated"] > 0
    wrong = {name: line[name] for name in ("lost", "duplicated", "stale_accepted", "unfinished") if line[name]}
    assert not wrong, f"{line}\n{done.stderr[-6000:]}"


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("store", _STORES)
def test_without_the_epoch_check_stale_writes_get_through(store: str) -> None:
    """S2: the check is what keeps a worker that was taken for dead from writing over its successor."""
    line, done = _torture("--store", store, "--kills", "20", "--seed", "1", "--forget-epochs")
    assert line["kills"] > 0, done.stderr[-4000:]
    assert line["pauses"] > 0
    assert line["slots"] > 0
    assert line["stale_accepted"] > 0, done.stderr[-4000:]


_SPOILED = {
    "lost": "DELETE FROM runs WHERE id = (SELECT min(id) + 2 FROM runs)",
    "duplicated": "UPDATE runs SET slots = 2, first_slot = slot - 60000 WHERE id = (SELECT min(id) + 2 FROM runs)",
    "unfinished": "UPDATE runs SET state = 3 WHERE id = (SELECT min(id) + 2 FROM runs)",
    "stale_accepted": "UPDATE runs SET epoch = 2 WHERE id = (SELECT min(id) + 2 FROM runs)",
}


@pytest.mark.parametrize("fault", _SPOILED)
def test_the_reckoning_sees_what_is_wrong(fault: str, tmp_path: Path) -> None:
    """S2: a record that is missing, there twice, without an end or from an old epoch is counted, as that only."""
    url = f"sqlite:///{tmp_path / 'spoiled.db'}"
    bench = Sandbox(url, clock=ManualClock("2026-01-01T00:00:00Z"))
    bench.job("work")(lambda run: {"epoch": run._attempt.epoch})
    bench.add("steady", when="* * * * *", job="work")
    bench.run_until("2026-01-01T00:10:00Z")
    now = bench.clock.now_ms()
    bench.close()
    rows = Rows(url)
    lines = [{"kind": kind, "run": run, "epoch": epoch, "key": run} for kind in ("begin", "end") for run, epoch in
             rows.all("SELECT id, epoch FROM runs WHERE epoch > 0")]  # fmt: skip
    whole = reckon(url, lines, now)
    assert not whole.notes
    assert whole.slots == 10
    rows.all(_SPOILED[fault])
    rows.close()
    spoiled = reckon(url, lines, now)
    counts = {name: getattr(spoiled, name) for name in _SPOILED}
    assert counts == {name: int(name == fault) for name in _SPOILED}, spoiled.notes
