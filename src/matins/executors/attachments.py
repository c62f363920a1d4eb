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
from matins.texts.beneath import Identities, identities
from matins.texts.untrusted_folder import Entry, UntrustedFolder, open_folder, open_or_make_folder

MAX_FILES, MAX_FILE_BYTES = 10, 10_000_000
_MAX_LEFT_OUT, _MAX_NAME = 10, 200
_MAX_COPIES = 1_000_000
_CHUNK = 1 << 20
"""A search for secrets keeps other threads waiting: for so much at a time."""
_KEPT_MS = 30 * DAY_MS
_PARTS = ("message/", "multipart/")
"""Types that would be more than a file in an e-mail."""
_SLACK_MS = 20
"""The clock of file systems may be behind by that."""


class Attached(NamedTuple):
    files: list[dict[str, Any]]
    """The files, as `AnswerFile` takes them."""
    left_out: list[str]
    """Why others are not among them."""


def attach(
    patterns: Iterable[str],
    workdir: str,
    owner: int | None,
    since: int,
    secrets: Iterable[str],
    copies: Path,
    hidden: Iterable[str] = (),
) -> Attached:
    """Copy the files that match and were changed since then. What is left out is said, and fails no run.

    `hidden` are folders that the agent does not see, which are passed over."""
    found = Attached([], [])
    unseen = identities(Path(path).expanduser() for path in hidden)
    try:
        # The agent may have put a link in the place of its folder.
        with open_folder(workdir, owner, unseen=unseen) as folder:
            _copy(folder, patterns, since, [os.fsencode(secret) for secret in secrets], copies, unseen, found)
    except OSError as error:
        found.left_out.append(f"{_shown(str(error.filename or workdir))}: {error.strerror}")
    return found


def _copy(
    folder: UntrustedFolder,
    patterns: Iterable[str],
    since: int,
    secrets: list[bytes],
    copies: Path,
    unseen: Identities,
    found: Attached,
) -> None:
    named: dict[str, Entry] = {}
    for pattern in patterns:
        named |= {entry.name: entry for entry in folder.matching(pattern, unseen)}
    changed = [one for one in named.values() if one.changed_ns >= (since - _SLACK_MS) * 1_000_000]
    ahead = sorted(changed, key=lambda entry: entry.name)
    for number, entry in enumerate(ahead):
        if len(found.left_out) == _MAX_LEFT_OUT:
            found.left_out.append(f"{len(ahead) - number:,} more files: there are too many")
            break
        if len(found.files) == MAX_FILES:
            found.left_out.append(f"{_shown(entry.name)}: there are more than {MAX_FILES} files")
            continue
        try:
            data = folder.read_whole(entry.name, MAX_FILE_BYTES)
        except OSError as error:
            found.left_out.append(f"{_shown(entry.name)}: {error.strerror}")
            continue
        if _has_secret(data, secrets):
            found.left_out.append(f"{_shown(entry.name)}: it contains a secret")
            continue
        found.files.append(_kept(entry.name, data, copies, len(found.files)))
    if found.files:
        _delete_old(copies, since - _KEPT_MS)


def _shown(name: str) -> str:
    """A name as JSON and people can have it: its bytes are the agent's, and may be no text."""
    text = os.fsencode(name).decode(errors="replace")
    return text if len(text) <= _MAX_NAME else f"…{text[1 - _MAX_NAME :]}"


def _has_secret(data: bytes, secrets: list[bytes]) -> bool:
    redactor, same = Redactor(secrets), hashlib.sha256()
    for at in range(0, len(data), _CHUNK):
        same.update(redactor.feed(data[at : at + _CHUNK]))
    same.update(redactor.finish())
    return same.digest() != hashlib.sha256(data).digest()


def _kept(name: str, data: bytes, copies: Path, number: int) -> dict[str, Any]:
    """Write the copy, under a number: names are the agent's."""
    with open_or_make_folder(copies) as folder:
        folder.replace(str(number), data)
    kind, encoding = mimetypes.guess_type(name)
    return {
        "name": _shown(name.rpartition("/")[2]),
        "path": str(copies / str(number)),
        "size": len(data),
        "digest": hashlib.sha256(data).hexdigest(),
        "media_type": kind if kind and encoding is None and not kind.startswith(_PARTS) else "application/octet-stream",
    }


def _delete_old(copies: Path, before: int) -> None:
    with open_folder(copies.parent) as runs:
        for run in runs.entries(most=_MAX_COPIES):
            if run.is_folder and run.changed_ns < before * 1_000_000:
                _delete(runs, run.name)


def discard(copies: Path) -> None:
    """Delete the copies that nobody gets."""
    with suppress(FileNotFoundError), open_folder(copies.parent) as runs:
        _delete(runs, copies.name)


def _delete(runs: UntrustedFolder, name: str) -> None:
    for file in runs.entries(name):
        runs.delete(f"{name}/{file.name}")
    with suppress(OSError):  # another engine may be at it
        runs.delete(name, is_folder=True)


def copies_folder(runs: str, run_id: int, part: object) -> Path:
    """Where the copies of an attempt, or of a message in it, are."""
    return Path(os.fspath(runs), "attached", f"{run_id}-{part}")
