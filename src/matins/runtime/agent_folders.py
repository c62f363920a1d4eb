"""Folders of agents, and the files that commands name.

The files that commands name. An approval is for their content too.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from matins.engine.policies import Policies
from matins.errors import InvalidInput
from matins.model.agent import Agent
from matins.model.schedule import ScheduleDefinition
from matins.texts.beneath import Refused, open_named
from matins.texts.untrusted_folder import open_folder

_MAX_LENGTH = 200
AGENTS = "agents"
"""The folder of the agents' own folders, in the home or beside the store."""


def folder_of(agent: Agent, workdir: str) -> str:
    """The working folder of an agent: by default its own, below `workdir`, where relative folders start too."""
    return str(Path(workdir, Path(agent.workdir or own_folder(agent.name)).expanduser()))


def own_folder(agent: str) -> str:
    """The folder that belongs to the agent alone. An agent's name may be no name of a folder."""
    name = quote(agent, safe=" ") if agent.strip(".") else agent.replace(".", "%2E")
    if len(name) > _MAX_LENGTH:
        name = f"{name[:_MAX_LENGTH]}-{sha256(agent.encode()).hexdigest()[:16]}"
    return f"{AGENTS}/{name}"


def is_own_folder(agent: Agent) -> bool:
    """Whether Matins may create the folder. Any other missing folder may be a typing error."""
    return agent.workdir is None or agent.workdir == own_folder(agent.name)


def make_own_folder(agent: str, workdir: str, owner: int | None) -> None:
    """Create the folder that belongs to the agent alone, if it is missing. A new one is given to the user `owner`."""
    name = own_folder(agent)
    path = Path(workdir, name)
    if path.is_dir():
        return
    try:
        with open_folder(workdir) as folder:
            folder.make_folder(name, owner)
    except OSError as error:
        raise _not_created(path, error.strerror) from error


def check_own_folder(agent: str, workdir: str) -> None:
    """Raise InvalidInput if the folder that belongs to the agent alone is missing and cannot be created."""
    path = Path(workdir, own_folder(agent))
    above = path.parent if os.path.lexists(path.parent) else Path(workdir)
    if not above.exists():
        raise _not_created(path, os.strerror(errno.ENOENT))
    if not above.is_dir():
        raise _not_created(path, os.strerror(errno.ENOTDIR))
    if not os.access(above, os.W_OK | os.X_OK):
        raise _not_created(path, os.strerror(errno.EACCES))


def _not_created(path: Path, reason: str | None) -> InvalidInput:
    hint = "Name another folder: workdir."
    return InvalidInput(f"{path} cannot be created: {reason}.", value=str(path), field="workdir", hint=hint)


def checkout_of(agent: Agent, workdir: str) -> str | None:
    """The git checkout in which runs of the agent work one at a time; None if they need not wait for each other.

    Whoever lets an agent have several runs at once lets them share its folder."""
    if is_own_folder(agent) or (agent.worktree or ("shared" if (agent.max_concurrent or 1) > 1 else "")) in _APART:
        return None
    return git_root(folder_of(agent, workdir))


def git_root(folder: str) -> str | None:
    """The top of the git checkout that a folder belongs to; None if it belongs to none."""
    real = Path(os.path.realpath(folder))
    return next((str(one) for one in (real, *real.parents) if os.path.lexists(one / ".git")), None)


_APART = ("shared", "per_run")
MAX_BYTES = 1_000_000
_MAX_FILES = 32
_NOT_COVERED = "not covered: "
TOO_LARGE = f"{_NOT_COVERED}it is larger than 1 MB"
MISSING = f"{_NOT_COVERED}it is missing"
_SCRIPTS = (".sh", ".bash", ".py", ".pl", ".rb", ".js", ".mjs", ".ts", ".php", ".lua", ".awk", ".sed", ".sql", ".mk")
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL})
"""What the system says of a word that names no file."""


def named_files(definition: ScheduleDefinition, agent: Agent | None, policies: Policies) -> dict[str, str]:
    """The digest of each file that a command of the run names, by its path; of others, why they are not covered."""
    base = policies.workdir or str(Path.cwd())
    commands = (definition.pre_check, definition.before_run, definition.after_run)
    words = [(word, base) for command in commands for word in _words(command)]
    if agent is not None:
        folder = folder_of(agent, base)
        own = _words(definition.command) if definition.command is not None else (*agent.command, *agent.arguments)
        words += [(word, folder) for word in own]
    return _digests(words)


def files_of(
    command: str | Iterable[str] | None, folder: str, expected: Collection[str] = (), *, scripts: bool = False
) -> dict[str, str]:
    """The digests of the files that one command names, which starts in this folder. A missing file counts only if it is
    expected: most words name no file. `scripts`: only what looks like a script, or is expected."""
    return _digests(((word, folder) for word in _words(command)), expected, scripts=scripts)


def not_covered(files: Mapping[str, str]) -> dict[str, str]:
    """The files without a digest, and why."""
    return {
        path: content.removeprefix(_NOT_COVERED) for path, content in files.items() if content.startswith(_NOT_COVERED)
    }


def _words(command: str | Iterable[str] | None) -> Iterable[str]:
    if command is None or not isinstance(command, str):
        return command or ()
    try:
        return shlex.split(command)
    except ValueError:  # the shell reports it
        return command.split()


def _digests(
    words: Iterable[tuple[str, str]], expected: Collection[str] = (), *, scripts: bool = False
) -> dict[str, str]:
    found: dict[str, str] = {}
    for word, folder in words:
        more = _digest_of(word, folder, expected, scripts=scripts)
        if len(found) == _MAX_FILES and more.keys() - found.keys():
            reason = f"{_NOT_COVERED}it and what follows are more than {_MAX_FILES} files"
            return found | dict.fromkeys(more, reason)
        found |= more
    return found


def _digest_of(word: str, folder: str, expected: Collection[str], *, scripts: bool) -> dict[str, str]:
    """The file that a word of a command names, if it is there or expected; an option may hold it: `--config=FILE`."""
    for text in (word, word.partition("=")[2]):
        if text and len(text) < 4_096 and "\0" not in text:
            try:
                path = str(Path(folder, Path(text).expanduser()))
            except RuntimeError:  # ~NAME of no user
                continue
            content = _digest(path, scripts=scripts and path not in expected)
            if content is None and path in expected:
                content = MISSING
            if content is not None:
                return {path: content}
    return {}


def _digest(path: str, *, scripts: bool) -> str | None:
    """None for a folder, and where no file is; with `scripts`, also for data. A pipe or a link to a terminal may stand
    where a script was."""
    if path == os.devnull:  # many commands name it, and it has no content
        return None
    try:
        os.lstat(path)  # most words name no file, and this is known soon
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
        if scripts and not (mode & 0o111 or content.startswith(b"#!") or path.endswith(_SCRIPTS)):
            return None
    except OSError as error:
        return f"{_NOT_COVERED}it cannot be read: {error.strerror}"
    finally:
        os.close(file)
    return TOO_LARGE if len(content) > MAX_BYTES else sha256(content).hexdigest()
