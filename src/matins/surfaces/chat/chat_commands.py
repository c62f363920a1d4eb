"""The grammar of commands in chat: `!schedule pause nightly until 9am because of the fair`."""

from __future__ import annotations

import re
from typing import NamedTuple

from matins.engine.validation import nearest
from matins.errors import InvalidInput

PREFIX = "!schedule"
MAX_LENGTH = 40_000
"""Slack's own limit of a message."""
HELP = (
    ("list [TEXT]", "List schedules: state, next run, type."),
    ("add [WHEN: MESSAGE]", "Add a schedule. Matins asks for what is missing."),
    ("show NAME", "Show a schedule."),
    ("why NAME [at TIME]", "Explain why it ran, or did not run."),
    ("next [N]", "List the next runs."),
    ("run NAME", "Start a run now."),
    ("pause NAME [until TIME] [because TEXT]", "Pause a schedule."),
    ("resume NAME", "Resume a schedule."),
    ("remove NAME", "Remove a schedule. Its history is kept."),
    ("approve N", "Show a request, to approve it."),
    ("deny N [because TEXT]", "Deny a request."),
    ("help", "Show this list."),
)
_NAMED = ("show", "run", "resume", "remove")
_SYNONYMS = {"delete": "remove", "rm": "remove", "ls": "list", "create": "add", "status": "list"}
_VERBS = tuple(dict.fromkeys(usage.split()[0] for usage, _ in HELP))
_WHY = re.compile(r"(?P<name>.+?)(?:\s+at\s+(?P<time>.+))?", re.DOTALL)
_PAUSE = re.compile(r"(?P<name>.+?)(?:\s+until\s+(?P<time>.+?))?(?:\s+because\s+(?P<text>.+))?", re.DOTALL)
_DENY = re.compile(r"(?P<name>\S+)(?:\s+(?:because\s+)?(?P<text>.+))?", re.DOTALL)
_APPROVE = re.compile(r"(?P<name>\S+)(?:\s+(?:sha256:)?(?P<text>[0-9a-f]{8,64}))?")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”"}


class Command(NamedTuple):
    verb: str
    name: str = ""
    """A schedule, or the number of an approval."""
    text: str = ""
    """What to look for, what to add, or a reason."""
    time: str = ""
    most: int = 5


def without_prefix(message: str) -> str | None:
    """The command after `!schedule`; None for a message that is no command."""
    head, _, rest = message.strip().partition(" ") if " " in message.strip() else message.strip().partition("\n")
    return rest.strip() if head.lower() == PREFIX else None


def is_command(text: str) -> bool:
    """Whether the text begins with a command, or is empty."""
    verb, _ = _split(text)
    return _SYNONYMS.get(verb, verb) in _VERBS


def parse_command(given: str) -> Command:
    """The command. Raises InvalidInput with what to type instead."""
    if len(given) > MAX_LENGTH:
        raise InvalidInput(f"A command has at most {MAX_LENGTH} characters.", field="text", hint="Shorten it.")
    verb, rest = _split(given)
    verb = _SYNONYMS.get(verb, verb)
    if verb not in _VERBS:
        raise InvalidInput(f'There is no command "{verb[:40]}".', value=verb[:40], hint=nearest(verb, _VERBS))
    if verb in ("list", "add"):
        return Command(verb, text=rest)
    if verb in _NAMED:
        return Command(verb, _name(verb, rest))
    if verb == "next":
        return Command(verb, most=_count(rest))
    if verb == "help":
        return Command(verb)
    found = {"why": _WHY, "pause": _PAUSE, "deny": _DENY, "approve": _APPROVE}[verb].fullmatch(rest)
    if found is None:
        raise _misused(verb)
    parts = found.groupdict()
    name = _name(verb, parts["name"])
    if verb in ("approve", "deny") and not name.isdecimal():
        raise _misused(verb)
    return Command(verb, name, (parts.get("text") or "").strip(), (parts.get("time") or "").strip())


def unquoted(text: str) -> str:
    """The text without the quotes around it."""
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] else text


def _split(given: str) -> tuple[str, str]:
    words = given.strip().split(None, 1)
    return (words[0].lower(), words[1] if len(words) > 1 else "") if words else ("help", "")


def _name(verb: str, text: str) -> str:
    name = unquoted(text)
    if not name:
        raise _misused(verb)
    return name


def _count(text: str) -> int:
    if not text:
        return 5
    if not text.isdecimal() or not 1 <= int(text[:4]) <= 20:
        raise InvalidInput('"next" takes a number from 1 to 20.', value=text[:40], hint="For example: next 5")
    return int(text[:4])


def _misused(verb: str) -> InvalidInput:
    usage = next(usage for usage, _ in HELP if usage.startswith(verb))
    return InvalidInput(f'"{verb}" is not complete.', value=verb, hint=f"Use: {usage}")
