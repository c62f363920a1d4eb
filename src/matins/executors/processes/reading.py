"""What a run has written so far, for any process that may look into the folder: no supervisor is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from matins.executors.processes import journal, output, proc
from matins.executors.processes.home import path_in
from matins.executors.processes.journal import Record, name_of


class Piece(NamedTuple):
    data: bytes
    """Secrets are redacted: they never reach the files. A character may be cut at both ends."""
    at: int
    """Where it begins: later than asked for where that is not kept. The next offset is `at + len(data)`."""
    total: int
    """How much there is by now."""
    over: bool
    """Nothing more will come; with `at + len(data) >= total`, this is the end."""


def output_of(folder: Path, run_id: int, epoch: int, offset: int, limit: int, *, stream: str = output.OUT) -> Piece:
    """Up to `limit` bytes of its stdout (".out") or stderr (".err"), while it runs and afterwards.

    The first `head_bytes` and the last `tail_bytes` of a run are kept. One that has no journal yet may still begin:
    it is not over.
    """
    key = name_of(run_id, epoch)
    over = _is_over(path_in(str(folder), key))  # first, so that what is read then is all of it
    return Piece(*output.read_on(path_in(str(folder), key + stream), offset, limit), over)


def _is_over(path: str) -> bool:
    records = _records(path)
    return bool(records) and (_said_so(records) or not _may_write(records[0]))


def _may_write(owner: Record) -> bool:
    """Whether its warden lives; where no system tells, it may."""
    if not proc.KNOWS_DESCENT:
        return True
    return owner["boot"] == proc.boot_id() and proc.find(*owner["warden"]) is not None


def _said_so(records: list[Record]) -> bool:
    """A fence counts where it stands first."""
    return "fenced" in records[0] or any("exit" in record or "failed" in record for record in records)


def _records(path: str) -> list[Record]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return []
    try:
        return journal.records(file)
    finally:
        os.close(file)
