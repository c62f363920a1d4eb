"""Other processes make changes through the socket of the engine that owns the file."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from house import ordinary_account
from matins import (
    Matins,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from matins.api.schedules import Api
from matins.api.use_case import USE_CASES
from matins.errors import NotAllowed
from matins.model.access import Principal
from matins.surfaces.transports.socket import OwnerSocket, OwnerSocketServer, _error, answer, answers

YEARLY = "0 0 1 1 *"


def nested(depth: int) -> bytes:
    begin = b'{"call": "schedules.add", "arguments": {"name": "deep", "when": "1h", "job": "work", "payload": '
    return begin + b"[" * depth + b"]" * depth + b"}}\n"


class Beside:
    """An engine that owns a file, and another process's way to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self.ran = threading.Semaphore(0)
        self.owner = Matins(self.url)
        self.owner.job("work")(lambda run: self.ran.release())
        self.owner.start()
        self.guest = Matins(self.url)

    @property
    def socket(self) -> Path:
        return Path(f"{self.path}.sock")

    def close(self) -> None:
        self.guest.close()
        self.owner.close()


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    built = Beside(tmp_path / "m.db")
    yield built
    built.close()


def test_s7_a_change_from_outside_wakes_the_engine_at_once(beside: Beside) -> None:
    """S7 H2: the engine sleeps for up to a second; a guest's run must not wait for that"""
    beside.guest.add("yearly", when=YEARLY, job="work", payload={"x": [1, None]})
    run = beside.guest.run("yearly", key="now")
    assert beside.ran.acquire(timeout=90)
    assert beside.guest.run("yearly", key="now").id == run.id
    assert beside.owner.get("yearly").settings["payload"] == {"x": [1, None]}


def test_a_second_engine_is_refused(beside: Beside) -> None:
    with pytest.raises(StoreBusy, match="Another engine"):
        beside.guest.start(strict=True)


