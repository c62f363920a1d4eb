"""The folder of an agent's memory. The agent can write it, so Matins follows no link there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from matins.errors import InvalidInput
from matins.texts.untrusted_folder import UntrustedFolder, open_folder

MAX_NOTE_BYTES = 4_000


@contextmanager
def open_memory(workdir: str, name: str) -> Generator[UntrustedFolder]:
    """The memory of the agent that works in a folder. Raises InvalidInput if there is a link, or
    anything else that is no folder; NoMemory if there is nothing."""
    path = Path(workdir, name)
    base = Path(name).parent if Path(name).is_absolute() else Path(workdir)
    try:
        with open_folder(base, within=workdir) as folder, folder.below(str(path.relative_to(base))) as memory:
            yield memory
    except FileNotFoundError:
        raise NoMemory(f"{path} is not a folder.", value=name, field="folder", hint=f"mkdir {path}") from None
    except OSError as error:
        message = f"{path} cannot be used: {error.strerror}."
        raise InvalidInput(message, value=name, field="folder", hint="Name the folder itself.") from None


class NoMemory(InvalidInput):
    """There is no such folder."""
