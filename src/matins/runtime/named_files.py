"""The files that commands name. An approval is for their content too."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from matins.engine.policies import Policies
from matins.model.agent import Agent
from matins.model.schedule import ScheduleDefinition
from matins.runtime.agent_folders import folder_of

MAX_BYTES = 1_000_000
_MAX_FILES = 32
TOO_LARGE = "larger than 1 MB"


def named_files(definition: ScheduleDefinition, agent: Agent | None, policies: Policies) -> dict[str, str]:
    """The digest of each file that a command of the run names, by its path; `TOO_LARGE` for a large one."""
    base = policies.workdir or str(Path.cwd())
    found: dict[str, str] = {}
    words = list(_of_schedule(definition, base))
    if agent is not None:
        folder = folder_of(agent, base)
        words += [(word, folder) for word in (*agent.command, *agent.arguments)]
    for word, folder in words:
        path = _path(word, folder)
        if path is not None and len(found) < _MAX_FILES:
            found[str(path)] = _digest(path)
    return found


def _of_schedule(definition: ScheduleDefinition, base: str) -> Iterator[tuple[str, str]]:
    for command in (definition.pre_check, definition.before_run, definition.after_run):
        for word in _words(command):
            yield word, base


def _words(command: str | Iterable[str] | None) -> Iterable[str]:
    if command is None or not isinstance(command, str):
        return command or ()
    try:
        return shlex.split(command)
    except ValueError:  # the shell reports it
        return command.split()


def _path(word: str, folder: str) -> Path | None:
    """The file that a word of a command names, if it is there; an option may hold it: `--config=FILE`."""
    for text in (word, word.partition("=")[2]):
        if text and len(text) < 4_096 and "\0" not in text:
            try:
                path = Path(folder, Path(text).expanduser())
                if path.is_file():
                    return path
            except (OSError, RuntimeError):  # RuntimeError: ~NAME of no user
                continue
    return None


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return TOO_LARGE if len(content) > MAX_BYTES else sha256(content).hexdigest()
