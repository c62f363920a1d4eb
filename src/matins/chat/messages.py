"""Commands in chat, and messages of the dialogue.

The grammar of commands in chat: `!schedule pause nightly until 9am because of the fair`.

Messages of the dialogue: plain text in parts. An adapter renders and escapes them; no part holds markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.net.outbound import literal_addresses

PREFIX = "!schedule"
MAX_LENGTH = 4_000
"""Longest command, and longest answer to a question."""
MIN_DIGEST = 8
"""The fewest digits of a digest that name what a person has read."""
HELP = (
    ("list [TEXT]", "List schedules: state, next run, type."),
    ("add [WHEN: MESSAGE]", "Add a schedule. Matins asks for what is missing."),
    ("show NAME", "Show a schedule."),
    ("why NAME [at TIME]", "Explain why it ran, or did not run."),
    ("next [N]", "List the next runs."),
    ("run NAME [with K=V …]", "Start a run now, with an input."),
    ("pause NAME [until TIME] [because TEXT]", "Pause a schedule."),
    ("resume NAME", "Resume a schedule."),
    ("remove NAME", "Remove a schedule. Its history is kept."),
    ("approve N", "Show a request, to approve it."),
    ("deny N [because TEXT]", "Deny a request."),
    ("login", "Get a link to the page, in a private chat."),
    ("help", "Show this list."),
)
_NAMED = ("show", "resume", "remove")
_SYNONYMS = {"delete": "remove", "rm": "remove", "ls": "list", "create": "add", "status": "list"}
_VERBS = tuple(dict.fromkeys(usage.split()[0] for usage, _ in HELP))
_AT, _UNTIL, _BECAUSE = re.compile(r"\sat\s"), re.compile(r"\suntil\s"), re.compile(r"\sbecause\s")
_WITH = re.compile(r"\swith\s")
_DIGEST = re.compile(f"(?:sha256:)?([0-9a-f]{{{MIN_DIGEST},64}})")
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
    check_length(given)
    verb, rest = _split(given)
    verb = _SYNONYMS.get(verb, verb)
    if verb not in _VERBS:
        raise InvalidInput(f'There is no command "{verb[:40]}".', value=verb[:40], hint=nearest(verb, _VERBS))
    if verb in ("list", "add"):
        return Command(verb, text=rest)
    if verb in _NAMED:
        return Command(verb, _name(verb, rest))
    if verb == "run":
        name, text = _cut(rest, _WITH)
        return Command(verb, _name(verb, name), text)
    if verb == "next":
        return Command(verb, most=_count(rest))
    if verb == "help":
        return Command(verb)
    if verb == "why":
        name, time = _cut(rest, _AT)
        return Command(verb, _name(verb, name), time=time)
    if verb == "pause":
        head, text = _cut(rest, _BECAUSE)
        name, time = _cut(head, _UNTIL)
        return Command(verb, _name(verb, name), text, time)
    return _decision(verb, rest)


def check_length(message: str) -> None:
    """Raise if a message is longer than a command or an answer can be."""
    if len(message) > MAX_LENGTH:
        text = f"A message has at most {MAX_LENGTH:,} characters, not {len(message):,}."
        raise InvalidInput(text, field="text", hint="Shorten it.")


def unquoted(text: str) -> str:
    """The text without the quotes around it."""
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] else text


def _split(given: str) -> tuple[str, str]:
    words = given.strip().split(None, 1)
    return (words[0].lower(), words[1] if len(words) > 1 else "") if words else ("help", "")


def _cut(text: str, word: re.Pattern[str]) -> tuple[str, str]:
    """What is before the first such word, and what is after it."""
    found = word.search(text)
    return (text, "") if found is None else (text[: found.start()].strip(), text[found.end() :].strip())


def _decision(verb: str, rest: str) -> Command:
    """`approve N [DIGEST]`, `deny N [[because] TEXT]`."""
    number, text = (*rest.split(None, 1), "", "")[:2]
    if verb == "deny":
        reason = _cut(f" {text}", _BECAUSE)
        text = text if reason[0] else reason[1] or text
    elif text:
        digest = _DIGEST.fullmatch(text)
        if digest is None:
            raise _misused(verb)
        text = digest[1]
    if not _name(verb, number).isdecimal():
        raise _misused(verb)
    return Command(verb, unquoted(number), text.strip())


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


BRIEF = 140
"""The length at which a notification on a phone is cut."""


class Heading(NamedTuple):
    text: str


class Text(NamedTuple):
    """Text of one or several lines."""

    text: str


class Code(NamedTuple):
    """Text as it is, such as a prompt."""

    text: str


class Fields(NamedTuple):
    pairs: tuple[tuple[str, str], ...]


class Button(NamedTuple):
    action: str
    label: str
    of: str = ""
    """The number of an approval, or the thread of a draft."""
    digest: str = ""
    """Digest of what was shown with the button."""
    style: str = ""
    """primary, danger, or none."""
    url: str = ""


class Buttons(NamedTuple):
    buttons: tuple[Button, ...]


Part = Heading | Text | Code | Fields | Buttons


class ChatMessage(NamedTuple):
    parts: tuple[Part, ...]
    subject: str = ""
    """What a card is about, such as `approval:31`. Every card of a subject is updated when it ends."""
    digest: str | None = None
    """The digest that the buttons of a card are bound to."""

    @property
    def brief(self) -> str:
        """One line, for notifications."""
        texts = (part.text for part in self.parts if isinstance(part, (Heading, Text)))
        line = next(texts, "Matins").replace("\n", " ")
        return line if len(line) <= BRIEF else line[: BRIEF - 1] + "…"

    @property
    def plain(self) -> str:
        """The whole message as text, for logs and tests."""
        return "\n".join(_plain(part) for part in self.parts)


class Manner(NamedTuple):
    """How people write to Matins in a service."""

    title: str
    prefix: str
    """What a command begins with."""
    help: str
    """The line above the list of commands."""
    stranger: str
    """The answer to an unknown user, with a place for the user's id."""
    fits: Callable[[ChatMessage], bool]
    """Whether one message shows all of a card."""
    deny: str = "Deny"
    """The label of the button; with an ellipsis where it asks for a reason."""


