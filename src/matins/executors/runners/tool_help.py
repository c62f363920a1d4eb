"""What a tool's own help says of its options: versions differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_PATIENCE_S = 60
_lock = threading.Lock()


def has_option(program: str, words: tuple[str, ...], option: str, environment: Mapping[str, str]) -> bool:
    """Whether the help of a program names an option. The program is asked once, until it is replaced."""
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return False
    status = Path(path).stat()
    with _lock:  # several runs may begin at once
        return option in _help(path, words, environment.get("HOME", ""), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _help(path: str, words: tuple[str, ...], home: str, changed_at: int, size: int) -> frozenset[str]:
    """The words of the help."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home}
    try:
        told = subprocess.run(
            [path, *words, "--help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    text = (told.stdout + told.stderr).decode("utf-8", "replace")
    return frozenset(text.replace(",", " ").replace("=", " ").split())
