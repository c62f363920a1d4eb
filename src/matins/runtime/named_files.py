"""The files that commands name. An approval is for their content too."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from matins.engine.policies import Policies
from matins.model.agent import Agent
from matins.model.schedule import ScheduleDefinition
from matins.runtime.agent_folders import folder_of
from matins.texts.beneath import Refused, open_named

MAX_BYTES = 1_000_000
_MAX_FILES = 32
_NOT_COVERED = "not covered: "
TOO_LARGE = f"{_NOT_COVERED}it is larger than 1 MB"
MISSING = f"{_NOT_COVERED}it is missing"
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL})
"""What the system says of a word that names no file."""


def named_files(definition: ScheduleDefinition, agent: Agent | None, policies: Policies) -> dict[str, str]:
    """The digest of each file that a command of the run names, by its path; of others, why they are not covered."""
    base = policies.workdir or str(Path.cwd())
    words = [(word, base) for word in _of_schedule(definition)]
    if agent is not None:
        folder = folder_of(agent, base)
        words += [(word, folder) for word in (*agent.command, *agent.arguments)]
    return _digests(words)


def files_of(command: str | Iterable[str] | None, folder: str, expected: Collection[str] = ()) -> dict[str, str]:
    """The same for one command that starts in this folder. A file that is gone counts only if it is expected: most
    words name no file."""
    return _digests(((word, folder) for word in _words(command)), expected)


def not_covered(files: Mapping[str, str]) -> dict[str, str]:
    """The files without a digest, and why."""
    return {
        path: content.removeprefix(_NOT_COVERED) for path, content in files.items() if content.startswith(_NOT_COVERED)
    }


def _of_schedule(definition: ScheduleDefinition) -> Iterator[str]:
    for command in (definition.pre_check, definition.before_run, definition.after_run):
        yield from _words(command)


def _words(command: str | Iterable[str] | None) -> Iterable[str]:
    if command is None or not isinstance(command, str):
        return command or ()
    try:
        return shlex.split(command)
    except ValueError:  # the shell reports it
        return command.split()


def _digests(words: Iterable[tuple[str, str]], expected: Collection[str] = ()) -> dict[str, str]:
    found: dict[str, str] = {}
    for word, folder in words:
        more = _digest_of(word, folder, expected)
        if len(found) == _MAX_FILES and more.keys() - found.keys():
            reason = f"{_NOT_COVERED}it and what follows are more than {_MAX_FILES} files"
            return found | dict.fromkeys(more, reason)
        found |= more
    return found


def _digest_of(word: str, folder: str, expected: Collection[str]) -> dict[str, str]:
    """The file that a word of a command names, if it is there or expected; an option may hold it: `--config=FILE`."""
    for text in (word, word.partition("=")[2]):
        if text and len(text) < 4_096 and "\0" not in text:
            try:
                path = str(Path(folder, Path(text).expanduser()))
            except RuntimeError:  # ~NAME of no user
                continue
            content = _digest(path)
            if content is None and path in expected:
                content = MISSING
            if content is not None:
                return {path: content}
    return {}


def _digest(path: str) -> str | None:
    """None for a folder, and where no file is. A pipe or a link to a terminal may stand where a script was."""
    if path == os.devnull:  # many commands name it, and it has no content
        return None
    try:
        file = open_named(path)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        return _NOT_COVERED + (error.reason if isinstance(error, Refused) else f"it cannot be read: {error.strerror}")
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            return None if stat.S_ISDIR(mode) else f"{_NOT_COVERED}it is not a regular file"
        content = os.pread(file, MAX_BYTES + 1, 0)
    except OSError as error:
        return f"{_NOT_COVERED}it cannot be read: {error.strerror}"
    finally:
        os.close(file)
    return TOO_LARGE if len(content) > MAX_BYTES else sha256(content).hexdigest()