_PARTS: dict[str, Callable[..., Part]] = {"heading": Heading, "text": Text, "code": Code}


def dump(message: ChatMessage) -> str:
    """The message as JSON."""
    parts = [[type(part).__name__.lower(), _values(part)] for part in message.parts]
    return orjson.dumps([parts, message.subject, message.digest]).decode()


def load(stored: str) -> ChatMessage:
    parts, subject, digest = orjson.loads(stored)
    return ChatMessage(tuple(_part(kind, values) for kind, values in parts), subject, digest)


def _values(part: Part) -> Any:
    match part:
        case Heading(found) | Text(found) | Code(found):
            return found
        case Fields(pairs):
            return pairs
        case Buttons(buttons):
            return [list(button) for button in buttons]


def _part(kind: str, values: Any) -> Part:
    if kind == "fields":
        return Fields(tuple((name, value) for name, value in values))
    return Buttons(tuple(Button(*button) for button in values)) if kind == "buttons" else _PARTS[kind](values)


def leads_elsewhere(url: str) -> bool:
    """Whether an address leads to another machine. Services refuse messages with buttons that lead to this one."""
    host = urlsplit(url).hostname or ""
    return "." in host and not literal_addresses(host)


def pieces(text: str, most: int) -> list[str]:
    """The text in pieces of at most so many characters, cut at the end of a line where there is one."""
    found: list[str] = []
    while len(text) > most:
        at = text.rfind("\n", most // 2, most) + 1 or most
        found.append(text[:at])
        text = text[at:]
    return [*found, text] if text else found


def text(*lines: str) -> ChatMessage:
    return ChatMessage((Text("\n".join(lines)),))


def _plain(part: Part) -> str:
    match part:
        case Heading(found) | Text(found) | Code(found):
            return found
        case Fields(pairs):
            return "\n".join(f"{name}: {value}" for name, value in pairs)
        case Buttons(buttons):
            return " ".join(f"[{button.label}]" for button in buttons)