def test_a_real_process_goes_through_too(beside: Beside) -> None:
    code = (
        "import sys; from matins import Matins; m = Matins(sys.argv[1]);"
        f"print(m.add('outside', when='{YEARLY}', job='work').id, m.run('outside').state)"
    )
    result = subprocess.run([sys.executable, "-c", code, beside.url], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[1] == "ready"
    assert beside.ran.acquire(timeout=90)


def test_without_an_engine_the_file_is_ours_for_a_moment(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'm.db'}"
    first, second = Matins(url), Matins(url)
    for one in (first, second):
        one.job("work")(lambda run: None)
    first.add("a", when=YEARLY, job="work")
    second.add("b", when=YEARLY, job="work")
    assert [schedule.name for schedule in first.list()] == ["a", "b"]
    first.close()
    second.close()


def test_an_engine_that_died_is_not_waited_for(tmp_path: Path) -> None:
    """The lock goes with its process; what is left in the lock file and on the socket does not matter."""
    path = tmp_path / "m.db"
    code = (
        "import os, sys; from matins import Matins; m = Matins(sys.argv[1]);"
        "m.job('work')(print); m.start(); m.add('a', when='0 0 1 1 *', job='work'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, f"sqlite:///{path}"], timeout=60)
    assert Path(f"{path}.sock").exists()
    m = Matins(f"sqlite:///{path}")
    m.job("work")(lambda run: None)
    m.add("b", when=YEARLY, job="work")
    with m:
        assert len(m.list()) == 2
    m.close()


def test_a_stop_does_not_wait_behind_callers_that_nobody_accepts(beside: Beside, tmp_path: Path) -> None:
    """S2: more of them come than the socket's queue holds, while the server ends. The engine would never stop."""
    server = OwnerSocketServer(tmp_path / "m.sock", beside.owner._service)
    server._server.shutdown()
    server._server.socket.listen(5)  # a queue that fewer fill than an account may open files
    callers = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    with ExitStack() as stack:
        for caller in callers:
            stack.enter_context(caller)
            caller.setblocking(False)
        assert errno.EAGAIN in (caller.connect_ex(str(tmp_path / "m.sock")) for caller in callers)
        closing = threading.Thread(target=server.close, daemon=True)
        closing.start()
        closing.join(60)
        assert not closing.is_alive()


def test_only_its_owner_may_open_the_socket(beside: Beside) -> None:
    mode = beside.socket.stat()
    assert stat.S_IMODE(mode.st_mode) == 0o600
    assert mode.st_uid == os.getuid()


@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        b"\xff\xfe\n",
        b"{}\n",
        b"[]\n",
        b'{"call": "close", "arguments": {}}\n',
        b'{"call": "_store", "arguments": {}}\n',
        b'{"call": "__class__", "arguments": {}}\n',
        b'{"call": "schedules.get"}\n',
        b'{"call": "schedules.get", "arguments": [1]}\n',
        b'{"call": "schedules.get", "arguments": {"name": "a", "nonsense": 1}}\n',
        b'{"call": "schedules.get", "arguments": {"name": "a", "principal": {"role": "owner"}}}\n',
        b'{"call": 5, "arguments": {}}\n',
        b'{"call": [], "arguments": {}}\n',
        *(nested(depth) for depth in (150, 500, 1_000, 1_020, 50_000)),
    ],
)
def test_nonsense_is_answered_with_an_error_and_the_socket_lives(beside: Beside, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(90)
        connection.connect(str(beside.socket))
        connection.sendall(line)
        answered = json.loads(connection.makefile("rb").readline())
    assert answered["error"]["class"] == "InvalidInput"
    beside.guest.add("after", when=YEARLY, job="work")


def test_a_fault_of_ours_is_logged_and_not_shown(beside: Beside, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def invoke(self, *arguments: object) -> None:
            raise ValueError("secret: /home/ada")

    error = json.loads(answer(Broken(), b'{"call": "system.stats", "arguments": {}}'))["error"]
    assert (error["class"], error["message"]) == ("MatinsError", "The engine that owns the store failed.")
    assert "secret: /home/ada" in caplog.text


def test_trouble_of_the_store_comes_back_as_itself() -> None:
    class Away:
        def invoke(self, *arguments: object) -> None:
            raise StoreUnavailable("It does not answer.", hint="Start it.")

    error = _error(json.loads(answer(Away(), b'{"call": "system.stats", "arguments": {}}'))["error"])
    assert (type(error), error.message, error.hint) == (StoreUnavailable, "It does not answer.", "Start it.")


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        Api(OwnerSocket(tmp_path / "nobody.sock")).list()


@pytest.mark.parametrize(
    "principal", [Principal("viewer", "ada"), Principal("operator", "ada"), Principal("agent", "scout")], ids=str
)
def test_only_the_owner_acts_beside_the_engine_of_another_process(beside: Beside, principal: Principal) -> None:
    """No principal crosses the socket: others need a token. What they may read, they read"""
    beside.owner.add("a", when=YEARLY, job="work")
    guest = beside.guest.acting_as(principal)
    with pytest.raises(NotAllowed, match="Only the owner can act beside the engine of another process") as caught:
        guest.pause("a")
    assert caught.value.hint == "Use a token and the API of that process: matins tokens create NAME"
    assert beside.owner.get("a").state == "active"
    seen, whole = guest.get("a"), beside.owner.get("a")
    assert seen.next_run_at == whole.next_run_at
    assert seen == whole or principal.role == "agent"  # an agent sees the words of its own schedules


@pytest.mark.parametrize("claim", ["principal", "run", "run_id", "role", "as", "token"])
def test_b16_a_claim_beside_the_call_changes_nothing(beside: Beside, claim: str) -> None:
    """B16: who calls is known by the credentials of the peer alone"""
    who = {"role": "agent", "name": "scout", "run_id": 7}
    line = json.dumps({"call": "system.whoami", "arguments": {}, claim: who}).encode()
    found = json.loads(answer(beside.owner._service, line))["result"]
    assert (found["role"], found["name"]) == ("owner", "owner")
    inside = json.dumps({"call": "system.whoami", "arguments": {claim: who}}).encode()
    assert json.loads(answer(beside.owner._service, inside))["error"]["class"] == "InvalidInput"


def test_another_user_is_turned_away(beside: Beside, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the credentials of the peer, whatever the mode of the file"""
    path = tmp_path / "other.sock"
    with closing(OwnerSocketServer(path, beside.owner._service)):
        monkeypatch.setattr("matins.surfaces.transports.socket.os.getuid", lambda: os.geteuid() + 1)
        monkeypatch.setattr("matins.surfaces.transports.socket._check_peer", lambda *_: None)  # the server's is left
        with pytest.raises(StoreUnavailable):
            OwnerSocket(path).call(USE_CASES["system.whoami"], {})


def test_a_listener_of_another_user_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client asks the kernel who listens, before it says anything. Root may listen."""
    path, heard = tmp_path / "false.sock", []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def listen() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(90)
                    heard.append(connection.recv(100))
                if len(heard) == 2:
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        monkeypatch.setattr("matins.surfaces.transports.socket.peer_uid", lambda sock: os.getuid() + 1)
        with pytest.raises(StoreError, match="belongs to another user"):
            OwnerSocket(path).call(USE_CASES["system.whoami"], {})
        assert not answers(path)
        thread.join(90)
    assert heard == [b"", b""]


_CALLER = """
import sys
from pathlib import Path
from matins.api.schedules import Api
from matins.surfaces.transports import socket
socket.peer_uid = lambda sock: 0  # only the check of the server is left
try:
    print(Api(socket.OwnerSocket(Path(sys.argv[1]))).system.whoami())
except Exception as error:
    print(error)
"""
_LISTENER = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o777)
    listener.listen()
    print("listening", flush=True)
    print(listener.accept()[0].recv(100), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another account")
def test_b16_a_second_account_is_refused_on_both_sides(beside: Beside) -> None:
    """B16: a real one, on a socket that everybody may open; neither side tells it anything"""
    with ordinary_account() as other:
        path = other.home / "ours.sock"
        with closing(OwnerSocketServer(path, beside.owner._service)):
            path.chmod(0o777)
            command = [sys.executable, "-c", _CALLER, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, **other.process)
            assert done.stdout.startswith("The engine that owns the store "), done.stdout  # hangs up, early or late
        theirs = other.home / "theirs.sock"
        command = [sys.executable, "-c", _LISTENER, str(theirs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **other.process) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "listening\n"
            with pytest.raises(StoreError, match="belongs to another user"):
                OwnerSocket(theirs).call(USE_CASES["system.whoami"], {})
            assert listener.stdout.readline() == "b''\n"


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder in which a socket has room for its path, whatever the test and its account are called."""
    with tempfile.TemporaryDirectory(prefix="matins-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("wrong", ["open to others", "a link", "another user's"])
def test_the_folder_of_sockets_in_the_temporary_folder_must_be_ours(
    short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Where the path beside the store is too long. Who else made it could listen, or put a link in the way."""
    shared = short_path
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    folder = shared / f"matins-{os.getuid()}"
    long = tmp_path / ("long" * 25)
    long.mkdir()
    url = f"sqlite:///{long}/m.db"
    if wrong == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir(mode=0o700)
        folder.chmod(0o755 if wrong == "open to others" else 0o700)
    if wrong == "another user's":
        if os.getuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(folder, 65_534, 65_534)
    with closing(Matins(url)) as m, pytest.raises(StoreError, match="is not safe for a socket"):
        m.start()
    with pytest.raises(StoreError, match="is not safe for a socket"):
        OwnerSocket(folder / "x.sock").call(USE_CASES["system.whoami"], {})
    folder.unlink() if wrong == "a link" else folder.rmdir()
    with closing(Matins(url)) as m:
        m.start()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_events_are_followed_over_the_socket(beside: Beside) -> None:
    beside.owner.add("a", when=YEARLY, job="work")
    events = Api(OwnerSocket(beside.socket)).events.follow(after=0, types="schedule.created")
    assert next(events).schedule == "a"
    beside.owner.add("b", when=YEARLY, job="work")
    assert next(events).schedule == "b"
