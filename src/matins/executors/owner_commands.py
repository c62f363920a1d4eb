"""Recognises commands that are a script in the home of Matins, which no agent can write, with its arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from matins.engine.policies import Policies
from matins.executors.command_checks import from_home
from matins.model.schedule import CommandLine
from matins.runtime.command_files import in_reach, may_gain_files
from matins.texts.beneath import open_named

_PLAIN_TEXT = re.compile(r"~?[\w./+-]+(?: +(?:[\w./~+=:,@%-]|\$[A-Za-z_])+)*", re.ASCII)
"""A script with plain words and variables: nothing of it makes a shell start anything else."""
_INTERPRETERS = frozenset(["ash", "bash", "dash", "ksh", "lua", "mksh", "node", "perl", "php", "python", "sh"])
"""Those that run no file of the user's before the script, with OUTSIDE. zsh reads ~/.zshenv, and ruby loads gems."""
_VERSION = "0123456789."
_MAX_FIRST_LINE = 256
"""What the kernel reads of it."""
OUTSIDE = {"PYTHONNOUSERSITE": "1"}
"""Variables of the owner's commands. Python would run files of ~/.local, which agents of the same user can write."""


class OwnerCommands:
    """Those that are one script of the owner's, with its arguments."""

    def __init__(self, folder: str, path: str, is_own: Callable[[str], bool], policies: Policies) -> None:
        self._folder = folder
        """Where commands start."""
        self._path = path
        """The PATH of commands."""
        self._is_own = is_own
        isolated = {name: agent for name, agent in policies.agents.items() if agent.isolation != "none"}
        self._policies = replace(policies, agents=isolated)
        """Those of agents with walls. The others reach the home itself."""

    def __contains__(self, command: CommandLine) -> bool:
        if isinstance(command, str) and not _PLAIN_TEXT.fullmatch(command):
            return False
        program = command.split()[0] if isinstance(command, str) else command[0]
        script = self._path_of(program)
        return "/" in program and self._is_own(script) and self._has_safe_interpreter(script)

    def _has_safe_interpreter(self, script: str) -> bool:
        """Whether no agent can replace what the script's first line starts. A program has no such line."""
        try:
            file = open_named(script)
        except OSError:  # it may be executed and not read, so it is no script
            return os.access(script, os.X_OK)
        try:
            start = os.pread(file, _MAX_FIRST_LINE, 0)
        finally:
            os.close(file)
        if not start.startswith(b"#!"):
            return True
        words = start[2:].partition(b"\n")[0].decode("utf-8", "surrogateescape").split()
        if len(words) > 1 and Path(words[0]).name == "env":
            named = words[2:] if words[1] == "-S" else words[1:]
            return bool(named) and self._is_safe(words[0]) and self._is_safe_interpreter(named[0])
        return bool(words) and self._is_safe_interpreter(words[0])

    def _is_safe_interpreter(self, program: str) -> bool:
        return _is_interpreter(program) and self._is_safe(program)

    def _is_safe(self, program: str) -> bool:
        """Whether no agent can put another program in its place, also not into a folder that comes first on PATH."""
        if "/" in program:
            return not in_reach(self._path_of(program), self._policies)
        for folder in self._path.split(os.pathsep):
            if not folder.startswith("/") or may_gain_files(folder, self._policies):
                return False
            if os.access(f"{folder}/{program}", os.X_OK):
                return not in_reach(f"{folder}/{program}", self._policies)
        return False

    def _path_of(self, word: str) -> str:
        return str(Path(self._folder, from_home(word)))


def _is_interpreter(program: str) -> bool:
    return Path(program).name.rstrip(_VERSION) in _INTERPRETERS
