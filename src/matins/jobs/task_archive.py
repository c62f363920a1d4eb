"""`task-archive`: tasks that ended some days ago move from TASKS.yaml to a file beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from matins.jobs import Int, JobContext, JobType, Setting, Text
from matins.work.task_archive import archive_tasks

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class TaskArchive:
    path: Annotated[str, Setting(Text(4_096), "Path of the tasks.", "TASKS.yaml")] = "TASKS.yaml"
    archive: Annotated[str, Setting(Text(4_096), "Path of the archive.", "TASKS.archive.yaml")] = "TASKS.archive.yaml"
    days: Annotated[int, Setting(Int(0, 3_650), "Days after which a task that is done is archived.", 3)] = 3


def archive_done_tasks(context: JobContext) -> str:
    inputs: TaskArchive = context.inputs
    folder = Path(context.workdir)
    before = context.now - inputs.days * _DAY_MS
    moved = archive_tasks(folder / inputs.path, folder / inputs.archive, before, folder)
    return f"Archived {len(moved)} tasks" if len(moved) != 1 else "Archived 1 task"


TASK_ARCHIVE = JobType(
    "task-archive", "Archive tasks that ended more than 3 days ago.", TaskArchive, archive_done_tasks, destructive=False
)
