"""The files that commands, pre-checks and hooks run: what an agent changed must not run unseen."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from matins.engine.commands import SimpleCommand, program_at, simple_commands
from matins.engine.jobs import SHELL_AGENT, as_scheduled, runs_only_commands
from matins.engine.policies import Policies
from matins.engine.steps import parts_of
from matins.model.agent import Agent
from matins.model.schedule import CommandLine, ScheduleDefinition
from matins.runtime.agent_folders import AGENTS, files_of, folder_of

COMMANDS = ("pre_check", "before_run", "after_run")
_READERS = frozenset((
    "[", "[[", ":", "cat", "cd", "cmp", "comm", "curl", "cut", "date", "diff", "du", "echo", "false", "grep", "head",
    "ls", "mkdir", "printf", "rm", "sleep", "stat", "tail", "test", "touch", "true", "uniq", "wc",
))  # fmt: skip
"""Programs that run nothing of what they are given: their arguments are data, which may change."""
_SHELLS = frozenset(["ash", "bash", "dash", "eval", "ksh", "mksh", "sh", "zsh"])
_INTERPRETER = re.compile(r"\.|source|(?:ba|da|k|mk|z|a)?sh|(?:python|perl|ruby|node|php|lua|deno|bun)[0-9.]{0,8}")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_WORK = frozenset(["command", "steps", "workdir", "environment"])
_MAX_DEPTH, _MAX_LINKS, _MAX_FOLDERS, _MAX_VALUE = 3, 40, 2, 1_000
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


def files_run_by(
    commands: Iterable[CommandLine | None], folder: str | None, expected: Collection[str] = ()
) -> dict[str, str]:
    """The digest of each file that these commands run, by its path; of others, why they are not covered. An expected
    one is among them also when it is gone."""
    found: dict[str, str] = {}
    for command in commands:
        if command is not None:
            found |= files_of(list(_run_words(command)), folder or str(Path.cwd()), expected)
    return found


class Line(NamedTuple):
    """A plain command, and where it starts."""

    command: CommandLine
    folder: str
    environment: tuple[tuple[str, str], ...]
    """The variables that are not the engine's."""

    def files(self, expected: Collection[str] = ()) -> dict[str, str]:
        """The digest of each script that it runs, as `files_run_by`. Its other arguments are data: a dump that is
        copied every night has changed."""
        variables = {**os.environ, "HOME": str(Path.home()), **dict(self.environment)}
        return _scripts_of(self.command, [self.folder], variables, expected)


_commands_of: Callable[[ScheduleDefinition], tuple[CommandLine | None, ...]] = attrgetter(*COMMANDS)
_NO_COMMANDS = (None,) * len(COMMANDS)


def commands_of(definition: ScheduleDefinition) -> list[CommandLine]:
    """The pre-checks and hooks of a schedule."""
    return [command for command in _commands_of(definition) if command is not None]


def has_commands(definition: ScheduleDefinition) -> bool:
    """Whether anything of the schedule is a command: its work, a step, a pre-check or a hook."""
    if definition.command is not None or _commands_of(definition) != _NO_COMMANDS:
        return True
    return bool(definition.steps) and any(step.command is not None for step in definition.steps)


def lines_of(definition: ScheduleDefinition, agent: str, policies: Policies) -> list[Line]:
    """The plain commands of a schedule: its own, or those of its steps. The agent of the first one is made with it."""
    found: list[Line] = []
    for part, name in parts_of(definition, agent):
        if part.command is not None:
            woken = as_scheduled(policies.agents.get(name, SHELL_AGENT), part)
            folder = folder_of(woken, policies.workdir or str(Path.cwd()))
            found.append(Line(part.command, folder, tuple(woken.environment)))
    return found


