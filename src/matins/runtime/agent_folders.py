"""Where an agent works on this machine."""

from __future__ import annotations

import errno
import os
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from matins.errors import InvalidInput
from matins.model.agent import Agent
from matins.texts.own_folders import open_folder

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
