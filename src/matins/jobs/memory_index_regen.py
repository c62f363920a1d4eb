"""`memory-index-regen`: the index files of experiments, knowledge and patterns are written again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from matins.jobs import JobContext, JobType, Setting, Text
from matins.texts.atomic_file import read, replace

KINDS = ("experiments", "knowledge", "patterns")
INDEX = "INDEX.md"


@dataclass(frozen=True)
class MemoryIndexRegen:
    folder: Annotated[str, Setting(Text(4_096), "Folder that holds experiments, knowledge and patterns.", "memory")] = (
        "memory"
    )


def run(context: JobContext) -> dict[str, int]:
    inputs: MemoryIndexRegen = context.inputs
    memory = Path(context.workdir) / inputs.folder
    if not memory.is_dir():
        raise FileNotFoundError(f"{memory} is not a folder.")
    # The agent may write here, and not elsewhere: Matins follows no link that it made.
    return {kind: write_index(memory / kind) for kind in KINDS if _is_own_folder(memory / kind)}


def write_index(folder: Path) -> int:
    """Write the index of a folder: every note below it, with its title. Returns the number of notes."""
    notes = sorted(path for path in folder.rglob("*.md") if path.name != INDEX and not path.is_symlink())
    lines = [f"- [{_title(path)}]({path.relative_to(folder).as_posix()})" for path in notes]
    text = "\n".join([f"# {folder.name.capitalize()}", "", *(lines or ["Nothing yet."]), ""])
    index = folder / INDEX
    if index.is_symlink():
        index.unlink()
    index.touch()
    before = read(index)
    if before.text != text:
        replace(index, before, text)
    return len(notes)


def _is_own_folder(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink()


def _title(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace")[:4_000].splitlines()
    titles = (words[1] for line in lines if len(words := line.split(None, 1)) == 2 and words[0] == "#")
    return next(titles, path.stem).strip().replace("[", "(").replace("]", ")")


JOB = JobType(
    "memory-index-regen",
    "Write the index files of experiments, knowledge and patterns again.",
    MemoryIndexRegen,
    run,
    destructive=False,
)
