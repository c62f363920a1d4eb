"""What a tool's own help says of its options: versions differ."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from matins.executors.runners.protocol import Ask

_lock = threading.Lock()
_known: dict[tuple[object, ...], frozenset[str]] = {}


def has_option(ask: Ask, program: str, words: tuple[str, ...], option: str, environment: Mapping[str, str]) -> bool:
    """Whether the help of a program names an option. The program is asked once, until it is replaced: by an agent, it
    may be, so it is started like a run."""
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return False
    status = Path(path).stat()
    key = path, words, environment.get("HOME", ""), status.st_mtime_ns, status.st_size
    with _lock:  # several runs may begin at once
        if key not in _known:
            _, output, errors = ask((path, *words, "--help"))
            text = f"{output}\n{errors}"
            _known[key] = frozenset(text.replace(",", " ").replace("=", " ").split())
        return option in _known[key]
