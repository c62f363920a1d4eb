"""`memory_maintenance`: an agent summarises old notes of its memory, and archives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import Int, JobType, Setting, Text


@dataclass(frozen=True)
class MemoryMaintenance:
    folder: Annotated[str, Setting(Text(4_096), "Folder of the memory.", "memory")] = "memory"
    days: Annotated[int, Setting(Int(1, 3_650), "Days after which a note is old.", 30)] = 30


def prompt(inputs: MemoryMaintenance) -> str:
    return (
        f"Maintain your memory in the folder {inputs.folder}.\n"
        f"1. Read the notes that have not changed for {inputs.days} days.\n"
        "2. Summarise what is still of use, by subject, in notes of at most a page. Keep facts, decisions and their "
        "reasons; leave out what is outdated.\n"
        f"3. Move the notes that you summarised to {inputs.folder}/archive. Delete nothing.\n"
        "Report how many notes you summarised, and the summaries that you wrote."
    )


JOB = JobType(
    "memory_maintenance", "Summarise and archive old notes.", MemoryMaintenance, prompt=prompt, destructive=False
)
