"""The folder of keeper and wardens: a lock, sockets, and the files of runs. Only this user can read it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

from matins.net.peer import peer_uid

KEEPER = "keeper.sock"
LOCK = "keeper.lock"
LOG = "keeper.log"
SCRATCH = "scratch"
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

    def run_path(self, name: str) -> str:
        return path_in(self.path, name)

    def connect(self, name: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
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

    def close(self) -> None:
        os.close(self.runs_fd)
        os.close(self.fd)

    def _address(self, name: str) -> str:
        # A socket address holds 107 bytes; a path through a descriptor always fits.
        return f"/proc/self/fd/{self.fd}/{name}" if sys.platform == "linux" else f"{self.path}/{name}"


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
