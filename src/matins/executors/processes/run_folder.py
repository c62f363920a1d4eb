"""The folder of keeper and wardens: a lock, sockets, and the files of runs. Only this user can read it.

One append-only file for each run and epoch. The first complete line names the owner of the run.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import socket
import sys
from typing import Any, cast

from matins.executors.processes import proc
from matins.net.peer import peer_uid

KEEPER = "keeper.sock"
LOCK = "keeper.lock"
LOG = "keeper.log"
SCRATCH = "scratch"
_NONCE = "nonce"
_RUNS = "runs"
_BACKLOG = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class RunFolder:
    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100 - keeps symlinks
        for folder in (self.path, f"{self.path}/{_RUNS}"):
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        self.fd = os.open(self.path, _FOLDER)
        self.runs_fd = os.open(_RUNS, _FOLDER, dir_fd=self.fd)
        self.nonce = self._read_nonce()
        """Identifies the folder: another one at the same path, or an emptied one, has no evidence of earlier runs."""

    def run_path(self, name: str) -> str:
        return path_in(self.path, name)

    def connect(self, name: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)  # a listener that is stopped and has too many clients already would keep us
        try:
            sock.connect(self._address(name))
        except BaseException:
            sock.close()
            raise
        return sock

    def listen(self, name: str) -> socket.socket:
        """A listening socket. Its name appears only when clients can connect."""
        listener = socket.socket(socket.AF_UNIX)
        self.remove(f"{name}.new")
        listener.bind(self._address(f"{name}.new"))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        os.rename(f"{name}.new", name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        return listener

    def make(self, name: str) -> str:
        """The path of a folder in here."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self.fd)
        return f"{self.path}/{name}"

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    def wardens(self) -> list[proc.Process]:
        """The living processes that have a socket here."""
        found = [proc.find(*_identity(name)) for name in self._warden_sockets()]
        return [process for process in found if process is not None]

    def dead_sockets(self) -> list[str]:
        return [name for name in self._warden_sockets() if proc.find(*_identity(name)) is None]

    def _warden_sockets(self) -> list[str]:
        with os.scandir(self.fd) as entries:
            return [entry.name for entry in entries if re.fullmatch(r"\d+-\d+\.sock", entry.name)]

    def close(self) -> None:
        os.close(self.runs_fd)
        os.close(self.fd)

    def _read_nonce(self) -> str:
        """Read the nonce, and create it first in a new folder. It is durable before a journal is."""
        new = f"{_NONCE}.{os.getpid()}.{secrets.token_hex(4)}"
        while True:
            with contextlib.suppress(FileNotFoundError):
                file = os.open(_NONCE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self.fd)
                try:
                    return os.read(file, 64).decode("ascii").strip()
                finally:
                    os.close(file)
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
            try:
                os.write(file, f"{secrets.token_hex(8)}\n".encode())
                os.fsync(file)
            finally:
                os.close(file)
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(new, _NONCE, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            os.unlink(new, dir_fd=self.fd)
            os.fsync(self.fd)

    def _address(self, name: str) -> str:
        # A socket address holds 107 bytes; a path through a descriptor always fits.
        return f"/proc/self/fd/{self.fd}/{name}" if sys.platform == "linux" else f"{self.path}/{name}"


def _identity(name: str) -> tuple[int, int]:
    """Pid and start time of a warden, by the name of its socket."""
    pid, _, start = name.removesuffix(".sock").partition("-")
    return int(pid), int(start)


def path_in(folder: str, name: str) -> str:
    """The path of a run's file."""
    return f"{folder}/{_RUNS}/{name}"


def accept(listener: socket.socket) -> socket.socket | None:
    """The connection of a client, if the same user runs it."""
    try:
        sock, _ = listener.accept()
    except OSError:
        return None
    if peer_uid(sock) != os.geteuid():
        sock.close()
        return None
    return sock


WARDEN = "MATINS_WARDEN"
Record = dict[str, Any]
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def name_of(run_id: int, epoch: int, incarnation: str = "") -> str:
    """The name of an attempt. A store that was set back gives its ids again, under another incarnation."""
    return f"{run_id}-{epoch}-{incarnation}" if incarnation else f"{run_id}-{epoch}"


def warden_name(pid: int, start: int) -> str:
    """The name of a warden: of its socket, and the mark in the environment of its processes."""
    return f"{pid}-{start}"


def open_run(runs: int, name: str, *, create: bool = True) -> int:
    """Open a journal. `runs` is the descriptor of the folder."""
    return os.open(name, _FLAGS | (os.O_CREAT if create else 0), 0o600, dir_fd=runs)


def append(journal: int, record: Record) -> None:
    """Append in one write. Line feeds on both sides separate it from a line that a full disk truncated."""
    line = b"\n%s\n" % json.dumps(record).encode("ascii")
    if os.write(journal, line) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def records(journal: int) -> list[Record]:
    """The complete lines, in order."""
    whole = os.pread(journal, os.fstat(journal).st_size, 0)
    *lines, _ = whole.split(b"\n")
    return [record for line in lines if line and (record := _parsed(line)) is not None]


def _parsed(line: bytes) -> Record | None:
    """The record of a line; None for a truncated line."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return cast("Record", record) if isinstance(record, dict) else None
