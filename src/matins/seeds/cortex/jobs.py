"""Cortex's job types, on its notes and on TASKS.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from matins.engine.prompts import DEFAULT_PROMPT
from matins.jobs import Int, JobContext, JobType, Setting, Text
from matins.model.policies import WorkSourceDefinition
from matins.seeds.cortex.tasks import archive_tasks
from matins.texts.untrusted_folder import UntrustedFolder, open_memory

KINDS = ("experiments", "knowledge", "patterns")
INDEX = "INDEX.md"
MAX_NOTE_BYTES = 4_000


@dataclass(frozen=True)
class MemoryIndexRegen:
    folder: Annotated[str, Setting(Text(4_096), "Folder that holds experiments, knowledge and patterns.", "memory")] = (
        "memory"
    )


def regenerate_index(context: JobContext) -> dict[str, int]:
    inputs: MemoryIndexRegen = context.inputs
    with open_memory(context.workdir, inputs.folder) as memory:
        kinds = {entry.name for entry in memory.entries() if entry.is_folder}
        return {kind: write_index(memory, kind) for kind in KINDS if kind in kinds}


def check(inputs: MemoryIndexRegen, workdir: str) -> None:
    with open_memory(workdir, inputs.folder):
        pass


def write_index(memory: UntrustedFolder, kind: str) -> int:
    """Write the index of a folder: every note below it, with its title. Returns the number of notes."""
    notes = sorted(entry.name for entry in memory.walk(kind) if is_note(entry.name))
    lines = [f"- [{_title(memory.read(f'{kind}/{name}', MAX_NOTE_BYTES), name)}]({name})" for name in notes]
    text = "\n".join([f"# {kind.capitalize()}", "", *(lines or ["Nothing yet."]), ""]).encode()
    index = f"{kind}/{INDEX}"
    try:
        unchanged = memory.read(index, len(text) + 1) == text
    except OSError:  # there is none, or a link in its place
        unchanged = False
    if not unchanged:
        memory.replace(index, text, 0o644)
    return len(notes)


def is_note(name: str) -> bool:
    return name.endswith(".md") and name.rpartition("/")[2] != INDEX


def _title(start: bytes, name: str) -> str:
    """The first heading, or else the name of the file."""
    for line in start.decode(errors="replace").splitlines():
        mark, _, title = line.strip().partition(" ")
        if mark == "#" and title.strip():
            return title.strip().replace("[", "(").replace("]", ")")
    return name.rpartition("/")[2].removesuffix(".md").replace("[", "(").replace("]", ")")


MEMORY_INDEX_REGEN = JobType(
    "memory-index-regen",
    "Write the index files of experiments, knowledge and patterns again.",
    MemoryIndexRegen,
    regenerate_index,
    check=check,
    destructive=False,
)


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


@dataclass(frozen=True)
class TaskDispatch:
    path: Annotated[str, Setting(Text(4_096), "Path of the tasks.", "TASKS.yaml")] = "TASKS.yaml"


def work_source(inputs: TaskDispatch) -> WorkSourceDefinition:
    return WorkSourceDefinition("task-dispatch", "tasks", path=inputs.path)


TASK_DISPATCH = JobType(
    "task-dispatch",
    "Claim a task of TASKS.yaml and give it to the agent.",
    TaskDispatch,
    prompt=lambda inputs: DEFAULT_PROMPT,
    work_source=work_source,
    destructive=False,
)
