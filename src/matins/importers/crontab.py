"""Crontabs: of a user, of the system, and files of /etc/cron.d."""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from matins.engine.commands import name_of_command
from matins.engine.prompts import escaped
from matins.engine.when.cron import parse_cron
from matins.errors import CronParseError, InvalidInput
from matins.importers.agent_calls import AgentCall, agent_call
from matins.importers.entries import Cron, Imported, ImportEntry, Importer, present, read_text, slug
from matins.model.destination import DELIVER_ON, NOBODY

SOURCE = "crontab"
_ASSIGNMENT = re.compile(r"""([A-Za-z_][A-Za-z0-9_]*|"[^"]+"|'[^']+')\s*=\s*(.*)""")
_STDIN = "-"
_SYSTEM = ("/etc/crontab", "/etc/cron.d")
_PERCENT = re.compile(r"(?<!\\)%")
_NAME_WORDS = 6
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|API_?KEY|PRIVATE_?KEY|CREDENTIAL", re.IGNORECASE)
_KEY = re.compile(r"\b(?:sk-|gh[pousr]_|github_pat_|xox[abpr]-|AKIA|glpat-)[A-Za-z0-9_-]{12}")
_LITERAL = re.compile(
    r"(?i)\b(bearer|(?:[a-z_-]{0,20})(?:token|secret|passw(?:or)?d|api[_-]?key))[ =:]+['\"]?[^\s'\"$<>|]{6}"
)


class _Line(NamedTuple):
    number: int
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
    agents: dict[str, ImportEntry] = {}
    entries = [entry for line in lines for entry in _entries(line, zone, names, agents)]
    mails = {line.variables["MAILTO"]: line.origin for line in reversed(lines) if line.variables.get("MAILTO")}
    for mail, origin in mails.items():
        to = [one.strip() for one in mail.split(",") if one.strip()]
        entries.insert(0, ImportEntry("destination", mail_name(mail), {"kind": "email", "to": to}, origin))
    given = {name: value for line in lines for name, value in line.variables.items()}
    secrets = sorted(name for name, value in given.items() if value and (_SECRET.search(name) or _KEY.search(value)))
    notes = [f"{', '.join(secrets)}: like a secret, and stored as it is. Name where it is: env:NAME, file:/path."]
    return Imported(SOURCE, tuple(entries), tuple(left_out), tuple(notes if secrets else ()))


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
            yield _Line(number, where, " ".join(words), user, command, dict(variables))


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


def _entries(line: _Line, zone: str, names: set[str], agents: dict[str, ImportEntry]) -> Iterator[ImportEntry]:
    text, stdin = _split(line.command)
    variables = dict(line.variables)
    shell, home = variables.get("SHELL", "/bin/sh"), variables.get("HOME")
    zone = variables.pop("CRON_TZ", variables.pop("TZ", zone))
    mail = variables.pop("MAILTO", None)
    common: dict[str, Any] = {
        "when": line.when, "timezone": zone, "overlap": "allow", "catch_up": "skip", "grace": "60s",
        "deliver": None if mail is None else [mail_name(mail) if mail else NOBODY],
        "deliver_on": list(DELIVER_ON) if mail else None,  # cron mails what a command writes, also when it fails
    }  # fmt: skip
    command: dict[str, Any] = {
        **common, "command": text if shell == "/bin/sh" else [shell, "-c", text],
        "stdin": None if stdin is None else escaped(stdin), "environment": variables, "workdir": home,
    }  # fmt: skip
    call = agent_call(text, stdin)
    notes, old = _notes(line, text), Cron(line.when, zone, debian=True)
    if not isinstance(call, AgentCall):
        if call is not None:
            kept = f"{line.number} calls {call.tool} {call.reason}: it stays a command, and its cost is unknown."
            notes = (*notes, f"Line {kept}")
        name = slug(name_of_command(text), names, "job")
        yield ImportEntry("schedule", name, present(command), line.origin, old, notes=notes)
        return
    folder = call.folder or home or "~"
    settings = {"runner": call.tool, "workdir": folder, "environment": {**variables, **call.variables}, **call.settings}
    agent = _agent(call.tool, folder, present(settings), line.origin, agents)
    if agent.name not in agents:
        agents[agent.name] = agent
        yield agent
    name = slug(" ".join(call.prompt.split()[:_NAME_WORDS]), names, "prompt")
    prompt = {**common, "agent": agent.name, "prompt": escaped(call.prompt), "prompt_prefix": False}
    log = f" Its log {call.log} ends: see matins logs." if call.log else ""
    became = (
        f"Line {line.number} calls {call.tool}: it becomes an agent in {folder}, with cost, limits and session.{log}"
    )
    yield ImportEntry(
        "schedule", name, present(prompt), line.origin, old, notes=(*notes, f"{became} --as-commands keeps it."),
        instead=ImportEntry("schedule", name, present(command), line.origin, old, notes=notes),
    )  # fmt: skip


def _agent(
    tool: str, folder: str, settings: Mapping[str, Any], origin: str, agents: Mapping[str, ImportEntry]
) -> ImportEntry:
    """The agent with these settings: that of an earlier line, or another one."""
    same = next((agent for agent in agents.values() if agent.settings == settings), None)
    name = slug(f"cron {tool} {PurePath(folder).name}", set(agents), tool)
    return same or ImportEntry("agent", name, settings, origin)


def mail_name(addresses: str) -> str:
    """The name of the destination for MAILTO."""
    return slug(f"mail {addresses}", set(), "mail")


def _notes(line: _Line, command: str) -> tuple[str, ...]:
    notes: list[str] = []
    if line.user not in (None, getpass.getuser()):
        notes.append(f"It runs as {line.user} there, and here as the user of the daemon.")
    if (found := _LITERAL.search(command)) is not None or _KEY.search(command):
        what = found[1] if found is not None else "a key"
        notes.append(
            f"The command has what looks like a secret ({what}). Put it into the environment: env:NAME, file:/path."
        )
    return tuple(notes)


def _split(text: str) -> tuple[str, str | None]:
    """The command, and the text behind the first `%` for its standard input; every other `%` there ends a line."""
    command, *rest = _PERCENT.split(text)
    stdin = "\n".join([*rest, ""]).replace("\\%", "%") if any(rest) else None
    return command.replace("\\%", "%").strip(), stdin


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


IMPORTER = Importer(
    "Import a crontab. TARGET: a file, a user, /etc/cron.d, or - for stdin; default: your own.",
    read,
    target="[TARGET]",
    calls_agents=True,
)
