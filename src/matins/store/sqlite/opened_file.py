"""The file of a store while it is open: what another program puts in its place, or copies over it, is not used.

SQLite keeps new pages in a log beside the file (`-wal`) and writes them back later. Nothing binds a log to its file, so
the log of one file would be written into another.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import apsw

from matins.errors import MOVED, StoreUnavailable
from matins.store.sqlite.ownership import Ownership

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
        self._path = path
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
            if _versions(self._path) in (None, _BACKUP):
                raise StoreUnavailable(
                    f"Another file was copied over {self._path} while it was open.",
                    hint="Restart the process. Nothing is started until then.",
                )
            self._written = written
        for name in (f"{self._path}-wal", f"{self._path}-shm"):
            self._check_beside(name)

    def _check_beside(self, name: str) -> None:
        """Raise LogLost when the file is not the one that was there first. SQLite replaces none while it is open."""
        try:
            status = os.stat(name)  # noqa: PTH116 - as below
            found = status.st_dev, status.st_ino
        except FileNotFoundError:
            found = None
        known = self._beside.get(name)
        if known is None and found is not None:
            self._beside[name] = found
        elif known != found:
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
