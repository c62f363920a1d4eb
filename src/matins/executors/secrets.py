"""Secrets by reference; checks of commands.

Secrets by reference: read when a run starts, kept nowhere else.

Checks of commands when they are defined: a pre-check or a hook that cannot run is refused at once.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from matins.engine.validation import invalid
from matins.errors import Example, InvalidInput
from matins.model.agent import Agent
from matins.model.schedule import ScheduleDefinition
from matins.texts.beneath import Refused
from matins.texts.untrusted_folder import read_file

MAX_BYTES = 64_000
_INHERITED = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL", "LOGNAME"})


class MissingHere(InvalidInput):
    """This machine lacks something that a run needs: a folder, a program, a secret. Another node may have it."""


class Environment(NamedTuple):
    values: dict[str, str]
    secrets: tuple[str, ...]
    """Values that must not appear in the output."""


def environment_of(
    pairs: Iterable[tuple[str, str]],
    add: Mapping[str, str],
    remove: Iterable[str],
    source: Mapping[str, str] = os.environ,
) -> Environment:
    """A small inherited environment, plus the variables of the agent."""
    values = inherited(source)
    secrets: list[str] = []
    for name, text in pairs:
        values[name] = resolve(text, name, source)
        if values[name] != text:
            secrets.append(values[name])
    values.update(add)
    for name in remove:
        values.pop(name, None)
    return Environment(values, tuple(secrets))


def known_secrets(agent: Agent) -> tuple[str, ...]:
    """The values of an agent's references, as far as they can be resolved now."""
    found: list[str] = []
    for name, text in agent.environment:
        try:
            value = resolve(text, name)
        except InvalidInput:  # it is no longer there: nothing can be compared with it
            continue
        found += [value] if value != text else []
    return tuple(found)


