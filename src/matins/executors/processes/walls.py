"""Namespaces, walls, what an agent sees.

What the processes of an agent see: everything but the folders of Matins.

A warden is born in namespaces of its own. Around each start it enters a view of the mounts in which those folders are
covered; the command inherits it. The views are kept, so that a run costs two system calls.

Files that ssh's system configuration includes. In a user namespace root's files belong to nobody, and ssh refuses
included files that belong neither to root nor to the user.

System calls for namespaces, mounts and Landlock, through ctypes. Linux only; standalone processes use it.

Finds out whether agents can be isolated on this machine, without a keeper: for `doctor`, greeting and approvals.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import errno
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from matins.texts.beneath import open_beneath

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


@cache  # loading it takes longer than a call
def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any, about: str | None = None) -> int:
    result = getattr(_library(), name)(*arguments)
    if result < 0:
        raise NamespaceError(name if about is None else f"{name} {about}", ctypes.get_errno())
    return result


_CONFIG = "/etc/ssh/ssh_config"
_MAX_FILES = 64
_MAX_BYTES = 1 << 18


def own_included_files(scratch: str) -> None:
    """Mount a copy over each included file. A copy belongs to the user. `scratch` is covered meanwhile."""
    files = included_files(_CONFIG)
    if not files:
        return
    mount("matins", scratch, "tmpfs", NOSUID | NODEV, "size=16m,mode=0755")
    try:
        for number, path in enumerate(files):
            with contextlib.suppress(OSError):  # ssh then reports the file itself
                _copy(path, f"{scratch}/{number}")
                mount(f"{scratch}/{number}", path, None, BIND)
    finally:
        detach(scratch)


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


_MAX_VIEWS = 16
_COVER = NOSUID | NODEV | NOEXEC
_COVER_OPTIONS = "size=64k,nr_inodes=64,mode=0755"
_TERMINALS = "/dev/pts"
_TERMINAL_OPTIONS = "newinstance,ptmxmode=0666,mode=0600"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC if sys.platform == "linux" else 0


class Layout(NamedTuple):
    """The folders that a run does not see, those below them that it does, and those that it cannot change."""

    hidden: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    """Folders and links above these that the run cannot rename, outermost first."""


class Walls:
    """The namespaces of this warden. Creating it moves the process there."""

    def __init__(self, scratch: str, *, prevent: bool = True) -> None:
        """`scratch` is a folder that needs no content in here. `prevent`: signals stay inside, if the kernel can."""
        uid, gid = os.getuid(), os.getgid()
        self.counts_alone = uid != 0
        """Whether the kernel counts the processes in here apart from the user's others."""
        if uid == 0:
            unshare(NEW_NS)
        else:
            set_dumpable(True)  # otherwise the maps belong to root
            unshare(NEW_USER | NEW_NS)
            map_to_self(uid, gid)
            set_dumpable(False)
        mount(None, "/", None, REC | SLAVE)
        if uid != 0:
            own_included_files(scratch)
        self._signal_rules: int | None = None
        if prevent and landlock_version() >= SIGNAL_VERSION:
            self._signal_rules = signal_rules()
            keep_signals_inside(self._signal_rules)
        self._base = own_mounts()
        self._views: dict[tuple[Any, ...], int] = {}

    def spawn(self, spawn: Callable[[], int]) -> int:
        """Start a command. Its signals reach only its own processes, not this warden, if the kernel can do that."""
        return spawn() if self._signal_rules is None else spawn_below(self._signal_rules, spawn)

    @contextlib.contextmanager
    def entered(self, layout: Layout) -> Generator[None]:
        """The view of this layout, for the start of a command. A warden that cannot leave it ends."""
        key = layout, tuple(_identity(path) for path in layout.kept)
        try:
            if key in self._views:
                enter(self._views[key])
            else:
                self._keep(key, _make_view(layout))
            yield
        finally:
            self._leave()

    def _keep(self, key: tuple[Any, ...], view: int) -> None:
        while len(self._views) >= _MAX_VIEWS:
            os.close(self._views.pop(next(iter(self._views))))
        self._views[key] = view

    def _leave(self) -> None:
        try:
            enter(self._base)
            os.chdir("/")
        except OSError:
            traceback.print_exc()
            os._exit(1)  # it must serve nobody else; the keeper ends what it started


def _identity(path: str) -> tuple[int, int]:
    """A folder that was removed and made again is another one."""
    status = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    return status.st_dev, status.st_ino


