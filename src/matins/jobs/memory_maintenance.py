"""`memory_maintenance`: an agent summarises the old notes of its memory, and archives them.

Matins finds the notes that are old, and wakes no agent when there are none. The agent decides what is worth keeping;
afterwards Matins counts what it archived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from matins.jobs import Int, JobType, Setting, Text
from matins.jobs.memory_folder import NoMemory, open_memory
from matins.model.job import Brief, ErrandPlace
from matins.texts.untrusted_folder import Entry, UntrustedFolder

ARCHIVE = "archive"
_DAY_MS = 86_400_000
_MAX_NOTES = 500


@dataclass(frozen=True)
class MemoryMaintenance:
    folder: Annotated[str, Setting(Text(4_096), "Folder of the memory.", "memory")] = "memory"
    days: Annotated[int, Setting(Int(1, 3_650), "Days after which a note is old.", 30)] = 30


def maintenance_prompt(inputs: MemoryMaintenance) -> str:
    return (
        f"Maintain your memory in the folder {inputs.folder}.\n"
        f"1. Read the notes that have not changed for {inputs.days} days. Their names are below.\n"
        "2. Summarise what is still of use, by subject, in notes of at most a page. Keep facts, decisions and their "
        "reasons; leave out what is outdated.\n"
        f"3. Move the notes that you summarised to {inputs.folder}/{ARCHIVE}, with the same names. Delete nothing.\n"
        "Report how many notes you summarised, and the summaries that you wrote."
    )


class MaintenanceErrand:
    folder = None

    def __init__(self, inputs: MemoryMaintenance, place: ErrandPlace) -> None:
        self._memory = place.folder, inputs.folder
        self._before = (place.now - inputs.days * _DAY_MS) * 1_000_000

    def begin(self) -> Brief | None:
        try:
            with open_memory(*self._memory) as memory:
                notes = old_notes(memory, self._before)
        except NoMemory:
            return None
        left_out = len(notes) - _MAX_NOTES
        more = [f"and {left_out} more"] if left_out > 0 else []
        return Brief("\n".join([*notes[:_MAX_NOTES], *more])) if notes else None

    def finish(self, answer: str) -> dict[str, Any]:
        with open_memory(*self._memory) as memory:
            return {"left": len(old_notes(memory, self._before)), "archived": sum(map(_is_archived, _notes(memory)))}


def old_notes(memory: UntrustedFolder, before_ns: int) -> list[str]:
    """Notes below the folder, without its archive, that did not change since an instant: the oldest first."""
    found = sorted((entry.changed_ns, entry.name) for entry in _notes(memory) if not _is_archived(entry))
    return [name for changed, name in found if changed < before_ns]


def _notes(memory: UntrustedFolder) -> list[Entry]:
    return [entry for entry in memory.walk() if entry.name.endswith(".md")]


def _is_archived(entry: Entry) -> bool:
    return entry.name.startswith(f"{ARCHIVE}/")


MEMORY_MAINTENANCE = JobType(
    "memory_maintenance", "Summarise and archive old notes.", MemoryMaintenance, prompt=maintenance_prompt,
    errand=MaintenanceErrand, destructive=False,
)  # fmt: skip
