"""A text file that other programs write too: read completely, and replaced atomically."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from matins.errors import InvalidInput

MAX_BYTES = 10_000_000


class TextFile(NamedTuple):
    text: str
    mode: int
    owner: tuple[int, int]
    mark: tuple[int, int, int, int]
    """Changes when the file is saved."""


def follow_link(path: Path) -> Path:
    """The target of a link: a link is not replaced by a file."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
        raise file_error(path, getattr(error, "strerror", None) or "its links form a loop") from None


def read(path: Path, folder: int | None = None) -> TextFile:
    """The file; with a descriptor of its folder, that of its name in there."""
    name, flags = path if folder is None else path.name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(name, flags, dir_fd=folder)  # opening a pipe would block
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                raise file_error(path, f"it is not a file of at most {MAX_BYTES} bytes")
            with os.fdopen(file, "rb", closefd=False) as opened:
                text = decoded(path, opened.read(MAX_BYTES))
        finally:
            os.close(file)
    except OSError as error:
        raise file_error(path, error.strerror or str(error)) from None
    return TextFile(text, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), mark_of(status))


def decoded(path: Path, data: bytes) -> str:
    """The text of a file. The error names the line that is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        message = f"{path}, line {line}, column {column}: this is not UTF-8."
        raise InvalidInput(message, field="path", hint="Save the file as UTF-8.") from None


def mark_of(status: os.stat_result) -> tuple[int, int, int, int]:
    """What changes when a file is saved."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def replace(path: Path, before: TextFile, text: str) -> bool:
    """Replace the file atomically. False when it has changed since it was read. Raises OSError when it cannot be
    written."""
    new = path.with_name(f".{path.name}.new")
    try:
        _write(new, before, text)
        if mark_of(path.stat()) != before.mark:
            new.unlink()
            return False
        new.replace(path)
        _sync(path.parent)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    return True


def _write(new: Path, before: TextFile, text: str) -> None:
    new.unlink(missing_ok=True)  # left behind by a crash
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened:
        status = os.fstat(file)
        if before.owner != (status.st_uid, status.st_gid):
            os.fchown(file, *before.owner)
        os.fchmod(file, before.mode)
        opened.write(text.encode())
        opened.flush()
        os.fsync(file)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def other_writers(owner: int, mode: int) -> str | None:
    """Why a file of this owner and mode is not safe: other users may change it. None when it is safe.

    Root trusts every owner: directories of containers are mounted from elsewhere.
    """
    me = os.geteuid()
    if mode & stat.S_IWOTH:
        return "everyone can write to it"
    return None if me == 0 or owner in (me, 0) else "it belongs to another user"


def file_error(path: Path, why: str) -> InvalidInput:
    hint = "Check the path and its permissions."
    return InvalidInput(f"{path} cannot be used: {why}.", value=str(path), field="path", hint=hint)