def _make_view(layout: Layout) -> int:
    unshare(NEW_NS)
    kept = [(path, _open_kept(path, layout.hidden)) for path in layout.kept]  # now: a source must be in this namespace
    try:
        for path in layout.pinned:
            pin(path)
        for path in layout.hidden:
            mount("matins", path, "tmpfs", _COVER, _COVER_OPTIONS)
        for path, folder in kept:
            _make_parents(path, layout.hidden)
            mount(f"/proc/self/fd/{folder}", path, None, BIND | REC)
    finally:
        for _, folder in kept:
            os.close(folder)
    for path in layout.hidden:
        remount_read_only(path)
    for path in layout.frozen:
        bind_read_only(path)
    _hide_terminals()
    return own_mounts()


def _hide_terminals() -> None:
    """Terminals of the user are not in view: what is written to one looks like an answer of Matins, and what is typed
    there could be read. New ones can be made; where the kernel refuses that, there are none."""
    if not os.path.isdir(_TERMINALS):  # noqa: PTH112 - avoids importing pathlib
        return
    try:
        mount("devpts", _TERMINALS, "devpts", NOSUID | NOEXEC, _TERMINAL_OPTIONS)
    except NamespaceError:
        mount("matins", _TERMINALS, "tmpfs", _COVER, _COVER_OPTIONS)


def _open_kept(path: str, hidden: Sequence[str]) -> int:
    """Open a folder below a cover. An agent can write folders above it if they are kept for it too: no link counts."""
    cover = _cover_of(path, hidden)
    if cover is None:
        return os.open(path, _FOLDER)
    folder = os.open(cover, _FOLDER)
    try:
        return open_beneath(folder, path[len(cover) + 1 :], _FOLDER)
    finally:
        os.close(folder)


def _cover_of(path: str, hidden: Sequence[str]) -> str | None:
    return next((cover for cover in hidden if path.startswith(f"{cover}/")), None)


def _make_parents(path: str, hidden: Sequence[str]) -> None:
    """Make the folder, and those between it and the cover."""
    cover = _cover_of(path, hidden)
    if cover is None:
        return  # it is not covered
    at = cover
    for name in path[len(cover) + 1 :].split("/"):
        at = f"{at}/{name}"
        make_folder(at)


# -- the probe


class Probe(NamedTuple):
    """Whether this machine can isolate agents. `problem` is what the kernel refuses."""

    works: bool
    problem: str | None = None
    step: str | None = None
    errno: int | None = None
    landlock: int = 0
    """The version of Landlock; below 6, signals are not kept inside."""


def probe(folder: str) -> Probe:
    """Try all of it, in a child that ends. `folder` is an empty folder; it is not changed."""
    if sys.platform != "linux":
        return Probe(False, f"{sys.platform} has no namespaces", "platform")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(_tried(folder)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return Probe(*json.loads(text)) if text else Probe(False, "the probe ended without a result", "probe")


def _tried(folder: str) -> Probe:
    try:
        kept = f"{folder}/kept"
        make_folder(kept, 0o700)
        walls = Walls(folder)
        with walls.entered(Layout((folder,), (kept,), ("/usr",), (os.path.dirname(folder),))):  # noqa: PTH120
            if os.listdir(folder) != ["kept"]:  # noqa: PTH208
                return Probe(False, "a cover does not hold", "cover")
            pid = walls.spawn(lambda: os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {}))
        if os.waitpid(pid, 0)[1] != 0:
            return Probe(False, "a command cannot be started", "spawn")
        return Probe(True, landlock=landlock_version())
    except NamespaceError as error:
        return Probe(False, error.strerror, error.step.partition(" ")[0], error.errno)
    except OSError as error:
        return Probe(False, str(error), "probe", error.errno)


_SOURCE = str(Path(__file__).parents[3])
_PROGRAM = (
    "import sys, json; sys.path.append(sys.argv[1]); from matins.executors.processes.walls import probe;"
    "print(json.dumps(probe(sys.argv[2])))"
)
_TIMEOUT_S = 20


@cache
def probe_here() -> Probe:
    """What the kernel allows this user. It is tried once, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="matins-probe-") as folder:
        command = [sys.executable, "-I", "-S", "-c", _PROGRAM, _SOURCE, folder]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, cwd="/", check=True)
            return Probe(*json.loads(done.stdout))
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            return Probe(False, f"the probe failed: {error}", "probe")
