"""Crontabs: of a user, of the system, and files of /etc/cron.d."""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matins.engine.when.cron import parse_cron
from matins.errors import CronParseError, InvalidInput
from matins.importers.entries import Cron, Imported, ImportEntry, Importer, read_text, slug

SOURCE = "crontab"
_ASSIGNMENT = re.compile(r"""([A-Za-z_][A-Za-z0-9_]*|"[^"]+"|'[^']+')\s*=\s*(.*)""")
_STDIN = "-"
_SYSTEM = ("/etc/crontab", "/etc/cron.d")
_PERCENT = re.compile(r"(?<!\\)%")
_PROGRAM = re.compile(r"[\s;|&<>]")


class _Line(NamedTuple):
    origin: str
    when: str
    user: str | None
    command: str
    variables: Mapping[str, str]


def read(target: str | None, zone: str) -> Imported:
    """The jobs of a file, of the files in a folder, of a user, or of stdin; without a target those of the current
    user."""
    lines: list[_Line] = []
    left_out: list[str] = []
    for origin, text, system in _texts(target or None):
        lines += _jobs(origin, text, system, left_out)
    names: set[str] = set()
    entries: list[ImportEntry] = []
    for line in lines:
        entries += _entries(line, zone, names)
    return Imported(SOURCE, tuple(entries), tuple(left_out))


def _texts(target: str | None) -> Iterator[tuple[str, str, bool]]:
    path = Path(target) if target is not None else None
    if target == _STDIN:
        yield "stdin", sys.stdin.read(), False
    elif path is not None and path.is_dir():
        for file in sorted(path.iterdir()):
            if file.is_file() and re.fullmatch(r"[A-Za-z0-9_-]+", file.name):  # cron ignores all others
                yield str(file), read_text(str(file)), True
    elif path is not None and (path.is_file() or "/" in str(target)):
        yield str(path), read_text(str(path)), str(path.absolute()).startswith(_SYSTEM)
    else:
        yield f"crontab of {target or getpass.getuser()}", _listed(target), False


def _listed(user: str | None) -> str:
    program = shutil.which("crontab")
    if program is None:
        hint = "Name a file (matins import crontab /etc/crontab), or pipe one: … | matins import crontab -"
        message = "There is no crontab program on this machine."
        if user is not None:
            message = f'There is no file "{user}", and no crontab program that could list the crontab of a user.'
        raise InvalidInput(message, value=user, field="path", hint=hint)
    done = subprocess.run(
        [program, "-l", *(["-u", user] if user else [])], capture_output=True, text=True, check=False, timeout=30
    )
    if done.returncode:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise InvalidInput(f"The crontab cannot be read: {reason}.", value=user, field="path", hint="Name a file.")
    return done.stdout


def _jobs(origin: str, text: str, system: bool, left_out: list[str]) -> Iterator[_Line]:
    """The lines of jobs. Variables count for the lines below them."""
    variables: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line, where = raw.strip(), f"{origin}, line {number}"
        assignment = _ASSIGNMENT.fullmatch(line)
        if not line or line.startswith("#"):
            continue
        if assignment is not None:
            variables[assignment[1].strip("\"'")] = _unquoted(assignment[2].strip())
            continue
        count = (1 if line.startswith("@") else 5) + (1 if system else 0)
        *words, command = line.split(None, count) if len(line.split(None, count)) > count else [line]
        problem = _problem(words, command, count, system)
        if problem:
            left_out.append(f"{where}: {problem}")
        else:
            user = words.pop() if system else None
            yield _Line(where, " ".join(words), user, command, dict(variables))


def _problem(words: list[str], command: str, count: int, system: bool) -> str | None:
    if (words or [command])[0].lower().startswith("@reboot"):
        return "@reboot is left out: Matins has no jobs at boot. Use a systemd unit."
    if len(words) < count:
        return "there is no command."
    try:
        parse_cron(" ".join(words[:-1] if system else words))
    except CronParseError as error:
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return None


def _entries(line: _Line, zone: str, names: set[str]) -> Iterator[ImportEntry]:
    command, stdin = _split(line.command)
    name = slug(_program(command), names, "job")
    variables = dict(line.variables)
    shell, home = variables.pop("SHELL", "/bin/sh"), variables.pop("HOME", None)
    mail, zone = variables.pop("MAILTO", None), variables.pop("CRON_TZ", variables.pop("TZ", zone))
    labels = {"mailto": mail} if mail else {}
    script = command if stdin is not None else f"exec < /dev/null; {command}"
    agent: dict[str, Any] = {
        "runner": "shell", "command": [shell, "-c", script], "environment": variables, "workdir": home or "~",
        "timeout": "none", "idle_timeout": "none",
    }  # fmt: skip
    schedule: dict[str, Any] = {
        "when": line.when, "timezone": zone, "agent": f"cron-{name}", "prompt": stdin or f"cron: {command}",
        "prompt_prefix": False, "overlap": "allow", "catch_up": "skip", "grace": "60s", "labels": labels,
    }  # fmt: skip
    yield ImportEntry("agent", f"cron-{name}", _present(agent), line.origin)
    yield ImportEntry(
        "schedule", name, _present(schedule), line.origin, Cron(line.when, zone, debian=True), notes=_notes(line, mail)
    )


def _present(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value not in (None, {}, "")}


def _notes(line: _Line, mail: str | None) -> tuple[str, ...]:
    notes: list[str] = []
    if line.user not in (None, getpass.getuser()):
        notes.append(f"It runs as {line.user} there, and here as the user of the daemon.")
    if mail:
        notes.append(f"MAILTO is kept as the label mailto: {mail}. Its output is in matins logs.")
    return tuple(notes)


def _split(text: str) -> tuple[str, str | None]:
    """The command, and the text behind the first `%` for its standard input; every other `%` there ends a line."""
    command, *rest = _PERCENT.split(text)
    stdin = "\n".join(rest).replace("\\%", "%") if rest else None
    return command.replace("\\%", "%").strip(), stdin


def _program(command: str) -> str:
    """The name of the program, without its folder and ending."""
    words = [
        word for word in _PROGRAM.split(command) if word and "=" not in word and word not in ("cd", "exec", "test")
    ]
    return Path(words[0]).stem if words else ""


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


IMPORTER = Importer(
    "Import a crontab. TARGET: a file, a user, /etc/cron.d, or - for stdin; default: your own.",
    read,
    target="[TARGET]",
)
