"""Files in which tools record what a session uses.

Nothing about them is promised: what cannot be read is not known.

Sessions that a tool does not know. The target of the run is gone; this is not a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from matins.engine.targets import BY_SESSION_ID
from matins.errors import InvalidInput
from matins.executors.runners.protocol import Command, RunnerRequest, RunnerResult, SessionUsage
from matins.executors.runners.tool_events import Event, read_event
from matins.model.run import ThreadAssignment
from matins.texts.untrusted_folder import MAX_ENTRIES, Entry, UntrustedFolder, open_folder

_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")
MAX_LOOK_BYTES = 4_000_000
MAX_SESSION_BYTES = 64_000_000
MAX_LINE_BYTES = 1_000_000


class SessionAccount(Protocol):
    """Adds up the events of a file."""

    problem: str | None

    def add(self, event: Event) -> None: ...
    def usage(self) -> SessionUsage | None: ...


class JsonLinesLedger:
    """A ledger in one file per session, which only grows: one JSON object per line, most with a `timestamp`.

    The agent can write these files. They are read from a folder that does not lead into those of Matins, without links,
    and up to a bound.
    """

    def __init__(
        self, folder: Path, pattern: str, account: Callable[[], SessionAccount], owner: int | None = None
    ) -> None:
        """`pattern` names the file of a session from the folder on, with `{}` for its id. With `owner`, the files must
        belong to this user."""
        self._folder = folder
        self._pattern = pattern
        self._owner = owner
        self._make_account = account
        self._account = account()
        self._name: str | None = None
        self._lines = _Lines()

    def usage(self, session: str, before: int | None = None) -> SessionUsage | None:
        if not _ID.fullmatch(session):
            return None
        try:
            with open_folder(self._folder, self._owner) as folder:
                return self._so_far(folder, session) if before is None else self._as_of(folder, session, before)
        except OSError:
            return None

    def problem(self, session: str) -> str | None:
        self.usage(session)
        return self._account.problem

    def _so_far(self, folder: UntrustedFolder, session: str) -> SessionUsage | None:
        """Only what is new is read: this is called several times a second."""
        self._name = self._name or newest(folder, self._pattern.format(session))
        if self._name is None:
            return None
        for line in self._lines.read(folder, self._name):
            event = read_event(line)
            if event is not None:
                self._account.add(event)
        return self._account.usage()

    def _as_of(self, folder: UntrustedFolder, session: str, before: int) -> SessionUsage | None:
        name, account, at = newest(folder, self._pattern.format(session)), self._make_account(), 0
        for line in _Lines().read(folder, name) if name is not None else ():
            event = read_event(line)
            at = (time_of(event) or at) if event is not None else at
            if at >= before:
                break
            if event is not None:
                account.add(event)
        return account.usage()


class _Lines:
    """The complete lines of a file that grows, each once."""

    def __init__(self) -> None:
        self._offset = 0
        self._in_long_line = False

    def read(self, folder: UntrustedFolder, name: str) -> Iterator[bytes]:
        """The lines since the last call. A long one is skipped, and so is everything beyond the bound of a session."""
        while self._offset < MAX_SESSION_BYTES:
            data = folder.read(name, MAX_LOOK_BYTES, self._offset)
            *lines, rest = data.split(b"\n")
            for line in lines:
                self._offset += len(line) + 1
                skipped, self._in_long_line = self._in_long_line or len(line) > MAX_LINE_BYTES, False
                if not skipped:
                    yield line
            if len(rest) > MAX_LINE_BYTES:
                self._offset += len(rest)
                self._in_long_line = True
            if len(data) < MAX_LOOK_BYTES:  # the rest is being written
                return


def home_of(environment: Mapping[str, str]) -> Path:
    """The home directory of a tool with this environment."""
    home = environment.get("HOME")
    return Path(home) if home else Path.home()


def folder_of(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    """The folder that a variable names, or else the usual one in the home directory."""
    named = environment.get(variable)
    return Path(named) if named else home_of(environment) / usual


def newest(folder: UntrustedFolder, pattern: str) -> str | None:
    """The newest file that matches, by its path from the folder. In each part `*` matches anything."""
    found = max(_matching(folder, pattern.split("/")), key=lambda entry: entry.changed_ns, default=None)
    return None if found is None else found.name


def _matching(folder: UntrustedFolder, parts: list[str]) -> Iterator[Entry]:
    """The files that match, in folders that changed last first. The search ends when many entries were seen."""
    ahead, seen = [("", 0)], 0
    while ahead and seen < MAX_ENTRIES:
        at, depth = ahead.pop()
        part, is_last = parts[depth], depth == len(parts) - 1
        try:
            entries = _entries(folder, at, part, is_last=is_last)
        except OSError:  # a link, another user's, or deleted meanwhile
            continue
        seen += len(entries) or 1
        fitting = [entry for entry in entries if entry.is_folder is not is_last and fnmatchcase(entry.name, part)]
        for entry in sorted(fitting, key=lambda entry: entry.changed_ns):
            path = f"{at}/{entry.name}" if at else entry.name
            if is_last:
                yield entry._replace(name=path)
            else:
                ahead.append((path, depth + 1))


def _entries(folder: UntrustedFolder, at: str, part: str, *, is_last: bool) -> list[Entry]:
    """The entries that may match a part. For a plain name nothing is listed: folders have thousands of sessions."""
    if "*" not in part:
        status = folder.status(f"{at}/{part}" if at else part) if is_last else None
        return [Entry(part, status is None, status.st_mtime_ns if status else 0, 0)]
    return folder.entries(at or ".")


def time_of(event: Event) -> int | None:
    """UTC milliseconds of an event, from its ISO `timestamp`."""
    try:
        return round(datetime.fromisoformat(event.name("timestamp") or "").timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def check_session(call: RunnerRequest, assignment: ThreadAssignment | None, command: Command) -> None:
    """Raise InvalidInput for a session that is new here, when the tool cannot report unknown sessions."""
    requested = assignment is not None and assignment.how == BY_SESSION_ID
    if call.session is not None and requested and not command.session_unknown:
        message = f'The session "{call.session}" is unknown here, and its tool stores none.'
        raise InvalidInput(message, value=call.session, field="session", hint="Name a thread or a channel.")


def session_gone(call: RunnerRequest, result: RunnerResult, unknown_session: tuple[bytes, ...], stderr: bytes) -> bool:
    """Whether a failed tool reports an unknown session. Such a run has spent nothing."""
    spent = result.tokens_in + result.tokens_out + result.tokens_cached
    text = stderr + (result.error or "").encode()
    return (
        call.session is not None
        and not result.succeeded
        and not spent
        and any(phrase in text for phrase in unknown_session)
    )
