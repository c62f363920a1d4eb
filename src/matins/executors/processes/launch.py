"""Commands to run, their limits, and their outcomes.

The message that hands a launch to a warden: one line, and unnamed files.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

from matins.errors import InvalidInput
from matins.executors.processes.channel import close_all, encode
from matins.executors.processes.output import LinePattern
from matins.executors.processes.walls import Layout

HEAD_BYTES = 10_000_000
TAIL_BYTES = 262_144
MIN_SECRET_LENGTH = 8
"""A shorter secret may be in a command line by chance."""
_MINIMUMS = {"grace_ms": 0, "head_bytes": 0, "files": 32, "memory_bytes": 32 * 1024 * 1024}
"""With less, no command could be started."""
OutcomeKind = Literal["finished", "running", "never_started", "orphaned", "unknown"]
EndedBy = Literal[
    "timeout",
    "idle_timeout",
    "exit_timeout",
    "cancelled",
    "budget",
    "memory",
    "processes",
    "cpu",
    "file_size",
    "lease",
    "supervisor",
]
"""`lease`: it was not renewed, so the run may start elsewhere. `supervisor`: the run stopped it."""


class Limits(NamedTuple):
    """Limits of a command. None is no limit."""

    timeout_ms: int | None = None
    idle_timeout_ms: int | None = None
    """Time without output on stdout or stderr."""
    exit_timeout_ms: int | None = None
    """From the last output to the exit, after the final event."""
    grace_ms: int = 5_000
    """From TERM to KILL."""
    memory_bytes: int | None = None
    """Memory of the tree, by sampling. One process may allocate 1 GiB more (RLIMIT_DATA), because much of it is never
    used."""
    cpu_s: int | None = None
    """CPU time of one process."""
    files: int | None = None
    """Open files of one process."""
    processes: int | None = None
    """Number of processes of the tree at any time."""
    file_bytes: int | None = None
    """Size of a file that one process writes."""
    lease_ms: int | None = None
    """How long the processes go on after the last renewal: then the run may start elsewhere."""


class Account(NamedTuple):
    """Another user that a command runs as. Only root can start it."""

    uid: int
    gid: int
    groups: tuple[int, ...]


class Launch(NamedTuple):
    run_id: int
    epoch: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The complete environment: nothing is inherited."""
    cwd: str
    stdin: bytes = b""
    limits: Limits = Limits()
    secrets: tuple[str, ...] = ()
    """Redacted in the stored output."""
    finals: tuple[LinePattern, ...] = ()
    """A line of stdout that matches one of these is the final event."""
    retries: tuple[LinePattern, ...] = ()
    """Lines that only say that the command tries something again: for the idle limit, they are silence."""
    stdout_file: bool = False
    """stdout is a file: for a command that exits before its pipe is read, and loses the rest."""
    head_bytes: int = HEAD_BYTES
    tail_bytes: int = TAIL_BYTES
    layout: Layout | None = None
    """What the command does not see; None to start it without walls."""
    account: Account | None = None
    durable: bool = False
    """Whether the first line of the journal must survive a power cut."""
    leased_at: int | None = None
    """Since when the lease counts, in boot time; None: since the start."""
    name: str = ""
    """Name of a command that is no run, instead of run and epoch. It ends with its engine, and leaves no files."""


class ProcessOutcome(NamedTuple):
    """The outcome of a run's processes."""

    kind: OutcomeKind
    exit_code: int | None = None
    """None when a signal ended the command, or when it did not end."""
    signal: int | None = None
    ended_by: EndedBy | None = None
    """The limit or request that ended the command."""
    started_at: int | None = None
    ended_at: int | None = None
    max_rss_kb: int = 0
    user_ms: int = 0
    system_ms: int = 0
    stdout_path: str = ""
    """The file is missing when nothing was written."""
    stderr_path: str = ""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
    """Whether more was written than the file keeps."""
    leftovers: int = 0
    """Number of processes, besides the command, that were ended with it."""
    error: str | None = None
    """Why the command could not be started."""
    isolated: bool | None = None
    """Whether the command had walls; None if that is not known."""
    machine_error: str | None = None
    """Why this machine could not start the command, which another could, such as a full disk."""


