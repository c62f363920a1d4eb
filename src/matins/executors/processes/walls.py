"""What the processes of an agent see: everything but the folders of Matins.

A warden is born in namespaces of its own. Around each start it enters a view of the mounts in which those folders are
covered; the command inherits it. The views are kept, so that a run costs two system calls.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from matins.executors.processes import namespaces, ssh_config
from matins.executors.processes.namespaces import NamespaceError
from matins.texts.beneath import open_beneath

_MAX_VIEWS = 16
_COVER = namespaces.NOSUID | namespaces.NODEV | namespaces.NOEXEC
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
            namespaces.unshare(namespaces.NEW_NS)
        else:
            namespaces.set_dumpable(True)  # otherwise the maps belong to root
            namespaces.unshare(namespaces.NEW_USER | namespaces.NEW_NS)
            namespaces.map_to_self(uid, gid)
            namespaces.set_dumpable(False)
        namespaces.mount(None, "/", None, namespaces.REC | namespaces.SLAVE)
        if uid != 0:
            ssh_config.own_included_files(scratch)
        self._signal_rules: int | None = None
        if prevent and namespaces.landlock_version() >= namespaces.SIGNAL_VERSION:
            self._signal_rules = namespaces.signal_rules()
            namespaces.keep_signals_inside(self._signal_rules)
        self._base = namespaces.own_mounts()
        self._views: dict[tuple[Any, ...], int] = {}

    def spawn(self, spawn: Callable[[], int]) -> int:
        """Start a command. Its signals reach only its own processes, not this warden, if the kernel can do that."""
        return spawn() if self._signal_rules is None else namespaces.spawn_below(self._signal_rules, spawn)

    @contextlib.contextmanager
    def entered(self, layout: Layout) -> Generator[None]:
        """The view of this layout, for the start of a command. A warden that cannot leave it ends."""
        key = layout, tuple(_identity(path) for path in layout.kept)
        try:
            if key in self._views:
                namespaces.enter(self._views[key])
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
            namespaces.enter(self._base)
            os.chdir("/")
        except OSError:
            traceback.print_exc()
            os._exit(1)  # it must serve nobody else; the keeper ends what it started


def _identity(path: str) -> tuple[int, int]:
    """A folder that was removed and made again is another one."""
    status = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    return status.st_dev, status.st_ino


def _make_view(layout: Layout) -> int:
    namespaces.unshare(namespaces.NEW_NS)
    kept = [(path, _open_kept(path, layout.hidden)) for path in layout.kept]  # now: a source must be in this namespace
    try:
        for path in layout.pinned:
            namespaces.pin(path)
        for path in layout.hidden:
            namespaces.mount("matins", path, "tmpfs", _COVER, _COVER_OPTIONS)
        for path, folder in kept:
            _make_parents(path, layout.hidden)
            namespaces.mount(f"/proc/self/fd/{folder}", path, None, namespaces.BIND | namespaces.REC)
    finally:
        for _, folder in kept:
            os.close(folder)
    for path in layout.hidden:
        namespaces.remount_read_only(path)
    for path in layout.frozen:
        namespaces.bind_read_only(path)
    _hide_terminals()
    return namespaces.own_mounts()


def _hide_terminals() -> None:
    """Terminals of the user are not in view: what is written to one looks like an answer of Matins, and what is typed
    there could be read. New ones can be made; where the kernel refuses that, there are none."""
    if not os.path.isdir(_TERMINALS):  # noqa: PTH112 - avoids importing pathlib
        return
    try:
        namespaces.mount("devpts", _TERMINALS, "devpts", namespaces.NOSUID | namespaces.NOEXEC, _TERMINAL_OPTIONS)
    except NamespaceError:
        namespaces.mount("matins", _TERMINALS, "tmpfs", _COVER, _COVER_OPTIONS)


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
        namespaces.make_folder(at)


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
        namespaces.make_folder(kept, 0o700)
        walls = Walls(folder)
        with walls.entered(Layout((folder,), (kept,), ("/usr",), (os.path.dirname(folder),))):  # noqa: PTH120
            if os.listdir(folder) != ["kept"]:  # noqa: PTH208
                return Probe(False, "a cover does not hold", "cover")
            pid = walls.spawn(lambda: os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {}))
        if os.waitpid(pid, 0)[1] != 0:
            return Probe(False, "a command cannot be started", "spawn")
        return Probe(True, landlock=namespaces.landlock_version())
    except NamespaceError as error:
        return Probe(False, error.strerror, error.step.partition(" ")[0], error.errno)
    except OSError as error:
        return Probe(False, str(error), "probe", error.errno)