def with_files(
    definition: ScheduleDefinition,
    agent: str,
    policies: Policies,
    before: ScheduleDefinition | None = None,
    given: Collection[str] = (),
) -> ScheduleDefinition:
    """The definition with the digests of what its commands run. A command that a person has not set with this change
    keeps those of the former definition: an agent may have changed its file meanwhile."""
    kept = {name for name in COMMANDS if before is not None and name not in given}
    kept = {name for name in kept if getattr(definition, name) == getattr(before, name)}
    taken = files_run_by([getattr(definition, name) for name in COMMANDS if name not in kept], policies.workdir)
    lines = lines_of(definition, agent, policies)
    set_now = before is None or not _WORK.isdisjoint(given) or lines != lines_of(before, agent, policies)
    for line in lines if set_now else ():
        taken |= line.files()
    keeps = any(getattr(definition, name) is not None for name in kept) or (bool(lines) and not set_now)
    of_kept = before.files if before is not None and keeps else ()
    return replace(definition, files=tuple(sorted({**dict(of_kept), **taken}.items())))


def changed_of(
    commands: Iterable[CommandLine | None], allowed: Mapping[str, Collection[str]], policies: Policies
) -> list[str]:
    """The files of commands that agents can write, and whose content is none of those allowed."""
    return changed_among(files_run_by(commands, policies.workdir, allowed), allowed, policies)


def changed_among(files: Mapping[str, str], allowed: Mapping[str, Collection[str]], policies: Policies) -> list[str]:
    """The paths of files that agents can write and whose content is none of the allowed ones."""
    return [
        path for path, content in files.items() if content not in allowed.get(path, ()) and in_reach(path, policies)
    ]


# -- the words of a command


def _run_words(command: CommandLine, depth: int = 0) -> Iterator[str]:
    """The words of a command that may name a file which it runs."""
    for words, only_read in _with_reading(simple_commands(command), command):
        at = program_at(words)
        yield from words[:at]
        if at == len(words):
            continue
        program, arguments = words[at], words[at + 1 :]
        yield program
        if "/" not in program and (path := shutil.which(program)) is not None:
            yield path
        if not only_read:
            yield from arguments
        for text in _texts_in(words) if depth < _MAX_DEPTH else ():
            if not only_read or "$(" in text:
                yield from _run_words(text, depth + 1)


def _with_reading(commands: list[SimpleCommand], whole: CommandLine) -> list[tuple[list[str], bool]]:
    """The commands, and whether each only reads its arguments. What it reads may be run where it goes: in a pipe, or
    in bracketed parts of the text."""
    grouped = isinstance(whole, str) and any(bracket in whole for bracket in "(){}`")
    found: list[tuple[list[str], bool]] = []
    next_reads = False
    for words, piped in reversed(commands):
        at = program_at(words)
        next_reads = at < len(words) and words[at] in _READERS and (next_reads or not piped)
        found.append((words, next_reads and not grouped))
    return found[::-1]


def _scripts_of(
    command: CommandLine, folders: list[str], variables: dict[str, str], expected: Collection[str], depth: int = 0
) -> dict[str, str]:
    """`folders`: where it starts, and where it may be after a `cd`, which may also fail, or be that of a subshell."""
    found: dict[str, str] = {}
    for simple, is_read_by_shell in _with_shells(simple_commands(command)):
        known = variables.get
        words = [_VARIABLE.sub(lambda one, of=known: of(one[1] or one[2], one[0]), word) for word in simple.words]
        at = program_at(words)
        program, arguments = (words[at], words[at + 1 :]) if at < len(words) else ("", [])
        variables = variables | dict(_assigned(words[:at], program, arguments))
        if program in ("cd", "pushd") and (to := [word for word in arguments if not word.startswith("-")]):
            folders = [folders[0], *folders[1:][-_MAX_FOLDERS:], str(Path(folders[-1], Path(to[0]).expanduser()))]
            continue
        where = shutil.which(program, path=variables.get("PATH")) if program and "/" not in program else None
        run = [*words[:at], *([program] if "/" in program else []), *([where] if where else [])]
        modules = [name.replace(".", "/") for option, name in pairwise(arguments) if option == "-m"]
        named = [*arguments, *(path for name in modules for path in (f"{name}.py", f"{name}/__main__.py"))]
        # The dot has no name as a path.
        names = [Path(word).name or word for word in words]
        starts = {number for number in range(at, len(words)) if _INTERPRETER.fullmatch(names[number])}
        for folder in folders:
            found |= files_of(run, folder, expected)
            found |= files_of(named, folder, expected, scripts=not is_read_by_shell)
            nearest: dict[str, str] = {}
            for number in range(len(words) - 1, min(starts, default=len(words)) - 1, -1):
                if number in starts:  # also behind `nice` or `sudo`; it reads the next file
                    found |= nearest
                nearest = files_of([words[number]], folder, expected) or nearest
        for text in _texts_in(simple.words) if depth < _MAX_DEPTH else ():
            found |= _scripts_of(text, folders, variables, expected, depth + 1)
    return found


