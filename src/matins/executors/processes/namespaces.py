"""System calls for namespaces, mounts and Landlock, through ctypes. Linux only; standalone processes use it."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

NEW_NS, NEW_USER = 0x00020000, 0x10000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, SLAVE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 19
_FS = 0x200
_DETACH = 2
_LOCKED_FLAGS = {2: NOSUID, 4: NODEV, 8: NOEXEC, 1024: 1024, 2048: 2048, 4096: 1 << 21}
"""Flags of a mount by those of statvfs: a remount inside a namespace must repeat them."""
_SET_DUMPABLE = 4
_OPEN_TREE, _MOVE_MOUNT, _AT_FDCWD = 428, 429, -100
_CLONE_LINK = 1 | 0x100 | os.O_CLOEXEC if sys.platform == "linux" else 0
"""A copy of the mount at a path whose last link is not followed."""
_FROM_DESCRIPTOR = 4
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_VERSION, _SCOPE_SIGNAL = 1, 2
SIGNAL_VERSION = 6
"""The version of Landlock that can keep signals inside."""


class NamespaceError(OSError):
    """A step that the kernel refuses."""

    def __init__(self, step: str, error: int) -> None:
        super().__init__(error, f"{step}: {os.strerror(error)}")
        self.step = step


def unshare(flags: int) -> None:
    _call("unshare", ctypes.c_int(flags))


def enter(namespace: int) -> None:
    """Enter a mount namespace by its descriptor."""
    _call("setns", ctypes.c_int(namespace), ctypes.c_int(NEW_NS))


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    arguments = (_text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(options))
    _call("mount", *arguments, about=target)


def pin(path: str) -> None:
    """Mount a folder or a link onto itself. What is mounted upon cannot be renamed, deleted or replaced."""
    if not os.path.islink(path):  # noqa: PTH114
        mount(path, path, None, BIND | REC)
        return
    name, here, none = _text(path), ctypes.c_int(_AT_FDCWD), _text("")
    try:
        tree = _call("syscall", ctypes.c_long(_OPEN_TREE), here, name, ctypes.c_uint(_CLONE_LINK), about="open_tree")
    except NamespaceError as error:
        if error.errno == errno.ENOSYS:  # before Linux 5.2 nothing can be mounted upon a link
            return
        raise
    try:
        flags = ctypes.c_uint(_FROM_DESCRIPTOR)
        _call("syscall", ctypes.c_long(_MOVE_MOUNT), ctypes.c_int(tree), none, here, name, flags, about="move_mount")
    finally:
        os.close(tree)


def bind_read_only(path: str) -> None:
    mount(path, path, None, BIND | REC)
    remount_read_only(path)


def remount_read_only(path: str) -> None:
    locked = os.statvfs(path).f_flag
    flags = sum(flag for bit, flag in _LOCKED_FLAGS.items() if locked & bit)
    mount(None, path, None, REMOUNT | BIND | RDONLY | flags)


def detach(path: str) -> None:
    _call("umount2", _text(path), ctypes.c_int(_DETACH), about=path)


def set_dumpable(value: bool) -> None:
    """Without it, other processes of the user see neither memory nor environment nor descriptors of this one."""
    zero = ctypes.c_ulong(0)
    _call("prctl", ctypes.c_int(_SET_DUMPABLE), ctypes.c_ulong(value), zero, zero, zero)


def close_to_others() -> None:
    """Keep other processes of the user from the memory, environment and descriptors of this one, on Linux."""
    if sys.platform == "linux":
        set_dumpable(False)


def landlock_version() -> int:
    """The version of Landlock in this kernel; 0 without it."""
    return max(0, _library().syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_LANDLOCK_VERSION)))


def signal_rules() -> int:
    """A descriptor of rules that keep signals inside a domain. No right to files is restricted."""
    rules = ctypes.create_string_buffer(struct.pack("QQQ", 0, 0, _SCOPE_SIGNAL))
    size, none = ctypes.c_size_t(24), ctypes.c_uint32(0)
    return _call("syscall", ctypes.c_long(_LANDLOCK_CREATE), rules, size, none, about="landlock")


def keep_signals_inside(rules: int) -> None:
    """From now on, signals of this thread and of what it starts reach only each other, in a new domain."""
    none = ctypes.c_uint32(0)
    _call("syscall", ctypes.c_long(_LANDLOCK_RESTRICT), ctypes.c_int(rules), none, about="landlock")


def spawn_below(rules: int, spawn: Callable[[], int]) -> int:
    """Start a process that cannot signal this one. A domain of Landlock belongs to a thread and what it starts: the
    process inherits the one of a new thread, and this thread stays outside."""
    results: list[int | BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def start() -> None:
        try:
            unshare(_FS)  # a thread that shares its folder keeps the others from entering a namespace
            keep_signals_inside(rules)
            results.append(spawn())
        except BaseException as error:
            results.append(error)
        finally:
            done.release()

    _thread.start_new_thread(start, ())
    done.acquire()
    if isinstance(result := results[0], BaseException):
        raise result
    return result


def map_to_self(uid: int, gid: int) -> None:
    """Map the user to the same ids in a new user namespace, so that files keep their owner."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - avoids importing pathlib
                file.write(text)
        except OSError as error:
            if name != "setgroups" or error.errno != 2:  # kernels before 3.19 do not have it
                raise NamespaceError(name, error.errno or 0) from error


def own_mounts() -> int:
    """A descriptor of the mount namespace of this process."""
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def make_folder(path: str, mode: int = 0o755) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode)  # noqa: PTH102


def _text(value: str | None) -> ctypes.c_char_p:
    return ctypes.c_char_p(None if value is None else os.fsencode(value))


@cache  # loading it anew takes longer than a call
def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any, about: str | None = None) -> int:
    result = getattr(_library(), name)(*arguments)
    if result < 0:
        raise NamespaceError(name if about is None else f"{name} {about}", ctypes.get_errno())
    return result
