"""Messages of the dialogue: plain text in parts. An adapter renders and escapes them; no part holds markup."""

from __future__ import annotations

from typing import NamedTuple

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
    value: str = ""
    style: str = ""
    """primary, danger, or none."""
    url: str = ""


class Buttons(NamedTuple):
    buttons: tuple[Button, ...]


Part = Heading | Text | Code | Fields | Buttons


class Message(NamedTuple):
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


def text(*lines: str) -> Message:
    return Message((Text("\n".join(lines)),))


def _plain(part: Part) -> str:
    match part:
        case Heading(found) | Text(found) | Code(found):
            return found
        case Fields(pairs):
            return "\n".join(f"{name}: {value}" for name, value in pairs)
        case Buttons(buttons):
            return " ".join(f"[{button.label}]" for button in buttons)
