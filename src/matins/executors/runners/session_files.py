"""Files in which tools record what a session uses. Nothing about them is promised: what cannot be read is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from matins.executors.runners.protocol import SessionUsage
from matins.executors.runners.tool_events import Event, read_event


class SessionAccount(Protocol):
    """Adds up the events of a file."""

    problem: str | None

    def add(self, event: Event) -> None: ...
    def usage(self) -> SessionUsage | None: ...


class JsonLinesLedger:
    """A ledger in one file per session, which only grows: one JSON object per line, most with a `timestamp`."""

    def __init__(self, find: Callable[[str], Path | None], account: Callable[[], SessionAccount]) -> None:
        self._find = find
        self._make_account = account
        self._account = account()
        self._path: Path | None = None
        self._offset = 0

    def usage(self, session: str, before: int | None = None) -> SessionUsage | None:
        try:
            return self._so_far(session) if before is None else self._as_of(session, before)
        except OSError:
            return None

    def problem(self, session: str) -> str | None:
        self.usage(session)
        return self._account.problem

    def _so_far(self, session: str) -> SessionUsage | None:
        """Only what is new is read: this is called several times a second."""
        self._path = self._path or self._find(session)
        if self._path is None:
            return None
        for line in _complete_lines(self._path, self._offset):
            self._offset += len(line)
            event = read_event(line)
            if event is not None:
                self._account.add(event)
        return self._account.usage()

    def _as_of(self, session: str, before: int) -> SessionUsage | None:
        path, account, at = self._find(session), self._make_account(), 0
        for line in _complete_lines(path, 0) if path is not None else ():
            event = read_event(line)
            at = (time_of(event) or at) if event is not None else at
            if at >= before:
                break
            if event is not None:
                account.add(event)
        return account.usage()


def home_of(environment: Mapping[str, str]) -> Path:
    """The home directory of a tool with this environment."""
    home = environment.get("HOME")
    return Path(home) if home else Path.home()


def folder_of(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    """The folder that a variable names, or else the usual one in the home directory."""
    named = environment.get(variable)
    return Path(named) if named else home_of(environment) / usual


def newest(folder: Path, pattern: str) -> Path | None:
    """The newest file that matches."""
    try:
        return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns, default=None)
    except OSError:
        return None


def time_of(event: Event) -> int | None:
    """UTC milliseconds of an event, from its ISO `timestamp`."""
    try:
        return round(datetime.fromisoformat(event.name("timestamp") or "").timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _complete_lines(path: Path, offset: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return  # it is being written
            yield line