def check_launch(launch: Launch) -> None:
    """Raise InvalidInput for a command that cannot start, or a secret that other users could read."""
    if not launch.argv or not launch.argv[0]:
        raise InvalidInput("There is no command to run.", value=launch.argv, field="argv", hint="Name a program.")
    for field, text in _texts(launch):
        _check_text(field, text)
    if not PurePath(launch.cwd).is_absolute():
        raise InvalidInput("cwd is not absolute.", value=launch.cwd, field="cwd", hint="Begin it with /.")
    for name in launch.env:
        if not name or "=" in name:
            raise InvalidInput(f'"{name}" cannot name a variable.', value=name, field="env", hint='Omit "=".')
    _check_secrets(launch)
    _check_numbers(launch)


def _check_secrets(launch: Launch) -> None:
    secrets = [secret for secret in launch.secrets if len(secret) >= MIN_SECRET_LENGTH]
    if any(secret in word for secret in secrets for word in launch.argv):
        message, hint = (
            "The command line contains a secret, and every user can read it.",
            "Pass it by environment or stdin.",
        )
        raise InvalidInput(message, field="argv", hint=hint)


def _check_text(field: str, text: str) -> None:
    if "\0" in text:
        raise InvalidInput(f"{field} contains a NUL character.", value=text, field=field, hint="Remove it.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        hint = "Remove lone surrogates."
        raise InvalidInput(f"{field} cannot be encoded: {error.reason}.", value=text, field=field, hint=hint) from None


def _texts(launch: Launch) -> Iterator[tuple[str, str]]:
    yield from (("argv", word) for word in launch.argv)
    yield from (("env", text) for pair in launch.env.items() for text in pair)
    yield from (("secrets", secret) for secret in launch.secrets)
    yield "cwd", launch.cwd


def _check_numbers(launch: Launch) -> None:
    numbers = launch.limits._asdict() | {"head_bytes": launch.head_bytes, "tail_bytes": launch.tail_bytes}
    for field, value in numbers.items():
        least = _MINIMUMS.get(field, 1)
        if value is not None and value < least:
            raise InvalidInput(
                f"{field} must be at least {least}, not {value}.", value=value, field=field, allowed=f"{least} or more"
            )


_MAX_LINE_BYTES = 16_384


class LaunchMessage:
    """stdin is a file, so a command that does not read it blocks no writer. A long launch is a file too."""

    def __init__(self, key: str, launch: Launch, *, fsync: bool) -> None:
        self.files: list[int] = []
        self.walled = launch.layout is not None
        """Whether it needs a warden with walls."""
        document = _document(key, launch, fsync)
        self.line = encode({"start": document})
        try:
            if len(self.line) > _MAX_LINE_BYTES:
                self.line = encode({"start": None})
                self._add(encode(document))
            if launch.stdin:
                self._add(launch.stdin)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        close_all(self.files)

    def _add(self, data: bytes) -> None:
        self.files.append(_anonymous_file())
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.files[-1], rest) :]
        os.lseek(self.files[-1], 0, os.SEEK_SET)


def _anonymous_file() -> int:
    if sys.platform == "linux":
        return os.memfd_create("matins")
    file, path = tempfile.mkstemp()
    Path(path).unlink()
    return file


def _document(key: str, launch: Launch, fsync: bool) -> dict[str, Any]:
    return {
        "key": key,
        "argv": launch.argv,
        "env": dict(launch.env),
        "cwd": launch.cwd,
        "limits": launch.limits._asdict(),
        "secrets": [os.fsencode(secret).decode("latin-1") for secret in launch.secrets],
        "finals": launch.finals,
        "retries": launch.retries,
        "stdout_file": launch.stdout_file,
        "head_bytes": launch.head_bytes,
        "tail_bytes": launch.tail_bytes,
        "fsync": fsync,
        "layout": launch.layout,
        "account": launch.account,
        "attached": bool(launch.name),
        "leased_at": launch.leased_at,
    }
