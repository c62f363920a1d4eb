"""The configuration file: read, parsed, and written only in the parts that change."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from matins.config import reader
from matins.config.interpretation import Interpretation, interpret
from matins.config.reader import ParsedFile
from matins.engine.policies import Policies
from matins.errors import MOVED, Conflict, InvalidInput, StoreUnavailable
from matins.model.clock import Clock
from matins.model.schedule import ScheduleDefinition
from matins.plugins import installed
from matins.records.kind import RecordContext
from matins.store import Store
from matins.store.transaction import Transaction
from matins.texts.atomic_file import TextFile, follow_link, other_writers, read, replace

NOWHERE = "there is no file"
FORMATS = "matins.file_formats"
_OWN_SUFFIXES = (".yaml", ".yml")


class Content(NamedTuple):
    text: str
    digest: str
    file: TextFile | None
    """None when there is no file."""


class FileState(NamedTuple):
    """The state of the file after the last check."""

    state: Literal["unread", "applied", "waits", "invalid"]
    message: str = ""
    digest: str = ""


class NewEntry(NamedTuple):
    """A schedule as a format writes it."""

    name: str
    added_to: Callable[[str], str]
    """From the text of a file to the text with this schedule."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A format of the configuration file. The defaults are those of Matins' own; another system's file changes them."""

    suffix: str
    read: Callable[[str], ParsedFile]
    complete: Callable[[ParsedFile, Transaction, Policies], ParsedFile] = lambda parsed, transaction, policies: parsed
    """Adds what the text leaves to the store, such as the agents of schedules."""
    default_agent: Callable[[ParsedFile], str | None] = lambda parsed: None
    """The agent that the file has for schedules without one."""
    agents_must_exist: bool = True
    entry_of: Callable[[str | None, str, ScheduleDefinition], NewEntry | None] = lambda name, agent, definition: None
    """A new schedule, by name and agent, that is to be added to the file; None if it belongs in the store."""
    without: Callable[[str, str], str] | None = None
    """The text without a schedule. Then nothing else is edited; None for a file that says itself what may be edited."""
    refresh: Callable[[Store, Clock, ConfigFile], bool] | None = None
    """Writes computed values into the file, if there are any. Returns whether the file was written."""
    not_pausable: Callable[[ScheduleDefinition], str | None] = lambda definition: None
    """Why a schedule of the file cannot be paused; None if it can."""


_OWN = FileFormat(suffix=_OWN_SUFFIXES[0], read=reader.read)


def file_format(path: str | Path) -> FileFormat:
    """The format of a file, by the suffix of its name. An unknown suffix is taken for Matins' own."""
    suffix = Path(path).suffix
    if suffix in _OWN_SUFFIXES:  # the usual one, which needs no plug-ins
        return _OWN
    return next((known for known in installed(FORMATS).values() if known.suffix == suffix), _OWN)


class ConfigFile:
    def __init__(self, path: str | Path, folder: int | None = None, *, shared: bool = False) -> None:
        """`folder` is a descriptor of the directory in which the file is, wherever that is moved."""
        self.path = Path(path).expanduser().absolute()
        self.format = file_format(self.path)
        self._folder = folder
        self.state = FileState("unread")
        self.written: str | None = None
        """The digest of the text that Matins wrote last, which is not a change."""
        self._read: tuple[str, ParsedFile] | None = None
        self.node: str | None = None
        """The node that follows the file; None where a person applies it."""
        self.shared = shared
        """Whether machines share the store."""

    def read(self) -> Content:
        """The content of the file now; empty when there is no file."""
        try:
            os.stat(self.path if self._folder is None else self.path.name, dir_fd=self._folder)
        except FileNotFoundError:
            return Content("", NOWHERE, None)
        except OSError:
            pass  # the read below raises the error
        file = read(self.path, self._folder)
        if why := other_writers(file.owner[0], file.mode):
            hint = f"Only its owner may write it: chown and chmod go-w {shlex.quote(str(self.path))}"
            raise InvalidInput(f"{self.path} is not used: {why}.", value=str(self.path), field="file", hint=hint)
        return Content(file.text, digest_of(file.text), file)

    @property
    def called(self) -> Sequence[str]:
        """Where it is, as machines name it: by the node, by the host."""
        return [f"{name}:{self.path}" for name in (self.node, socket.gethostname()) if name is not None]

    @property
    def places(self) -> Sequence[str]:
        """The places as a store keeps them: those of one machine without its name, also when it was moved to a
        server."""
        return [*self.called, str(self.path)] if self.shared else [str(self.path)]

    def parse(self, text: str) -> ParsedFile:
        """The parsed text. The last result is cached: the text rarely changes."""
        known = self._read  # another thread may parse another text meanwhile
        if known is None or known[0] != text:
            self._read = known = text, self.format.read(text)
        return known[1]

    def interpret(self, parsed: ParsedFile, context: RecordContext) -> Interpretation:
        return interpret(parsed, context, loosely=not self.format.agents_must_exist)

    def replace(self, before: Content, text: str) -> Content:
        """Write the text. Raises Conflict if the file was saved since it was read."""
        assert before.file is not None
        if self._folder is not None and not _is_at(self._folder, self.path.parent):
            raise StoreUnavailable(f"{self.path.parent} was moved or replaced.", hint=MOVED)
        try:
            done = replace(follow_link(self.path), before.file, text)
        except OSError as error:
            hint = "Check the free space and the permissions of its directory."
            message = f"{self.path} cannot be written: {error.strerror or error}."
            raise StoreUnavailable(message, hint=hint) from error
        if not done:
            raise Conflict(
                f"{self.path} was changed while it was being written.", value=str(self.path), hint="Try again."
            )
        self.written = digest_of(text)
        return Content(text, self.written, before.file)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Treat the written text as a change again if the transaction fails."""
        try:
            yield
        except BaseException:
            self.written = None
            raise


class SentFile(ConfigFile):
    """A text that a person applies from elsewhere. `place` says from where: laptop:/home/ana/matins.yaml."""

    def __init__(self, place: str, text: str, *, shared: bool) -> None:
        super().__init__(place, shared=shared)
        self.path = Path(place)
        self._content = Content(text, digest_of(text), TextFile(text, 0, (0, 0), (0, 0, 0, 0)))

    @property
    def places(self) -> Sequence[str]:
        return [str(self.path)]

    def read(self) -> Content:
        return self._content


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _is_at(folder: int, path: Path) -> bool:
    """Whether the directory of the descriptor is still at its path."""
    try:
        return os.path.samestat(os.fstat(folder), path.stat())
    except FileNotFoundError:
        return False
