"""Recognises commands that start nothing but what the owner keeps in the home of Matins."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from matins.engine.policies import Policies
from matins.executors.command_checks import from_home
from matins.model.schedule import CommandLine
from matins.runtime.command_files import in_reach, may_gain_files, program_at, simple_commands
from matins.texts.beneath import open_named

_PLAIN_TEXT = re.compile(r"(?:[\w \t\n./~+=:,@%!&|;\[\]'\"*?-]|\$[A-Za-z_])*", re.ASCII)
"""Texts that the shell takes apart as we do: no substitutions, brackets, redirections or escapes."""
_SILENCED = re.compile(r"(?<!\S)[12]?> ?(?:/dev/null|&[12])(?!\S)")
_PLAIN_PROGRAM = re.compile(r"~?[\w./+-]+", re.ASCII)
_START_NOTHING = frozenset([":", "[", "done", "echo", "exit", "false", "fi", "printf", "test", "true"])
"""Words of the shell itself; as programs, they start nothing either."""
_QUOTED = re.compile("'[^']*'|\"[^\"]*\"")
_PREFIXES = frozenset(["command", "exec"])
"""What follows them is a program, whatever it is called."""
_INTERPRETERS = frozenset(["ash", "bash", "dash", "ksh", "lua", "mksh", "node", "perl", "php", "python", "sh"])
"""Those that run no file of the user's before the script, with OUTSIDE. zsh reads ~/.zshenv, and ruby loads gems."""
_VERSION = "0123456789."
_MAX_FIRST_LINE = 256
"""What the kernel reads of it."""
OUTSIDE = {"PYTHONNOUSERSITE": "1"}
"""Variables of the owner's commands. Python would run files of ~/.local, which agents of the same user can write."""


class OwnerCommands:
    """Those whose every program is a file of the owner's, or an interpreter of such a file."""

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
        """What cannot be read with certainty is not the owner's."""
        if not isinstance(command, str):
            return self._starts_own(list(command), read=str)
        text = _SILENCED.sub(" ", command)
        if not _PLAIN_TEXT.fullmatch(text) or ("~" in text and ("'" in text or '"' in text)):
            return False
        found, masked = simple_commands(text), simple_commands(_QUOTED.sub("%", text))
        if not found or len(found) != len(masked):  # an operator in quotes
            return False
        return all(self._has_own(simple.words, plain.words) for simple, plain in zip(found, masked, strict=True))

    def _has_own(self, words: list[str], masked: list[str]) -> bool:
        """The same for a command in a text for the shell. In quotes, which are masked, a word is no keyword."""
        at = program_at(words)
        before = words[:at]
        if at == len(words) or at != program_at(masked) or any("=" in word or word == "time" for word in before):
            return False  # variables, or a program
        if _PREFIXES.isdisjoint(before):
            return (words[at] == masked[at] and words[at] in _START_NOTHING) or self._starts_own(words[at:])
        return _PREFIXES.isdisjoint(before[:-1]) and self._starts_own(words[at:])

    def _starts_own(self, words: list[str], read: Callable[[str], str] = from_home) -> bool:
        """`read`: what the shell makes of the first argument."""
        program, first = words[0], words[1:2]
        if not _PLAIN_PROGRAM.fullmatch(program):
            return False
        path = self._path_of(program)
        if "/" in program and self._is_own(path):
            return self._has_safe_interpreter(path)
        reads_own = _is_interpreter(program) and bool(first) and self._is_own(str(Path(self._folder, read(first[0]))))
        return (reads_own or Path(program).name in _START_NOTHING) and self._is_safe(program)

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
