"""Other processes change things through the socket of the engine that owns the file."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from matins import (
    Conflict,
    InvalidInput,
    JobRun,
    Matins,
    NotFound,
    RunState,
    StoreBusy,
    StoreUnavailable,
    parse_trigger,
)
from matins.model.principal import OWNER
from matins.surfaces.control import answer, call_owner

YEARLY = "0 0 1 1 *"


class House:
    """An engine that owns a file, and a door for others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self.ran = threading.Semaphore(0)
        self.owner = Matins(self.url)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.owner.job("work")(lambda run: self.ran.release())
        self.owner.job("block")(self._block)
        self.owner.start()
        self.guest = Matins(self.url)

    def _block(self, run: JobRun) -> None:
        self.begun.set()
        self.go_on.wait(90)

    @property
    def socket(self) -> Path:
        return Path(f"{self.path}.sock")

    def close(self) -> None:
        self.go_on.set()
        self.guest.close()
        self.owner.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    built = House(tmp_path / "m.db")
    yield built
    built.close()


def test_s7_a_change_from_outside_wakes_the_engine_at_once(house: House) -> None:
    """S7 H2: the engine sleeps for up to a second; a guest's run must not wait for that"""
    house.guest.add("yearly", when=YEARLY, do="work", payload={"x": [1, None]})
    run = house.guest.run("yearly", key="now")
    assert house.ran.acquire(timeout=90)
    assert house.guest.run("yearly", key="now").id == run.id
    assert house.owner.get("yearly").definition.payload == {"x": [1, None]}


def test_every_change_goes_through(house: House) -> None:
    guest = house.guest
    assert guest.add("a", when=parse_trigger("5m"), do="work", agent="x").agent == "x"
    assert len(guest.add_many([{"name": f"n{i}", "when": YEARLY, "do": "work"} for i in range(3)])) == 3
    assert guest.edit("a", retries=2).definition.retries == 2
    assert guest.pause("a", note="maintenance").state == "paused"
    assert house.owner.get("a").note == "maintenance"
    assert guest.resume("a").state == "active"
    guest.limit("agent:x", 2)
    assert guest.remove("a") is True
    assert guest.remove("a") is False
    assert [schedule.name for schedule in guest.list()] == ["n0", "n1", "n2"]
    assert guest.verify_audit() == []


def test_a_waiting_run_is_cancelled(house: House) -> None:
    house.guest.limit("agent:x", 1)
    for name, job in (("first", "block"), ("second", "work")):
        house.guest.add(name, when=YEARLY, do=job, agent="x")
    house.guest.run("first")
    assert house.begun.wait(90)
    waiting = house.guest.run("second")
    assert house.guest.cancel(waiting.id).state is RunState.CANCELLED
    with pytest.raises(Conflict, match="is over"):
        house.guest.cancel(waiting.id)


def test_errors_come_back_as_themselves(house: House) -> None:
    house.guest.add("a", when=YEARLY, do="work")
    with pytest.raises(Conflict) as caught:
        house.guest.add("a", when=YEARLY, do="work")
    assert (caught.value.value, caught.value.field) == ("a", "name")
    assert caught.value.hint
    with pytest.raises(NotFound, match='There is no schedule "b"'):
        house.guest.pause("b")
    with pytest.raises(InvalidInput) as bad:
        house.guest.add("c", when=YEARLY, do="work", overlap="maybe")
    assert bad.value.field == "overlap"


def test_a_second_engine_is_refused(house: House) -> None:
    with pytest.raises(StoreBusy, match="Another engine"):
        house.guest.start()


def test_a_real_process_goes_through_too(house: House) -> None:
    code = (
        "import sys; from matins import Matins; m = Matins(sys.argv[1]);"
        f"print(m.add('outside', when='{YEARLY}', do='work').id, m.run('outside').state.word)"
    )
    result = subprocess.run([sys.executable, "-c", code, house.url], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[1] == "ready"
    assert house.ran.acquire(timeout=90)


def test_without_an_engine_the_file_is_ours_for_a_moment(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'm.db'}"
    first, second = Matins(url), Matins(url)
    first.add("a", when=YEARLY, do="work")
    second.add("b", when=YEARLY, do="work")
    assert [schedule.name for schedule in first.list()] == ["a", "b"]
    first.close()
    second.close()


def test_an_engine_that_died_is_not_waited_for(tmp_path: Path) -> None:
    """The lock goes with its process; what is left in the lock file and on the socket does not matter."""
    path = tmp_path / "m.db"
    code = (
        "import os, sys; from matins import Matins; m = Matins(sys.argv[1]);"
        "m.start(); m.add('a', when='0 0 1 1 *', do='work'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, f"sqlite:///{path}"], timeout=60)
    assert Path(f"{path}.sock").exists()
    m = Matins(f"sqlite:///{path}")
    m.add("b", when=YEARLY, do="work")
    with m:
        assert len(m.list()) == 2
    m.close()


def test_only_its_owner_may_open_the_socket(house: House) -> None:
    mode = house.socket.stat()
    assert stat.S_IMODE(mode.st_mode) == 0o600
    assert mode.st_uid == os.getuid()


@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        b"{}\n",
        b"[]\n",
        b'{"call": "close", "arguments": [], "options": {}}\n',
        b'{"call": "_store", "arguments": [], "options": {}}\n',
        b'{"call": "__class__", "arguments": [], "options": {}}\n',
        b'{"call": "get", "arguments": [], "options": {"nonsense": 1}}\n',
        b'{"call": 5, "arguments": [], "options": {}}\n',
    ],
)
def test_nonsense_is_answered_with_an_error_and_the_socket_lives(house: House, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(90)
        connection.connect(str(house.socket))
        connection.sendall(line)
        answered = json.loads(connection.makefile("rb").readline())
    assert answered["error"]["class"] == "InvalidInput"
    house.guest.add("after", when=YEARLY, do="work")


def test_an_answer_is_json_whatever_is_asked(house: House) -> None:
    assert "error" in answer(house.owner._service, b"\xff\xfe")


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        call_owner(tmp_path / "nobody.sock", OWNER, "list")
