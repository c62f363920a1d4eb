"""Checks and copies of a database file while an engine writes to it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import apsw

from matins.errors import Conflict, InvalidInput, StoreCorrupt

_MAX_SHOWN = 5
_NO_LINK = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
"""An agent may write the folder: a link in the place of the new file would have the copy written elsewhere."""


def write_backup(source: Path, target: Path) -> None:
    """Copy the database as of one moment. Writers do not wait. The copy is checked before it gets its name."""
    try:
        folder = target.parent.resolve(strict=True)
        target = folder / target.name
        file, name = mkstemp(".partial", f".{target.name}.", folder)  # a new private name
        os.close(file)
    except OSError as error:
        raise _unwritable(target, error) from error
    new = Path(name)
    try:
        _copy(source, new)
        os.link(new, target)  # unlike a rename, a link never replaces a file
    except FileExistsError:
        raise Conflict(f"{target} already exists.", value=str(target), field="path", hint="Name a new file.") from None
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        new.unlink(missing_ok=True)


def _unwritable(target: Path, error: OSError) -> InvalidInput:
    message = f"{target} cannot be written: {error.strerror}."
    return InvalidInput(message, value=str(target), field="path", hint="Name another directory.")


def _copy(source: Path, target: Path) -> None:
    here = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        there = apsw.Connection(str(target), flags=_NO_LINK)
    except apsw.CantOpenError as error:
        here.close()
        raise OSError(errno.EPERM, "another file was put in the place of the new one") from error
    try:
        here.set_busy_timeout(5_000)
        with there.backup("main", here, "main") as backup:
            while not backup.done:
                backup.step(-1)
        _pragma(there, "journal_mode = DELETE")  # one file, without a log
        _mark_as_copy(there)
        problems = _integrity_problems(there)
    finally:
        there.close()
        here.close()
    if problems:
        raise StoreCorrupt(
            f"The copy of {source} is damaged: {problems[0]}.", hint="Run matins doctor. The copy was deleted."
        )
    file = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _mark_as_copy(connection: Any) -> None:
    """Give the copy another incarnation: the store that runs goes on, so the copy is older when it is used."""
    connection.execute(
        "INSERT INTO meta SELECT 'copy_of', value FROM meta WHERE key = 'incarnation';"
        "UPDATE meta SET value = lower(hex(randomblob(8))) WHERE key = 'incarnation'"
    )


def integrity_problems(path: Path) -> list[str]:
    """The problems that `quick_check` finds, on its own connection: the engine does not wait."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5_000)
        return _integrity_problems(connection)
    except (apsw.CorruptError, apsw.NotADBError) as error:  # too damaged for the check itself
        return [str(error)]
    finally:
        connection.close()


def _integrity_problems(connection: apsw.Connection) -> list[str]:
    found = [str(row[0]) for row in _pragma(connection, f"quick_check({_MAX_SHOWN})")]
    return [] if found == ["ok"] else found


def _pragma(connection: Any, pragma: str) -> list[Any]:
    return connection.execute(f"PRAGMA {pragma}").fetchall()
