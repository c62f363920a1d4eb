"""A real daemon in a process of its own, and the commands that people give it."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from matins import Run
from matins.surfaces.client import Client

PATIENCE_S = 90


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MATINS_", "XDG_", "COLUMNS"))}
    return {**kept, "MATINS_HOME": str(home), "PYTHONUNBUFFERED": "1", **more}


class Ordinary(NamedTuple):
    """An account without privileges, with a folder of its own."""

    uid: int
    gid: int
    name: str
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}

    @property
    def process(self) -> dict[str, Any]:
        """The arguments of a process of this account; none where it is our own."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


@contextmanager
def ordinary_account(name: str = "matins-test") -> Iterator[Ordinary]:
    """An ordinary account, made for the tests where we are root; otherwise our own."""
    if os.geteuid() == 0:
        if subprocess.run(["id", name], capture_output=True).returncode != 0:
            subprocess.run(["useradd", "--no-create-home", name], check=True, capture_output=True)
        entry = pwd.getpwnam(name)
    else:
        entry = pwd.getpwuid(os.geteuid())
    with tempfile.TemporaryDirectory(prefix="matins-test-", ignore_cleanup_errors=True) as folder:
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        account = Ordinary(entry.pw_uid, entry.pw_gid, entry.pw_name, Path(folder))
        _check_python(account)
        yield account


def _check_python(account: Ordinary) -> None:
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, capture_output=True, **account.process)
    except (OSError, subprocess.CalledProcessError) as error:
        advice = "make clean, and make again with a Python for everybody: make PYTHON=/usr/bin/python3 test"
        raise AssertionError(f"{account.name} cannot run {sys.executable}: {advice}") from error


def read_terminal(screen: int) -> str:
    """What is printed on a terminal until every process has closed it. Closes the screen, too."""
    text = b""
    with open(screen, "rb", buffering=0) as file:
        try:
            while piece := file.read(65_536):
                text += piece
        except OSError:  # the other end is closed
            pass
    return text.decode()


class House:
    """`log` has every line of its stderr so far, `said` those of its stdout."""

    def __init__(
        self, home: Path, *words: str, program: tuple[str, ...] = (), user: Ordinary | None = None, **more: str
    ) -> None:
        self.home = home
        self.user = user
        self.environment = environment(home, **more) | (user.environment if user else {})
        self.said: list[str] = []
        self.log: list[str] = []
        self._told = threading.Condition()
        self._client: Client | None = None
        argv = program or (sys.executable, "-m", "matins", "up", "--port", "0", *words)
        self.process = subprocess.Popen(
            argv,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=home.parent,
            start_new_session=True,
            **(user.process if user else {}),
        )
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.said)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.log)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Any, lines: list[str]) -> None:
        with stream:
            for line in stream:
                with self._told:
                    lines.append(line.rstrip("\n"))
                    self._told.notify_all()
        with self._told:
            self._told.notify_all()

    def until(self, told: Callable[[], bool]) -> bool:
        """Whether it comes to be, looking at each line that it tells."""

        def settled() -> bool:
            return told() or not any(reader.is_alive() for reader in self._readers)

        with self._told:
            self._told.wait_for(settled, PATIENCE_S)
            return told()

    def logged(self, text: str, times: int = 1) -> bool:
        return self.until(lambda: sum(text in line for line in self.log) >= times)

    def up(self) -> Self:
        """Waits until it says where everything is."""
        assert self.until(lambda: any(line.startswith("Ctrl-C stops it") for line in self.said)), self.log
        return self

    # -- asking it

    def ask(self, use_case: str, /, **arguments: Any) -> Any:
        """Over HTTP: the quick way. Where the daemon is root, an agent is as well, unless the test says otherwise."""
        if use_case == "agents.set" and self.user is None and os.geteuid() == 0 and "user" not in arguments:
            arguments = {"isolation": "none", **arguments}
        return self.client.document(use_case, **arguments)

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(self.url, (self.home / "token").read_text().strip())
        return self._client

    def shell(self, name: str, script: str, **settings: Any) -> None:
        """A schedule whose agent is a script; nobody fires it but by hand."""
        self.ask("agents.set", name=name, runner="shell", command=["sh", "-c", script], **settings)
        self.ask("schedules.add", name=name, when="every 1 day", agent=name, prompt="Go.")

    def fire(self, name: str) -> tuple[Run, str]:
        """The run of an agent's script, once it is over, and what it printed."""
        run = self.client.run(name)
        run = self.client.runs.wait(run.id, timeout=PATIENCE_S)
        return run, self.client.runs.output(run.id).text

    @property
    def url(self) -> str:
        return json.loads((self.home / "daemon.json").read_text())["url"]

    @property
    def started_at(self) -> datetime:
        return datetime.fromisoformat(json.loads((self.home / "daemon.json").read_text())["started_at"])

    def matins(self, *words: str, code: int | None = 0, **more: str) -> str:
        """A command of the same user; what it prints."""
        command = [sys.executable, "-m", "matins", *words]
        result = subprocess.run(
            command, env={**self.environment, **more}, capture_output=True, text=True, timeout=60, cwd=self.home.parent
        )
        assert code is None or result.returncode == code, (words, result.stdout, result.stderr)
        return result.stdout + (result.stderr if code else "")

    def json(self, *words: str) -> Any:
        return json.loads(self.matins(*words, "--json"))

    # -- ending it

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """A terminal tells everybody who runs in it."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> int:
        if self._client is not None:
            self._client.close()
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return code

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """And whoever it was started by."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.ended()
