"""Writes the settings of a tool, and becomes the tool. Its words come before those of the tool's command."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys

TYPE_CHECKING = False  # the module that has it takes long to load
if TYPE_CHECKING:
    from typing import Any

_SETTINGS = "settings.json"
_KEPT = ("tmp", "history")
"""Folders of a linked home that must be the user's own from the beginning: sessions are in them."""
_COPIED = ("projects.json",)
"""Files that the tool replaces while other parts of it resolve their path. Of a link that becomes a file meanwhile, it
reads where the link leads, and dies of it. What it adds it finds again in the folders."""
_MAX_BYTES = 1 << 20
_TEXT = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"({_TEXT})|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_TEXT})|,(?=\s*[}}\]])", re.DOTALL)
"""An unclosed text or comment reaches to the end: none is tried twice."""


def main(argv: list[str]) -> None:
    """Start the tool. Without its settings, when they cannot be written: stderr then says so."""
    given = json.loads(os.environ.pop("MATINS_TOOL_SETTINGS"))
    os.environ.pop("LC_CTYPE", None)  # Python may have changed it
    os.environ.update(given["locale"])
    mask = os.umask(0o077)
    try:
        path = _write_file(given) if given["home"] is None else _write_home(given)
        if path is not None:
            os.environ[given["variable"]] = path
    except OSError as error:
        sys.stderr.write(f"{argv[0]} starts without the tools of Matins: {error.filename}: {error.strerror}\n")
        sys.stderr.flush()
    os.umask(mask)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program inherits that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        sys.exit(f"{argv[0]} cannot be started: {error.strerror}")


def _write_file(given: dict[str, Any]) -> str:
    path = f"{given['path']}.json"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _replace(path, json.dumps(given["content"]).encode())
    return path


def _write_home(given: dict[str, Any]) -> str | None:
    """A home with the user's settings and ours; all else in it is the user's, by links. None for settings that cannot
    be read: the tool itself then says so."""
    source = os.path.join(os.environ.get(given["variable"]) or os.path.expanduser("~"), given["home"])
    try:
        merged = json.dumps(_merged(_read(os.path.join(source, _SETTINGS)), given["content"])).encode()
    except (OSError, ValueError, RecursionError):
        return None
    home: str = given["path"]
    target = os.path.join(home, given["home"])
    for folder in (target, *(os.path.join(source, name) for name in _KEPT)):
        os.makedirs(folder, exist_ok=True)
    _link_all(source, target)
    for name in _COPIED:
        _copy(os.path.join(source, name), os.path.join(target, name))
    _replace(os.path.join(target, _SETTINGS), merged)
    return home


def _merged(text: bytes, content: dict[str, Any]) -> dict[str, Any]:
    bare = _COMMENT.sub(lambda found: found[1] or " ", text.decode())
    bare = _LAST_COMMA.sub(lambda found: found[1] or " ", bare).strip() or "{}"
    if not bare.startswith("{"):
        raise ValueError("an object is missing")
    settings: dict[str, Any] = json.loads(bare)
    for name, values in content.items():
        before = settings.get(name)
        settings[name] = {**before, **values} if isinstance(before, dict) else values
    return settings


def _link_all(source: str, target: str) -> None:
    """Link each entry of a folder in another one, except the settings, what is copied, and locks: a link to one that
    was released would be held forever. Folders that the tool made there stay."""
    for name in {*os.listdir(source), *os.listdir(target)} - {_SETTINGS, *_COPIED}:
        if name.endswith(".lock"):
            continue
        path, wanted = os.path.join(target, name), os.path.join(source, name)
        is_link = os.path.islink(path)
        if (is_link and os.readlink(path) == wanted) or (os.path.isdir(path) and not is_link):
            continue
        if os.path.lexists(wanted):
            new = _new_name(path)
            os.symlink(wanted, new)
            os.replace(new, path)


def _copy(source: str, target: str) -> None:
    """Copy a file, where there is one that can be read."""
    try:
        content = _read(source)
    except (OSError, ValueError):
        return
    if content:
        _replace(target, content)


def _read(path: str) -> bytes:
    """A file of at most 1 MB; nothing where there is none. Raises ValueError for what is no file, or is longer."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    with open(file, "rb") as stream:
        data = stream.read(_MAX_BYTES + 1) if stat.S_ISREG(os.fstat(file).st_mode) else None
    if data is None or len(data) > _MAX_BYTES:
        raise ValueError("it is no file, or too long")
    return data


def _replace(path: str, content: bytes) -> None:
    new = _new_name(path)
    with open(new, "xb") as file:
        file.write(content)
    os.replace(new, path)


def _new_name(path: str) -> str:
    """An unused name in the same folder: another run of the agent may write there too."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.urandom(8).hex()}.new")


if __name__ == "__main__":
    main(sys.argv[1:])
