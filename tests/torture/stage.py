"""One store under torture: where it is, and what its processes are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEASE_MS = 1_000
BEAT_MS = 200


@dataclass(frozen=True)
class Stage:
    name: str
    url: str
    folder: Path
    history_days: float | None = None
    few: bool = False
    """Only a few of the schedules."""

    @property
    def sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    @property
    def database(self) -> Path:
        return Path(self.url.removeprefix("sqlite:///"))

    @property
    def offset(self) -> Path:
        """How far the clock of this stage is from the true one, in milliseconds."""
        return self.folder / "clock"

    @property
    def state(self) -> Path:
        """Where journals are, and the witness of how far the store is. A server's has the name of its store."""
        if self.sqlite:
            return Path(f"{self.database}.runs")
        named = (self.folder / "state").glob("*")
        return next(named, self.folder / "state")

    @property
    def notes(self) -> Path:
        """Where answers are written."""
        return self.folder / "notes"

    @property
    def effects(self) -> Path:
        """What agents did, one line each."""
        return self.folder / "effects"

    def settings(self) -> dict[str, Any]:
        state = None if self.sqlite else str(self.folder / "state")
        return {
            "lease_ms": LEASE_MS, "beat_ms": BEAT_MS, "history_days": self.history_days, "state_folder": state,
        }  # fmt: skip


@dataclass(frozen=True)
class Orders:
    """What one process shall do, and where it shall die."""

    role: str
    seed: str
    at: str | None = None
    passage: int = 1
    unless: frozenset[str] | None = None
    full_disk: bool = False
    planted: str = ""
    """The fault of Matins itself that it has, one of `planted.FAULTS`."""
    threads: int = 8
    stays_full: bool = False
    """Whether the disk is full until the end."""
    boot: str | None = None
    """Since when the machine is on, if not since it was."""
    unsound_disk: bool = False
    """Whether answers to commits are lost for a while."""
    life: str = ""
    """Which life it leads, or in which scene."""
