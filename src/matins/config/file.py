"""The configuration file: read, parsed, and written only in the parts that change."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from matins.config import cortex, reader
from matins.config.interpretation import Interpretation, interpret
from matins.config.reader import ParsedFile
from matins.errors import MOVED, Conflict, InvalidInput, StoreUnavailable
from matins.records.kind import RecordContext
from matins.texts.atomic_file import TextFile, follow_link, other_writers, read, replace

NOWHERE = "there is no file"
_NO_PROFILES = cortex.Profiles()


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


class ConfigFile:
    def __init__(self, path: str | Path, folder: int | None = None) -> None:
        """`folder` is a descriptor of the directory in which the file is, wherever that is moved."""
        self.path = Path(path).expanduser().absolute()
        self._folder = folder
        self.state = FileState("unread")
        self.written: str | None = None
        """The digest of the text that Matins wrote last, which is not a change."""
        self._read: tuple[str, ParsedFile] | None = None

    @property
    def cortex(self) -> bool:
        """Whether the file is Cortex's schedules.json."""
        return self.path.suffix == ".json"

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
        return Content(file.text, sha256(file.text.encode()).hexdigest(), file)

    def parse(self, text: str) -> ParsedFile:
        """The parsed text. The last result is cached: the text rarely changes."""
        known = self._read  # another thread may parse another text meanwhile
        if known is None or known[0] != text:
            self._read = known = text, cortex.read(text) if self.cortex else reader.read(text)
        return known[1]

    def interpret(self, text: str, context: RecordContext, profiles: cortex.Profiles = _NO_PROFILES) -> Interpretation:
        """`profiles` are for Cortex's file."""
        parsed = self.parse(text)
        return interpret(
            cortex.with_profiles(parsed, profiles) if self.cortex else parsed, context, loosely=self.cortex
        )

    def profile_in(self, text: str) -> str | None:
        """The profile that a text of Cortex's has for tasks without one of their own."""
        return self.parse(text).simple.get(cortex.PROFILE) if self.cortex else None

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
        self.written = sha256(text.encode()).hexdigest()
        return Content(text, self.written, before.file)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Treat the written text as a change again if the transaction fails."""
        try:
            yield
        except BaseException:
            self.written = None
            raise


def _is_at(folder: int, path: Path) -> bool:
    """Whether the directory of the descriptor is still at its path."""
    try:
        return os.path.samestat(os.fstat(folder), path.stat())
    except FileNotFoundError:
        return False
