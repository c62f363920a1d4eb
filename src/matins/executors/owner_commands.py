"""Recognises commands that start nothing but what the owner keeps in the home of Matins."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from matins.engine.policies import Policies
from matins.executors.command_checks import from_home
from matins.model.schedule import CommandLine
from matins.runtime.command_files import in_reach, may_gain_files, program_at, simple_commands

_PLAIN_TEXT = re.compile(r"(?:[\w \t\n./~+=:,@%!&|;\[\]'\"*?-]|\$[A-Za-z_])*", re.ASCII)
"""Texts that the shell takes apart as we do: no substitutions, brackets, redirections or escapes."""
_SILENCED = re.compile(r"(?<!\S)[12]?> ?(?:/dev/null|&[12])(?!\S)")
_PLAIN_PROGRAM = re.compile(r"~?[\w./+-]+", re.ASCII)
_START_NOTHING = frozenset([":", "[", "done", "echo", "exit", "false", "fi", "printf", "test", "true"])
"""Words of the shell itself; as programs, they start nothing either."""
_INTERPRETERS = frozenset([
    "ash", "bash", "dash", "ksh", "lua", "mksh", "node", "perl", "php", "python", "ruby", "sh", "zsh",
])  # fmt: skip
_VERSION = "0123456789."


class OwnerCommands:
    """Those whose every program is a file of the owner's, or an interpreter of such a file."""

    def __init__(self, folder: str, path: str, is_own: Callable[[str], bool], policies: Policies) -> None:
        self._folder = folder
        """Where commands start."""
        self._path = path
        """The PATH of commands."""
        self._is_own = is_own
        self._policies = policies

    def __contains__(self, command: CommandLine) -> bool:
        """What cannot be read with certainty is not the owner's."""
        if not isinstance(command, str):
            return self._starts_own(list(command))
        text = _SILENCED.sub(" ", command)
        if not _PLAIN_TEXT.fullmatch(text) or ("~" in text and ("'" in text or '"' in text)):
            return False
        found = simple_commands(text)
        return bool(found) and all(self._has_own(simple.words) for simple in found)

    def _has_own(self, words: list[str]) -> bool:
        """The same for a command in a text for the shell."""
        at = program_at(words)
        if at == len(words) or any("=" in word or word == "time" for word in words[:at]):  # variables, a program
            return False
        return words[at] in _START_NOTHING or self._starts_own(words[at:])

    def _starts_own(self, words: list[str]) -> bool:
        program, first = words[0], words[1:2]
        if not _PLAIN_PROGRAM.fullmatch(program):
            return False
        if "/" in program and self._is_own(self._path_of(program)):
            return True
        name = Path(program).name
        reads_own = name.rstrip(_VERSION) in _INTERPRETERS and bool(first) and self._is_own(self._path_of(first[0]))
        return (reads_own or name in _START_NOTHING) and self._is_safe(program)

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
