"""The power of the machine that agents run on: it is cut, and what was not yet on the disk is lost."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

from stage import Stage

_LOOK_S = 0.004


class Power:
    """To be cut while no engine lives: keeper, wardens and agents go, and journals with them, in several ways."""

    def __init__(self, stage: Stage, seed: str) -> None:
        self._stage = stage
        self._rng = Random(seed)
        self._deck: list[str] = []
        self.cuts: Counter[str] = Counter()
        self.boot: str | None = None
        """What the next engine takes for the boot id of the machine; None for the true one."""

    def cut(self) -> None:
        self.end_agents()
        if not self._deck:
            self._deck = list(LOSSES)
            self._rng.shuffle(self._deck)
        loss = self._deck.pop()
        LOSSES[loss](self)
        self.cuts[loss] += 1

    def end_agents(self) -> None:
        """Every process that was started for this stage, besides its engine."""
        while found := self._processes():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_LOOK_S)

    def _processes(self) -> list[int]:
        """Those that have a folder of this stage in their command."""
        marks = [os.fsencode(path) for path in (self._stage.state, self._stage.effects)]
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if any(mark in command for mark in marks):
                    found.append(int(folder.name))
        return found

    def _nothing(self) -> None:
        """The journals are there. (The boot id of a machine never comes back: it stays as it is.)"""

    def _boot(self) -> None:
        """What was written last did not reach the disk, and the machine has started again."""
        self._lose_files()
        self.boot = f"{secrets.token_hex(8)} 1"

    def _folder(self) -> None:
        """A pod of the same name, with an empty disk."""
        if self._stage.state.exists():
            self._stage.state.rename(self._stage.folder / f"gone-{self.cuts.total()}")

    def _nonce(self) -> None:
        """Another folder at the same place."""
        self._lose_files()
        nonce = self._stage.state / "nonce"
        if nonce.exists():  # not before the first engine, nor on an empty disk
            nonce.write_text(f"{secrets.token_hex(8)}\n")

    def _lose_files(self) -> None:
        runs = self._stage.state / "runs"
        for file in runs.iterdir() if runs.exists() else ():
            file.unlink()


LOSSES = {"kept": Power._nothing, "boot": Power._boot, "folder": Power._folder, "nonce": Power._nonce}
