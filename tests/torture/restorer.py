"""A store that is set back to older copies of itself while engines are killed."""

from __future__ import annotations

import shutil
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

from diary import Line
from ledger import Rows
from stage import Orders
from theatre import Process, Theatre

from matins import Matins

_ENDS_OF_A_LIFE = 6
_PATIENCE_S = 120
_ONE_EACH = ("allow", "queue")
"""Schedules whose runs stand for one slot each, not for a first one and all that follow it."""
_DONE = """SELECT r.id, s.uid, coalesce(r.first_slot, r.slot) FROM runs r
JOIN schedules s ON s.id = r.schedule_id WHERE r.state = 10 AND r.slot IS NOT NULL
AND EXISTS (SELECT 1 FROM attempts a WHERE a.run_id = r.id)"""


class Restorer:
    """`save` makes a copy of a store that nobody works on, `restore` puts the last one back."""

    def __init__(
        self,
        theatre: Theatre,
        seed: str,
        save: Callable[[], None] | None = None,
        restore: Callable[[], None] | None = None,
    ) -> None:
        self.theatre = theatre
        self._rng = Random(seed)
        self._save, self._restore = save or self._save_files, restore or self._restore_files
        self._lives: list[Process] = []
        self._present: Process | None = None
        self._restored = 0

    def set_stage(self) -> None:
        assert self.theatre.run(Orders("set_stage", "")).code == 0, self.theatre.findings
        self._save()

    def live(self, scene: str = "") -> None:
        """An engine, killed when it has ended a few jobs, and has noted how far the store is."""
        theatre, before = self.theatre, self._witness()
        process = self._present = theatre.start(Orders("engine", str(self._rng.random()), life=scene))

        def lived() -> bool:
            ends = sum(line["kind"] == "end" for line in process.diary.lines)
            return ends >= _ENDS_OF_A_LIFE and self._witness() not in ("", before)

        if not theatre.until(process, lived, _PATIENCE_S):
            theatre.findings.append(f"an engine did not work on a store that was set back: {process.diary.lines[-3:]}")
        self.kill_all()

    def kill_all(self) -> None:
        """The one engine, if there is one."""
        if self._present is not None:
            self.theatre.kill(self._present)
            self._lives.append(self._present)
        self._present = None

    def _witness(self) -> str:
        file = self.theatre.stage.state / "witness.json"
        return file.read_text() if file.exists() else ""

    def save(self) -> None:
        self._save()

    def restore(self) -> None:
        self._restore()
        self._restored += 1

    def restore_and_kill(self, scene: str) -> bool:
        """The engine that finds an older copy is killed over it; whether it was."""
        self.live(scene)
        if self._rng.random() < 0.4:
            self.save()
            self.live(scene)
        self.restore()
        orders = Orders("engine", str(self._rng.random()), unless=self.theatre.cover.known(), life=scene)
        process = self._present = self.theatre.start(orders)
        theatre, beyond = self.theatre, self._rng.uniform(0.0, 0.6)
        if theatre.cover.never():  # it dies where nobody has died yet, or is well when it has started
            theatre.until(process, lambda: process.started is not None, _PATIENCE_S)
        theatre.until(process, lambda: False, beyond * theatre.pace)
        self.kill_all()
        return process.code == -signal.SIGKILL

    def check(self) -> tuple[int, list[str]]:
        """What it comes to in the end: how many slots are done, and what is wrong."""
        self._settle()
        wrong = [*self.theatre.findings]
        if self._lives[-1].code:
            wrong.append(f"the end ended with {self._lives[-1].code}")
        worked = self._worked()
        slots = defaultdict[str, set[object]](set)
        for line, _ in worked:
            one_each = line["schedule"] in _ONE_EACH
            slots[line["key"]].add((line["schedule"], line["slot"] if one_each else None))
        done = {line["key"] for line, ended in worked if ended}
        rows = Rows(self.theatre.stage.url)
        succeeded = rows.all(_DONE)
        rows.close()
        never = [run for run, uid, slot in succeeded if f"{uid}-{slot}" not in done]
        wrong += [f"runs {never[:9]} are called done and never were"] if never else []
        wrong += [f"key {key} stood for {found}" for key, found in slots.items() if len(found) > 1]
        return len(succeeded), [*wrong, *self._untold()]

    def _settle(self) -> None:
        """Like `run_through`, but what each of them did counts."""
        cover = self.theatre.cover
        hunts = not cover.never()
        while True:
            self._lives.append(self.theatre.run(Orders("settle", "", unless=cover.known() if hunts else None)))
            if self._lives[-1].code != -signal.SIGKILL:
                return

    def _untold(self) -> list[str]:
        matins = Matins(self.theatre.stage.url)
        told = matins.events.list(types=["store.restored"], limit=100)
        wrong = [f"audit: {fault}" for fault in matins.audit.verify().problems]
        matins.close()
        if not (self._restored > 0) <= len(told) <= self._restored:
            wrong.append(f"the store went back {self._restored} times, and {len(told)} were told")
        return wrong

    def _worked(self) -> list[tuple[Line, bool]]:
        """What began, and whether it ended, by the diaries: run ids mean something within one life only."""
        found: list[tuple[Line, bool]] = []
        for life in self._lives:
            ended = {(line["run"], line["epoch"]) for line in life.diary.lines if line["kind"] == "end"}
            begun = [line for line in life.diary.lines if line["kind"] == "begin"]
            found += [(line, (line["run"], line["epoch"]) in ended) for line in begun]
        return found

    # -- a file

    def _files(self) -> list[Path]:
        return [Path(f"{self.theatre.stage.database}{ending}") for ending in ("", "-wal")]

    def _save_files(self) -> None:
        _put(self._files(), self._copies)

    def _restore_files(self) -> None:
        _put([self._copies / file.name for file in self._files()], self.theatre.stage.database.parent)
        Path(f"{self.theatre.stage.database}-shm").unlink(missing_ok=True)

    @property
    def _copies(self) -> Path:
        folder = self.theatre.stage.folder / "copies"
        folder.mkdir(exist_ok=True)
        return folder


def _put(files: list[Path], where: Path) -> None:
    for file in files:
        (where / file.name).unlink(missing_ok=True)
        if file.exists():
            shutil.copy(file, where / file.name)