def inherited(source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The few variables that agents and commands inherit. The others may be secrets."""
    return {name: text for name, text in source.items() if name in _INHERITED or name.startswith("LC_")}


def resolve(text: str, name: str, source: Mapping[str, str] = os.environ) -> str:
    """The value of a reference; any other text is returned unchanged."""
    if text.startswith("env:"):
        variable = text.removeprefix("env:")
        if variable not in source:
            raise _unresolved(
                name,
                text,
                f"the environment has no {variable}",
                f"Put {variable} into the environment of the daemon, and start it again.",
            )
        return source[variable]
    if text.startswith("file:"):
        return _content(text, name)
    return text


def _content(text: str, name: str) -> str:
    path = Path(text.removeprefix("file:")).expanduser()
    try:
        return read_file(path, MAX_BYTES).decode().rstrip("\n")
    except Refused as error:
        raise _unresolved(name, text, error.reason, "Name the file itself.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise _unresolved(
            name, text, f"{path} cannot be read: {reason}", "Check the path and its permissions."
        ) from None


def _unresolved(name: str, text: str, reason: str, hint: str) -> InvalidInput:
    return MissingHere(f"{name} refers to {text}, but {reason}.", value=text, field="environment", hint=hint)


MAX_COMMAND_LENGTH = 8_000
_SYNTAX_TIMEOUT_S = 5
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_PROGRAM = re.compile(r"\s*([A-Za-z0-9._/~+-]+)(?!\S)(?!\s*\()")
_SHELL_BUILTINS = (
    ". alias bg break case cd command continue echo eval exec exit export false fg for getopts hash if jobs kill local "
    "printf pwd read readonly return set shift test times trap true type ulimit umask unalias unset until wait while"
)
_ALLOWED = "a command, or a list of a program and its arguments"


def check_command(command: object, field: str, *, workdir: str | None = None) -> str | tuple[str, ...]:
    """The command: a string for the shell, or a program and its arguments. Relative paths start at `workdir`."""
    if isinstance(command, str):
        _checked_texts((command,), field)
        _check_field_program(command, field, workdir)
        _check_syntax(command, field)
        return command
    if not isinstance(command, (list, tuple)) or not command:
        raise invalid(field, cast("object", command), _ALLOWED, hint=_example(field))
    argv = _checked_texts(tuple(cast("Sequence[object]", command)), field)
    _check_field_program(argv, field, workdir)
    return argv


def check_commands(definition: ScheduleDefinition) -> None:
    """Raise for a plain command, of the schedule or of a step, that no shell can read. Its program may be elsewhere:
    on another machine, or on a PATH of its own."""
    commands = {"command": definition.command}
    commands |= {f"steps[{number}].command": step.command for number, step in enumerate(definition.steps, 1)}
    for field, command in commands.items():
        if command is not None:
            _checked_texts((command,) if isinstance(command, str) else command, field)
        if isinstance(command, str):
            _check_syntax(command, field)


def check_program(command: str | Sequence[str], workdir: str | None) -> None:
    """Raise InvalidInput if the program of a command is not there. Of a line for the shell, only a plain first word is
    looked for."""
    if not isinstance(command, str):
        _check_program(command[0], workdir)
        return
    program = _PLAIN_PROGRAM.match(command)
    if program is not None and program[1] not in _SHELL_BUILTINS.split():
        _check_program(program[1], workdir)


def _check_field_program(command: str | Sequence[str], field: str, workdir: str | None) -> None:
    try:
        check_program(command, workdir)
    except InvalidInput as error:
        raise _invalid(field, error.value, error.message, hint=error.hint or "") from None


def _checked_texts(texts: tuple[object, ...], field: str) -> tuple[str, ...]:
    strings = tuple(text for text in texts if isinstance(text, str))
    if len(strings) < len(texts):
        raise invalid(field, texts, _ALLOWED, hint=Example({field: ["/usr/bin/test", "-f", "ready"]}))
    if not strings[0].strip():
        raise invalid(field, strings[0], _ALLOWED, hint=_example(field))
    preview = ascii(strings[0])[:60]
    if any("\0" in text or _LONE_SURROGATE.search(text) for text in strings):
        raise _invalid(field, preview, "contains a NUL or a lone surrogate.", hint="Remove it.")
    size = sum(map(len, strings))
    if size > MAX_COMMAND_LENGTH:
        what = f"must be at most {MAX_COMMAND_LENGTH:,} characters, not {size:,}."
        raise _invalid(field, preview, what, hint="Put it into a script, and name the script.")
    return strings


def from_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - Path drops the ./ and raises for an unknown user


def _check_program(program: str, workdir: str | None) -> None:
    if "/" not in program:
        if shutil.which(program) is None:
            hint = "Give the full path, or put its folder on PATH."
            raise InvalidInput(f'"{program}" is not on PATH.', value=program, field="command", hint=hint)
        return
    path = Path(from_home(workdir or ""), from_home(program))
    try:
        mode = path.stat().st_mode
    except OSError as error:
        hint = "Give the full path of a program that exists."
        message = f"{path} cannot be used: {error.strerror}."
        raise InvalidInput(message, value=program, field="command", hint=hint) from None
    if stat.S_ISDIR(mode):
        hint = "Give the path of a program in it."
        raise InvalidInput(f"{path} is a folder.", value=program, field="command", hint=hint)
    if not os.access(path, os.X_OK):
        hint = f"chmod +x {shlex.quote(str(path))}"
        raise InvalidInput(f"{path} may not be executed.", value=program, field="command", hint=hint)


def _check_syntax(text: str, field: str) -> None:
    """Let the shell read it. Nothing of it is executed, so nothing can be left behind."""
    command = ["/bin/sh", "-n", "-c", text]
    try:
        parsed = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=inherited(),
            timeout=_SYNTAX_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    if parsed.returncode:
        message = parsed.stderr.decode("utf-8", "replace").removeprefix("/bin/sh: ").partition("\n")[0]
        raise _invalid(field, text, f"the shell cannot read it: {message}.", hint="Try it: sh -n -c '…'")


def _example(field: str) -> str:
    return Example({field: "test -f ready"})


def _invalid(field: str, value: object, what: str, hint: str) -> InvalidInput:
    return InvalidInput(f'"{field}": {what}', value=value, field=field, hint=hint)
