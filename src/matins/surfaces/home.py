"""Where this user's daemon is found, and the key to it. Quick to load: every command begins here."""

from __future__ import annotations

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

from matins.errors import StoreBusy, StoreError

_PASSWORD = re.compile(r"([?&](?:ssl)?password=)[^&]*")
_PATIENCE = 50
_LOOK_S = 0.02


class Running(NamedTuple):
    """What a daemon says of itself."""

    url: str
    pid: int
    started_at: str
    store: str
    """Without a password."""
    file: str | None


class Home:
    """A folder that nobody else may look into: the store, who runs on it, and the owner's token for local commands.

    The daemon holds a lock on what it says of itself for as long as it lives. So a command knows whether it may send
    its token there, also when the daemon was killed and somebody else listens on its port now.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = (Path(path).expanduser() if path else default_home()).absolute()
        self.store = f"sqlite:///{self.path}/matins.db"
        self.file = self.path / "matins.yaml"
        self._said = self.path / "daemon.json"
        self._key = self.path / "token"
        self._held: int | None = None

    def running(self) -> Running | None:
        """The daemon that answers; None when there is none, or it is only about to."""
        try:
            file = os.open(self._said, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self._said} cannot be read: {error.strerror}", hint="is it another user's?") from error
        with os.fdopen(file, "rb") as opened:
            if _lock(file, fcntl.LOCK_SH):
                return None
            return _parsed(opened.read())

    def token(self) -> str | None:
        return self._key.read_text(encoding="ascii").strip() if self._key.exists() else None

    # -- for the daemon

    def make(self) -> None:
        from matins.texts.whole_file import strangers  # commands only look where a daemon is, and are quick

        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = self.path.stat()
        if why := strangers(status.st_uid, status.st_mode):  # a link of theirs would have us empty another file
            hint = f"chown and chmod go= {shlex.quote(str(self.path))}, or another folder: --home DIR"
            raise StoreError(f"{self.path} is not used: {why}", hint=hint)

    def enter(self) -> None:
        """From now on this process is the daemon here; what another left behind is cleaned."""
        for _ in range(_PATIENCE):  # a command that looks has the lock for a moment too
            file = os.open(self._said, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _lock(file, fcntl.LOCK_EX) and _is_still(file, self._said):
                os.ftruncate(file, 0)
                self._held = file
                return
            os.close(file)
            time.sleep(_LOOK_S)
        raise self._taken()

    def announce(self, running: Running) -> None:
        """Say where it is, once it answers."""
        assert self._held is not None
        os.pwrite(self._held, json.dumps(running._asdict()).encode(), 0)

    def hush(self) -> None:
        """It does not answer any more, and has not left yet."""
        if self._held is not None:
            os.ftruncate(self._held, 0)

    def keep_token(self, token: str) -> None:
        """At once or not at all, and for nobody else to read."""
        new = self._key.with_suffix(".new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        new.replace(self._key)

    def leave(self) -> None:
        if self._held is not None:
            self._said.unlink(missing_ok=True)
            os.close(self._held)
            self._held = None

    def _taken(self) -> StoreBusy:
        there = self.running()
        who = "Another daemon" if there is None else f"A daemon (process {there.pid})"
        stop = "stop it" if there is None else f"kill {there.pid}"
        return StoreBusy(
            f"{who} runs in {self.path} already",
            hint=f"use it: matins list; or stop it first: {stop}; or run another one elsewhere: --home DIR",
        )


def default_home() -> Path:
    said = os.environ.get("MATINS_HOME")
    return Path(said).expanduser() if said else usual_home()


def usual_home() -> Path:
    """Where it is when nobody says anything."""
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local/share") / "matins"


@contextmanager
def private_files() -> Generator[None]:
    """What is made meanwhile is nobody else's to read. Before there are threads: it counts for the whole process."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def whole(store: str) -> str:
    """The same store wherever one stands."""
    path = path_of(store)
    return store if path is None else f"sqlite:///{path}"


def shown(store: str) -> str:
    """Without its password."""
    secret = urlsplit(store).password
    told = store if not secret else store.replace(f":{secret}@", ":…@", 1)
    return _PASSWORD.sub(r"\1…", told)


def path_of(store: str) -> Path | None:
    """The file that a SQLite store is."""
    name = store.removeprefix("sqlite:///")
    return None if name in ("", store) else Path(name).expanduser().absolute()


def _lock(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(file: int, path: Path) -> bool:
    """Whoever left last may have removed what was opened here."""
    try:
        return os.fstat(file).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _parsed(text: bytes) -> Running | None:
    try:
        said: dict[str, Any] = json.loads(text)
        return Running(**said)
    except (ValueError, TypeError):
        return None  # it is about to say
