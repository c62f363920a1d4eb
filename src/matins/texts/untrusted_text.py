"""A text file that an agent can write, and that Matins changes: read up to a bound, and replaced atomically."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from matins.errors import InvalidInput
from matins.texts.atomic_file import TextFile, decoded, file_error, mark_of
from matins.texts.own_folders import open_folder
from matins.texts.untrusted_folder import MAX_BYTES, UntrustedFolder


class UntrustedText:
    """One file in an open folder. A link in the place of the file or of the folder is not followed."""

    def __init__(self, folder: UntrustedFolder, path: Path) -> None:
        self.path = path
        self._folder = folder

    def read(self) -> TextFile:
        try:
            status = self._folder.status(self.path.name)  # first: a change after it is noticed
            data = self._folder.read_whole(self.path.name, MAX_BYTES)
        except OSError as error:
            raise self._error(error) from None
        ids = status.st_uid, status.st_gid
        return TextFile(decoded(self.path, data), stat.S_IMODE(status.st_mode), ids, mark_of(status))

    def read_if_there(self) -> TextFile | None:
        """None when there is no such file."""
        if not os.path.lexists(self.path):  # what is there is looked at by `read`
            return None
        return self.read()

    def replace(self, before: TextFile | None, text: str) -> bool:
        """Replace the file, or create it. False when it has changed since it was read. Raises OSError when it cannot be
        written."""
        if before is None:
            return self._folder.replace(self.path.name, text.encode(), 0o644)
        return self._folder.replace(
            self.path.name, text.encode(), before.mode, before.owner, lambda: self._mark() != before.mark
        )

    def _mark(self) -> tuple[int, int, int, int]:
        return mark_of(self._folder.status(self.path.name))

    def open_lock(self) -> int:
        """A file of its own beside this one, which is replaced. It stays, so that all use the same."""
        lock = f"{self.path.name}.lock"
        try:
            self._folder.status(self.path.name)  # where there is no such file, nothing is created
        except OSError as error:
            raise self._error(error) from None
        try:
            return self._folder.open_lock(lock)
        except OSError as error:
            raise file_error(self.path.with_name(lock), error.strerror or str(error)) from None

    def _error(self, error: OSError) -> InvalidInput:
        if self.path.is_symlink():
            hint = f"Name the file itself: {os.path.realpath(self.path)}."
            return InvalidInput(f"{self.path.name} is a link.", value=str(self.path), field="path", hint=hint)
        return file_error(self.path, error.strerror or str(error))


@contextmanager
def open_text(path: Path, within: str | Path | None = None) -> Generator[UntrustedText]:
    """The file at a path that the owner named; for `within` see `open_folder`."""
    try:
        folder = open_folder(path.parent, within=within)
    except OSError as error:
        raise file_error(path, error.strerror or str(error)) from None
    with folder:
        yield UntrustedText(folder, path)
