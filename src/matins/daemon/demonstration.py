"""The demonstration, and the account of its agents.

The demonstration: its file, and a log that does not scroll its greeting away.

What the greeting says about agents: the accounts that they run as, and whether they are isolated.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from matins.api._results import Agent
from matins.engine.jobs import SHELL
from matins.executors.isolation import NOT_ISOLATED, fix_of, starts_process
from matins.executors.processes.walls import probe_here

_NO_RIGHTS = 65_534
"""The account that owns no files, on every system."""
_TIMEOUT_S = 20
REPORTS = "reports"
"""The folder in the home into which the demonstration writes answers."""
_LEFT_OUT = ("schedule.created", "run.started", "token.created", "incident.opened")
"""Events that a terminal does not show: what the file says already, and incidents, because their failures are shown."""


class QuietLog:
    """Logs the events of the demonstration so that its link stays on the screen: none before the greeting is printed,
    and at a terminal only those that a person acts on."""

    def __init__(self, log: Callable[[dict[str, Any]], None]) -> None:
        self._log = log
        self._held: list[dict[str, Any]] | None = []
        self._lock = threading.Lock()

    def __call__(self, event: dict[str, Any]) -> None:
        kind = str(event["type"]).removeprefix("matins.")
        if kind in _LEFT_OUT and sys.stderr.isatty():
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
    """The file of the demonstration. If Matins is root, its agents run as the account `nobody`, because they need no
    login. If that account cannot start them here, they run as root."""
    text = resources.files("matins").joinpath("demo/matins.yaml").read_text(encoding="utf-8")
    text = text.replace(f"~/{REPORTS}", f'"{home}/{REPORTS}"')
    if os.geteuid() != 0:
        return text
    if nobody_can_run(home):
        user = pwd.getpwuid(_NO_RIGHTS).pw_name
        return f"{text}\ndefaults:\n  user: {user} # the account of all agents, because Matins is root\n"
    return f"{text}\ndefaults:\n  isolation: none # Matins is root, and so are these agents\n"


def nobody_can_run(home: Path) -> bool:
    """Whether the account `nobody` can start agents of this home: it reaches Python, Matins and the directory above the
    home. The home is closed to it, so walls are needed too: inside them an agent sees its own folder in the home."""
    try:
        nobody = pwd.getpwuid(_NO_RIGHTS)
    except KeyError:
        return False
    if not probe_here().works:
        return False
    command = [sys.executable, "-P", "-c", "import os, matins.coding_tools.demo; os.listdir()"]
    variables = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            command, cwd=home.parent, env=variables, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[],
            capture_output=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


_MAX_NAMES = 3


def agents_text(agents: Sequence[Agent]) -> str | None:
    """The line of the greeting; None if agents are isolated and Matins is not root."""
    probe = probe_here()
    if os.geteuid() != 0:
        return None if probe.works else f"{NOT_ISOLATED}: {probe.problem}. {fix_of(probe)}"
    agents = [agent for agent in agents if starts_process(agent.runner) and (agent.runner != SHELL or agent.command)]
    roots = [agent.name for agent in agents if agent.isolation == "none" and agent.user is None]
    if roots:
        more = f" and {len(roots) - _MAX_NAMES} more" if len(roots) > _MAX_NAMES else ""
        names = f"{', '.join(roots[:_MAX_NAMES])}{more}"
        return f"{NOT_ISOLATED}: as root, {names} could change everything here (isolation: none)."
    users = sorted({agent.user for agent in agents if agent.user is not None})
    if not users:
        return "Matins is root: an agent needs an account (user: robin), or isolation: none."
    kept = "" if probe.works else f" They are {NOT_ISOLATED}: {probe.problem}."
    noun = "account" if len(users) == 1 else "accounts"
    return f"run as the {noun} {', '.join(users)}, because Matins is root.{kept}"
