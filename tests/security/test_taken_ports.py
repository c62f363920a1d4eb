"""A program that takes the port of a daemon that is gone gets no token. A run may wait for that moment."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from house import House
from matins.surfaces.home import Home


class Taker:
    """Listens where the daemon did, and keeps what is sent to it."""

    def __init__(self, port: int) -> None:
        self.heard: list[bytes] = []
        self.called = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.heard.append(connection.recv(65_536))
            self.called.set()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path / "home").up()
    yield one
    one.kill()


@contextmanager
def command(house: House, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command of the owner that goes on."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "matins", *words], env=house.environment, cwd=house.home.parent, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def taken(house: House) -> Iterator[Taker]:
    """The daemon is killed, and another program listens on its port."""
    port = urlsplit(house.url).port
    assert port is not None
    house.client.close()
    house.signal(signal.SIGKILL)
    house.ended()
    taker = Taker(port)
    try:
        yield taker
    finally:
        taker.close()


def test_b16_a_command_that_follows_events_tells_no_token(house: House) -> None:
    """B16: it connects again, and what listens is not the daemon"""
    with command(house, "events", "--follow") as following:
        assert following.stdout is not None
        for name in ("first", "second", "third"):  # the last one comes by the stream
            house.ask("tokens.create", name=name, role="agent")
            assert any(f"name={name}" in line for line in following.stdout)
        following.send_signal(signal.SIGSTOP)  # it looks again when the port is taken, and not before
        with taken(house) as taker:
            following.send_signal(signal.SIGCONT)
            said = following.stdout.read()
    assert "has stopped" in said
    assert taker.heard
    assert not any(taker.heard), taker.heard


def test_b16_the_tools_of_a_client_tell_no_token(house: House) -> None:
    """B16: each call of the bridge is a connection of its own"""
    ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}) + "\n"
    with command(house, "mcp", "--client", "editor") as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None

        def answer() -> dict[str, object]:
            assert bridge.stdin is not None
            assert bridge.stdout is not None
            bridge.stdin.write(ask)
            bridge.stdin.flush()
            return json.loads(bridge.stdout.readline())

        assert "result" in answer()  # control
        with taken(house) as taker:
            found = answer()
            assert taker.called.wait(60)
    assert "does not answer" in str(found["error"])
    assert not any(taker.heard), taker.heard


def test_b16_a_daemon_is_the_one_that_has_the_home(house: House) -> None:
    """B16: at its own address, and as long as it lives"""
    home, url = Home(house.home), house.url
    home.check_running(url)
    with pytest.raises(ConnectionRefusedError):
        home.check_running("http://127.0.0.1:1")
    house.client.close()
    os.kill(house.process.pid, signal.SIGKILL)
    house.ended()
    with pytest.raises(ConnectionRefusedError):
        home.check_running(url)
