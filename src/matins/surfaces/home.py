"""The directory of this user's daemon, with its URL and token. It loads quickly, since every command uses it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from matins.errors import InvalidInput, StoreBusy, StoreError, unwritable

_PASSWORD = re.compile(r"([?&](?:ssl)?password=)[^&]*")
_LOCK_ATTEMPTS = 50
_RETRY_S = 0.02


class RunningDaemon(NamedTuple):
    """A running daemon, from `daemon.json`."""

    url: str
    pid: int
    started_at: str
    store: str
    """The URL of the store, without a password."""
    file: str | None
    inbound: str | None = None
    """The URL of the listener for inbound endpoints; None when the API serves them."""


class TokenFile(NamedTuple):
    """A token in a file that only its owner can read."""

    path: Path

    def read(self) -> str | None:
        return self.path.read_text(encoding="ascii").strip() if self.path.exists() else None

    def write(self, token: str) -> None:
        """Write the token atomically."""
        with unwritable(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = self.path.with_suffix(".new")
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(token + "\n")
            new.replace(self.path)


class Home:
    """A directory that only its owner can read: the store, the running daemon, and the owner's token for commands.

    The daemon locks `daemon.json` while it lives. A command sends its token only while the file is locked: after the
    daemon was killed, another program may listen on its port.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = (Path(path).expanduser() if path else default_home()).absolute()
        self.store = f"sqlite:///{self.path}/matins.db"
        self.file = self.path / "matins.yaml"
        self._description = self.path / "daemon.json"
        self.own_token = TokenFile(self.path / "token")
        self._lock_fd: int | None = None
        self.folder: int | None = None
        """A descriptor of the directory, for the daemon: what is put in its place later is another one."""

    def running(self) -> RunningDaemon | None:
        """The running daemon; None when there is none, or it does not answer yet."""
        try:
            file = os.open(self._description, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            hint = f"Check its owner and mode: ls -l {shlex.quote(str(self._description))}"
            raise StoreError(f"{self._description} cannot be read: {error.strerror}.", hint=hint) from error
        with os.fdopen(file, "rb") as opened:
            if _lock(file, fcntl.LOCK_SH):
                return None
            return _parsed(opened.read())

    def check_running(self, url: str) -> None:
        """Raise ConnectionRefusedError unless the daemon at this URL lives: it is the one that listens there."""
        running = self.running()
        if running is None or running.url != url.rstrip("/"):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the daemon has stopped, and another program may listen")

    def token(self) -> str | None:
        return self.own_token.read()

    def mcp_token(self, client: str) -> TokenFile:
        """The token of the agent of an MCP client."""
        return TokenFile(self.path / "mcp" / f"{re.sub(r'[^A-Za-z0-9_-]', '_', client)}.token")

    # -- for the daemon

    def make(self) -> None:
        from matins.texts.atomic_file import other_writers  # commands do not need this import

        with unwritable(self.path):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = os.fstat(self.folder)
        if reason := other_writers(status.st_uid, status.st_mode):  # their link could make the daemon empty a file
            hint = f"Make it yours (chown, chmod go= {shlex.quote(str(self.path))}), or use another: --home DIR"
            raise StoreError(f"The directory {self.path} is not safe: {reason}.", hint=hint)

    def lock(self) -> None:
        """Become the daemon of this directory. The entry of a killed daemon in `daemon.json` is cleared."""
        for _ in range(_LOCK_ATTEMPTS):  # commands take the lock for a moment too
            with unwritable(self._description):
                file = os.open(self._description, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _lock(file, fcntl.LOCK_EX) and _is_still(file, self._description):
                os.ftruncate(file, 0)
                self._lock_fd = file
                return
            os.close(file)
            time.sleep(_RETRY_S)
        raise self._in_use()

    def announce(self, running: RunningDaemon) -> None:
        """Publish the daemon, which answers now."""
        assert self._lock_fd is not None
        os.pwrite(self._lock_fd, json.dumps(running._asdict()).encode(), 0)

    def withdraw(self) -> None:
        """Clear the published entry, because the daemon stops."""
        if self._lock_fd is not None:
            os.ftruncate(self._lock_fd, 0)

    def write_token(self, token: str) -> None:
        self.own_token.write(token)

    def unlock(self) -> None:
        if self._lock_fd is not None:
            self._description.unlink(missing_ok=True)
            os.close(self._lock_fd)
            self._lock_fd = None
        if self.folder is not None:
            os.close(self.folder)
            self.folder = None

    def _in_use(self) -> StoreBusy:
        daemon = self.running()
        who = "Another daemon" if daemon is None else f"A daemon (process {daemon.pid})"
        stop = "" if daemon is None else f"stop it (kill {daemon.pid}), "
        hint = f"Use it (matins list), {stop}or use another directory: --home DIR"
        return StoreBusy(f"{who} already runs in {self.path}.", hint=hint)


def default_home() -> Path:
    home = os.environ.get("MATINS_HOME")
    if not home:
        return user_data_home()
    path = Path(home).expanduser()
    if not path.is_absolute():  # in another directory it would be another home, and empty
        hint = f"Give the full path: export MATINS_HOME={shlex.quote(str(path.absolute()))}"
        raise InvalidInput(f'MATINS_HOME must be a full path, not "{home}".', value=home, field="home", hint=hint)
    return path


def user_data_home() -> Path:
    """The directory when neither `--home` nor MATINS_HOME is given."""
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local/share") / "matins"


@contextmanager
def private_files() -> Generator[None]:
    """Make new files readable by their owner only. The umask belongs to the whole process: use this before threads
    start."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def absolute_url(store: str) -> str:
    """The URL of a store with an absolute path."""
    path = path_of(store)
    return store if path is None else f"sqlite:///{path}"


def redacted_url(store: str) -> str:
    """The URL of a store without its password."""
    secret = urlsplit(store).password
    text = store if not secret else store.replace(f":{secret}@", ":…@", 1)
    return _PASSWORD.sub(r"\1…", text)


def path_of(store: str) -> Path | None:
    """The file of a SQLite store; None for any other."""
    name = store.removeprefix("sqlite:///")
    return None if name in ("", store) else Path(name).expanduser().absolute()


def _lock(file: int, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(file: int, path: Path) -> bool:
    """Whether the opened file is still at its path: the last daemon may have deleted it."""
    try:
        return os.fstat(file).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _parsed(text: bytes) -> RunningDaemon | None:
    try:
        document: dict[str, Any] = json.loads(text)
        return RunningDaemon(**document)
    except (ValueError, TypeError):
        return None  # it is not published yet
