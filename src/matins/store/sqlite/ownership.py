"""The owner of a SQLite file: a lock file beside the database, with the owner's address.

The file of a store while it is open: what another program puts in its place, or copies over it, is not used.

SQLite keeps new pages in a log beside the file (`-wal`) and writes them back later. Nothing binds a log to its file, so
the log of one file would be written into another.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import apsw

from matins.errors import MOVED, NetworkFilesystem, StoreError, StoreUnavailable, unwritable

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "9p"}
_NETWORK_FUSE = ("fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.glusterfs", "fuse.davfs")
_MAX_SOCKET_LENGTH = 100
_MAX_TRIES = 1_000
_POLL_S = 0.005


class Ownership:
    """A lock that at most one process holds. A store in memory is always held."""

    def __init__(self, path: Path | None) -> None:
        self._name = f"{path}.lock"
        self._path = Path(self._name) if path is not None else None
        self._file: int | None = None
        self._pid = os.getpid()
        self._changing = threading.Lock()  # one thread reads through the descriptor, another releases it
        self.socket = socket_path(path) if path is not None else None
        owned = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _abandon(owned()))

    def acquire(self) -> bool:
        """Take the lock; False when another process holds it."""
        if self._path is None or self._file is not None:
            return True
        with unwritable(self._path):
            file = self._open(self._path)
        if not _acquired(file):
            os.close(file)
            return False
        with unwritable(self._path):
            _write(file, b"")  # the address of an engine that was killed
        self._file = file
        self._pid = os.getpid()
        return True

    def _open(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire_waiting(self) -> bool:
        """Take the lock, waiting for processes that hold it briefly. False when an engine holds it, or after 5 s."""
        for _ in range(_MAX_TRIES):
            if self.acquire():
                return True
            if self.owner():
                return False
            time.sleep(_POLL_S)
        return False

    def renew(self) -> bool:
        """Take the lock again when its file was deleted or replaced. False when another process has taken it."""
        if self._path is None or self._pid != os.getpid():
            return True
        with self._changing:
            if self._file is None:
                return True
            with suppress(FileNotFoundError):
                status, own = os.stat(self._name), os.fstat(self._file)  # noqa: PTH116 - before every transaction
                if (status.st_dev, status.st_ino) == (own.st_dev, own.st_ino):
                    return True
            held, self._file = self._file, None
            if not self.acquire():
                self._file = held  # deleted, but still this process's own
                return False
            assert self._file is not None
            _write(self._file, os.pread(held, 4096, 0))
            os.close(held)
            return True

    def announce(self, socket: Path) -> None:
        """Write the address of the engine into the lock file."""
        if self._file is not None:
            text = json.dumps({"pid": os.getpid(), "boot": boot_id(), "socket": str(socket)})
            _write(self._file, text.encode())

    def owner(self) -> dict[str, str | int]:
        """The owner's process and address; empty for an owner that holds the lock briefly."""
        if self._path is None or not self._path.exists():
            return {}
        try:
            return json.loads(self._path.read_text(encoding="utf-8") or "{}")
        except json.JSONDecodeError:
            return {}  # the file was read between truncation and writing

    def has_engine(self) -> bool:
        """Whether an engine holds the lock. A killed engine does not. This check locks no other process out."""
        if self.is_held:
            return True
        if self._path is None or not self._path.exists():
            return False
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return not _is_free(file) and bool(self.owner())
        finally:
            os.close(file)

    @property
    def is_held(self) -> bool:
        return self._path is None or self._file is not None

    def release(self) -> None:
        with self._changing:
            if self._file is not None and self._pid == os.getpid():
                _write(self._file, b"")
                os.close(self._file)
            self._file = None

    def abandon(self) -> None:
        """Close a forked child's copy of the lock. Otherwise the lock would outlive its owner."""
        self._changing = threading.Lock()  # a thread of the parent may have held it
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _write(file: int, text: bytes) -> None:
    """Have this text in the file, and no other. Mostly both are empty: the owner is no engine."""
    if os.fstat(file).st_size:
        os.ftruncate(file, 0)
    if text:
        os.pwrite(file, text, 0)


def _acquired(file: int) -> bool:
    """Try to lock. Processes that only check hold the lock briefly, so this waits for them."""
    for _ in range(_MAX_TRIES):
        if _try_lock(file, fcntl.LOCK_EX):
            return True
        if not _is_free(file):
            return False
        time.sleep(_POLL_S)
    return False


def _is_free(file: int) -> bool:
    """Whether no process holds the lock exclusively."""
    free = _try_lock(file, fcntl.LOCK_SH)
    if free:
        fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough: a child that is forked now has it open too
    return free


def _try_lock(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _abandon(ownership: Ownership | None) -> None:
    if ownership is not None:
        ownership.abandon()


def socket_path(database: Path) -> Path:
    """The socket beside the database, or in the temporary directory if that path is too long for a socket."""
    beside = Path(f"{database.absolute()}.sock")
    if len(os.fsencode(beside)) <= _MAX_SOCKET_LENGTH:
        return beside
    name = sha256(os.fsencode(beside)).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"matins-{os.getuid()}", f"{name}.sock")


def boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def check_filesystem(path: Path) -> None:
    mounts = Path("/proc/self/mountinfo")
    if mounts.exists():
        kind = network_filesystem(path.absolute(), mounts.read_text(encoding="utf-8"))
        if kind:
            raise NetworkFilesystem(
                f"{path} is on a network file system ({kind}), where SQLite's locks are not safe.",
                hint="Use a local disk, or postgresql://.",
            )


def check_names(path: Path) -> None:
    """Raise StoreError for a file with a second name: SQLite keeps locks and the log by name, so each has its own."""
    if path.exists() and path.stat().st_nlink > 1:
        raise StoreError(
            f"{path} has a second name (a hard link), and two engines could run on it.",
            hint="Delete the other name, or make a copy: matins backup.",
        )


def network_filesystem(path: Path, mountinfo: str) -> str | None:
    """The kind of network file system that a path is on, by the text of /proc/self/mountinfo; None for a local one."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        mount = fields[4].encode().decode("unicode_escape")
        if (str(path) + "/").startswith(mount.rstrip("/") + "/") and len(mount) >= best:
            best, kind = len(mount), right.split()[0]
    return kind if kind in _NETWORK or kind.startswith(_NETWORK_FUSE) else None


log = logging.getLogger("matins")
_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 20
_BACKUP = b"\x01\x01"
"""The versions in the header of a backup, which has no log. A file that was opened has 2."""


class LogLost(StoreUnavailable):
    """The log of an open file is gone. This process still has it open, and no other one sees it."""


class OpenedFile:
    """`path` is None for a database in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = None if path is None else str(path)
        self._names = () if path is None else (f"{path}-wal", f"{path}-shm")
        self._identity, self._written = self._look()
        self._beside: dict[str, tuple[int, int]] = {}
        """The log and its index, by their paths. SQLite makes them when it first needs them."""

    def check(self) -> None:
        """Raise StoreUnavailable when the file is no longer the one that was opened: what is written would be lost."""
        if self._path is None:
            return
        identity, written = self._look()
        if identity != self._identity:
            raise StoreUnavailable(
                f"{self._path} was deleted or replaced while it was open.",
                hint=MOVED,
            )
        if written != self._written:  # mostly by this process, which writes the log back
            if _versions(Path(self._path)) in (None, _BACKUP):
                raise StoreUnavailable(
                    f"Another file was copied over {self._path} while it was open.",
                    hint="Restart the process. Nothing is started until then.",
                )
            self._written = written
        for name in self._names:
            try:
                status = os.stat(name)  # noqa: PTH116 - as below
                found = status.st_dev, status.st_ino
            except FileNotFoundError:
                found = None
            known = self._beside.get(name)
            if known is None and found is not None:
                self._beside[name] = found
            elif known != found:  # SQLite replaces none while it is open
                raise LogLost(
                    f"{name} was deleted or replaced while {self._path} was open.",
                    hint="Restart the process. Nothing is started until then.",
                )

    @property
    def is_intact(self) -> bool:
        try:
            self.check()
        except StoreUnavailable:
            return False
        return True

    def _look(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Which file it is, and when and up to which size it was written."""
        if self._path is None:
            return (0, 0), (0, 0)
        try:
            status = os.stat(self._path)  # noqa: PTH116 - half the time of Path.stat, before every transaction
        except FileNotFoundError:
            return (0, 0), (0, 0)
        return (status.st_dev, status.st_ino), (status.st_mtime_ns, status.st_size)


def set_foreign_log_aside(path: Path, ownership: Ownership) -> None:
    """Rename a log that belongs to another file: a backup was put in its place. Raises StoreUnavailable while an engine
    runs on the other file."""
    if not _has_foreign_log(path):
        return
    held = ownership.is_held
    if not ownership.acquire_waiting():
        raise StoreUnavailable(f"{path} was replaced while an engine runs on it.", hint="Restart the engine.")
    try:
        if _has_foreign_log(path):  # another process may have been quicker
            kept = Path(f"{path}-wal.replaced")
            Path(f"{path}-wal").replace(kept)
            Path(f"{path}-shm").unlink(missing_ok=True)
            log.warning("%s is a backup. The log of the file before it is now %s.", path, kept)
    finally:
        if not held:
            ownership.release()


def _has_foreign_log(path: Path) -> bool:
    try:
        return Path(f"{path}-wal").stat().st_size > 0 and _versions(path) == _BACKUP
    except FileNotFoundError:
        return False


def _versions(path: Path) -> bytes | None:
    """The versions in the header; None when it is not complete.

    SQLite reads it, because a file that is closed otherwise loses the locks that this process has on it.
    """
    try:
        file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    except apsw.CantOpenError:
        return None
    try:
        header = file.xRead(_HEADER_BYTES, 0)
    finally:
        file.xClose()
    return header[18:20] if header.startswith(_MAGIC) and len(header) == _HEADER_BYTES else None
