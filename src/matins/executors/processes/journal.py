"""One append-only file for each run and epoch. The first complete line names the owner of the run."""

from __future__ import annotations

import errno
import json
import os
from typing import Any, cast

WARDEN = "MATINS_WARDEN"
Record = dict[str, Any]
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def name_of(run_id: int, epoch: int, incarnation: str = "") -> str:
    """The name of an attempt. A store that was set back gives its ids again, under another incarnation."""
    return f"{run_id}-{epoch}-{incarnation}" if incarnation else f"{run_id}-{epoch}"


def warden_name(pid: int, start: int) -> str:
    """The name of a warden: of its socket, and the mark in the environment of its processes."""
    return f"{pid}-{start}"


def open_run(runs: int, name: str, *, create: bool = True) -> int:
    """Open a journal. `runs` is the descriptor of the folder."""
    return os.open(name, _FLAGS | (os.O_CREAT if create else 0), 0o600, dir_fd=runs)


def append(journal: int, record: Record) -> None:
    """Append in one write. Line feeds on both sides separate it from a line that a full disk truncated."""
    line = b"\n%s\n" % json.dumps(record).encode("ascii")
    if os.write(journal, line) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def records(journal: int) -> list[Record]:
    """The complete lines, in order."""
    whole = os.pread(journal, os.fstat(journal).st_size, 0)
    *lines, _ = whole.split(b"\n")
    return [record for line in lines if line and (record := _parsed(line)) is not None]


def _parsed(line: bytes) -> Record | None:
    """The record of a line; None for a truncated line."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return cast("Record", record) if isinstance(record, dict) else None
