"""The output of a run so far, for any process that can read the folder. No supervisor is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from matins.executors.processes import output, proc, run_folder
from matins.executors.processes.run_folder import Record, path_in


class OutputChunk(NamedTuple):
    data: bytes
    """Secrets are redacted before they reach the files. A character may be cut at both ends."""
    at: int
    """Where the data begins: later than requested when that is not kept. The next offset is `at + len(data)`."""
    total: int
    """Number of bytes so far."""
    complete: bool
    """Nothing more will be written. With `at + len(data) >= total`, this is the end."""


def read_output(folder: Path, name: str, offset: int, limit: int, *, stream: str = output.OUT) -> OutputChunk:
    """Up to `limit` bytes of an attempt: stdout (".out") or stderr (".err"), while it runs and afterwards.

    The first `head_bytes` and the last `tail_bytes` of a run are kept. A run without a journal may still begin, so it
    is not complete.
    """
    complete = _is_complete(path_in(str(folder), name))  # before reading, so that the data read is complete
    return OutputChunk(*output.read_after(path_in(str(folder), name + stream), offset, limit), complete)


def last_output_ms(folder: Path, name: str) -> int | None:
    """When an attempt last wrote to stdout or stderr, in milliseconds of the wall clock. For one that has not, when its
    journal was written; None if it has no files: then it is no process."""
    written = [at for file in output.file_names(name) if (at := _written_ms(folder, file)) is not None]
    return max(written) if written else _written_ms(folder, name)


def _written_ms(folder: Path, file: str) -> int | None:
    try:
        return Path(path_in(str(folder), file)).lstat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None


def _is_complete(path: str) -> bool:
    records = _records(path)
    return bool(records) and (_has_ended(records) or not _may_write(records[0]))


def _may_write(owner: Record) -> bool:
    """Whether the warden lives. Without /proc, it may."""
    if not proc.HAS_PROC:
        return True
    return owner["boot"] == proc.boot_id() and proc.find(*owner["warden"]) is not None


def _has_ended(records: list[Record]) -> bool:
    """Whether the run is over. A fence counts only as the first line."""
    return "fenced" in records[0] or any("exit" in record or "failed" in record for record in records)


def _records(path: str) -> list[Record]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return []
    try:
        return run_folder.records(file)
    finally:
        os.close(file)