def _with_shells(commands: list[SimpleCommand]) -> Iterable[tuple[SimpleCommand, bool]]:
    """The commands, and whether a shell at the end of the pipe runs what they print."""
    found: list[tuple[SimpleCommand, bool]] = []
    by_shell = False
    for simple in reversed(commands):
        if not simple.piped:
            last = simple.words[program_at(simple.words) :]
            by_shell = bool(last) and Path(last[0]).name in _SHELLS
        found.append((simple, simple.piped and by_shell))
    return reversed(found)


def _assigned(before: list[str], program: str, arguments: list[str]) -> Iterator[tuple[str, str]]:
    """The assignments of a command: `BIN=/opt/bin`, `export BIN=/opt/bin`. A value may be made of itself, twice."""
    for word in [*before, *(arguments if program == "export" else ())]:
        name, sign, value = word.partition("=")
        if sign and name.isidentifier() and len(value) <= _MAX_VALUE:
            yield name, value


def _texts_in(words: list[str]) -> Iterator[str]:
    """The commands in words, as they are written: the texts of other shells, and what is run for its output."""
    for word in words:
        if "$(" in word:
            yield word.partition("$(")[2].rpartition(")")[0]
        if " " in word or "\n" in word:
            yield word


# -- what agents can write


def in_reach(path: str, policies: Policies) -> bool:
    """Whether an agent may have written the file: by its owner and mode, or by those of a folder or link on the way."""
    users = frozenset(user for agent in policies.agents.values() if (user := _user_of(agent)) is not None)
    return bool(users) and any(_is_writable(folder, entry, users, policies) for folder, entry in _steps(path))


def _user_of(agent: Agent) -> int | None:
    """The user whose files it can write; None if it is the owner and runs only commands that people wrote."""
    if agent.user is None:
        return None if runs_only_commands(agent) else os.getuid()
    try:
        return pwd.getpwnam(agent.user).pw_uid
    except KeyError:  # it cannot run
        return None


def may_gain_files(folder: str, policies: Policies) -> bool:
    """Whether an agent may put a file into the folder, or another folder in its place. The folder may be missing."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)  # noqa: PTH120
    if in_reach(folder, policies):
        return True
    try:
        return bool(os.stat(folder).st_mode & _WRITABLE)  # noqa: PTH116
    except OSError:
        return True  # a link that leads nowhere


def _is_writable(folder: str, entry: str, users: Collection[int], policies: Policies) -> bool:
    if any(_is_in(folder, closed) and not _is_in(folder, f"{closed}/{AGENTS}") for closed in policies.out_of_reach):
        return False
    try:
        above, found = os.lstat(folder), os.lstat(entry)
    except OSError:
        return True  # it has just been moved
    if stat.S_ISDIR(found.st_mode) and any(_is_in(closed, entry) for closed in policies.out_of_reach):
        return False  # in the view of a run, it cannot be moved
    if 0 in users or found.st_uid in users:
        return True
    if above.st_mode & _WRITABLE and not above.st_mode & stat.S_ISVTX:  # an ACL shows as the group's right
        return True
    return stat.S_ISREG(found.st_mode) and bool(found.st_mode & _WRITABLE)


def _steps(path: str) -> Iterator[tuple[str, str]]:
    """Each folder on the way to a file, and the entry in it that is followed."""
    ahead, at, links = path.split("/")[::-1], "/", 0
    while ahead and links <= _MAX_LINKS:
        part = ahead.pop()
        if part == "..":
            at = os.path.dirname(at)  # noqa: PTH120
        if part in ("", ".", ".."):
            continue
        entry = f"{at.rstrip('/')}/{part}"
        yield at, entry
        try:
            target = os.readlink(entry)  # noqa: PTH115
        except OSError:
            at = entry
            continue
        links += 1
        ahead += reversed(target.split("/"))
        if target.startswith("/"):
            at = "/"


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
