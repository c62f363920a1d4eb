"""`memory-index-regen`: the index files of experiments, knowledge and patterns are written again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from matins.jobs import JobContext, JobType, Setting, Text
from matins.jobs.memory_folder import MAX_NOTE_BYTES, open_memory
from matins.texts.untrusted_folder import UntrustedFolder

KINDS = ("experiments", "knowledge", "patterns")
INDEX = "INDEX.md"


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
