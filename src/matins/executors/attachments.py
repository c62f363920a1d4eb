"""Files that a run attaches to its answer: copied when it ends, so that what is sent is what was there.

The folder is one that the agent can write, so it is read through `UntrustedFolder` only: no link is followed.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from matins.engine.when.durations import DAY_MS
from matins.executors.processes.output import Redactor
from matins.texts.untrusted_folder import Entry, UntrustedFolder, open_folder, open_or_make_folder

MAX_FILES, MAX_FILE_BYTES = 10, 10_000_000
_KEPT_MS = 30 * DAY_MS
_SLACK_MS = 20
"""The clock of file systems may be behind by that."""


class Attached(NamedTuple):
    files: list[dict[str, Any]]
    """As `AnswerFile` takes them."""
    left_out: list[str]
    """Why others are not among them."""


def attach(
    patterns: Iterable[str], workdir: str, owner: int | None, since: int, secrets: Iterable[str], copies: Path
) -> Attached:
    """Copy the files that match and were changed since then. What is left out is said, and fails no run."""
    found = Attached([], [])
    try:
        with open_folder(workdir, owner) as folder:
            _copy(folder, patterns, since, [secret.encode() for secret in secrets], copies, found)
    except OSError as error:
        found.left_out.append(f"{error.filename or workdir}: {error.strerror}")
    return found


def _copy(
    folder: UntrustedFolder, patterns: Iterable[str], since: int, secrets: list[bytes], copies: Path, found: Attached
) -> None:
    named: dict[str, Entry] = {}
    for pattern in patterns:
        named |= {entry.name: entry for entry in folder.matching(pattern)}
    changed = [one for one in named.values() if one.changed_ns >= (since - _SLACK_MS) * 1_000_000]
    for entry in sorted(changed, key=lambda entry: entry.name):
        if len(found.files) == MAX_FILES:
            found.left_out.append(f"{entry.name}: there are more than {MAX_FILES} files")
            continue
        try:
            data = folder.read_whole(entry.name, MAX_FILE_BYTES)
        except OSError as error:
            found.left_out.append(f"{entry.name}: {error.strerror}")
            continue
        if _has_secret(data, secrets):
            found.left_out.append(f"{entry.name}: it contains a secret")
            continue
        found.files.append(_kept(entry.name, data, copies, len(found.files)))
    if found.files:
        _delete_old(copies, since - _KEPT_MS)


def _has_secret(data: bytes, secrets: list[bytes]) -> bool:
    redactor = Redactor(secrets)
    return redactor.feed(data) + redactor.finish() != data


def _kept(name: str, data: bytes, copies: Path, number: int) -> dict[str, Any]:
    """Write the copy, under a number: names are the agent's."""
    with open_or_make_folder(copies) as folder:
        folder.replace(str(number), data)
    kind, encoding = mimetypes.guess_type(name)
    return {
        "name": name.rpartition("/")[2],
        "path": str(copies / str(number)),
        "size": len(data),
        "digest": hashlib.sha256(data).hexdigest(),
        "media_type": kind if kind and encoding is None else "application/octet-stream",
    }


def _delete_old(copies: Path, before: int) -> None:
    with open_folder(copies.parent) as runs:
        for run in runs.entries():
            if not run.is_folder or run.changed_ns >= before * 1_000_000:
                continue
            for file in runs.entries(run.name):
                runs.delete(f"{run.name}/{file.name}")
            with suppress(OSError):  # another engine may be at it
                runs.delete(run.name, is_folder=True)


def copies_folder(runs: str, run_id: int, epoch: int) -> Path:
    """Where the copies of a run are."""
    return Path(os.fspath(runs), "attached", f"{run_id}-{epoch}")
