"""The file itself: read whole, understood, and written by us only in the parts that change."""

from __future__ import annotations

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from matins.config import cortex, reader
from matins.config.interpretation import Interpretation, interpret
from matins.config.reader import ParsedFile
from matins.errors import Conflict, InvalidInput, StoreUnavailable
from matins.records.kind import RecordContext
from matins.texts.atomic_file import TextFile, follow_link, other_writers, read, replace

NOWHERE = "there is no file"


class Content(NamedTuple):
    text: str
    digest: str
    file: TextFile | None
    """None where there is no file."""


class FileState(NamedTuple):
    """What became of the file when it was last looked at."""

    state: Literal["unread", "applied", "waits", "invalid"]
    message: str = ""
    digest: str = ""


class ConfigFile:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().absolute()
        self.state = FileState("unread")
        self.written: str | None = None
        """The digest of what we wrote last: it is no news."""
        self._read: tuple[str, ParsedFile] | None = None

    @property
    def cortex(self) -> bool:
        """Whether it is Cortex's schedules.json."""
        return self.path.suffix == ".json"

    def read(self) -> Content:
        """As it is now; where there is none, nothing."""
        try:
            self.path.stat()
        except FileNotFoundError:
            return Content("", NOWHERE, None)
        except OSError:
            pass  # told below, in words
        file = read(self.path)
        if why := other_writers(file.owner[0], file.mode):
            hint = f"Only its owner may write it: chown and chmod go-w {shlex.quote(str(self.path))}"
            raise InvalidInput(f"{self.path} is not used: {why}.", value=str(self.path), field="file", hint=hint)
        return Content(file.text, sha256(file.text.encode()).hexdigest(), file)

    def parse(self, text: str) -> ParsedFile:
        """Most looks find the text as it was at the last one."""
        known = self._read  # others may look at another text meanwhile
        if known is None or known[0] != text:
            self._read = known = text, cortex.read(text) if self.cortex else reader.read(text)
        return known[1]

    def interpret(self, text: str, context: RecordContext) -> Interpretation:
        return interpret(self.parse(text), context, loosely=self.cortex)

    def replace(self, before: Content, text: str) -> Content:
        """Write it, unless somebody has saved it since it was read."""
        assert before.file is not None
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
        """Should the store not learn what we write meanwhile, it is news after all."""
        try:
            yield
        except BaseException:
            self.written = None
            raise
