"""Files that ssh's system configuration includes. In a user namespace root's files belong to nobody, and ssh refuses
included files that belong neither to root nor to the user."""

from __future__ import annotations

import contextlib
import glob
import os

from matins.executors.processes import namespaces

_CONFIG = "/etc/ssh/ssh_config"
_MAX_FILES = 64
_MAX_BYTES = 1 << 18


def own_included_files(scratch: str) -> None:
    """Mount a copy over each included file. A copy belongs to the user. `scratch` is covered meanwhile."""
    files = included_files(_CONFIG)
    if not files:
        return
    namespaces.mount("matins", scratch, "tmpfs", namespaces.NOSUID | namespaces.NODEV, "size=16m,mode=0755")
    try:
        for number, path in enumerate(files):
            with contextlib.suppress(OSError):  # ssh then reports the file itself
                _copy(path, f"{scratch}/{number}")
                namespaces.mount(f"{scratch}/{number}", path, None, namespaces.BIND)
    finally:
        namespaces.detach(scratch)


def included_files(config: str) -> list[str]:
    """The files that a configuration includes, also through each other, by their real paths."""
    found: dict[str, None] = {}
    ahead = [config]
    while ahead and len(found) < _MAX_FILES:
        for pattern in _patterns(ahead.pop()):
            for path in map(os.path.realpath, sorted(glob.glob(pattern))):  # noqa: PTH207
                if path not in found and os.path.isfile(path):  # noqa: PTH113
                    found[path] = None
                    ahead.append(path)
    return list(found)


def _patterns(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            lines = file.read(_MAX_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    words = [line.replace("=", " ", 1).split() for line in lines]
    names = [name.strip('"') for line in words if line and line[0].lower() == "include" for name in line[1:]]
    return [name if name.startswith("/") else f"/etc/ssh/{name}" for name in names if not name.startswith("~")]


def _copy(path: str, copy: str) -> None:
    with open(path, "rb") as source, open(copy, "wb") as target:  # noqa: PTH123
        target.write(source.read(_MAX_BYTES))
