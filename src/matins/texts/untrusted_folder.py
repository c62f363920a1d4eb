"""Folders that an agent can write: the one way into them, and files in them.

A folder that an agent can write, used from outside its walls. Nothing else opens, lists or changes what is in it.

Each path is walked from the descriptor of the folder, and no link is followed. Only regular files are read, and only so
much of them; a file is written by a new one that takes its place. Standard library only: wardens use it too.

The folders of Matins that this process uses. A path that an agent can change must not lead into them.

A path that the owner wrote as one inside them stays usable: there agents can write only their own folders, and no link
is followed.

A text file that an agent can write, and that Matins changes: read up to a bound, and replaced atomically.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from matins.errors import InvalidInput
from matins.texts.atomic_file import TextFile, decoded, file_error, mark_of
from matins.texts.beneath import (
    FOLDER,
    INTO_HOME,
    SAFE_FILE,
    Identities,
    Refused,
    identities,
    leads_into,
    open_beneath,
    open_named_folder,
    read_named,
    read_regular,
)

MAX_BYTES = 1_000_000
MAX_ENTRIES, MAX_DEPTH = 10_000, 16
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_LOCK = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Entry(NamedTuple):
    """A folder or a regular file."""

    name: str
    is_folder: bool
    changed_ns: int
    size: int


class UntrustedFolder:
    """Use it in `with`: it holds a descriptor."""

    def __init__(
        self, path: str | os.PathLike[str] | int, forbidden: Identities = frozenset(), owner: int | None = None
    ) -> None:
        """`path` is the owner's own: its links are followed. It must not lead into a folder of `forbidden`.

        It may be a descriptor, which the caller closes.

        `owner` is the account of the agent, if it has one: only its files are used, and new ones are given to it.
        """
        self._owner = owner
        self._fd = os.dup(path) if isinstance(path, int) else open_named_folder(os.fspath(path))
        try:
            if owner is not None and os.fstat(self._fd).st_uid != owner:
                raise Refused(str(path), "it belongs to another user")
            if leads_into(self._fd, forbidden):
                raise Refused(str(path), INTO_HOME)
        except OSError:
            os.close(self._fd)
            raise

    def __enter__(self) -> UntrustedFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def below(self, name: str) -> UntrustedFolder:
        """A folder in it, no link. The caller closes it."""
        folder = self._walk(name, FOLDER)
        try:
            return UntrustedFolder(folder, owner=self._owner)
        finally:
            os.close(folder)

    def read(self, name: str, limit: int = MAX_BYTES, offset: int = 0) -> bytes:
        """At most `limit` bytes from `offset` on."""
        with self._opened(name) as file:
            return os.pread(file, limit, offset)

    def read_whole(self, name: str, limit: int = MAX_BYTES) -> bytes:
        """The whole file. One that is larger than the limit is refused."""
        with self._opened(name) as file:
            return read_regular(file, name, limit)

    def status(self, name: str) -> os.stat_result:
        """The status of a regular file."""
        with self._opened(name) as file:
            return os.fstat(file)

    def replace(
        self,
        name: str,
        data: bytes,
        mode: int = 0o600,
        ids: tuple[int, int] | None = None,
        unless: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Write a new file, which takes the place of what is there: a link is replaced, not followed.

        `ids` are the user and the group that the file belongs to, if they are not ours. If `unless` is true at the last
        moment, nothing is replaced, and the result is False.
        """
        with self._parent(name) as (folder, last):
            new = f".{last[:200]}.{secrets.token_hex(8)}"
            file = os.open(new, _NEW_FILE, 0o600, dir_fd=folder)
            replaced = False
            try:
                try:
                    self._write(file, data, mode, ids)
                finally:
                    os.close(file)
                if not unless():
                    os.rename(new, last, src_dir_fd=folder, dst_dir_fd=folder)
                    replaced = True
            finally:
                if not replaced:
                    with suppress(FileNotFoundError):
                        os.unlink(new, dir_fd=folder)
            os.fsync(folder)
        return replaced

    def _write(self, file: int, data: bytes, mode: int, ids: tuple[int, int] | None) -> None:
        self._give(file, self._owner)
        status = os.fstat(file)
        if ids is not None and ids != (status.st_uid, status.st_gid):
            os.fchown(file, *ids)
        os.fchmod(file, mode)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)

    def make_folder(self, name: str, owner: int | None = None) -> None:
        """Create a folder and its missing parents, for its owner only. `owner` gets the last one, if it is new."""
        made = ""
        for part in name.split("/"):
            made = f"{made}/{part}" if made else part
            with self._parent(made) as (folder, last):
                try:
                    os.mkdir(last, 0o700, dir_fd=folder)
                except FileExistsError:
                    os.close(open_beneath(folder, last, FOLDER | os.O_NOFOLLOW))
                    continue
                child = open_beneath(folder, last, FOLDER | os.O_NOFOLLOW)
                try:
                    given_to = self._owner if owner is None or made != name else owner
                    if given_to is not None and os.listdir(child):  # noqa: PTH208
                        raise Refused(name, "another folder was put in its place")
                    self._give(child, given_to)
                finally:
                    os.close(child)

    def delete(self, name: str, *, is_folder: bool = False) -> None:
        """Delete a file, or an empty folder, if it is there."""
        with self._parent(name) as (folder, last), suppress(FileNotFoundError):
            (os.rmdir if is_folder else os.unlink)(last, dir_fd=folder)

    def entries(self, name: str = ".", most: int | None = None) -> list[Entry]:
        """The folders and regular files of a folder. Links, pipes and the like are left out."""
        folder, most = self._walk(name, FOLDER), most or MAX_ENTRIES
        try:
            found: list[Entry] = []
            with os.scandir(folder) as listed:
                for number, entry in enumerate(listed):
                    if number >= most:
                        raise Refused(name, f"it has more than {most:,} entries")
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        is_folder = stat.S_ISDIR(status.st_mode)
                        if is_folder or stat.S_ISREG(status.st_mode):
                            found.append(Entry(entry.name, is_folder, status.st_mtime_ns, status.st_size))
            return found
        finally:
            os.close(folder)

    def walk(self, name: str = ".") -> Iterator[Entry]:
        """All files below a folder, by their paths from it. It is bounded, however deep and wide the folder is."""
        ahead, seen = [("", MAX_DEPTH)], 0
        while ahead:
            at, left = ahead.pop()
            for entry in self.entries(f"{name}/{at}" if at else name):
                seen += 1
                if seen > MAX_ENTRIES:
                    raise Refused(name, f"it has more than {MAX_ENTRIES:,} entries")
                path = f"{at}/{entry.name}" if at else entry.name
                if not entry.is_folder:
                    yield entry._replace(name=path)
                elif left > 1:
                    ahead.append((path, left - 1))

    def matching(self, pattern: str, unseen: Identities = frozenset()) -> Iterator[Entry]:
        """The files that match a pattern such as `reports/*.pdf` or `**/*.csv`, by their paths. Folders of Matins, and
        those of `unseen`, are passed over. It is bounded as `walk` is."""
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if ".." in parts or pattern.startswith("/"):
            raise Refused(pattern, "it leads out of the folder")
        own, ahead, seen = forbidden() | unseen, [("", parts)], 0
        while ahead:
            at, (part, *rest) = ahead.pop()
            if part == "**" and rest:
                ahead.append((at, rest))
            for entry in self._entries_beside(at, own):
                seen += 1
                if seen > MAX_ENTRIES:
                    raise Refused(pattern, f"it leads through more than {MAX_ENTRIES:,} entries")
                path = f"{at}/{entry.name}" if at else entry.name
                if part == "**" and entry.is_folder and path.count("/") < MAX_DEPTH:
                    ahead.append((path, [part, *rest]))
                elif entry.is_folder and rest and fnmatchcase(entry.name, part):
                    ahead.append((path, rest))
                elif not entry.is_folder and not rest and (part == "**" or fnmatchcase(entry.name, part)):
                    yield entry._replace(name=path)

    def _entries_beside(self, name: str, own: Identities) -> list[Entry]:
        """The entries of a folder, unless it is one of Matins, or gone."""
        try:
            folder = self._walk(name or ".", FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return []
        try:
            status = os.fstat(folder)
        finally:
            os.close(folder)
        return [] if (status.st_dev, status.st_ino) in own else self.entries(name or ".")

    def open_lock(self, name: str) -> int:
        """A file to lock, created if it is missing. The caller closes it."""
        with self._parent(name) as (folder, last):
            file = os.open(last, _LOCK, 0o644, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refused(name, "it is not a regular file")
        except OSError:
            os.close(file)
            raise
        return file

    # -- descriptors

    @contextmanager
    def _opened(self, name: str) -> Generator[int]:
        file = self._walk(name, SAFE_FILE)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(name, "it is not a regular file")
            if self._owner is not None and status.st_uid != self._owner:
                raise Refused(name, "it belongs to another user")
            if status.st_nlink > 1 and (self._owner is not None or os.geteuid() == 0):
                raise Refused(name, "it has a second name")  # it may be a file that its user cannot read
            yield file
        finally:
            os.close(file)

    def _give(self, file: int, owner: int | None) -> None:
        if owner is not None:
            os.fchown(file, owner, -1)

    @contextmanager
    def _parent(self, name: str) -> Generator[tuple[int, str]]:
        parent, _, last = name.rpartition("/")
        if last in ("", ".", ".."):
            raise Refused(name, "it names no file")
        folder = self._walk(parent or ".", FOLDER)
        try:
            yield folder, last
        finally:
            os.close(folder)

    def _walk(self, name: str, flags: int) -> int:
        return open_beneath(self._fd, name, flags | os.O_NOFOLLOW)


class OwnFolders:
    """The folders of one scheduler, which are protected until it is closed or gone."""

    def __init__(self, find: Callable[[], Iterable[Path]]) -> None:
        self.find = find
        with _OWN_LOCK:
            _DECLARED.add(self)

    def close(self) -> None:
        with _OWN_LOCK:
            _DECLARED.discard(self)


_OWN_LOCK = threading.Lock()
_DECLARED: WeakSet[OwnFolders] = WeakSet()


def forbidden() -> Identities:
    """The folders, as they are now."""
    return identities(_folders())


def read_file(path: str | Path, limit: int) -> bytes:
    """The content of a regular file that the owner named. Raises `Refused` if it leads into a folder of Matins."""
    inside = _inside(path)
    file = None if inside is None else _opened(inside, SAFE_FILE)
    if file is None:
        return read_named(os.fspath(path), limit, forbidden())
    try:
        return read_regular(file, os.fspath(path), limit)
    finally:
        os.close(file)


def open_folder(
    path: str | Path, owner: int | None = None, within: str | Path | None = None, unseen: Identities = frozenset()
) -> UntrustedFolder:
    """A folder that the owner named and that an agent can write. Raises `Refused` if it leads into one of Matins, or of
    `unseen`.

    A path inside those of Matins must be below `within`: there an agent names only what is its own.
    """
    inside = _inside(path) if within is None or _is_below(path, within) else None
    folder = None if inside is None else _opened(inside, FOLDER)
    if folder is None:
        return UntrustedFolder(path, forbidden() | unseen, owner)
    try:
        return UntrustedFolder(folder, unseen, owner)
    finally:
        os.close(folder)


def open_or_make_folder(path: Path) -> UntrustedFolder:
    """A folder that the owner named; it and its missing parents are made, for the owner only."""
    try:
        return open_folder(path)
    except FileNotFoundError:
        if path.parent == path:
            raise
    with open_or_make_folder(path.parent) as parent:
        parent.make_folder(path.name)
    return open_folder(path)


class _Inside(NamedTuple):
    folder: str
    rest: str


def _parts(path: str | Path) -> list[str]:
    text = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
    return [part for part in text.split("/") if part not in ("", ".")]


def _is_below(path: str | Path, folder: str | Path) -> bool:
    """Whether a path is written as the folder, or as one below it."""
    base = _parts(folder)
    return _parts(path)[: len(base)] == base


def _inside(path: str | Path) -> _Inside | None:
    """The folder of Matins inside which a path is written, and the rest of it. Links play no part."""
    parts = _parts(path)  # ".." stays: it is not followed below a folder
    for folder in _folders():
        for form in (os.path.abspath(folder), os.path.realpath(folder)):  # noqa: PTH100
            own = form.strip("/").split("/")
            if parts[: len(own)] == own:
                return _Inside(form, "/".join(parts[len(own) :]) or ".")
    return None


def _opened(inside: _Inside, flags: int) -> int | None:
    """The file or folder; None if a link is on the way: then it may lead out, and must not lead in."""
    folder = os.open(inside.folder, FOLDER)
    try:
        return open_beneath(folder, inside.rest, flags)
    except Refused:
        return None
    finally:
        os.close(folder)


def _folders() -> list[Path]:
    with _OWN_LOCK:
        owners = list(_DECLARED)
    return [folder for owner in owners for folder in owner.find()]


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


@contextmanager
def open_memory(workdir: str, name: str) -> Generator[UntrustedFolder]:
    """The memory of the agent that works in a folder. Raises InvalidInput if there is a link, or
    anything else that is no folder; NoMemory if there is nothing."""
    path = Path(workdir, name)
    base = Path(name).parent if Path(name).is_absolute() else Path(workdir)
    try:
        with open_folder(base, within=workdir) as folder, folder.below(str(path.relative_to(base))) as memory:
            yield memory
    except FileNotFoundError:
        raise NoMemory(f"{path} is not a folder.", value=name, field="folder", hint=f"mkdir {path}") from None
    except OSError as error:
        message = f"{path} cannot be used: {error.strerror}."
        raise InvalidInput(message, value=name, field="folder", hint="Name the folder itself.") from None


class NoMemory(InvalidInput):
    """There is no such folder."""
