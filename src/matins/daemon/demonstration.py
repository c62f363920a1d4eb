"""The demonstration: its file, and a log that leaves its greeting in sight."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from matins.executors.processes.probing import probe_here

_NO_RIGHTS = 65_534
"""The account that owns no files, on every system."""
_TIMEOUT_S = 20


_OF_THE_FILE = ("schedule.created", "run.started", "token.created", "incident.opened")
"""At a terminal, the failure itself is enough."""


class QuietLog:
    """The events of the demonstration in the log. Until the greeting is printed they are held back, and what merely
    repeats the file is left out: otherwise the link scrolls away before anybody has read it."""

    def __init__(self, log: Callable[[dict[str, Any]], None]) -> None:
        self._log = log
        self._held: list[dict[str, Any]] | None = []
        self._lock = threading.Lock()

    def __call__(self, event: dict[str, Any]) -> None:
        kind = str(event["type"]).removeprefix("matins.")
        if kind in _OF_THE_FILE and sys.stderr.isatty():
            return
        with self._lock:
            if self._held is not None:
                self._held.append(event)
                return
        self._log(event)

    def release(self) -> None:
        """Log what was held back, and everything from now on."""
        with self._lock:
            held, self._held = self._held or [], None
            for event in held:
                self._log(event)


def demo_file(home: Path) -> str:
    """An agent that runs, a request for approval, and a slot that is skipped. Where Matins is root, its agents are
    nobody, because they need no login; if nobody can start here, they are root."""
    text = resources.files("matins").joinpath("demo/matins.yaml").read_text(encoding="utf-8")
    if os.geteuid() != 0:
        return text
    if nobody_can_run(home):
        user = pwd.getpwuid(_NO_RIGHTS).pw_name
        return f"{text}\ndefaults:\n  user: {user} # the account of all agents, because Matins is root\n"
    return f"{text}\ndefaults:\n  isolation: none # Matins is root, and so are these agents\n"


def nobody_can_run(home: Path) -> bool:
    """Whether agents of this home could run as nobody: that account reaches Python, Matins, and the directory. The home
    itself is closed to it; only behind walls an agent sees its own folder in there."""
    try:
        nobody = pwd.getpwuid(_NO_RIGHTS)
    except KeyError:
        return False
    if not probe_here().works:
        return False
    command = [sys.executable, "-P", "-c", "import os, matins.executors.demo; os.listdir()"]
    variables = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            command, cwd=home.parent, env=variables, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[],
            capture_output=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
