"""A store that is set back to older copies of itself while engines are killed."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from diary import Line
from ledger import Rows
from stage import Orders, Stage
from theatre import Cover, Process, Theatre

from matins import Matins
from matins.engine.keys import run_key

_ENDS_OF_A_LIFE = 6
_LIVES = 6
_PATIENCE_S = 120
_ONE_EACH = ("allow", "queue")
"""Schedules whose runs stand for one slot each, not for a first one and all that follow it."""


def _live(theatre: Theatre, seed: str) -> Process:
    """An engine, killed when it has ended a few jobs, and has noted how far the store is."""
    witness = Path(f"{theatre.stage.database}.runs", "witness.json")
    before = witness.read_text() if witness.exists() else ""
    process = theatre.start(Orders("engine", seed))
    deadline = time.monotonic() + _PATIENCE_S

    def lives_on() -> bool:
        ends = sum(line["kind"] == "end" for line in process.diary.lines)
        return ends < _ENDS_OF_A_LIFE or not witness.exists() or witness.read_text() == before

    while lives_on():
        assert time.monotonic() < deadline, theatre.findings
        assert not process.look(), process.diary.lines[-3:]
        theatre.hear(process)
        time.sleep(0.01)
    theatre.kill(process)
    return process


def _files(stage: Stage) -> list[Path]:
    return [Path(f"{stage.database}{ending}") for ending in ("", "-wal")]


def _put(files: list[Path], where: Path) -> None:
    for file in files:
        (where / file.name).unlink(missing_ok=True)
        if file.exists():
            shutil.copy(file, where / file.name)


def _worked(lives: list[Process]) -> list[tuple[Line, bool]]:
    """What began, and whether it ended, by the diaries: run ids mean something within one life only."""
    found: list[tuple[Line, bool]] = []
    for life in lives:
        ended = {(line["run"], line["epoch"]) for line in life.diary.lines if line["kind"] == "end"}
        begun = [line for line in life.diary.lines if line["kind"] == "begin"]
        found += [(line, (line["run"], line["epoch"]) in ended) for line in begun]
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_called_done_was_done_whatever_was_restored(tmp_path: Path, seed: int) -> None:
    """B8, S7: other slots get the ids of runs, but no slot gets another's key, result or end."""
    rng, folder, copy = Random(seed), tmp_path / "stage", tmp_path / "copy"
    for made in (folder, copy):
        made.mkdir()
    stage = Stage("main", f"sqlite:///{tmp_path}/main.db", folder, few=True)
    theatre = Theatre(stage, Cover())
    assert theatre.run(Orders("set_stage", "")).code == 0
    _put(_files(stage), copy)
    lives: list[Process] = []
    restored = 0
    for number in range(_LIVES):
        lives.append(_live(theatre, f"{seed} {number}"))
        if rng.random() < 0.4 and number < _LIVES - 1:
            _put(_files(stage), copy)
        else:
            _put([copy / file.name for file in _files(stage)], tmp_path)
            Path(f"{stage.database}-shm").unlink(missing_ok=True)
            restored += 1
    lives.append(theatre.run(Orders("settle", "")))
    assert lives[-1].code == 0
    assert not theatre.findings
    _check(stage, _worked(lives), restored)


def _check(stage: Stage, worked: list[tuple[Line, bool]], restored: int) -> None:
    slots = defaultdict[str, set[object]](set)
    for line, _ in worked:
        one_each = line["schedule"] in _ONE_EACH
        slots[line["key"]].add((line["schedule"], line["slot"] if one_each else None))
    done = {line["key"] for line, ended in worked if ended}
    rows = Rows(stage.url)
    succeeded = rows.all("""SELECT r.id, s.uid, coalesce(r.first_slot, r.slot) FROM runs r
      JOIN schedules s ON s.id = r.schedule_id WHERE r.state = 10 AND r.slot IS NOT NULL
      AND EXISTS (SELECT 1 FROM attempts a WHERE a.run_id = r.id)""")
    rows.close()
    assert len(succeeded) > 10
    assert [run for run, uid, slot in succeeded if run_key(uid, slot, None) not in done] == []
    assert {key: found for key, found in slots.items() if len(found) > 1} == {}
    matins = Matins(stage.url)
    told = matins.events.list(types=["store.restored"], limit=100)
    assert 1 <= len(told) <= restored
    assert matins.audit.verify().problems == []
    matins.close()
