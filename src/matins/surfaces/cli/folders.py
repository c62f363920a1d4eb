"""The directory that a person means when a command is given in it."""

from __future__ import annotations

import tempfile
from pathlib import Path


def meant_folder(home: Path) -> str | None:
    """The repository that holds the current directory, or else that directory. None for one that nobody means: the
    user's own, the root, a directory for temporary files, and the home of Matins."""
    here = Path.cwd()
    repository = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    found = repository or here
    if found in (Path("/"), Path.home(), Path(tempfile.gettempdir())) or found.is_relative_to(home):
        return None
    return str(found)
