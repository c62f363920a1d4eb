"""The unit for systemd, and what the daemon is when nobody says anything."""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from matins.api.schedules import Api
from matins.app import App
from matins.daemon.daemon import Daemon
from matins.daemon.service import service
from matins.daemon.systemd import watchdog_interval_s
from matins.errors import InvalidInput, StoreError
from matins.surfaces.home import Home, absolute_url, default_home, path_of, redacted_url


def read(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return {section: dict(parser[section]) for section in parser.sections()}


def unit_text(*values: Any, **settings: Any) -> str:
    return service(*values, **settings).text


def test_a_unit_of_the_user(tmp_path: Path) -> None:
    unit = read(unit_text(home=tmp_path, system=False))
    service = unit["Service"]
    assert service["ExecStart"] == f"{sys.executable} -P -m matins --home {tmp_path} up"
    assert service["WorkingDirectory"] == f"-{tmp_path}"
    assert service["Type"] == "notify"
    assert service["Restart"] == "on-failure"
    assert service["KillMode"] == "process", "agents outlive the daemon, and the next one takes them up"
    assert service["NoNewPrivileges"] == "yes"
    assert (service["WatchdogSec"], service["WatchdogSignal"]) == ("60", "SIGKILL"), "a stopped daemon is started again"
    assert "User" not in service
    assert "UMask" not in service, "agents would inherit it"
    assert unit["Install"]["WantedBy"] == "default.target"
    assert service["Environment"] == f"PATH={os.environ['PATH']}"


def test_a_unit_of_the_system() -> None:
    unit = read(unit_text(system=True))
    assert unit["Service"]["StateDirectory"] == "matins"
    assert "--home /var/lib/matins up" in unit["Service"]["ExecStart"]
    assert unit["Service"]["User"] == "matins"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_words_with_blanks_and_signs_reach_it_whole(tmp_path: Path) -> None:
    unit = read(unit_text("sqlite:///a b.db", tmp_path / "it's 100%.yaml", tmp_path, system=False))
    start = unit["Service"]["ExecStart"]
    assert f'--store "sqlite:///{Path.cwd()}/a b.db"' in start
    assert f'--file "{tmp_path}/it\'s 100%%.yaml"' in start


@pytest.mark.parametrize("planted", ["a\nExecStartPre=/bin/sh -c evil", "a\r\nUser=root", "a\0b"], ids=ascii)
def test_b16_a_path_begins_no_setting_of_a_unit(planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """B16: a name with a line break, which an agent may have made, is refused wherever it would stand"""
    for given in (
        {"home": tmp_path / planted}, {"file": tmp_path / planted}, {"store": f"sqlite:////{planted}"},
        {"store": f"postgresql://me:{planted}@db/matins"},
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="A service cannot have"):
            service(**{"home": tmp_path, **given}, system=False)
    if "\0" not in planted:
        monkeypatch.setenv("PATH", f"/usr/bin:/{planted}")
        with pytest.raises(InvalidInput, match="A service cannot have"):
            service(home=tmp_path, system=False)


def test_b16_what_systemd_would_expand_is_as_it_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/opt/$HOME/%h")
    unit = read(unit_text(home=tmp_path / "$USER%u", system=False))["Service"]
    assert "/$$USER%%u" in unit["ExecStart"]
    assert unit["Environment"] == '"PATH=/usr/bin:/opt/$HOME/%%h"', "where systemd expands no variables"


def test_a_password_is_in_no_unit(tmp_path: Path) -> None:
    text = unit_text("postgresql://me:hunter2@db/matins", home=tmp_path, system=False)
    assert "hunter2" not in text
    assert read(text)["Service"]["EnvironmentFile"] == f"{tmp_path}/environment"


def test_b16_a_module_where_it_starts_is_not_the_daemon(tmp_path: Path) -> None:
    """B16: an agent may write ~/matins.py, and a unit of the user starts there"""
    (tmp_path / "matins.py").write_text("print('not Matins')")
    start = read(unit_text(home=tmp_path / "home", system=False))["Service"]["ExecStart"].split()
    assert start[-1] == "up"
    for words, told in ((start[:-1], "matins, version"), ([sys.executable, *start[2:-1]], "not Matins")):
        command = [*words, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert told in done.stdout, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_understands_it(tmp_path: Path) -> None:
    path = tmp_path / "matins.service"
    path.write_text(unit_text(home=tmp_path, system=False))
    result = subprocess.run(["systemd-analyze", "verify", "--user", path], capture_output=True, text=True, timeout=60)
    assert "matins.service" not in result.stderr


def test_where_it_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MATINS_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_home() == tmp_path / "matins"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/not/allowed")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_home() == tmp_path / ".local/share/matins"
    monkeypatch.setenv("MATINS_HOME", str(tmp_path / "mine"))
    assert Home().path == tmp_path / "mine"
    assert Home().store == f"sqlite:///{tmp_path}/mine/matins.db"


def test_a_home_in_which_others_may_write_is_not_used(tmp_path: Path) -> None:
    """A link that they leave there would have us empty another file."""
    home = Home(tmp_path / "home")
    home.make()
    home.path.chmod(0o1777)
    with pytest.raises(StoreError, match="everyone can write to it") as refused:
        home.make()
    assert "--home DIR" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("postgresql://me:hunter2@db/matins", "postgresql://me:…@db/matins"),
        (
            "postgresql://db/matins?password=hunter2&sslmode=require",
            "postgresql://db/matins?password=…&sslmode=require",
        ),
        ("postgresql://db/matins?sslpassword=hunter2", "postgresql://db/matins?sslpassword=…"),
        ("postgresql://me@db/matins", "postgresql://me@db/matins"),
        ("sqlite:////x.db", "sqlite:////x.db"),
    ],
)
def test_a_password_is_not_told(store: str, told: str) -> None:
    assert redacted_url(store) == told


def test_the_same_store_wherever_one_stands() -> None:
    assert absolute_url("sqlite:///x.db") == f"sqlite:///{Path.cwd()}/x.db"
    assert absolute_url("sqlite:////x.db") == "sqlite:////x.db"
    assert absolute_url("postgresql://db/x") == "postgresql://db/x"
    assert path_of("sqlite://") is None


def test_a_look_makes_no_store(tmp_path: Path) -> None:
    """`matins list` on a fresh machine says that there is nothing, and leaves nothing behind."""
    home = tmp_path / "home"
    assert Api(App().transport(home=home)).list() == []
    assert not home.exists()
    named = Api(App().transport(store=f"sqlite:///{tmp_path}/none.db", home=home))
    with pytest.raises(Exception, match=r"There is no store .*none\.db"):
        named.list()
    assert list(tmp_path.iterdir()) == []


def test_a_change_without_a_daemon_makes_it_for_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "home"
    before = os.umask(0o000)
    try:
        Api(App().transport(home=home)).agents.set("scout", runner="demo")
    finally:
        os.umask(before)
    assert home.stat().st_mode & 0o777 == 0o700
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in home.glob("matins.db")} == {"matins.db": "0o600"}


def test_the_watchdog_hears_of_a_daemon_whose_engine_does_its_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of one whose loop hangs while its other threads go on."""
    daemon = Daemon(home=tmp_path / "home")
    turning = iter([True, False, False, True])

    class Engine:
        def is_turning(self) -> bool:
            answer = next(turning, None)
            if answer is None:
                daemon._on_signal(signal.SIGHUP)
            return bool(answer)

    daemon._matins = Engine()  # type: ignore[assignment]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        for name, value in {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000"}.items():
            monkeypatch.setenv(name, value)
        assert daemon._next_signal() == signal.SIGHUP
        assert [systemd.recv(100) for _ in range(2)] == [b"WATCHDOG=1"] * 2
        with pytest.raises(BlockingIOError):
            systemd.recv(100)


def test_the_watchdog_of_another_process_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    assert watchdog_interval_s() == 20
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid() + 1))
    assert watchdog_interval_s() is None
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert watchdog_interval_s() == 20
    monkeypatch.delenv("WATCHDOG_USEC")
    assert watchdog_interval_s() is None
