"""Plain commands: who runs them, their words, and the name of a schedule that has one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from matins.engine.jobs import SHELL
from matins.engine.prompts import FIELDS, placeholders
from matins.errors import InvalidInput
from matins.model.schedule import CommandLine, ScheduleDefinition

_VARIABLES = {"schedule": "MATINS_SCHEDULE", "agent": "MATINS_AGENT", "run": "MATINS_RUN_ID",
              "attempt": "MATINS_ATTEMPT", "slot": "MATINS_SLOT"}  # fmt: skip
_INPUT = "input."
_FILLED = (_INPUT, "call.", "work.", "steps.")
_BEFORE_PROGRAM = frozenset(["!", "{", "command", "do", "elif", "else", "exec", "if", "then", "time", "until", "while"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OPERATORS = "();<>|&"
_PREPARING = frozenset([".", "[", "[[", "cd", "export", "set", "source", "test", "umask"])
_STARTING = frozenset((
    "bash", "dash", "env", "ionice", "nice", "node", "nohup", "perl", "php", "python", "python3", "ruby", "sh", "sudo",
    "time", "timeout", "zsh",
))  # fmt: skip


def by_person(agent: str, definition: ScheduleDefinition) -> tuple[str, ScheduleDefinition]:
    """Agent and settings of a schedule that a person makes: commands that name no agent are for the shell's."""
    if definition.command is not None:
        return agent or SHELL, definition
    if any(step.command is not None and not step.agent for step in definition.steps):
        steps = (replace(s, agent=SHELL) if s.command is not None and not s.agent else s for s in definition.steps)
        definition = replace(definition, steps=tuple(steps))
    return agent, definition


def check_no_placeholder(command: CommandLine, field: str) -> None:
    """Raise for a placeholder: the shell would read its value, which others may have written. Programs have
    templates of their own, which stay: `docker ps --format '{{.Names}}'`."""
    texts = (command,) if isinstance(command, str) else command
    for name in (name for text in texts for name in placeholders(text)):
        if name in FIELDS or name.startswith(_FILLED):
            use = f'Put it into "stdin": {{{{{name}}}}}.'
            if name.startswith(_INPUT):
                use = f'Use "$INPUT_{re.sub(r"[^A-Za-z0-9]", "_", name.removeprefix(_INPUT)).upper()}".'
            elif name in _VARIABLES:
                use = f'Use "${_VARIABLES[name]}".'
            message = f"{{{{{name}}}}} in a command would be read by the shell."
            raise InvalidInput(message, value=name, field=field, hint=use)


def name_of_command(command: CommandLine) -> str:
    """The name of a schedule for its command: `pg-dump`."""
    program = next(programs_of(command), "")
    return re.sub(r"[^a-z0-9]+", "-", PurePath(program).stem.lower()).strip("-")


def programs_of(command: CommandLine) -> Iterator[str]:
    """The programs that a command is about, without those that only prepare or start them."""
    for words, _ in simple_commands(command):
        at = program_at(words)
        if at == len(words) or words[at] in _PREPARING:
            continue
        others = (word for word in words[at:] if word[0] not in "-0123456789" and not _ASSIGNMENT.match(word))
        word = next((word for word in others if PurePath(word).name not in _STARTING), words[at])
        if any(character.isspace() for character in word) and word is not words[at]:  # the text of another shell
            yield from programs_of(word)
        else:
            yield word


def exit_code_note(command: CommandLine | None) -> str | None:
    """Whose exit code decides, where a program before it in a pipe may fail unseen."""
    found = simple_commands(command) if isinstance(command, str) and "pipefail" not in command else []
    piped = [simple.piped for simple in found]
    if not any(piped[-2:-1]):
        return None
    start = len(found) - 1
    while start and piped[start - 1]:
        start -= 1
    first, last = ((simple.words[program_at(simple.words) :] or [""])[0] for simple in (found[start], found[-1]))
    fix = "--command \"bash -o pipefail -c '…'\""
    return f"The exit code is that of {last}. To fail when {first} fails: {fix}"


def program_at(words: list[str]) -> int:
    first = (at for at, word in enumerate(words) if word not in _BEFORE_PROGRAM and not _ASSIGNMENT.match(word))
    return next(first, len(words))


def simple_commands(command: CommandLine) -> list[SimpleCommand]:
    """The commands of a text, without the files that they only write."""
    if not isinstance(command, str):
        return [SimpleCommand(list(command))]
    text = command.replace("\n", " ; ").replace("`", " ; ")  # each begins another command
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        tokens = list(lexer)
    except ValueError:  # the shell reports it
        return [SimpleCommand([word]) for word in command.split()]
    found = [SimpleCommand([])]
    written = False
    for token in tokens:
        if set(token) <= set(_OPERATORS):
            if "(" in token or not set(token) & set("<>"):
                found[-1] = found[-1]._replace(piped=token in ("|", "|&"))
                found.append(SimpleCommand([]))
            written = ">" in token and "(" not in token
        else:
            if not written:
                found[-1].words.append(token)
            written = False
    return [simple for simple in found if simple.words]


class SimpleCommand(NamedTuple):
    """One command of a text."""

    words: list[str]
    piped: bool = False
    """Whether the next one reads its output."""
