"""What a tool's own help says of its options: versions differ."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

Ask = Callable[[tuple[str, ...]], str]
"""Gives what a program writes when it is started like a run of the agent: an agent may have replaced it."""
_lock = threading.Lock()
_known: dict[tuple[object, ...], frozenset[str]] = {}


def has_option(ask: Ask, program: str, words: tuple[str, ...], option: str, environment: Mapping[str, str]) -> bool:
    """Whether the help of a program names an option. The program is asked once, until it is replaced."""
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return False
    status = Path(path).stat()
    key = path, words, environment.get("HOME", ""), status.st_mtime_ns, status.st_size
    with _lock:  # several runs may begin at once
        if key not in _known:
            text = ask((path, *words, "--help"))
            _known[key] = frozenset(text.replace(",", " ").replace("=", " ").split())
        return option in _known[key]
