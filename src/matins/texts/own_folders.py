"""The folders of Matins that this process uses. A path that an agent can change must not lead into them.

A path that the owner wrote as one inside them stays usable: there agents can write only their own folders, and no link
is followed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from matins.texts.beneath import (
    FOLDER,
    SAFE_FILE,
    Identities,
    Refused,
    identities,
    open_beneath,
    read_named,
    read_regular,
)
from matins.texts.untrusted_folder import UntrustedFolder


class OwnFolders:
    """The folders of one scheduler, which are protected until it is closed or gone."""

    def __init__(self, find: Callable[[], Iterable[Path]]) -> None:
        self.find = find
        with _LOCK:
            _DECLARED.add(self)

    def close(self) -> None:
        with _LOCK:
            _DECLARED.discard(self)


_LOCK = threading.Lock()
_DECLARED: WeakSet[OwnFolders] = WeakSet()


def forbidden() -> Identities:
    """The folders, as they are now."""
    return identities(_folders())


def read_file(path: str | Path, limit: int) -> bytes:
    """The content of a regular file that the owner named. Raises `Refused` if it leads into a folder of Matins."""
    inside = _inside(path)
    file = None if inside is None else _opened(inside, SAFE_FILE)
    if file is None:
        return read_named(os.fspath(path), limit, forbidden())
    try:
        return read_regular(file, os.fspath(path), limit)
    finally:
        os.close(file)


def open_folder(path: str | Path, owner: int | None = None, within: str | Path | None = None) -> UntrustedFolder:
    """A folder that the owner named and that an agent can write. Raises `Refused` if it leads into one of Matins.

    A path inside those must be below `within`: there an agent names only what is its own.
    """
    inside = _inside(path) if within is None or _is_below(path, within) else None
    folder = None if inside is None else _opened(inside, FOLDER)
    if folder is None:
        return UntrustedFolder(path, forbidden(), owner)
    try:
        return UntrustedFolder(folder, owner=owner)
    finally:
        os.close(folder)


class _Inside(NamedTuple):
    folder: str
    rest: str


def _parts(path: str | Path) -> list[str]:
    text = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
    return [part for part in text.split("/") if part not in ("", ".")]


def _is_below(path: str | Path, folder: str | Path) -> bool:
    """Whether a path is written as the folder, or as one below it."""
    base = _parts(folder)
    return _parts(path)[: len(base)] == base


def _inside(path: str | Path) -> _Inside | None:
    """The folder of Matins inside which a path is written, and the rest of it. Links play no part."""
    parts = _parts(path)  # ".." stays: it is not followed below a folder
    for folder in _folders():
        for form in (os.path.abspath(folder), os.path.realpath(folder)):  # noqa: PTH100
            own = form.strip("/").split("/")
            if parts[: len(own)] == own:
                return _Inside(form, "/".join(parts[len(own) :]) or ".")
    return None


def _opened(inside: _Inside, flags: int) -> int | None:
    """The file or folder; None if a link is on the way: then it may lead out, and must not lead in."""
    folder = os.open(inside.folder, FOLDER)
    try:
        return open_beneath(folder, inside.rest, flags)
    except Refused:
        return None
    finally:
        os.close(folder)


def _folders() -> list[Path]:
    with _LOCK:
        owners = list(_DECLARED)
    return [folder for owner in owners for folder in owner.find()]
