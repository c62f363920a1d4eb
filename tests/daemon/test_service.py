"""`matins service`, under a systemd that is process 1 of namespaces of its own, and what it refuses elsewhere."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from matins.daemon import service as services
from matins.daemon.service import service
from matins.errors import Conflict, InvalidInput
from matins.surfaces.home import Home, RunningDaemon

SYSTEMD = Path("/lib/systemd/systemd")
MATINS = [sys.executable, "-P", "-m", "matins"]
AS_DAEMON = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups", "env", "HOME=/run/user/1"]
Run = Callable[..., subprocess.CompletedProcess[str]]
needs_systemd = pytest.mark.skipif(
    os.geteuid() != 0 or not SYSTEMD.exists() or shutil.which("nsenter") is None,
    reason="only root can start a systemd of its own, where the machine has one",
)


@pytest.fixture
def machine() -> Iterator[Run]:
    script = Path(__file__).with_name("systemd_machine.sh")
    command = ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--cgroup", "--mount-proc", "sh", str(script)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/") as outside:
        try:
            pid = _child(outside)

            def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
                inside = ["nsenter", "-t", pid, "-m", "-p", "-C", *map(str, words)]
                return subprocess.run(inside, capture_output=True, text=True, cwd="/", timeout=120)

            _until(lambda: run("systemctl", "is-system-running").stdout.strip() == "running")
            yield run
        finally:
            outside.kill()


def _child(outside: subprocess.Popen[bytes]) -> str:
    children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
    _until(lambda: bool(children.read_text().split()))
    return children.read_text().split()[0]


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 90
    while not true():
        assert time.monotonic() < end, "it did not come true in 90 s"
        time.sleep(0.05)


def state(run: Run, name: str, *user: str) -> str:
    return run(*user, "systemctl", *(["--user"] if user else []), "show", "-P", name, "matins").stdout.strip()


@needs_systemd
def test_the_service_of_the_machine(machine: Run, tmp_path: Path) -> None:
    """It is installed, comes back after a crash, is replaced, refuses what does not start, and goes away."""
    installed = machine(*MATINS, "--json", "service", "install")
    assert installed.returncode == 0, installed.stderr
    found = json.loads(installed.stdout)
    assert (found["path"], found["home"]) == ("/etc/systemd/system/matins.service", "/var/lib/matins")
    assert found["commands"][-1] == "systemctl restart matins.service"
    first = state(machine, "MainPID")
    assert machine("stat", "-c", "%U", f"/proc/{first}").stdout == "matins\n"
    assert machine("cat", found["path"]).stdout == found["text"]

    machine("kill", "-9", first)
    _until(lambda: state(machine, "MainPID") not in ("0", first) and state(machine, "ActiveState") == "active")

    refused = machine(*MATINS, "--store", "postgresql://me:hunter2@127.0.0.1:1/x", "service", "install")
    assert refused.returncode == 1
    assert "systemctl restart matins.service did not work" in refused.stderr
    assert machine("cat", found["path"]).stdout == found["text"], "the service that worked is back"
    assert state(machine, "ActiveState") == "active"
    assert machine("ls", "-A", "/etc/matins").stdout == "", "the URL with the password is gone"

    removed = machine(*MATINS, "service", "rm")
    assert "The store stays in /var/lib/matins." in removed.stdout
    assert state(machine, "ActiveState") == "inactive"
    assert machine("ls", "-A", "/etc/systemd/system").stdout == "user-manager.service\n"
    assert "matins.db\n" in machine("ls", "/var/lib/matins").stdout
    again = machine(*MATINS, "service", "rm")
    assert "There is no service at /etc/systemd/system/matins.service." in again.stderr


@needs_systemd
def test_the_service_of_a_user(machine: Run) -> None:
    """It is that user's, and the command says that it ends with the session where nothing can prevent that."""
    assert machine("systemctl", "start", "user-manager").returncode == 0
    installed = machine(*AS_DAEMON, *MATINS, "service", "install")
    assert installed.returncode == 0, installed.stderr
    assert "Wrote /run/user/1/.config/systemd/user/matins.service:" in installed.stdout
    assert "The daemon stops when you log out" in installed.stderr, "there is no loginctl that answers here"
    in_session = [*AS_DAEMON, "XDG_RUNTIME_DIR=/run/user/1"]
    assert state(machine, "ActiveState", *in_session) == "active"
    assert machine(*AS_DAEMON, *MATINS, "status").returncode == 0
    assert machine(*AS_DAEMON, *MATINS, "service", "rm").returncode == 0
    assert state(machine, "ActiveState", *in_session) == "inactive"


@needs_systemd
def test_an_account_that_cannot_start_it(machine: Run) -> None:
    """A Python in a closed folder of root: nothing is installed, and the hint says where to."""
    machine("mkdir", "-m", "700", "-p", "/run/closed")
    machine("ln", "-s", sys.executable, "/run/closed/python")
    code = f"import sys; sys.executable = '/run/closed/python'; from {services.__name__} import service; "
    code += "service().install()"
    refused = machine(sys.executable, "-P", "-c", code)
    assert 'The account "matins" cannot start Matins: Permission denied' in refused.stderr
    assert machine("test", "-e", "/etc/systemd/system/matins.service").returncode == 1


@pytest.fixture
def systemd_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(services, "_SYSTEMD_RUNS", tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.usefixtures("systemd_here")
def test_a_file_of_another_is_kept(tmp_path: Path) -> None:
    found = service(home=tmp_path, system=False)
    found.path.parent.mkdir(parents=True)
    found.path.write_text("[Unit]\n")
    for change in (found.install, found.remove):
        with pytest.raises(Conflict, match=r"matins\.service was not written by Matins"):
            change()
    assert found.path.read_text() == "[Unit]\n"


@pytest.mark.usefixtures("systemd_here")
def test_a_daemon_that_runs_already_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    home.lock()
    home.announce(RunningDaemon("http://127.0.0.1:1", os.getpid(), "2026-11-19T09:00:00Z", home.store, None))
    found = service(home=home.path, system=False)
    with pytest.raises(Conflict, match=f"runs already: process {os.getpid()}") as refused:
        found.install()
    assert "Stop it first" in str(refused.value.hint)
    assert not found.path.exists()


def test_without_systemd_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(services, "_SYSTEMD_RUNS", tmp_path / "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with pytest.raises(InvalidInput, match="systemd does not run on this machine") as refused:
        service(home=tmp_path, system=False).install()
    assert "--print" in str(refused.value.hint)
    assert not (tmp_path / "config").exists()


def test_on_macos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    found = service("postgresql://me@db/x", tmp_path / "a & b.yaml", tmp_path, system=False)
    assert found.path == Path("~/Library/LaunchAgents/matins.plist").expanduser()
    settings = plistlib.loads(found.text.encode())
    start = [sys.executable, "-P", "-m", "matins", "--home", str(tmp_path), "up"]
    assert settings["ProgramArguments"] == [
        *start, "--store", "postgresql://me@db/x", "--file", f"{tmp_path}/a & b.yaml"
    ]  # fmt: skip
    assert (settings["RunAtLoad"], settings["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert settings["AbandonProcessGroup"], "agents outlive the daemon, and the next one takes them over"
    with pytest.raises(InvalidInput, match="the URL has a password") as refused:
        service("postgresql://me:hunter2@db/x", home=tmp_path, system=False)
    assert "hunter2" not in str(refused.value)
