"""Opening files whose names an agent can change meanwhile: below a folder, or by a path that the owner named.

Each path is resolved once, by descriptors. Standard library only: wardens use it too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

Identities = frozenset[tuple[int, int]]
"""Folders by device and inode: names and links play no part."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
SAFE_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""For folders on the way: those that may only be searched can be passed, too."""
_OPENAT2, _NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 437, 0x02, 0x04, 0x08
_MAX_LINKS = 40
INTO_HOME = "it leads into the directory of Matins"
_OTHERS_LINK = "a link of another user leads there"


class Refused(OSError):  # noqa: N818
    """A file is not what it should be: a link, a pipe, another user's, too large. `strerror` completes "FILE: …"."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(errno.EPERM, reason, name)
        self.reason = reason


def open_beneath(folder: int, name: str, flags: int) -> int:
    """Open a path below a folder without following a link anywhere."""
    parts = name.split("/")
    if ".." in parts or name.startswith("/"):  # with "..", openat2 may have to be tried again without end
        raise Refused(name, "it leads out of the folder")
    try:
        if has_openat2():  # with O_NOFOLLOW it would call a link that should be a folder "not a directory"
            return _openat2(folder, name, flags & ~os.O_NOFOLLOW, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
        return _walked(folder, parts, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Refused(name, "it is a link, or below one") from None
        raise


def _walked(folder: int, parts: list[str], flags: int) -> int:
    at = os.dup(folder)
    try:
        for part in parts[:-1]:
            at, before = _open_at(at, part or ".", _STEP | os.O_NOFOLLOW), at
            os.close(before)
        return _open_at(at, parts[-1] or ".", flags | os.O_NOFOLLOW)
    finally:
        os.close(at)


def _open_at(folder: int, part: str, flags: int) -> int:
    try:
        return os.open(part, flags, dir_fd=folder)
    except NotADirectoryError:  # what the kernel says of a link, where a folder is wanted
        if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part) from None
        raise


def open_named(path: str) -> int:
    """Open a file that the owner named. Links are followed, but not into /proc.

    What a link in /proc means depends on the process that follows it: a run would see another file.
    """
    with_name = _resolved(path)
    try:
        return _opened(with_name, path, frozenset())
    finally:
        os.close(with_name.folder)


def read_named(path: str, limit: int, forbidden: Identities = frozenset()) -> bytes:
    """The content of a regular file that the owner named, of at most `limit` bytes.

    As root, a link of another user leads only to files of that user.
    """
    with_name = _resolved(path)
    try:
        file = _opened(with_name, path, forbidden)
    finally:
        os.close(with_name.folder)
    try:
        if os.geteuid() == 0 and with_name.linked_by and os.fstat(file).st_uid not in with_name.linked_by:
            raise Refused(path, _OTHERS_LINK)
        return read_regular(file, path, limit)
    finally:
        os.close(file)


def open_named_folder(path: str) -> int:
    """Open a folder that the owner named. Links are followed; as root, another user's only to folders of that user."""
    if os.geteuid() != 0:
        return os.open(path, FOLDER)
    at = _resolved(f"{path}/.")
    try:
        folder = open_beneath(at.folder, at.name, FOLDER)
    finally:
        os.close(at.folder)
    if at.linked_by and os.fstat(folder).st_uid not in at.linked_by:
        os.close(folder)
        raise Refused(path, _OTHERS_LINK)
    return folder


def _opened(at: _Resolved, path: str, forbidden: Identities) -> int:
    if leads_into(at.folder, forbidden):
        raise Refused(path, INTO_HOME)
    mode = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False).st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # to open one may do something
        raise Refused(path, "it is a device")
    return open_beneath(at.folder, at.name, SAFE_FILE)


def read_regular(file: int, name: str, limit: int) -> bytes:
    """The whole content of an open regular file. A larger one is refused, and costs no memory."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise Refused(name, "it is not a regular file")
    data = os.pread(file, limit + 1, 0) if status.st_size <= limit else b""
    if status.st_size > limit or len(data) > limit:
        raise Refused(name, f"it is larger than {limit:,} bytes")
    return data


def leads_into(folder: int, forbidden: Identities) -> bool:
    """Whether an open folder is one of these, or below one."""
    if not forbidden:
        return False
    at = os.dup(folder)
    try:
        before: tuple[int, int] | None = None
        while (here := _identity(os.fstat(at))) != before:
            if here in forbidden:
                return True
            at, below = os.open("..", _STEP, dir_fd=at), at
            os.close(below)
            before = here
        return False
    finally:
        os.close(at)


def identities(paths: Iterable[str | os.PathLike[str]]) -> Identities:
    """The folders at these paths. Missing ones are left out: nothing can lead into them."""
    found: set[tuple[int, int]] = set()
    for path in paths:
        try:
            found.add(_identity(os.stat(path)))  # noqa: PTH116
        except OSError:
            continue
    return frozenset(found)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class _Resolved(NamedTuple):
    folder: int
    """A descriptor, which the caller closes."""
    name: str
    linked_by: frozenset[int]
    """The other users who made the links on the way. Root and this user are left out."""


def _resolved(path: str) -> _Resolved:
    """The folder in which a path ends, and the name in it, which was no link when it was looked at."""
    if not path.startswith("/"):
        path = f"{os.getcwd()}/{path}"  # noqa: PTH109
    ahead, links = path.split("/")[:0:-1], 0  # ".." counts from where a link leads, so it stays
    at, linked_by = os.open("/", _STEP), set[int]()
    try:
        while True:
            part = ahead.pop() if ahead else "."
            if part in ("", ".") and ahead:
                continue
            target = _link(at, part)
            if target is not None:
                links += 1
                linked_by.add(os.stat(part, dir_fd=at, follow_symlinks=False).st_uid)
                if links > _MAX_LINKS:
                    raise Refused(path, "it leads through too many links")
                ahead += reversed(target.split("/"))
                if target.startswith("/"):
                    at, before = os.open("/", _STEP), at
                    os.close(before)
            elif not ahead:
                return _Resolved(at, part, frozenset(linked_by - {0, os.geteuid()}))
            else:
                at, before = os.open(part, _STEP | os.O_NOFOLLOW, dir_fd=at), at
                os.close(before)
                if os.fstat(at).st_dev == _proc_device():
                    raise Refused(path, "it leads through /proc")
    except BaseException:
        os.close(at)
        raise


def _link(folder: int, name: str) -> str | None:
    """Where a link leads; None for anything else, also for what is missing."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


@cache
def _proc_device() -> int | None:
    try:
        return os.stat("/proc").st_dev if sys.platform == "linux" else None  # noqa: PTH116
    except OSError:
        return None


# -- the system call


@cache
def has_openat2() -> bool:
    """Whether the system has it: Linux from 5.6 on, unless a filter forbids it."""
    try:
        os.close(_openat2(_library().AT_FDCWD, "/", FOLDER, 0))
    except (OSError, AttributeError):
        return False
    return True


@cache
def _library() -> Any:
    library: Any = ctypes.CDLL(None, use_errno=True)
    library.AT_FDCWD = -100
    library.syscall.restype = ctypes.c_long
    library.syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    return library


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _openat2(folder: int, name: str, flags: int, resolve: int) -> int:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how, path = _How(flags | os.O_CLOEXEC, 0, resolve), os.fsencode(name)
    while True:
        file = _library().syscall(_OPENAT2, folder, path, ctypes.addressof(how), ctypes.sizeof(how))
        if file >= 0:
            return file
        if (number := ctypes.get_errno()) not in (errno.EINTR, errno.EAGAIN):
            raise OSError(number, os.strerror(number), name)
